"""A person and a repository of their own, for tests of instructions."""

import os
from pathlib import Path
from typing import Any

from backstay.instructions import InstructionInputs, Instructions, find_inputs, gather


class World:
    """A folder with a home, a configuration folder and a repository."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.home, self.config, self.project = folder / "home", folder / "config", folder / "home" / "repo"
        for each in (self.config, self.project / ".git"):
            each.mkdir(parents=True)
        self.branch("main")

    def branch(self, name: str) -> None:
        """Put the repository on a branch."""
        (self.project / ".git/HEAD").write_text(f"ref: refs/heads/{name}\n", encoding="utf-8")

    def write(self, path: str | Path, content: str | bytes) -> Path:
        """Write a file; of the repository when the path is relative."""
        target = self.project / path
        assert target.is_relative_to(self._folder), f"{target} is outside of the test's own folder"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode())
        return target

    def place(
        self, cwd: str | Path = "", *, trusted: bool = True, **known: Any
    ) -> InstructionInputs:  # Any: fields of Place
        """The place of a session in a folder of the repository."""
        environment = {"HOME": str(self.home), "BACKSTAY_CONFIG_DIR": str(self.config)}
        (self.project / cwd).mkdir(parents=True, exist_ok=True)
        return find_inputs(self.project / cwd, trusted=trusted, environment=environment, **known)

    def gather(self, cwd: str | Path = "", *, trusted: bool = True, **known: Any) -> Instructions:  # Any: as above
        """The instructions of such a session."""
        return gather(self.place(cwd, trusted=trusted, **known))


def touch_later(path: Path) -> None:
    """Change when a file was changed, however quickly tests run."""
    found = path.stat()
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns + 1_000_000))
