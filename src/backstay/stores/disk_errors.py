"""Turn errors of the operating system about a disk into `StoreError`s that say what to do."""

import errno
import os
from pathlib import Path
from typing import Final

from backstay.system.files import NOT_REGULAR
from backstay.vocab.errors import StoreError, StoreFull, StoreReadOnly, StoreUnavailable

FORBIDDEN: Final = (errno.EROFS, errno.EACCES, errno.EPERM)
"""Errors of the operating system for a user who may not write."""
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def explain_os(error: OSError, path: str | Path) -> StoreError:
    """Return the `StoreError` for an error of the operating system at `path`."""
    if error.errno in _FULL:
        return full(path)
    if error.errno in FORBIDDEN and (error.errno == errno.EROFS or is_read_only(path)):
        return read_only(path)
    if error.errno in FORBIDDEN:
        return StoreReadOnly(
            f"{str(path)!r} may not be written by this user. Check its permissions and those of its folder."
        )
    if error.strerror == NOT_REGULAR:
        return StoreUnavailable(f"{str(path)!r} is not a regular file, so it is no part of a store. Move it away.")
    return StoreUnavailable(f"Cannot use {str(path)!r}: {error.strerror or error}. Is its disk still there?")


def free_space(path: str | Path) -> int:
    """Return how many bytes this user may still write to the disk of `path`. Raise `OSError` when the system does not say."""
    disk = os.statvfs(os.path.dirname(path) or ".")
    return disk.f_bavail * disk.f_frsize


def full(path: str | Path) -> StoreFull:
    """Return the error for a disk without space."""
    return StoreFull(
        f"No space is left on the disk of {str(path)!r}. Free some space outside of the store: deleting sessions needs a little "
        "too. What was acknowledged is safe."
    )


def read_only(path: str | Path) -> StoreReadOnly:
    """Return the error for a disk that nothing may be written to."""
    return StoreReadOnly(
        f"{str(path)!r} is on a read-only file system: it can be read but not written. Make that writable, or use another store."
    )


def is_read_only(path: str | Path) -> bool:
    """Return whether the file system of `path`, or of the nearest folder above it that exists, takes no writes."""
    for each in (Path(path), *Path(path).parents):
        try:
            return bool(os.statvfs(each).f_flag & os.ST_RDONLY)
        except OSError:
            continue
    return False
