"""A cheap look at files, to notice that one of them is no longer as it was."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class Mark(NamedTuple):
    """A file as the system knows it. One that is not there has zeros."""

    path: str
    device: int = 0
    inode: int = 0
    size: int = 0
    mtime_ns: int = 0
    ctime_ns: int = 0


def marks(paths: Iterable[str | Path]) -> tuple[Mark, ...]:
    """Look at each path, following links; absent ones count too, since they may come."""
    return tuple(_mark(os.fspath(path)) for path in paths)


def _mark(path: str) -> Mark:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return Mark(path)
    return Mark(path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
