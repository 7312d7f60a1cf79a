"""Reach folders and files by handles, through no link: other programs may change the way at any moment.

A path that was judged is only as good as the folders that it leads through when it is used. So each folder is opened below the one
before it, and a link in the place of one is an error instead of a way out.
"""

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, TypeVar

FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""To read a file: opening a pipe or a device in its place does not wait."""
NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

Name = TypeVar("Name", str, bytes)


class NotRegular(OSError):
    """Raised when the opened file is not a regular one."""


def enter(folder: int, name: str | bytes, flags: int = FOLDER) -> int:
    """Open the folder `name` in another. Raise `OSError` (`ELOOP`, `ENOTDIR`) for a link."""
    return os.open(name, flags, dir_fd=folder)


def make_folder(folder: int, name: str | bytes, mode: int = 0o777) -> None:
    """Make the folder `name` in another, unless it is there."""
    with suppress(FileExistsError):
        os.mkdir(name, mode, dir_fd=folder)


@contextmanager
def walk_to(
    root: Name, names: Iterable[Name], step: Callable[[int, Name], int] = enter, flags: int = FOLDER
) -> Iterator[int]:
    """Go down from `root`, which is opened with `flags`, and yield the handle of the last folder. `step` opens each one."""
    handle = os.open(root, flags)
    try:
        for name in names:
            below = step(handle, name)
            os.close(handle)
            handle = below
        yield handle
    finally:
        os.close(handle)


@contextmanager
def open_regular(folder: int, name: str | bytes) -> Iterator[int]:
    """Open a regular file to read. Raise `NotRegular` for anything else that can be opened, `OSError` for a link."""
    handle = os.open(name, FILE, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise NotRegular("it is no regular file")
        yield handle
    finally:
        os.close(handle)
