"""Plugins, repositories, archives and marketplaces of the public shape, made in a temporary folder."""

import io
import json
import os
import subprocess
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

MARKED = "touch SHOULD_NOT_EXIST"
HOOKS = {
    "description": "Guards",
    "hooks": {
        "PreToolUse": [
            {
                "matcher": "Bash",
                "hooks": [
                    {"type": "command", "command": "python3 ${CLAUDE_PLUGIN_ROOT}/hooks/guard.py", "timeout": 10}
                ],
            }
        ]
    },
}
SERVERS = {"mcpServers": {"notes": {"command": "${CLAUDE_PLUGIN_ROOT}/bin/notes", "args": ["--stdio"]}}}
FULL: Mapping[str, object] = {
    ".claude-plugin/plugin.json": {
        "name": "reviewer",
        "version": "1.9.0",
        "description": "Reviews changes",
        "author": {"name": "Acme", "email": "tools@acme.example"},
        "keywords": ["review", "quality"],
        "permissions": {"deny": ["Bash(rm -rf *)"], "ask": ["WebFetch"]},
        "systemPrompt": "Look at the tests first.",
    },
    "skills/style/SKILL.md": "---\nname: style\ndescription: Looks at style.\n---\nBody\n",
    "commands/review.md": "Review $ARGUMENTS\n",
    "commands/team/sync.md": "Sync\n",
    "agents/critic.md": "---\nname: critic\ndescription: Criticises.\n---\nBody\n",
    "hooks/hooks.json": HOOKS,
    "hooks/guard.py": f"import os\nos.system({MARKED!r})\n",
    ".mcp.json": SERVERS,
}


def write(folder: Path, files: Mapping[str, object]) -> Path:
    """Write files: text as it is, everything else as JSON."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2), encoding="utf-8")
    return folder


def plugin(folder: Path, name: str = "reviewer", version: str = "1.9.0", **more: object) -> Path:
    """A plugin with everything; what is given besides goes into its manifest."""
    files = dict(FULL)
    manifest = dict(FULL[".claude-plugin/plugin.json"])  # type: ignore[call-overload]  # it is an object
    files[".claude-plugin/plugin.json"] = {**manifest, "name": name, "version": version, **more}
    return write(folder, files)


def bare(folder: Path, **manifest: object) -> Path:
    """A plugin that is nothing but its manifest."""
    return write(folder, {".claude-plugin/plugin.json": {"name": "bare", "version": "1.0.0", **manifest}})


def marketplace(folder: Path, *entries: Mapping[str, object], name: str = "acme", **more: object) -> Path:
    """A marketplace with these entries."""
    content = {"name": name, "owner": {"name": "Acme", "email": "x@acme.example"}, "plugins": list(entries), **more}
    return write(folder, {".claude-plugin/marketplace.json": content})


def git(folder: Path, *arguments: str) -> str:
    """Run git in a repository of the test's own."""
    settings = (
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b.c",
        "-c",
        "init.defaultBranch=main",
        "-c",
        "commit.gpgSign=false",
    )
    ran = subprocess.run(
        ["git", *settings, *arguments],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"},
    )
    return ran.stdout.strip()


def repository(folder: Path) -> str:
    """Make a git repository of a folder and commit everything; return the commit."""
    if not (folder / ".git").exists():
        git(folder, "init", "--quiet")
    git(folder, "add", "--all", "--force")
    git(folder, "commit", "--quiet", "--allow-empty", "-m", "x")
    return git(folder, "rev-parse", "HEAD")


def zipped(folder: Path, target: Path, top: str = "") -> Path:
    """Pack a folder as a zip file."""
    with zipfile.ZipFile(target, "w") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, f"{top}{path.relative_to(folder).as_posix()}")
    return target


def tarred(folder: Path, target: Path, top: str = "./") -> Path:
    """Pack a folder as a tar.gz file."""
    with tarfile.open(target, "w:gz") as archive:
        archive.add(folder, arcname=top)
    return target


def tar_of(target: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    """A tar.gz file with exactly these members."""
    with tarfile.open(target, "w:gz") as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content) if member.isreg() else None)
    return target


def zip_of(target: Path, *members: tuple[zipfile.ZipInfo | str, bytes]) -> Path:
    """A zip file with exactly these members."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in members:
            archive.writestr(member, content)
    return target


ENTRY = {"name": "reviewer", "source": "./plugins/reviewer", "category": "quality", "tags": ["review"]}


def full(folder: Path) -> Path:
    plugin(folder / "plugins/reviewer")
    write(folder / "plugins/bare", {"skills/one/SKILL.md": "x"})
    return marketplace(
        folder,
        ENTRY,
        {"name": "bare", "source": "./plugins/bare", "version": "2.0", "description": "Says why", "keywords": ["Why"]},
        {"name": "far", "source": {"source": "github", "repo": "acme/far", "ref": "v1"}},
    )
