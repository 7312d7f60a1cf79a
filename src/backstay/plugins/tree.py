"""Copy and hash the files of a plugin as one tree, within limits."""

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from backstay.plugins.plugin import is_inside
from backstay.system.files import sync_folder
from backstay.vocab.errors import UserError

LEFT_OUT: Final = (".git", "__pycache__", ".DS_Store")
"""Names that are not copied: history, and what programs leave behind."""
_BYTECODE: Final = "__pycache__"
_PIECE: Final = 1 << 20


class TreeLimits(Struct, frozen=True, kw_only=True):
    """The limits of a plugin's files."""

    files: int = 10_000
    total: int = 256 * 1024 * 1024
    one: int = 64 * 1024 * 1024
    """Bytes of a single file."""
    depth: int = 24


LIMITS: Final = TreeLimits()


class _TreeEntry(Struct, frozen=True, kw_only=True):
    """One file, folder or link of a tree."""

    kind: Literal["file", "folder", "link"]
    path: str
    """Below the tree's top, with slashes."""
    runs: bool = False
    content: int = -1
    """The handle of an open file."""
    target: str = ""


def tree_digest(folder: Path, limits: TreeLimits = LIMITS, *, remove_bytecode: bool = False) -> str:
    """Return the SHA-256 over every name, kind and byte below `folder`. Raise `UserError` for what a plugin cannot hold.

    With `remove_bytecode`, compiled Python that programs of the plugin left there is removed first: it was never part of it.
    """
    lines: list[str] = []
    for entry in _walk(folder, limits, left_out=(), remove_bytecode=remove_bytecode):
        value = _hash_of(entry, limits) if entry.kind == "file" else entry.target
        lines.append(f"{entry.kind}{' x' if entry.runs else ''}\0{entry.path}\0{value}\n")
    return hashlib.sha256("".join(sorted(lines)).encode("utf-8", "surrogateescape")).hexdigest()


def copy_tree(source: Path, target: Path, limits: TreeLimits = LIMITS, *, tolerant: bool = False) -> int:
    """Copy the tree below `source` into the new folder `target`, for this user alone; return the number of files.

    Links that stay inside are kept. Raise `UserError`, with its name, for a link that leads out, a device or a pipe, or too much;
    when it is `tolerant`, links, devices and pipes of that kind are left out instead.
    """
    target.mkdir(mode=0o700)
    count = 0
    for entry in _walk(source, limits, left_out=LEFT_OUT, tolerant=tolerant):
        place = target / entry.path
        if entry.kind == "folder":
            place.mkdir(mode=0o700)
        elif entry.kind == "link":
            os.symlink(entry.target, place)
        else:
            _copy_file(entry, place, limits)
            count += 1
    sync_folder(target)
    return count


def remove_tree(folder: Path) -> None:
    """Remove a folder with everything in it, if it exists."""
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)


def _walk(
    top: Path, limits: TreeLimits, *, left_out: tuple[str, ...], remove_bytecode: bool = False, tolerant: bool = False
) -> Iterator[_TreeEntry]:
    """Yield the entries below `top`, a folder before its content. Folders are walked by handles, so that none is swapped for a link."""
    files = total = 0
    failed: list[OSError] = []
    for root, folders, names, handle in os.fwalk(top, follow_symlinks=False, onerror=failed.append):
        below = os.path.relpath(root, top)
        if below.count(os.sep) + 1 > limits.depth:
            raise UserError(f"{below!r} in {str(top)!r} lies more than {limits.depth} folders deep.")
        for name in sorted((*folders, *names)):
            path = name if below == "." else f"{below.replace(os.sep, '/')}/{name}"
            found = os.stat(name, dir_fd=handle, follow_symlinks=False)
            if name in left_out or (
                remove_bytecode and name == _BYTECODE and _remove_bytecode(found, Path(root, name))
            ):
                if name in folders:
                    folders.remove(name)
                continue
            files += 1
            size = found.st_size if stat.S_ISREG(found.st_mode) else 0
            total += size
            if files > limits.files or total > limits.total or size > limits.one:
                raise UserError(f"{str(top)!r} is too much for a plugin, at {path!r}: {_words(limits)}.")
            if not (tolerant and _is_odd(top, path, found)):
                yield from _entry(top, name, path, found, handle)
        folders.sort()
    if failed:
        raise UserError(f"{str(top)!r} cannot be looked into: {failed[0]}.")


def _remove_bytecode(found: os.stat_result, path: Path) -> bool:
    if not stat.S_ISDIR(found.st_mode):
        return False
    try:
        shutil.rmtree(path)
    except OSError:
        return False  # then it counts, and the tree is not what it was
    return True


def _entry(top: Path, name: str, path: str, found: os.stat_result, handle: int) -> Iterator[_TreeEntry]:
    if stat.S_ISDIR(found.st_mode):
        yield _TreeEntry(kind="folder", path=path)
    elif stat.S_ISLNK(found.st_mode):
        target = os.readlink(name, dir_fd=handle)
        if _is_odd(top, path, found):
            raise UserError(
                f"The link {path!r} in {str(top)!r} leads to {target!r}, out of it or nowhere. It is refused."
            )
        yield _TreeEntry(kind="link", path=path, target=target)
    elif stat.S_ISREG(found.st_mode):
        content = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=handle)
        try:
            yield _TreeEntry(kind="file", path=path, runs=bool(found.st_mode & stat.S_IXUSR), content=content)
        finally:
            os.close(content)
    else:
        raise UserError(f"{path!r} in {str(top)!r} is neither a file nor a folder. It is refused.")


def _is_odd(top: Path, path: str, found: os.stat_result) -> bool:
    """Return whether an entry is neither a file nor a folder, nor a link to one that is inside."""
    if not stat.S_ISLNK(found.st_mode):
        return not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode))
    place = top / path
    return os.path.isabs(os.readlink(place)) or not is_inside(top, place) or not place.exists()


def _pieces(entry: _TreeEntry, limits: TreeLimits) -> Iterator[bytes]:
    """Yield the bytes of an open file, bounded even if it grows meanwhile."""
    left = limits.one + 1
    while left > 0 and (piece := os.read(entry.content, min(_PIECE, left))):
        left -= len(piece)
        yield piece
    if left <= 0:
        raise UserError(f"{entry.path!r} is too much for a plugin: {_words(limits)}.")


def _hash_of(entry: _TreeEntry, limits: TreeLimits) -> str:
    seen = hashlib.sha256()
    for piece in _pieces(entry, limits):
        seen.update(piece)
    return seen.hexdigest()


def _copy_file(entry: _TreeEntry, place: Path, limits: TreeLimits) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(place, flags, 0o700 if entry.runs else 0o600), "wb") as file:
        for piece in _pieces(entry, limits):
            file.write(piece)


def _words(limits: TreeLimits) -> str:
    return f"at most {limits.files:,} files, {limits.total // 1024**2} MiB in all and {limits.one // 1024**2} MiB in one file"
