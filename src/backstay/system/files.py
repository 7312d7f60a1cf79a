"""Read regular files without waiting, write files whole or not at all, and take stamps that tell whether one has changed.

What is written is by default durable, and readable by its user only.
"""

import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import Final, TypeAlias

from backstay.logic.secrets.rewrite import Change, change_bytes

NOT_REGULAR: Final = "It is not a regular file"
_PIECE: Final = 64 * 1024
_LARGE_PIECE: Final = 1 << 20
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def is_missing(path: Path) -> bool:
    """Return whether nothing at all stands at `path`. A link that leads nowhere is something, and so is what may not be looked at."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def open_regular(path: str | Path) -> BufferedReader:
    """Open a regular file for reading. Raise `OSError` for anything else, and never wait for a pipe or a device."""
    return open(path, "rb", opener=_open_checked)


def read_whole(path: str | Path) -> bytes:
    """Return the bytes of a regular file. Raise `OSError` for anything else."""
    with open_regular(path) as file:
        return file.read()


def read_regular(path: Path, largest: int) -> tuple[bytes, os.stat_result]:
    """Return the bytes of a regular file and what the system says of that very file.

    Raise `OSError` when it cannot be read, is anything else, or has more than `largest` bytes.
    """
    with open_regular(path) as file:
        found = os.fstat(file.fileno())
        content = bytearray()
        while len(content) <= largest and (piece := file.read(min(_PIECE, largest + 1 - len(content)))):
            content += piece
    if len(content) > largest:
        raise OSError(errno.EFBIG, f"It has more than {largest:,} bytes", str(path))
    return bytes(content), found


def check_regular(handle: int, path: str | Path) -> None:
    """Raise `OSError` unless `handle` is a regular file."""
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        raise OSError(errno.EINVAL, NOT_REGULAR, str(path))


def _open_checked(path: str, flags: int) -> int:
    handle = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        check_regular(handle, path)
    except OSError:
        os.close(handle)
        raise
    return handle


def sha256_of(path: Path, moved: Callable[[int], None] | None = None) -> str:
    """Return the SHA-256 of a file, read in pieces."""
    seen = hashlib.sha256()
    done = 0
    with path.open("rb", buffering=0) as file:
        while piece := file.read(_LARGE_PIECE):
            seen.update(piece)
            done += len(piece)
            if moved is not None:
                moved(done)
    return seen.hexdigest()


def replace_file(
    path: str | Path,
    content: bytes | Iterable[bytes],
    *,
    folder: int | None = None,
    mode: int = 0o600,
    durable: bool = True,
    partial: str = "",
) -> None:
    """Put `content` at `path` in one step, over what is there. When that fails, the old file stays and nothing is left behind.

    A link at `path` is replaced and not followed. `path` is below the open `folder`, where one is given. `partial` is the
    name under which the new file grows: with a lock it is always the same, so that the next call removes what a crash left.
    """
    parent = os.path.dirname(path)
    unfinished = os.path.join(parent, partial or f".{secrets.token_hex(8)}.tmp")
    if partial:
        with suppress(FileNotFoundError):
            os.unlink(unfinished, dir_fd=folder)
    handle = os.open(unfinished, _NEW, 0o600, dir_fd=folder)
    try:
        with open(handle, "wb") as file:
            file.writelines((content,) if isinstance(content, bytes) else content)
            os.fchmod(handle, mode)
            if durable:
                file.flush()
                os.fsync(handle)
        os.replace(unfinished, path, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(unfinished, dir_fd=folder)
        raise
    if durable:
        _sync(parent or ".", folder)


def change_files(paths: Iterable[Path], change: Change) -> int:
    """Change files, each in one step; return how many are different now."""
    count = 0
    for path in paths:
        before = path.read_bytes()
        after = change_bytes(before, change)
        if after != before:
            replace_file(path, after)
            count += 1
    return count


def make_folder(folder: Path) -> None:
    """Make a folder that only this user may enter, durably; an existing one stays as it is."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
        sync_folder(each.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable."""
    _sync(folder)


Stamp: TypeAlias = tuple[int, int, int, int, int] | None
"""What the system says of a file: while that stays, the file does. None when it is not there."""


def stamp_of(found: os.stat_result) -> Stamp:
    """Return the stamp of a file: the time of its last change tells also what keeps its size and sets its date back."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def stamp_at(path: str | Path) -> Stamp:
    """Look at `path`, links followed, and return its stamp."""
    try:
        return stamp_of(os.stat(path))
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return None


def has_changed(stamps: Mapping[str, Stamp]) -> bool:
    """Return whether any of the paths is not as its stamp says; one that was not there may have come."""
    return any(stamp_at(path) != stamp for path, stamp in stamps.items())


def version_of(found: os.stat_result) -> str:
    """Return what the log keeps of a file that a model has seen, to tell it from itself before or after a change."""
    return f"{found.st_size}:{found.st_mtime_ns}:{found.st_ino}"


def _sync(folder: str | Path, below: int | None = None) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=below)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
