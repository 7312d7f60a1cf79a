"""Reach the file of a call, folder by folder from the root, each held by its handle and none of them a link.

A folder that is swapped for a link meanwhile does not lead a tool astray: the tool stops.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from msgspec import Struct

from backstay.system.handles import FILE, enter, walk_to
from backstay.tools.files.target import FileTarget, Refused, is_stream

_FOLDER: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Where there is `O_PATH`, a folder needs only be searchable, as for every other program."""
_NO_SYNC: Final = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS)
"""Errors of file systems whose folders cannot be synced."""


class OpenedPath(Struct, frozen=True):
    """A name in a folder whose handle is held. The name may be free."""

    target: FileTarget
    folder: int
    name: str

    def facts(self) -> os.stat_result | None:
        """Return the facts of the regular file here; None when there is nothing. Raise for everything that is not a file."""
        try:
            found = os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if stat.S_ISLNK(found.st_mode):
            raise _astray(self.target)
        _require_regular(self.target, found)
        return found

    def open(self) -> int:
        """Open the regular file here for reading; the caller closes the handle."""
        if self.facts() is None:  # looked at before it is opened: opening a device can do something
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        try:
            handle = os.open(self.name, FILE, dir_fd=self.folder)
        except OSError as exc:
            raise _astray(self.target) if exc.errno == errno.ELOOP else exc from exc
        try:
            _require_regular(self.target, os.fstat(handle))
        except BaseException:
            os.close(handle)
            raise
        return handle

    def sync(self) -> None:
        """Make changes of names in the folder durable."""
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
    """Open the folder of `target`; with `make`, missing folders are made, and removed again when the block fails."""
    parts = [part for part in target.real_path.split("/") if part]
    if not parts:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if "." in parts or ".." in parts:
        raise Refused("bad_path", f"{target.real_path!r} is not where a path leads.")
    made: list[OpenedPath] = []

    def step(folder: int, part: str) -> int:
        with suppress(FileNotFoundError):
            return _enter(target, folder, part)
        if not make:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        with suppress(FileExistsError):  # another program made it meanwhile
            os.mkdir(part, dir_fd=folder)
            made.append(OpenedPath(target, os.dup(folder), part))
        return _enter(target, folder, part)

    try:
        with walk_to("/", parts[:-1], step, _FOLDER) as folder:
            yield OpenedPath(target, folder, parts[-1])
        for each in made:
            each.sync()
    except BaseException:
        for each in reversed(made):
            with suppress(OSError):  # in use
                os.rmdir(each.name, dir_fd=each.folder)
        raise
    finally:
        for each in made:
            os.close(each.folder)


def _enter(target: FileTarget, folder: int, part: str) -> int:
    try:
        return enter(folder, part, _FOLDER)
    except OSError as exc:
        if exc.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        facts = os.stat(part, dir_fd=folder, follow_symlinks=False)
        raise _astray(target) if stat.S_ISLNK(facts.st_mode) else exc from exc


def _require_regular(target: FileTarget, facts: os.stat_result) -> None:
    if stat.S_ISDIR(facts.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(facts.st_mode):
        raise Refused("not_regular", f"{target.shown!r} is a device, a pipe or a socket, not a regular file.")
    if is_stream(target.real_path):
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
