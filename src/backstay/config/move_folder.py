"""Move a folder of ours to another place, whole where nothing is there yet, else what is missing there. Nothing is written over.

A crash loses nothing, and the next call goes on: a rename is one step; a copy to another file system takes the place of the target
only when it is on the disk, and the original is set aside by a rename before it is removed.
"""

import errno
import fcntl
import filecmp
import os
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final

from backstay.system.files import make_folder, sync_folder

_MADE_ANEW: Final = ("confinement.json",)
"""Files that only spare work: the next session writes them again."""
_GONE: Final = ".moved-away"
"""The end of the name of what was copied and is about to be removed."""
_SHARED: Final = (0x40000002, 510)
"""The bytes of a SQLite file that every open connection holds a lock on."""


class Blocked(Exception):
    """A folder cannot be moved now; the message says why and what to do."""


def move_folder(old: Path, new: Path, blocked: list[str]) -> bool:
    """Move `old` to `new` and say whether all of it went. What stands in the way of a part is added to `blocked`.

    Raise `Blocked` when nothing can be moved, as while another process has a store open.
    """
    count = len(blocked)
    try:
        _remove(_aside(old))
        if os.path.lexists(old):
            with ExitStack() as locks:
                if not old.is_symlink():
                    for store in sorted(old.glob("*.db")):
                        locks.enter_context(_unused(store))
                _move(old, new, blocked)
    except OSError as exc:
        where = exc.filename or old
        raise Blocked(
            f"{str(where)!r}: {exc.strerror}. What was moved until then is in {str(new)!r}; try again."
        ) from exc
    return len(blocked) == count


def was_moved(old: Path) -> bool:
    """Whether a crash left what remains of `old` after its copy was complete."""
    return os.path.lexists(_aside(old))


def _aside(old: Path) -> Path:
    return old.with_name(f".{old.name}{_GONE}")


def _move(old: Path, new: Path, blocked: list[str]) -> None:
    if not os.path.lexists(new):
        _rename(old, new)
    elif _is_folder(old) and _is_folder(new):
        _clear(old, new)
        if os.path.lexists(new):
            _merge(old, new, blocked)
        else:
            _rename(old, new)
    elif _same(old, new) or old.name in _MADE_ANEW:
        _remove(old)
    else:
        blocked.append(f"{str(new)!r} is there already, so {str(old)!r} stays. Compare them, and remove one.")


def _clear(old: Path, new: Path) -> None:
    """Remove from `new` the stores without a session whose place a store of `old` takes, and the whole folder if nothing else is in it."""
    for store in (new / each.name for each in old.glob("*.db")):
        if store.is_file() and not holds_sessions(store):
            with _unused(store):
                for each in new.glob(f"{store.name}*"):
                    _remove(each)
    if all(name in _MADE_ANEW or name.endswith(".lock") for name in os.listdir(new)):
        shutil.rmtree(new)
        sync_folder(new.parent)


def holds_sessions(store: Path) -> bool:
    """Whether there is a store at `store` with a session in it, as far as can be seen: nobody looks into an encrypted one."""
    try:
        if not store.stat().st_size:
            return False
        with closing(sqlite3.connect(f"{store.absolute().as_uri()}?mode=ro", uri=True)) as database:
            return bool(database.execute("SELECT EXISTS (SELECT 1 FROM sessions)").fetchone()[0])
    except FileNotFoundError:
        return False
    except sqlite3.DatabaseError:  # encrypted, damaged or no store at all: nothing to write over
        return True


def _merge(old: Path, new: Path, blocked: list[str]) -> None:
    """Move what `new` does not have. A store goes with the files beside it, or not at all."""
    for each in old.glob(f".*{_GONE}"):  # a crash left it, and its copy is whole
        _remove(each)
    kept = tuple(_kept_stores(old, new, blocked))
    with os.scandir(old) as found:
        entries = sorted(
            found, key=lambda each: (each.name.endswith(".db"), each.name)
        )  # a store last: its files are there then
    for entry in entries:
        if not entry.name.startswith(kept or "\0"):
            _move(old / entry.name, new / entry.name, blocked)
    if not os.listdir(old):
        old.rmdir()
        sync_folder(old.parent)


def _kept_stores(old: Path, new: Path, blocked: list[str]) -> Iterator[str]:
    """The names of the stores that must stay."""
    for store in sorted(old.glob("*.db")):
        url = f"sqlite:///{str(store).lstrip('/')}"
        today = new / store.name
        log = store.with_name(f"{store.name}-wal")
        if today.exists() and not _same(store, today):
            yield store.name
            blocked.append(
                f"{str(today)!r} has sessions already, so {str(store)!r} stays. To see its sessions: backstay --store {url} "
                f"sessions list; to bring one over: backstay --store {url} sessions move ID sqlite:///{str(today).lstrip('/')}"
            )
        elif not today.exists() and log.exists() and log.stat().st_size:
            yield store.name
            blocked.append(
                f"{str(log)!r} holds sessions that are not in {str(store)!r} yet, as after a crash, so both stay. "
                f"To write them: backstay --store {url} sessions verify; then move again."
            )
        else:
            store.with_name(f"{store.name}-shm").unlink(missing_ok=True)


@contextmanager
def _unused(store: Path) -> Iterator[None]:
    """Hold the store at `store`, so that nobody opens it while it moves. Raise `Blocked` when somebody has."""
    handle = os.open(store, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, _SHARED[1], _SHARED[0])
    except OSError as exc:
        os.close(handle)
        if exc.errno not in (errno.EACCES, errno.EAGAIN):
            raise
        raise Blocked(f"{str(store)!r} is open in another process. End it, and move again. Nothing was moved.") from exc
    try:
        yield
    finally:
        os.close(handle)


# --- one step at a time -----------------------------------------------------------------------------------------------------------


def _rename(old: Path, new: Path) -> None:
    make_folder(new.parent)
    try:
        os.rename(old, new)
    except OSError as exc:
        if exc.errno != errno.EXDEV:
            raise
        _copy(old, new)
        os.rename(old, _aside(old))
        sync_folder(old.parent)
        _remove(_aside(old))
    sync_folder(new.parent)
    sync_folder(old.parent)


def _copy(old: Path, new: Path) -> None:
    """Copy to another file system: what is at `new` in the end is whole and on the disk."""
    partial = new.with_name(f".{new.name}.moving")
    _remove(partial)
    if _is_folder(old):
        shutil.copytree(old, partial, symlinks=True)
    else:
        shutil.copy2(old, partial, follow_symlinks=False)
    for folder, _, names in os.walk(partial) if _is_folder(partial) else ():
        for name in names:
            _sync_file(Path(folder, name))
        sync_folder(Path(folder))
    _sync_file(partial)
    os.rename(partial, new)
    sync_folder(new.parent)


def _sync_file(path: Path) -> None:
    if stat.S_ISREG(path.lstat().st_mode):
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _remove(path: Path) -> None:
    if _is_folder(path):
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _same(one: Path, other: Path) -> bool:
    """Whether both are files with the same bytes, as a crash between a copy and the removal leaves them."""
    both = (one.lstat().st_mode, other.lstat().st_mode)
    return all(map(stat.S_ISREG, both)) and filecmp.cmp(one, other, shallow=False)
