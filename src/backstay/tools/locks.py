"""One writer a file: a lock within this process, and one on the file itself for other processes.

The lock of the operating system belongs to an inode, and a replaced file has another one. So whoever gets it looks again whether the
name still means that inode. Programs that take no lock are noticed by the file's version when it is replaced.
"""

import errno
import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final
from weakref import WeakValueDictionary

import anyio.from_thread

from backstay.tools.files import Refused, Target
from backstay.tools.places import Place

PATIENCE: Final = 15.0
"""Seconds that a call waits for the others that write the same file."""
_UNSUPPORTED: Final = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EBADF)
"""What file systems without locks answer. The lock within the process remains."""


class _Turn:
    """A lock that vanishes when nobody holds or awaits it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


_turns: "WeakValueDictionary[str, _Turn]" = WeakValueDictionary()
_turns_guard: Final = threading.Lock()


@contextmanager
def turn(target: Target) -> Iterator[None]:
    """Be the only one in this process that writes `target`."""
    with _turns_guard:
        mine = _turns.setdefault(target.place, _Turn())
    _wait(target, lambda: mine.lock.acquire(timeout=0.02))
    try:
        yield
    finally:
        mine.lock.release()


def open_locked(place: Place) -> int | None:
    """A handle for reading the file at `place`, locked against other processes; None when there is no file."""
    handles: list[int] = []

    def attempt() -> bool:
        if place.facts() is None:
            return True
        handle = place.open()
        try:
            if take(handle) and _still(place, handle):
                handles.append(handle)
                return True
        finally:
            if handle not in handles:
                os.close(handle)
        return False

    try:
        _wait(place.target, attempt)
    except FileNotFoundError:
        return None
    return handles[0] if handles else None


def take(handle: int) -> bool:
    """Lock a file without waiting; say whether that went well. Where the file system has no locks, it always does."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as exc:
        if exc.errno not in _UNSUPPORTED:
            raise
    return True


def _still(place: Place, handle: int) -> bool:
    """Whether the name still means the file behind `handle`."""
    now = place.facts()
    mine = os.fstat(handle)
    return now is not None and (now.st_dev, now.st_ino) == (mine.st_dev, mine.st_ino)


def _wait(target: Target, attempt: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    pause = 0.0005
    while not attempt():
        if time.monotonic() > until:
            raise Refused(
                "locked",
                f"{target.shown!r} is locked by another program for {PATIENCE:g} seconds now. Try again later.",
            )
        _stop_when_cancelled()
        time.sleep(pause)
        pause = min(pause * 2, 0.02)


def _stop_when_cancelled() -> None:
    """Nobody waits for a call that was interrupted; outside a worker thread there is nobody to ask."""
    try:
        anyio.from_thread.check_cancelled()
    except RuntimeError:
        return
