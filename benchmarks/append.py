"""The durable append: one commit of one event, against SQLite with nothing around it."""

import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import anyio

from backstay.ports import EventStore
from backstay.stores.owners import this_process
from backstay.stores.sqlite.connection import CHECKPOINT_PAGES
from backstay.stores.sqlite.schema import PAGE_SIZE
from backstay.stores.sqlite.store import SqliteStore
from backstay.system.machine import SystemClock
from backstay.testing.builders import recorded
from backstay.vocab.events import EntryAdded
from backstay.vocab.specs import Lease
from backstay.wire import codec
from benchmarks.frame import Aim, Bench, Figure, Row, figures

EVENT = EntryAdded(kind="note", content="x" * 880)
"""1 KB as a line of the log."""


def measure(bench: Bench) -> Iterator[Row]:
    """Single commits in interleaved rounds, then many sessions that share them."""
    rounds = anyio.run(_rounds, bench.folder, bench.pick(30, 2), bench.pick(20, 2))
    ours, bare = (Figure(tuple(map(float, rounds[name])), "ms") for name in ("sqlite", "bare"))
    ratio = Figure(tuple(one / other for one, other in zip(rounds["sqlite"], rounds["bare"], strict=True)), "x")
    session = figures(bench.peers.measure("append_item", folder=str(bench.folder), times=bench.pick(300, 2)))
    yield Row(what="durable append of 1 KB, SQLite store", figure=ours, beside={"bare SQLite commit": bare} | session)
    yield Row(what="durable append against a bare commit, by round", figure=ratio, aim=Aim(most=1.5))
    yield Row(what="... CPU of the event loop's thread", figure=Figure(tuple(rounds["loop"]), "ms"))
    for sessions in (8, 32):
        rates = anyio.run(_together, bench.folder, sessions, bench.pick(40, 2), bench.pick(5, 1))
        alone = Figure(tuple(1000 / value for value in ours.values), "events/s")
        what = f"group commit, {sessions} sessions at once"
        yield Row(what=what, figure=Figure(tuple(rates), "events/s"), beside={"one session": alone})


async def _rounds(folder: Path, rounds: int, size: int) -> dict[str, list[float]]:
    """The mean time of a commit in each round, of `size` commits each, in turn: the disk's mood is the same for all."""
    taken: dict[str, list[float]] = {"sqlite": [], "bare": [], "loop": []}
    store = await SqliteStore.open(folder / "append.db", clock=SystemClock())
    lease = await store.lease("s1", this_process())
    bare = _bare(folder / "bare.db")
    line = codec.encode(recorded(EVENT, 1000))
    for number in range(rounds + 1):
        loop = time.thread_time()
        taken["sqlite"].append(await _commits(store, lease, number * size, size))
        taken["loop"].append((time.thread_time() - loop) * 1000 / size)
        taken["bare"].append(_bare_commits(bare, line, number * size, size))
    bare.close()
    await store.close()
    return {name: values[1:] for name, values in taken.items()}


async def _commits(store: EventStore, lease: Lease, after: int, size: int) -> float:
    start = time.perf_counter()
    for seq in range(after, after + size):
        await store.append(lease, seq, (recorded(EVENT, seq + 1),))
    return (time.perf_counter() - start) * 1000 / size


def _bare(path: Path) -> sqlite3.Connection:
    """A database with the store's settings and one table."""
    bare = sqlite3.connect(path, isolation_level=None)
    bare.execute(f"PRAGMA page_size={PAGE_SIZE}")
    bare.execute("PRAGMA journal_mode=WAL")
    bare.execute("PRAGMA synchronous=FULL")
    bare.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
    bare.execute("CREATE TABLE events (row INTEGER PRIMARY KEY, session INTEGER, seq INTEGER, line BLOB)")
    return bare


def _bare_commits(bare: sqlite3.Connection, line: bytes, after: int, size: int) -> float:
    start = time.perf_counter()
    for seq in range(after, after + size):
        bare.execute("BEGIN IMMEDIATE")
        bare.execute("INSERT INTO events (session, seq, line) VALUES (1, ?, ?)", (seq, line))
        bare.execute("COMMIT")
    return (time.perf_counter() - start) * 1000 / size


async def _together(folder: Path, sessions: int, size: int, rounds: int) -> Sequence[float]:
    """Events a second over all sessions, each waiting for its own commits."""
    rates: list[float] = []
    store = await SqliteStore.open(folder / f"group-{sessions}.db", clock=SystemClock())
    leases = [await store.lease(f"s{number}", this_process()) for number in range(sessions)]
    for number in range(rounds):
        start = time.perf_counter()
        async with anyio.create_task_group() as tasks:
            for lease in leases:
                tasks.start_soon(_commits, store, lease, number * size, size)
        rates.append(sessions * size / (time.perf_counter() - start))
    await store.close()
    return rates
