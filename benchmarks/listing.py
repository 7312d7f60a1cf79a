"""The list that every start of a terminal shows."""

import time
from collections.abc import Iterator
from pathlib import Path

import anyio

from backstay.ports import SessionQuery
from backstay.stores.owners import this_process
from backstay.stores.sqlite.store import SqliteStore
from backstay.system.machine import SystemClock
from benchmarks.frame import Aim, Bench, Figure, Row, figures
from benchmarks.histories import past


def measure(bench: Bench) -> Iterator[Row]:
    """The newest 50 of 10,000 sessions, from an open store and from a closed one."""
    sessions = bench.pick(10_000, 60)
    listed, opened = anyio.run(_listed, bench.folder, sessions, bench.pick(50, 2))
    yield Row(what="list the newest 50 of 10,000 sessions", figure=listed, aim=Aim(most=5))
    peers = bench.peers.measure("list_threads", folder=str(bench.folder), threads=bench.pick(1_000, 10), times=10)
    yield Row(what="... opening the store first", figure=opened, beside=figures(peers))


async def _listed(folder: Path, sessions: int, times: int) -> tuple[Figure, Figure]:
    path = folder / "list.db"
    await _fill(path, sessions, folder)
    listed, opened = [], []
    store = await SqliteStore.open(path, clock=SystemClock())
    for _ in range(times):
        listed.append(await _timed(store))
    await store.close()
    for _ in range(times):
        start = time.perf_counter()
        store = await SqliteStore.open(path, clock=SystemClock())
        await _timed(store)
        opened.append((time.perf_counter() - start) * 1000)
        await store.close()
    return Figure(tuple(listed), "ms"), Figure(tuple(opened), "ms")


async def _timed(store: SqliteStore) -> float:
    start = time.perf_counter()
    found = await store.list(SessionQuery(limit=50))
    assert len(found) == 50
    return (time.perf_counter() - start) * 1000


async def _fill(path: Path, sessions: int, folder: Path) -> None:
    """Sessions of one turn each, many to a commit."""
    store = await SqliteStore.open(path, clock=SystemClock(), synchronous="normal")

    async def put(numbers: range) -> None:
        for number in numbers:
            records = past(f"s{number}", 1, store=store.identity, folder=folder)
            lease = await store.lease(f"s{number}", this_process())
            await store.append(lease, 0, records)
            await store.release(lease)

    async with anyio.create_task_group() as tasks:
        for lane in range(32):
            tasks.start_soon(put, range(lane, sessions, 32))
    await store.close()
