"""The store that 0.1.0 wrote, and stores that are put back into an older shape."""

import os
import signal
import sys
import tarfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from backstay.stores.sqlite.cipher import Cipher, StoreKey
from backstay.stores.sqlite.connection import Access, Connect, Db, Row, Value, connect_stdlib
from backstay.stores.sqlite.open import prepare
from backstay.stores.sqlite.schema import COPIES
from backstay.version import VERSION

KEPT: Final = Path(__file__).parents[1] / "fixtures" / "store_0_1" / "store.tar.xz"
RAW: Final = "0f" * 32


def unpack(folder: Path) -> Path:
    """Put the kept store into `folder`; return its path."""
    with tarfile.open(KEPT) as archive:
        archive.extractall(folder, filter="data")
    return folder / "sessions.db"


def copy_of(path: Path) -> Path:
    """Name the copy that an upgrade keeps."""
    return path.with_name(path.name + COPIES + VERSION)


def take_back(path: Path, connect: Connect = connect_stdlib) -> None:
    """Give a store of today the shape that 0.1.0 knew."""
    db = connect(str(path), "write")
    for statement in (
        "DROP TABLE damaged",
        "DELETE FROM store WHERE key = 'written_by'",
        "PRAGMA user_version=1",
        "PRAGMA wal_checkpoint(TRUNCATE)",
    ):
        db.execute(statement)
    db.close()


def connect_encrypted() -> Connect:
    """Return what opens databases under the key `RAW`."""
    return Cipher(lambda: StoreKey("env:RAW", RAW)).connect


class Doomed:
    """Connections that kill their process before or after one of the calls that change a file."""

    def __init__(self, connect: Connect, point: int) -> None:
        self._connect = connect
        self._left = point

    def connect(self, path: str, access: Access) -> Db:
        """Open a connection that may die."""
        return _Dying(self._connect(path, access), self.step)

    def step(self) -> None:
        """Die when it is time to."""
        self._left -= 1
        if self._left < 0:
            os.kill(os.getpid(), signal.SIGKILL)


class _Dying:
    def __init__(self, inner: Db, step: Callable[[], None]) -> None:
        self.inner = inner
        self._step = step

    def _around(self, work: Callable[..., Any], *args: object) -> Any:  # Any: whatever `work` returns
        self._step()
        found = work(*args)
        self._step()
        return found

    def execute(self, sql: str, args: Sequence[Value] = ()) -> list[Row]:
        rows: list[Row] = self._around(self.inner.execute, sql, args)
        return rows

    def executemany(self, sql: str, rows: Iterable[Sequence[Value]]) -> None:
        self._around(self.inner.executemany, sql, rows)

    def begin(self) -> None:
        self._around(self.inner.begin)

    def commit(self) -> None:
        self._around(self.inner.commit)

    def rollback(self) -> None:
        self.inner.rollback()

    def backup(self, target: Db) -> None:
        assert isinstance(target, _Dying)
        self._around(self.inner.backup, target.inner)

    def close(self) -> None:
        self._around(self.inner.close)


def contents(path: Path, connect: Connect) -> tuple[object, ...]:
    """Return what the store at `path` holds: its schema, its tables, and all rows of the sessions."""
    db = connect(str(path), "write")
    try:
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        rows = [
            tuple(db.execute(f"SELECT * FROM {table} ORDER BY 1, 2"))
            for table in ("sessions", "events", "blobs", "refs")
        ]
        return db.execute("PRAGMA user_version")[0][0], "damaged" in tables, db.execute("PRAGMA integrity_check"), *rows
    finally:
        db.close()


def kill_everywhere(source: Path, folder: Path, connect: Connect) -> None:
    """Kill an upgrade of `source` at every point; print how often it was, and raise when anything but the old or the new store is left."""
    first = _laid_out(source, folder / "whole")
    before = contents(first, connect)
    _upgraded(first, connect)
    after = contents(first, connect)
    assert (before[0], after[0], before[3:]) == (1, 2, after[3:])
    seen = set[object]()
    for point in range(10_000):
        path = _laid_out(source, folder / f"at-{point}")
        if not _is_killed(path, Doomed(connect, point).connect):
            break
        copy = copy_of(path)
        if copy.exists():
            assert contents(copy, connect) == before
        found = contents(path, connect)
        assert found in (before, after), f"half an upgrade, at {point}"
        assert found == before or copy.exists(), f"no copy, at {point}"
        seen.add((found[0], copy.exists()))
        _upgraded(path, connect)
        assert contents(path, connect) == after
        assert contents(copy, connect) == before
        assert {each.name for each in path.parent.iterdir()} <= {
            path.name,
            f"{path.name}.lock",
            copy.name,
            *_KEPT_FOLDERS,
        }
    assert seen == {(1, False), (1, True), (2, True)}
    print("killed", point)


_KEPT_FOLDERS: Final = ("sessions.db.blobs", "sessions.db.trace")


def _laid_out(source: Path, folder: Path) -> Path:
    folder.mkdir()
    for suffix in ("", "-wal"):
        each = source.with_name(source.name + suffix)
        if each.exists():
            (folder / each.name).write_bytes(each.read_bytes())
    return folder / source.name


def _upgraded(path: Path, connect: Connect) -> None:
    place = prepare(path, new="", read_only=False, synchronous="full", connect=connect)
    assert place.refusal is None, place.refusal


def _is_killed(path: Path, connect: Connect) -> bool:
    child = os.fork()
    if not child:
        _upgraded(path, connect)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


if __name__ == "__main__":
    kill_everywhere(Path(sys.argv[1]), Path(sys.argv[2]), connect_encrypted() if sys.argv[3] else connect_stdlib)
