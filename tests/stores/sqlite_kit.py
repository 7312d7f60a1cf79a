"""What the tests of the SQLite store share: a clock, events, and a connection that can be watched and disturbed."""

import itertools
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import anyio

from backstay.logic.stored_content import find_cited_blobs
from backstay.stores.sqlite.connection import Access, Db, DbError, Row, Value, connect_stdlib
from backstay.stores.sqlite.store import SqliteStore
from backstay.testing.builders import START, recorded, started
from backstay.vocab.event import Recorded
from backstay.vocab.events import InputReceived
from backstay.vocab.messages import Text
from backstay.vocab.specs import Lease, Owner

_NUMBERS = itertools.count()

Open = Callable[..., Awaitable[SqliteStore]]
"""Opens a store by the name of its file; options as `SqliteStore.open`."""


class Clock:
    """A clock that stands still until it is told otherwise."""

    def __init__(self) -> None:
        self.time = START

    def now(self) -> int:
        """Microseconds since 1970."""
        return self.time

    def nonce(self) -> str:
        """A new word each time."""
        return f"n{next(_NUMBERS)}"

    async def sleep(self, seconds: float) -> None:
        """Let others run, and pass the time at once."""
        self.time += int(seconds * 1_000_000)
        await anyio.lowlevel.checkpoint()


class Taps:
    """A factory of connections that a test can watch and disturb."""

    def __init__(self) -> None:
        self.commits = 0
        self.waiting = threading.Event()
        """Set when a writer stands before a closed gate."""
        self.gate = threading.Event()
        self.gate.set()
        self.on_commit: Callable[[Db], None] | None = None
        self.on_connect: Callable[[Db], None] | None = None
        self.forbidden: tuple[str, ...] = ()
        """Words that no statement may hold."""

    def connect(self, path: str, access: Access) -> Db:
        """Open a connection of the standard library, with taps."""
        inner = connect_stdlib(path, access)
        if self.on_connect is not None and access == "write":
            try:
                self.on_connect(inner)
            except DbError:
                inner.close()
                raise
        return _Tapped(inner, self)


class _Tapped:
    def __init__(self, inner: Db, taps: Taps) -> None:
        self._inner = inner
        self._taps = taps

    def execute(self, sql: str, args: Sequence[Value] = ()) -> list[Row]:
        if any(word in sql for word in self._taps.forbidden):
            raise DbError(sqlite3.SQLITE_ERROR, "no such module: fts5")
        return self._inner.execute(sql, args)

    def executemany(self, sql: str, rows: Iterable[Sequence[Value]]) -> None:
        self._inner.executemany(sql, rows)

    def begin(self) -> None:
        self._taps.waiting.set()
        self._taps.gate.wait()
        self._inner.begin()

    def commit(self) -> None:
        if self._taps.on_commit is None:
            self._inner.commit()
        else:
            self._taps.on_commit(self._inner)
        self._taps.commits += 1

    def rollback(self) -> None:
        self._inner.rollback()

    def backup(self, target: Db) -> None:
        self._inner.backup(target._inner if isinstance(target, _Tapped) else target)

    def close(self) -> None:
        self._inner.close()


@asynccontextmanager
async def opening(folder: Path) -> AsyncIterator[Open]:
    """Open stores in `folder`, all closed at the end."""
    async with AsyncExitStack() as stack:

        async def opened(name: str = "store.db", **options: Any) -> SqliteStore:  # Any: a test names what it needs
            store = await SqliteStore.open(folder / name, **{"clock": Clock(), **options})
            stack.push_async_callback(store.close)
            return store

        yield opened


async def begun(store: SqliteStore, session: str = "s1") -> Lease:
    """A session with its first event."""
    lease = await store.lease(session, owner())
    await store.append(lease, 0, [beginning(session)])
    return lease


def io_error() -> DbError:
    """What SQLite says when a sync fails."""
    return DbError(sqlite3.SQLITE_IOERR_FSYNC, "disk I/O error")


def owner(name: str = "o1", pid: int = 1) -> Owner:
    """A process that lives elsewhere."""
    return Owner(id=name, host="elsewhere", boot="b", pid=pid, started=1, label=f"test {name}")


def beginning(session: str, **fields: object) -> Recorded:
    """The first event of a session."""
    return recorded(started(session, **fields), 1)


def said(text: str, seq: int, *, nonce: str = "t0") -> Recorded:
    """An event that holds `text`."""
    return recorded(InputReceived(input=f"in-{seq}", parts=(Text(text=text),)), seq, id=f"{nonce}.{seq}", by="user")


def tamper(path: Path, sql: str, args: Sequence[Value] = ()) -> None:
    """Change the database behind the store's back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(sql, args)


def damage(path: Path, seq: int, session: str = "s1") -> None:
    """Make one event of a session unreadable."""
    num = "(SELECT num FROM sessions WHERE id = ?)"
    tamper(path, f"UPDATE events SET line = X'00112233' WHERE seq = ? AND session = {num}", (seq, session))


async def put_over(source: Path, target: Path, session: str) -> None:
    """Bring a session into another store as it is, as somebody would who copies files."""
    async with AsyncExitStack() as stack:
        stores = [await SqliteStore.open(path, clock=Clock()) for path in (source, target)]
        for store in stores:
            stack.push_async_callback(store.close)
        old, new = stores
        records = (await old.read(session)).records
        blobs = {sha: await old.blob(sha) for record in records for sha in find_cited_blobs(record.event)}
        lease = await new.lease(session, owner())
        await new.append(lease, 0, records, blobs)
        await new.release(lease)


def copy_database(source: Path, target: Path) -> None:
    """Copy a database as it is now, while somebody writes it."""
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)


def peek(path: Path, sql: str, args: Sequence[Value] = ()) -> list[Row]:
    """Look into the database behind the store's back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return connection.execute(sql, args).fetchall()
