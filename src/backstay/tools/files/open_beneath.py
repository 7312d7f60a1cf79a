"""The way to a file, folder by folder from the root, each held by its handle and none of them a link.

Whoever swaps a folder for a link while a tool is on its way does not lead it astray: the tool stops.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from msgspec import Struct

from backstay.tools.files.target import FileTarget, Refused, is_stream

_FOLDER: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Where there is `O_PATH`, a folder needs only be searchable, as for every other program."""
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_NO_SYNC: Final = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS)
"""What file systems answer whose folders cannot be synced."""


class OpenedPath(Struct, frozen=True):
    """A name in a folder whose handle is held. The name may be free."""

    target: FileTarget
    folder: int
    name: str

    def facts(self) -> os.stat_result | None:
        """The facts of the regular file here; None when there is nothing. Raise for everything that is not a file."""
        try:
            found = os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if stat.S_ISLNK(found.st_mode):
            raise _astray(self.target)
        _require_regular(self.target, found)
        return found

    def open(self) -> int:
        """A handle for reading the regular file here; the caller closes it."""
        if self.facts() is None:  # looked at before it is opened: opening a device can do something
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        try:
            handle = os.open(self.name, _READ, dir_fd=self.folder)
        except OSError as exc:
            raise _astray(self.target) if exc.errno == errno.ELOOP else exc from exc
        try:
            _require_regular(self.target, os.fstat(handle))
        except BaseException:
            os.close(handle)
            raise
        return handle

    def sync(self) -> None:
        """Make what happened to names in the folder durable."""
        try:
            handle = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.folder)
        except PermissionError:
            return  # it may be written and not listed
        try:
            os.fsync(handle)
        except OSError as exc:
            if exc.errno not in _NO_SYNC:
                raise
        finally:
            os.close(handle)


@contextmanager
def reach(target: FileTarget, *, make: bool = False) -> Iterator[OpenedPath]:
    """Go to the folder of `target`; with `make`, missing folders are made, and removed again when the block fails."""
    parts = [part for part in target.place.split("/") if part]
    if not parts:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if "." in parts or ".." in parts:
        raise Refused("bad_path", f"{target.place!r} is not where a path leads.")
    with _Way(target) as way:
        try:
            for part in parts[:-1]:
                way.enter(part, make=make)
            yield OpenedPath(target, way.folder, parts[-1])
        except BaseException:
            way.go_back()
            raise
        way.sync()


class _Way:
    """The folder that was reached, and those in which folders were made on the way."""

    def __init__(self, target: FileTarget) -> None:
        self.folder = os.open("/", _FOLDER)
        self._target = target
        self._made: list[OpenedPath] = []

    def __enter__(self) -> "_Way":
        return self

    def __exit__(self, *_: object) -> None:
        for handle in {self.folder, *(made.folder for made in self._made)}:
            os.close(handle)

    def enter(self, part: str, *, make: bool) -> None:
        """Go one folder down."""
        made = False
        try:
            below = self._open(part)
        except FileNotFoundError:
            if not make:
                raise
            made = self._make(part)
            below = self._open(part)
        if not made:
            os.close(self.folder)
        self.folder = below

    def go_back(self) -> None:
        """Remove the folders that were made, as far as nobody uses them."""
        for made in reversed(self._made):
            with suppress(OSError):
                os.rmdir(made.name, dir_fd=made.folder)

    def sync(self) -> None:
        """Make the folders that were made durable."""
        for made in self._made:
            made.sync()

    def _make(self, part: str) -> bool:
        try:
            os.mkdir(part, dir_fd=self.folder)
        except FileExistsError:
            return False  # somebody else was faster
        self._made.append(OpenedPath(self._target, self.folder, part))
        return True

    def _open(self, part: str) -> int:
        try:
            return os.open(part, _FOLDER, dir_fd=self.folder)
        except OSError as exc:
            if exc.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise
            facts = os.stat(part, dir_fd=self.folder, follow_symlinks=False)
            raise _astray(self._target) if stat.S_ISLNK(facts.st_mode) else exc from exc


def _require_regular(target: FileTarget, facts: os.stat_result) -> None:
    if stat.S_ISDIR(facts.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(facts.st_mode):
        raise Refused("not_regular", f"{target.shown!r} is a device, a pipe or a socket, not a regular file.")
    if is_stream(target.place):
        raise Refused(
            "not_regular",
            f"{target.shown!r} is a stream of the kernel, not a regular file: reading it can wait or change it.",
        )


def _astray(target: FileTarget) -> Refused | OSError:
    if not target.judged:
        return OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return Refused(
        "moved",
        f"{target.shown!r} changed since it was judged: a part of its path has become a link. Nothing was done. "
        "Make the call again if that is meant.",
    )
