"""Opening a long session: its log read and folded, or a fold snapshot and the rest."""

import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import anyio

from backstay.catalog import load as replay
from backstay.session.assemble import open_session
from backstay.stores.sqlite.store import SqliteStore
from backstay.system.machine import SystemClock
from benchmarks.frame import Aim, Bench, Figure, Row, clocked, figures
from benchmarks.histories import EVENTS_A_TURN, fill, look, script

WITHOUT = {10_000: Aim(most=50), 100_000: Aim(most=1500)}
WITH = {10_000: Aim(most=50), 100_000: Aim(most=300)}


def measure(bench: Bench) -> Iterator[Row]:
    """Logs of 10,000 and 100,000 events, whole and with a snapshot."""
    for events in (10_000, 100_000):
        turns = bench.pick(events, 2_040 + events // 100) // EVENTS_A_TURN
        peers = bench.peers.measure("read_back", folder=str(bench.folder), turns=turns, times=5)
        rows = anyio.run(_sizes, bench.folder, turns, bench.pick(7, 1))
        whole = f"open {events:,} events"
        beside = {"its CPU": rows["open CPU"], **figures(peers)}
        yield Row(what=f"{whole}, no snapshot", figure=rows["open"], aim=WITHOUT[events], beside=beside)
        yield Row(what="... of it: read and fold", figure=rows["load"])
        beside = {"its CPU": rows["snapshot open CPU"]}
        yield Row(what=f"{whole}, with a fold snapshot", figure=rows["snapshot open"], aim=WITH[events], beside=beside)
        yield Row(what="... of it: read and fold", figure=rows["snapshot load"])
        yield Row(what="... a snapshot taken at close", figure=rows["close"])


async def _sizes(folder: Path, turns: int, times: int) -> dict[str, Figure]:
    path = folder / f"open-{turns}.db"
    store = await SqliteStore.open(path, clock=SystemClock(), synchronous="normal")
    await fill(store, "s1", turns, folder)
    await store.close()
    work = _Work(path, times)
    found: dict[str, Figure] = {}
    found["open"], found["open CPU"] = await work.timed(work.open, fresh=True)
    found["load"], _ = await work.timed(work.load, fresh=True)
    await work.open(AsyncExitStack(), keep=True)
    found["snapshot open"], found["snapshot open CPU"] = await work.timed(work.open)
    found["snapshot load"], _ = await work.timed(work.load)
    found["close"] = Figure(tuple(work.closing), "ms")
    return found


class _Work:
    """What is timed, each time with a store that was opened just for it."""

    def __init__(self, path: Path, times: int) -> None:
        self._path = path
        self._times = times
        self.closing: list[float] = []
        """How long it took to close a session that had no snapshot."""

    async def timed(
        self, work: Callable[[AsyncExitStack], Awaitable[None]], *, fresh: bool = False
    ) -> tuple[Figure, Figure]:
        """How long it takes, and how much of that is CPU."""
        taken: list[float] = []
        busy: list[float] = []
        for _ in range(self._times):
            if fresh:
                self._forget_snapshot()
            replay.code_digest.cache_clear()  # a new process has to find out too
            async with AsyncExitStack() as stack:
                with clocked(taken, busy):
                    await work(stack)
        return Figure(tuple(taken), "ms"), Figure(tuple(busy), "ms")

    async def open(self, stack: AsyncExitStack, *, keep: bool = False) -> None:
        """Open it as a program does, ready for its next turn; `keep` runs one, so that a snapshot is taken."""
        session = open_session(
            resume="s1", store=f"sqlite://{self._path}", tools=[look], only_tools=True, model=script(0)
        )
        if not keep:
            await stack.enter_async_context(session)
            return
        opened = await session.__aenter__()
        await opened.inject("user", "One more thing.")
        with clocked(self.closing):
            await session.__aexit__(None, None, None)

    async def load(self, stack: AsyncExitStack) -> None:
        """Read and fold it."""
        store = await SqliteStore.open(self._path, clock=SystemClock())
        stack.push_async_callback(store.close)
        await replay.load(store, "s1")

    def _forget_snapshot(self) -> None:
        with sqlite3.connect(self._path) as connection:
            connection.execute("DELETE FROM snapshots")
        connection.close()
