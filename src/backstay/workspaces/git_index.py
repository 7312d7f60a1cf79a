"""The names of the files that git tracks, read from its index: no program starts, and no configuration is obeyed."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

LARGEST: Final = 128 * 1024 * 1024
"""Bytes of an index that is read."""

_TIMES: Final = 40
"""Bytes of an entry before its hash."""
_SPLIT: Final = b"link"
_WHOLE: Final = (_SPLIT, b"sdir")
"""Extensions of an index that does not name every file by itself."""
_MODE: Final = 24
"""Where the mode stands in an entry."""
_GITLINK: Final = b"\x00\x00\xe0\x00"
"""The mode of a submodule, 160000."""


def repository_of(folder: str) -> Path | None:
    """The root of the work tree that `folder` lies in."""
    return next((each for each in (Path(folder), *Path(folder).parents) if os.path.lexists(each / ".git")), None)


def tracked_names(folder: str) -> Iterator[str] | None:
    """Name the files that git tracks below `folder`, as `/name`; None when that cannot be told."""
    root = repository_of(folder)
    if root is None:
        return None
    try:
        git = _git_folder(root)
        content = _content(git / "index")
        names = [name for name, _ in _entries(content, _hash_size(git), _WHOLE)]
    except FileNotFoundError:
        return iter(())  # nothing was ever added
    except (OSError, ValueError, IndexError):
        return None
    below = os.fsencode(os.path.relpath(folder, root) + "/") if Path(folder) != root else b""
    return (f"/{os.fsdecode(name[len(below) :])}" for name in names if name.startswith(below))


def submodule_paths(git: Path) -> tuple[str, ...]:
    """Name the submodules in the index of a git folder. Raise `OSError` or `ValueError` when the index cannot be read."""
    try:
        content = _content(git / "index")
    except FileNotFoundError:
        return ()
    if _GITLINK not in content and _SPLIT not in content:
        return ()
    try:
        entries = _entries(content, _hash_size(git), (_SPLIT,))
    except IndexError as exc:
        raise ValueError("the index is cut off") from exc
    return tuple(os.fsdecode(name) for name, mode in entries if mode == _GITLINK)


def _hash_size(git: Path) -> int:
    try:
        return 32 if b"sha256" in _content(_common_folder(git) / "config") else 20
    except FileNotFoundError:
        return 20


def _git_folder(root: Path) -> Path:
    """The git folder of a work tree; a linked one has a file that names it."""
    git = root / ".git"
    if git.is_dir():
        return git
    text = _content(git).decode()
    if not text.startswith("gitdir: "):
        raise ValueError(f"{git} names no folder")
    return root / text.removeprefix("gitdir: ").strip()


def _common_folder(git: Path) -> Path:
    """The folder with the configuration, which linked work trees share."""
    common = git / "commondir"
    return git / _content(common).decode().strip() if common.is_file() else git


def _content(path: Path) -> bytes:
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as file:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > LARGEST:
            raise ValueError(f"{path} is no file that can be read")
        return file.read(LARGEST)


def _entries(content: bytes, hash_size: int, unknown: tuple[bytes, ...]) -> list[tuple[bytes, bytes]]:
    """The names and modes of the entries, by the format of `gitformat-index`. Raise `ValueError` for any other, and for some extensions."""
    version, count = int.from_bytes(content[4:8], "big"), int.from_bytes(content[8:12], "big")
    if content[:4] != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("no index that is known")
    entries, at, name = list[tuple[bytes, bytes]](), 12, b""
    for _ in range(count):
        start = at
        at += _TIMES + hash_size
        at += 4 if content[at] & 0x40 else 2  # more flags follow where the first say so
        kept = 0
        if version == 4:
            drop, at = _offset(content, at)
            kept = len(name) - drop
        end = content.index(b"\0", at)
        name = name[:kept] + content[at:end]
        at = end + 1 if version == 4 else start + ((end - start) // 8 + 1) * 8
        entries.append((name, content[start + _MODE : start + _MODE + 4]))
    while at + 8 <= len(content) - hash_size:
        if content[at : at + 4] in unknown:
            raise ValueError("the index is a part of one")
        at += 8 + int.from_bytes(content[at + 4 : at + 8], "big")
    return entries


def _offset(content: bytes, at: int) -> tuple[int, int]:
    """A number as packs have it, seven bits a byte, and where it ends."""
    number = content[at] & 0x7F
    while content[at] & 0x80:
        at += 1
        number = ((number + 1) << 7) | (content[at] & 0x7F)
    return number, at + 1
