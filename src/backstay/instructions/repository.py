"""Read what a repository says about itself in its files. No program is run."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from backstay.instructions.inputs import InstructionInputs
from backstay.instructions.safe_reader import FileReading
from backstay.system.files import read_regular

_MANIFEST_LIMIT: Final = 1024 * 1024
_HEAD: Final = re.compile(r"ref: refs/heads/([^\x00-\x20~^:?*\[\\\x7f]{1,250})\s*")
_COMMIT: Final = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64})\s*")
_SECTION: Final = re.compile(r"[ \t]*\[([^\[\]\n]{1,100})\]")
_NAME: Final = re.compile(r"""[ \t]*name[ \t]*=[ \t]*["']([^"'\n]{1,200})["']""")
_PACKAGE: Final = re.compile(r"[\w@][\w@./+~-]{0,99}")
_MODULE: Final = re.compile(r"^module[ \t]+(\S{1,200})", re.MULTILINE)
_NODE_LOCKS: Final = (
    ("pnpm-lock.yaml", "pnpm"),
    ("yarn.lock", "yarn"),
    ("bun.lock", "bun"),
    ("bun.lockb", "bun"),
    ("package-lock.json", "npm"),
)
_PYTHON_LOCKS: Final = (
    ("uv.lock", "uv"),
    ("poetry.lock", "poetry"),
    ("pdm.lock", "pdm"),
    ("Pipfile.lock", "pipenv"),
)


class Project(Struct, frozen=True, kw_only=True):
    """The kind of project in a folder."""

    type: str
    """`node`, `python`, `rust` or `go`."""
    language: str
    package_manager: str
    name: str = ""
    manifest: Path


def branch_of(root: Path) -> str:
    """Return the branch of a repository, or `detached at` a commit; empty when that cannot be told."""
    try:
        folder = root / ".git"
        if folder.is_file():
            content, _ = read_regular(folder, 4_096)
            folder = root / os.fsdecode(content.replace(b"\0", b"")).removeprefix("gitdir:").strip()
        content, _ = read_regular(folder / "HEAD", 4_096)
    except OSError:
        return ""
    head = content.decode("utf-8", "replace")
    if found := _HEAD.fullmatch(head):
        return found[1]
    commit = _COMMIT.fullmatch(head)
    return f"detached at {commit[1][:12]}" if commit else ""


def detect(reading: FileReading) -> tuple[Project, ...]:
    """Return the projects of the innermost folder that holds any, from the working folder up to the root."""
    for folder in reversed(reading.inputs.walk):
        found = tuple(_in(reading, folder))
        if found:
            return found
    return ()


def _in(reading: FileReading, folder: Path) -> Iterator[Project]:
    if reading.stat(manifest := folder / "package.json"):
        typed = reading.stat(folder / "tsconfig.json") is not None
        yield Project(
            type="node",
            language="typescript" if typed else "javascript",
            package_manager=_by_lock(reading, folder, _NODE_LOCKS, "npm"),
            name=_node_name(reading, manifest),
            manifest=manifest,
        )
    if reading.stat(manifest := folder / "pyproject.toml") or reading.stat(manifest := folder / "setup.py"):
        named = _toml_name(reading, manifest, ("project", "tool.poetry")) if manifest.suffix == ".toml" else ""
        manager = _by_lock(reading, folder, _PYTHON_LOCKS, "pip")
        yield Project(type="python", language="python", package_manager=manager, name=named, manifest=manifest)
    if reading.stat(manifest := folder / "Cargo.toml"):
        named = _toml_name(reading, manifest, ("package",))
        yield Project(type="rust", language="rust", package_manager="cargo", name=named, manifest=manifest)
    if reading.stat(manifest := folder / "go.mod"):
        module = _MODULE.search(_text(reading, manifest))
        named = _plain(module[1]) if module else ""
        yield Project(type="go", language="go", package_manager="go modules", name=named, manifest=manifest)


def _by_lock(reading: FileReading, folder: Path, locks: tuple[tuple[str, str], ...], otherwise: str) -> str:
    return next((manager for name, manager in locks if reading.stat(folder / name) is not None), otherwise)


def _text(reading: FileReading, path: Path) -> str:
    inputs: InstructionInputs = reading.inputs
    try:
        if not reading.is_inside(os.path.realpath(path), (inputs.paths.repository or path.parent, *inputs.folders)):
            return ""
        return read_regular(path, _MANIFEST_LIMIT)[0].decode("utf-8", "replace")
    except OSError as exc:
        reading.add_problem(f"{inputs.display(path)}: It cannot be read: {(exc.strerror or '').rstrip('.')}.")
        return ""


def _node_name(reading: FileReading, path: Path) -> str:
    text = _text(reading, path)
    try:
        found = json.loads(text) if text else {}
    except json.JSONDecodeError as exc:
        reading.add_problem(f"{reading.inputs.display(path)}:{exc.lineno}: This is not JSON: {exc.msg}.")
        return ""
    except (RecursionError, ValueError):
        reading.add_problem(f"{reading.inputs.display(path)}:1: This is not JSON that can be read.")
        return ""
    name = found.get("name") if isinstance(found, dict) else None
    return _plain(name) if isinstance(name, str) else ""


def _toml_name(reading: FileReading, path: Path, sections: tuple[str, ...]) -> str:
    """Return the `name` of the first of these sections. Line by line: the rest of the file may be invalid."""
    within = ""
    for line in _text(reading, path).splitlines():
        if section := _SECTION.match(line):
            within = section[1].strip()
        elif within in sections and (found := _NAME.match(line)):
            return _plain(found[1])
    return ""


def _plain(name: str) -> str:
    """Return a name that is valid for a package; empty otherwise."""
    return name if _PACKAGE.fullmatch(name) else ""
