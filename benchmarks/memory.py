"""What open sessions hold in memory."""

import resource
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import anyio

from benchmarks.frame import Aim, Bench, Figure, Row
from benchmarks.histories import MESSAGES_A_TURN, REPLIES_A_TURN, fill, look, script
from holdfast.assemble import open_session
from holdfast.runtime.clock import SystemClock
from holdfast.stores.sqlite import SqliteStore

KIB = 1024


def measure(bench: Bench) -> Iterator[Row]:
    """The slope over many idle sessions, and the peak of one long one."""
    few, many = bench.pick((500, 2_500), (2, 6))
    idle = anyio.run(_idle, bench.folder, few, many)
    yield Row(what=f"memory of an idle open session, of {many:,}", figure=idle, aim=Aim(most=50))
    messages = bench.pick(5_000, 40)
    peak = anyio.run(_peak, bench.folder, messages)
    yield Row(
        what=f"peak memory of a turn at {messages:,} messages",
        figure=peak,
        note="opened and run; what Python allocated",
    )


async def _idle(folder: Path, few: int, many: int) -> Figure:
    store = await SqliteStore.open(folder / "idle.db", clock=SystemClock(), synchronous="normal")
    async with AsyncExitStack() as stack:
        stack.push_async_callback(store.close)
        seen = {}
        for number in range(1, many + 1):
            await stack.enter_async_context(
                open_session(store=store, tools=[look], only_tools=True, model=script(1), cwd=folder, lease_ttl_s=600)
            )
            if number in (few, many):
                seen[number] = _resident()
    return Figure(((seen[many] - seen[few]) / (many - few) / KIB,), "KiB")


async def _peak(folder: Path, messages: int) -> Figure:
    before = messages // MESSAGES_A_TURN
    store = await SqliteStore.open(folder / "peak.db", clock=SystemClock(), synchronous="normal")
    await fill(store, "s1", before, folder)
    model = script(1, after=before * REPLIES_A_TURN)
    tracemalloc.start()
    async with open_session(
        resume="s1", store=store, tools=[look], only_tools=True, model=model, cwd=folder
    ) as session:
        await session.run("Go on.")
        _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    await store.close()
    return Figure((peak / KIB / KIB,), "MiB")


def _resident() -> int:
    """Bytes of memory in use now; where the system does not tell, the most that ever were."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * KIB
    return pages * resource.getpagesize()
