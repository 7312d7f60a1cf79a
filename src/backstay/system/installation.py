"""Find out how Backstay was installed, and the command that installs what is missing."""

import importlib.util
import re
import shlex
import sys
from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).resolve().parents[1]
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SHORT: Final = 12


def find_commit() -> str:
    """Return the commit of this program, in short; empty when it is not known. A checkout knows, and a wheel that was built from one."""
    root = find_checkout()
    found = _head(root / ".git") if root else _read(_PACKAGE / "commit.txt")
    return found[:_SHORT] if _COMMIT.fullmatch(found) else ""


def find_checkout() -> Path | None:
    """Return the folder of the checkout that this program runs from; None when it was installed from a wheel."""
    root = _PACKAGE.parents[1]
    return root if _PACKAGE.parent.name == "src" and (root / "pyproject.toml").is_file() else None


def hint_extra(extra: str) -> str:
    """Return the command that installs an extra where this program is installed.

    An installed wheel satisfies its own name: pip brings only what the extra needs, whether an index has Backstay or not.
    """
    root = find_checkout()
    return hint_package(f"-e {shlex.quote(f'{root}[{extra}]')}" if root else shlex.quote(f"backstay[{extra}]"))


def hint_upgrade(version: str = "") -> str:
    """Return the command that brings in at least `version` of this program; its newest one without a version."""
    root = find_checkout()
    if root:
        return f"git -C {shlex.quote(str(root))} pull"
    return hint_package(shlex.quote(f"backstay>={version}") if version else "--upgrade backstay")


def hint_package(arguments: str) -> str:
    """Return the command that installs a package where this program is installed, with or without pip there."""
    python = shlex.quote(sys.executable)
    if importlib.util.find_spec("pip") is None:
        return f"uv pip install --python {python} {arguments}"
    return f"{python} -m pip install {arguments}"


def _head(git: Path) -> str:
    """Return the commit that is checked out, read from git's own files: a process would cost more than all else that `--version` does."""
    if git.is_file():  # a worktree has its folder elsewhere
        git = git.parent / _read(git).removeprefix("gitdir: ")
    shared = git / (_read(git / "commondir") or ".")
    head = _read(git / "HEAD")
    if not head.startswith("ref: "):
        return head
    name = head.removeprefix("ref: ")
    packed = (line.split(" ") for line in _read(shared / "packed-refs").splitlines())
    return _read(shared / name) or next((line[0] for line in packed if line[1:] == [name]), "")


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip() if path.is_file() else ""  # never wait for a pipe
    except OSError:
        return ""
