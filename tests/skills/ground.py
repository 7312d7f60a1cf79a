"""A project and a person, each with folders for an agent."""

from collections.abc import Mapping
from pathlib import Path

from backstay.config.locations import ProjectPaths
from backstay.skills.scan import Found, PluginFolders, Sources, scan_now


class Ground:
    """A project at `project`, and a person's folders beside it."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.project = top / "project"
        self.home = top / "home"
        self.config = self.home / ".config" / "backstay"
        (self.project / ".git").mkdir(parents=True)
        self.home.mkdir()

    def sources(
        self,
        *,
        cwd: Path | None = None,
        trusted: bool = True,
        seen: Mapping[str, str] | None = None,
        plugins: tuple[PluginFolders, ...] = (),
    ) -> Sources:
        """Where to look."""
        return Sources(
            paths=ProjectPaths(
                cwd=cwd or self.project,
                root=self.project,
                repository=self.project,
                home=self.home,
                config=self.config,
                claude=self.home / ".claude",
                data=self.home / "data",
            ),
            trusted=trusted,
            seen=seen,
            plugins=plugins,
        )

    def scan(
        self,
        *,
        cwd: Path | None = None,
        trusted: bool = True,
        seen: Mapping[str, str] | None = None,
        plugins: tuple[PluginFolders, ...] = (),
    ) -> Found:
        """Look at everything."""
        return scan_now(self.sources(cwd=cwd, trusted=trusted, seen=seen, plugins=plugins))


def write(path: Path, text: str) -> Path:
    """Write a file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def skill(folder: Path, named: str, body: str = "Do it.\n", **keys: str) -> Path:
    """Write a skill into a folder of skills, and return its file."""
    return write(
        folder / named / "SKILL.md", page(body, **{"name": named, "description": f"From {folder.name}", **keys})
    )


def page(body: str = "Do it.\n", **keys: str) -> str:
    """A Markdown file with a frontmatter."""
    lines = "".join(f"{key.replace('_', '-')}: {value}\n" for key, value in keys.items())
    return f"---\n{lines}---\n{body}"
