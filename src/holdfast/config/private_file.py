"""Small files of our own that only this user may read or change."""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.config.json_text import read_regular
from holdfast.files import make_folder, replace_file
from holdfast.vocab.errors import UserError

_LARGEST = 8 * 1024 * 1024


def read_private(path: Path) -> bytes | None:
    """The bytes of a file of ours; None when there is none. Raise `UserError` when somebody else could have written it."""
    try:
        content, found = read_regular(path, _LARGEST)
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise UserError(f"{str(path)!r} cannot be read: {exc.strerror}.") from exc
    if found.st_uid not in (os.geteuid(), 0) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UserError(f"Other users can write {str(path)!r}, so it is not believed. Remove it, or chmod 600 it.")
    return content


def write_private(path: Path, content: bytes) -> None:
    """Put `content` at `path` in one step, for this user alone. Raise `OSError` when that cannot be done."""
    make_folder(path.parent)
    replace_file(path, content)


def writable_name(path: str | Path) -> str:
    """A path as text that JSON can hold, different for every path: a name need not be UTF-8."""
    encoded = os.fsencode(path)
    try:
        return encoded.decode()
    except UnicodeDecodeError:
        return f"//{encoded.hex()}"


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold a lock beside `path`, so that nobody else reads, changes and writes it meanwhile."""
    make_folder(path.parent)
    handle = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
