"""Which SQLite library has which file open in this process.

Closing a file takes away every lock that the process has on it, whoever took the lock. A library keeps book of its own
handles and knows nothing of another's, so two of them on one file would let a third process empty the write-ahead log
under both.
"""

import os
import threading
from collections.abc import Callable
from typing import Final, Literal

Library = Literal["sqlite3", "sqlcipher3"]
_Inode = tuple[int, int]

_lock: Final = threading.Lock()
_open: Final = dict[_Inode, list[Library]]()
"""The libraries of the connections to each file, all the same one."""


def claim(path: str, library: Library) -> Callable[[], None] | None:
    """Note that `library` opens the file at `path`; call what is returned once it is closed.

    None while another library has it open. Raise `OSError` when there is no such file.
    """
    inode = _inode(path)
    with _lock:
        holders = _open.setdefault(inode, [])
        if holders and holders[0] != library:
            return None
        holders.append(library)

    def release() -> None:
        with _lock:
            holders.pop()
            if not holders:
                _open.pop(inode, None)

    return release


def held_by_other(path: str, library: Library) -> bool:
    """Whether another library than `library` has the file at `path` open in this process."""
    with _lock:
        holders = _open.get(_inode(path), [])
        return bool(holders) and holders[0] != library


def _inode(path: str) -> _Inode:
    found = os.stat(path)
    return found.st_dev, found.st_ino
