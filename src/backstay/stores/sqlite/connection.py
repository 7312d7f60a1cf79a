"""The synchronous connection under the SQLite store, its errors, and how long each caller waits for a lock.

Everything above speaks `Db` and `DbError` only, so that a test can put a connection of its own underneath.
"""

import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, Protocol, TypeVar
from urllib.parse import quote

from backstay.stores.disk_errors import free_space, full, is_read_only, read_only
from backstay.stores.sqlite.files import Library, claim
from backstay.vocab.errors import BackstayError, LogDamaged, StoreError, StoreReadOnly, StoreUnavailable

Value = bytes | str | int | float | None
Row = tuple[Any, ...]  # Any: a column has the type that its table declares
Access = Literal["write", "read", "immutable"]
Synchronous = Literal["full", "normal"]
T = TypeVar("T")

BUSY_S: Final = 5.0
"""How long SQLite itself waits for a lock before it says busy."""
PATIENCE_S: Final = 60.0
"""How long a busy answer is tried again before it becomes an error."""
IDLE_READERS: Final = 4
CHECKPOINT_PAGES: Final = 512
"""Pages in the write-ahead log (8 MiB) after which a commit also moves them into the database."""


class Db(Protocol):
    """One connection, outside any transaction unless `begin` opened one. Every method may raise `DbError`."""

    def execute(self, sql: str, args: Sequence[Value] = ()) -> list[Row]:
        """Run one statement and return all its rows."""

    def executemany(self, sql: str, rows: Iterable[Sequence[Value]]) -> None:
        """Run one statement for each row."""

    def begin(self) -> None:
        """Open a transaction that may write."""

    def commit(self) -> None:
        """Make the transaction durable."""

    def rollback(self) -> None:
        """Roll the transaction back; nothing happens when there is none."""

    def backup(self, target: "Db") -> None:
        """Copy all of the database into the empty one of `target`, a connection of the same kind."""

    def close(self) -> None:
        """Close the file."""


Connect = Callable[[str, Access], Db]
"""Opens the database file at a path, which exists."""


SPARE: Final = 64 * 1024
"""A disk with fewer free bytes than this is full."""


class DbError(Exception):
    """SQLite refused; `code` is its extended result code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def kind(self) -> int:
        """The primary result code."""
        return self.code & 0xFF

    @property
    def busy(self) -> bool:
        """Another connection is in the way; the same statement may succeed later."""
        return self.kind in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)

    @property
    def full(self) -> bool:
        """There was no space for it."""
        return self.kind == sqlite3.SQLITE_FULL


def _nothing() -> None:
    pass


class StdlibDb:
    """A connection of the standard library, or of a library that has the same surface."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        error: type[sqlite3.Error] = sqlite3.Error,
        closed: Callable[[], None] = _nothing,
    ) -> None:
        self._connection = connection
        self._error = error
        self._closed = closed

    def execute(self, sql: str, args: Sequence[Value] = ()) -> list[Row]:
        """Run one statement and return all its rows."""
        try:
            return self._connection.execute(sql, args).fetchall()
        except self._error as exc:
            raise _error(exc) from exc

    def executemany(self, sql: str, rows: Iterable[Sequence[Value]]) -> None:
        """Run one statement for each row."""
        try:
            self._connection.executemany(sql, rows)
        except self._error as exc:
            raise _error(exc) from exc

    def begin(self) -> None:
        """Open a transaction and take the write lock at once, so that it can never fail half-way for a lock."""
        self.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Make the transaction durable."""
        self.execute("COMMIT")

    def rollback(self) -> None:
        """Roll the transaction back; nothing happens when there is none."""
        if self._connection.in_transaction:
            self.execute("ROLLBACK")

    def backup(self, target: Db) -> None:
        """Copy all of the database into the empty one of `target`, a connection of the same kind."""
        if not isinstance(target, StdlibDb):
            raise TypeError(f"{type(target).__name__} is a connection of another kind")
        try:
            self._connection.backup(target._connection)
        except self._error as exc:
            raise _error(exc) from exc

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
        closed, self._closed = self._closed, _nothing
        closed()


def connect_stdlib(path: str, access: Access) -> Db:
    """Open the database at `path`, which exists, with the standard library."""
    return connect_with(sqlite3, "sqlite3", path, access)


def connect_with(module: Any, library: Library, path: str, access: Access) -> StdlibDb:  # Any: `sqlite3` or its like
    """Open the database at `path`, which exists, with a library that has the surface of the standard one."""
    mode = {"write": "mode=rw", "read": "mode=ro", "immutable": "mode=ro&immutable=1"}[access]
    try:
        closed = claim(path, library)
    except OSError as exc:
        raise DbError(sqlite3.SQLITE_CANTOPEN, f"unable to open database file: {exc}") from exc
    if closed is None:
        raise DbError(sqlite3.SQLITE_BUSY, "another SQLite library has it open in this process")
    try:
        connection = module.connect(
            f"file:{quote(path)}?{mode}",
            uri=True,
            timeout=BUSY_S,
            isolation_level=None,
            check_same_thread=False,  # a connection moves between threads, but is never in two at once
        )
    except module.Error as exc:
        closed()
        raise _error(exc) from exc
    return StdlibDb(connection, module.Error, closed)


def open_writer(connect: Connect, path: str, synchronous: Synchronous) -> Db:
    """Open a connection that writes, with what durability needs."""
    db = connect(path, "write")
    try:
        db.execute(f"PRAGMA synchronous={synchronous}")
        db.execute("PRAGMA fullfsync=1")  # macOS: without it a sync stops at the disk's own cache
        db.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
    except DbError:
        db.close()
        raise
    return db


def patiently(work: Callable[[], T]) -> T:
    """Do `work` again for as long as it is only busy, within reason."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return work()
        except DbError as exc:
            if not exc.busy or time.monotonic() > deadline:
                raise
            time.sleep(0.005)


def explain(error: DbError, path: str) -> StoreError:
    """Return the error that a user of the store sees."""
    if error.full or (error.kind in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN) and _no_space(path)):
        return full(path)
    if error.kind in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM) and is_read_only(path):
        return read_only(path)
    if error.kind in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return StoreReadOnly(f"{path!r} can be read but not written: {error}. Check its permissions and its disk.")
    if error.kind in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return LogDamaged(f"{path!r} is damaged: {error}. Restore it from a copy, or export what can still be read.")
    if error.busy:
        return StoreUnavailable(
            f"{path!r} stayed locked for {PATIENCE_S:.0f} s: {error}. Is a process that uses it stopped?"
        )
    return StoreUnavailable(f"Cannot use {path!r}: {error}. Is its disk still there?")


def _no_space(path: str) -> bool:
    """Return whether the disk of `path` is full: SQLite reports a shared-memory file that it cannot grow as a plain I/O error."""
    try:
        return free_space(path) < SPARE
    except OSError:
        return False


class Readers:
    """Connections for reading, each used by one thread at a time."""

    def __init__(self, connect: Callable[[], Db]) -> None:
        self._connect = connect
        self._idle: deque[Db] = deque()
        self._closed = False

    def use(self, query: Callable[[Db], T]) -> T:
        """Call `query` with a connection that is used by no other thread meanwhile."""
        if self._closed:
            raise StoreUnavailable("The store is closed. Open it again.")
        return patiently(lambda: self._lend(query))

    def close(self) -> None:
        """Close the file."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _lend(self, query: Callable[[Db], T]) -> T:
        db = self._idle.pop() if self._idle else self._connect()
        sound = False
        try:
            found = query(db)
            sound = True
        except BackstayError:
            sound = True
            raise
        finally:
            if sound and not self._closed and len(self._idle) < IDLE_READERS:
                self._idle.append(db)
            else:
                db.close()
        return found


def _error(exc: sqlite3.Error) -> DbError:
    return DbError(getattr(exc, "sqlite_errorcode", None) or sqlite3.SQLITE_MISUSE, str(exc))
