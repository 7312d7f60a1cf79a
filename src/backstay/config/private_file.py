"""Small files of our own that only this user may read or change."""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from backstay.config.person import require_person
from backstay.system.files import make_folder, read_regular, replace_file
from backstay.vocab.errors import UserError

_LARGEST = 8 * 1024 * 1024
Shape = TypeVar("Shape")


class Book(Generic[Shape]):
    """A small file of JSON that we keep for a person: believed only when no other user could write it, changed by one process at a time."""

    def __init__(self, path: Path, shape: type[Shape], again: str, *, person: str = "") -> None:
        """Keep `shape()` until there is a file. `again` says what to do after a damaged file was removed.

        With `person`, only a person may do what it says: no program of a session changes the file.
        """
        self.path = path
        self._shape = shape
        self._again = again
        self._person = person

    def read(self) -> Shape:
        """Return what stands in it. Raise `UserError` when that cannot be believed."""
        content = read_private(self.path)
        try:
            return self._shape() if content is None else msgspec.json.decode(content, type=self._shape)
        except (msgspec.DecodeError, RecursionError, UserError) as exc:
            raise UserError(f"{str(self.path)!r} is damaged ({exc}). Remove it, and {self._again} again.") from exc

    @contextmanager
    def changing(self) -> Iterator[Shape]:
        """Give what stands in it, to be changed and then written, under a lock."""
        if self._person:
            require_person(self._person)
        try:
            with alone(self.path):
                found = self.read()
                yield found
                write_private(self.path, msgspec.json.format(msgspec.json.encode(found), indent=2))
        except OSError as exc:
            raise UserError(f"{str(self.path)!r} cannot be written: {exc.strerror}.") from exc


def read_private(path: Path) -> bytes | None:
    """Return the bytes of a file of ours; None when there is none. Raise `UserError` when another user could have written it."""
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
    """Return a path as text that JSON can hold, different for every path: a name need not be UTF-8."""
    encoded = os.fsencode(path)
    try:
        return encoded.decode()
    except UnicodeDecodeError:
        return f"//{encoded.hex()}"


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold a lock beside `path`, so that no other process changes it meanwhile."""
    make_folder(path.parent)
    handle = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
