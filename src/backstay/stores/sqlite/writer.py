"""The writer thread of the SQLite store: jobs, one transaction for all that wait, and the handling of a failed COMMIT.

`WriterConnection` is the only connection that writes. `ThreadWriter` gives it a thread and commits whatever waits together;
`InlineWriter` runs it in place, without threads, so that a simulation is deterministic.
"""

import asyncio
import contextlib
import functools
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread
from msgspec import Struct, field

from backstay.stores.sqlite.connection import BUSY_S, Db, DbError, Readers, explain, patiently
from backstay.vocab.errors import BackstayError, Bug, StoreUnavailable

T = TypeVar("T")

BATCH: Final = 256
"""Jobs that share one commit at most."""
IDLE_S: Final = 0.25
"""Quiet time after which the writer tidies up."""
TIDY_TRIES: Final = 8
"""How often it tries again while a reader is in the way of emptying the write-ahead log."""
RETIRE_S: Final = 2.0
"""Quiet time after which the thread ends, so that a program that forgot `close` can exit; a job starts another."""


def _never(_db: Db, _result: object) -> bool:
    return False


class WriteJob(Struct, Generic[T], eq=False):
    """One write. `apply` runs inside a transaction and may run again after a rollback."""

    apply: Callable[[Db], T]
    has_landed: Callable[[Db, T], bool] = _never
    """After a COMMIT whose outcome is unknown: whether the result of `apply` is in the database all the same."""
    doubt: Callable[[], None] = lambda: None
    """Called when that could not be found out."""
    error: BackstayError | None = None
    results: list[T] = field(default_factory=list)
    wake: Callable[[], object] = lambda: None

    def answer(self) -> T:
        """Return the result, once it is durable; raises what went wrong."""
        if self.error is not None:
            raise self.error
        return self.results[0]

    def run(self, db: Db) -> None:
        """Do it, keeping the result for when it is durable. An unexpected error is this job's own, and ends no thread."""
        try:
            self.results[:] = [self.apply(db)]
        except (BackstayError, DbError):
            raise
        except Exception as exc:
            raise Bug(f"A write to the store failed: {type(exc).__name__}: {exc}. Please report it.") from exc


AnyJob = WriteJob[Any]  # Any: a batch mixes jobs of every result


class Writer(Protocol):
    """The thread that does the work of the store, so that the event loop is not blocked."""

    async def write(self, job: WriteJob[T], *, later: bool = False) -> T:
        """Do a job and return when it is durable. Once accepted it is not cancelled, so its outcome is always known.

        A job for `later` lets every other one go first.
        """

    async def read(self, query: Callable[[Db], T]) -> T:
        """Call `query` with a connection that it must only read from."""

    async def aside(self, work: Callable[[], T]) -> T:
        """Do work on files."""

    async def close(self) -> None:
        """Finish what was accepted and close the files."""


class WriterConnection:
    """The connection that writes."""

    def __init__(self, connect: Callable[[], Db], path: str) -> None:
        self._connect = connect
        self._path = path
        self._db: Db | None = None

    def write(self, jobs: Sequence[AnyJob]) -> None:
        """Do `jobs` in one transaction and leave each with its result or its error.

        A job that the store's rules refuse takes back only its own changes. One that the database refuses is left out,
        and the others are done again.
        """
        waiting, done = list(jobs), False
        try:
            while waiting:
                waiting = self._attempt(waiting)
            done = True
        finally:
            if not done:
                self._drop()

    def read(self, query: Callable[[Db], T]) -> T:
        """Call `query` with the connection."""
        return patiently(lambda: query(self._open()))

    def checkpoint(self) -> bool:
        """Move the write-ahead log into the database and empty it; return whether no reader was in the way."""
        try:
            db = self._open()
            db.execute("PRAGMA busy_timeout=0")
            try:
                [(blocked, *_)] = db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            finally:
                db.execute(f"PRAGMA busy_timeout={BUSY_S * 1000:.0f}")
        except DbError:
            self._drop()  # a later one does it; what is in the write-ahead log is durable
            return False
        return not blocked

    def close(self) -> None:
        """Close the file."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def _open(self) -> Db:
        if self._db is None:
            self._db = patiently(self._connect)
        return self._db

    def _begin(self) -> Db:
        db = self._open()
        patiently(db.begin)
        return db

    def _attempt(self, jobs: list[AnyJob]) -> list[AnyJob]:
        """Try `jobs` in one transaction; return those to try again without the one that broke it."""
        try:
            db = self._begin()
        except DbError as exc:
            self._drop()
            _fail(jobs, explain(exc, self._path))
            return []
        except BackstayError as exc:
            _fail(jobs, exc)
            return []
        for job in jobs:
            try:
                _run(db, job, alone=len(jobs) == 1)
            except DbError as exc:
                job.error = explain(exc, self._path)
                self._drop()
                return [other for other in jobs if other.error is None]
        self._commit(db, [job for job in jobs if job.error is None])
        return []

    def _commit(self, db: Db, jobs: Sequence[AnyJob]) -> None:
        try:
            if jobs:
                db.commit()
            else:
                db.rollback()
        except DbError as exc:
            self._resolve_commit(jobs, exc)

    def _resolve_commit(self, jobs: Sequence[AnyJob], failure: DbError) -> None:
        """Find out what became of a COMMIT that failed: it may have reached the disk or not.

        The look is followed by a commit of its own. It overwrites frames that were written but never synced, which the
        recovery after a crash would otherwise bring back; so "not there" stays true. A full disk never holds the last
        frame of a commit, and could not take another.
        """
        self._drop()
        try:
            db = self._begin()
            there = [job for job in jobs if job.has_landed(db, job.results[0])]
            if not failure.full:
                db.execute("UPDATE store SET value = value + 1 WHERE key = 'settled'")
            db.commit()
        except DbError as exc:
            self._drop()
            for job in jobs:
                job.doubt()
            what = f"A write to {self._path!r} failed and could not be looked up ({failure}; then {exc})"
            return _fail(
                jobs, StoreUnavailable(f"{what}: it is not known whether it happened. Try the same append again.")
            )
        _fail([job for job in jobs if job not in there], explain(failure, self._path))

    def _drop(self) -> None:
        """Give up the transaction and the connection: after an error neither can be trusted."""
        db, self._db = self._db, None
        if db is None:
            return
        with contextlib.suppress(DbError):  # closing it rolls back too
            db.rollback()
        db.close()


class InlineWriter:
    """Does everything in place, one thing at a time."""

    def __init__(self, connection: WriterConnection, path: str) -> None:
        self._connection = connection
        self._path = path

    async def write(self, job: WriteJob[T], *, later: bool = False) -> T:
        """Do a job and return when it is durable."""
        await anyio.lowlevel.checkpoint()
        self._connection.write([job])
        return job.answer()

    async def read(self, query: Callable[[Db], T]) -> T:
        """Call `query` with the only connection."""
        await anyio.lowlevel.checkpoint()
        try:
            return self._connection.read(query)
        except DbError as exc:
            raise explain(exc, self._path) from exc

    async def aside(self, work: Callable[[], T]) -> T:
        """Do work on files."""
        await anyio.lowlevel.checkpoint()
        return work()

    async def close(self) -> None:
        """Close the files."""
        self._connection.close()


class ThreadWriter:
    """Writes in a thread of its own, everything that waits in one commit; reads in worker threads."""

    def __init__(
        self, connection: WriterConnection | None, readers: Readers, path: str, tidy: Callable[[Db], bool]
    ) -> None:
        self._connection = connection
        self._readers = readers
        self._path = path
        self._tidy = tidy
        """Does one piece of upkeep and says whether there is more."""
        self._ready = threading.Condition()
        self._waiting: deque[AnyJob] = deque()
        self._later: deque[AnyJob] = deque()
        self._thread: threading.Thread | None = None
        self._closed = False

    async def write(self, job: WriteJob[T], *, later: bool = False) -> T:
        """Do a job and return when it is durable."""
        done = anyio.Event()
        job.wake = functools.partial(asyncio.get_running_loop().call_soon_threadsafe, done.set)
        with self._ready:
            if self._closed or self._connection is None:
                raise StoreUnavailable(f"The store {self._path!r} is closed. Open it again.")
            (self._later if later else self._waiting).append(job)
            self._ready.notify()
            self._start_thread()
        with anyio.CancelScope(shield=True):
            await done.wait()
        return job.answer()

    async def read(self, query: Callable[[Db], T]) -> T:
        """Call `query` with a connection that is used by no other thread meanwhile."""
        try:
            return await anyio.to_thread.run_sync(self._readers.use, query)
        except DbError as exc:
            raise explain(exc, self._path) from exc

    async def aside(self, work: Callable[[], T]) -> T:
        """Do work on files."""
        return await anyio.to_thread.run_sync(work)

    async def close(self) -> None:
        """Finish what was accepted and close the files."""
        with self._ready:
            self._closed = True
            self._ready.notify()
            thread = self._thread
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._close_all, thread)

    def _close_all(self, thread: threading.Thread | None) -> None:
        if thread is not None:
            thread.join()
        self._readers.close()
        if self._connection is not None:
            self._connection.close()  # last: the last connection empties the write-ahead log

    def _start_thread(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="backstay-sqlite-writer")
            self._thread.start()

    def _work(self) -> None:
        batch: list[AnyJob] = []
        try:
            tries = 0
            while True:
                batch = self._take(IDLE_S if tries else RETIRE_S)
                if batch:
                    self._write(batch)
                    tries = TIDY_TRIES
                elif tries and not self._closed:
                    tries = 0 if self._tidy_up() else tries - 1
                elif self._retire():
                    return
        finally:
            self._fail_waiting(batch)

    def _take(self, timeout: float) -> list[AnyJob]:
        with self._ready:
            if not (self._waiting or self._later or self._closed):
                self._ready.wait(timeout)
            if self._waiting:
                return [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
            return [self._later.popleft()] if self._later else []

    def _write(self, batch: list[AnyJob]) -> None:
        assert self._connection is not None  # write() refuses jobs without one
        self._connection.write(batch)
        while batch:
            _wake(batch.pop(0))

    def _tidy_up(self) -> bool:
        """Do what upkeep there is; return whether all of it is done."""
        assert self._connection is not None  # as in _write
        more = True
        while more and not (self._waiting or self._later or self._closed):
            job = WriteJob(self._tidy)
            self._connection.write([job])
            more = job.error is None and job.answer()
        return not (self._waiting or self._later) and self._connection.checkpoint()

    def _retire(self) -> bool:
        with self._ready:
            if self._waiting or self._later:
                return False
            self._thread = None
            return True

    def _fail_waiting(self, batch: list[AnyJob]) -> None:
        """Fail the jobs that wait for this thread, when it ends by an unexpected error."""
        with self._ready:
            if self._thread is not threading.current_thread():
                return
            self._thread = None
            batch += [*self._waiting, *self._later]
            self._waiting.clear()
            self._later.clear()
        _fail(batch, Bug(f"The writer of {self._path!r} stopped by an error that is printed above. Please report it."))
        for job in batch:
            _wake(job)


def _run(db: Db, job: AnyJob, *, alone: bool) -> None:
    """Run one job; when it is refused, take back its own changes only."""
    if not alone:
        db.execute("SAVEPOINT job")
    try:
        job.run(db)
    except BackstayError as exc:
        job.error = exc
        if not alone:
            db.execute("ROLLBACK TO job")
    if not alone:
        db.execute("RELEASE job")


def _fail(jobs: Sequence[AnyJob], error: BackstayError) -> None:
    for job in jobs:
        job.error = job.error or error


def _wake(job: AnyJob) -> None:
    with contextlib.suppress(RuntimeError):  # the event loop is closed: no task waits any more
        job.wake()
