"""What open sessions hold in memory."""

import gc
import resource
import sys
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AsyncExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import anyio

from backstay.session.assemble import open_session
from backstay.stores.sqlite.store import SqliteStore
from backstay.stores.trace import FileTrace
from backstay.system.machine import SystemClock
from benchmarks.conversations import CLIENTS, length, longest
from benchmarks.first_delta import opened
from benchmarks.frame import Aim, Bench, Figure, Row
from benchmarks.histories import MESSAGES_A_TURN, fill, look, script
from benchmarks.loopback import BASES, serving
from benchmarks.peers import CLIENT_WORK, Measured, pinned

KIB = 1024
FORMATS: Final = ("openai-chat", "anthropic")
SHORT: Final = "short.db"
"""Holds the session that everything is warmed up with."""
LONG: Final = "long.db"


def measure(bench: Bench) -> Iterator[Row]:
    """The slope over many idle sessions, and what one long one takes, its encoded history included."""
    few, many = bench.pick((500, 2_500), (2, 6))
    idle = anyio.run(_idle, bench.folder, few, many)
    yield Row(what=f"memory of an idle open session, of {many:,}", figure=idle, aim=Aim(most=50))
    with serving() as port:
        for format in FORMATS:
            yield from _long(bench, format, f"http://127.0.0.1:{port}{BASES[format]}")


def _long(bench: Bench, format: str, url: str) -> Iterator[Row]:
    messages = bench.pick(5_000, 40)
    path = bench.folder / f"{format}.json"
    longest(format, messages, 0, path)
    given = {"path": str(path), "format": format, "length": length(format, path.read_bytes())}
    ours: dict[str, list[float]] = {}
    theirs: dict[str, list[float]] = {}
    for traced in (False, True):
        folder = bench.folder / f"{format}-{traced}"
        folder.mkdir()
        anyio.run(_fill, folder / LONG, messages)
        anyio.run(_fill, folder / SHORT, 8)
        ours |= _apart(folder, format, url, traced)
        theirs |= bench.peers.measure("memory", work=CLIENT_WORK, traced=traced, **given)
    client = f"{pinned(CLIENTS[format])} client, list of dicts"
    for kind, what in (
        ("resident", f"resident memory of {messages:,} messages, {format}"),
        ("kept", "... what Python has allocated for it"),
        ("peak", "... the most while a turn asks"),
    ):
        beside = {client: _mib(theirs[kind])} if kind in theirs else {}
        yield Row(what=what, figure=_mib(ours[kind]), beside=beside, note=_NOTES.get(kind, ""))
    yield Row(what="... the most while it opens", figure=_mib(ours["opening"]), note="the log is read whole")


_NOTES: Final = {"resident": "ours: the nodes of the log, transcript, results and encoded history"}


def _mib(values: list[float]) -> Figure:
    return Figure(tuple(value / KIB / KIB for value in values), "MiB")


async def _fill(path: Path, messages: int) -> None:
    store = await _store(path)
    await fill(store, "s1", messages // MESSAGES_A_TURN, path.parent)
    await store.close()


async def _store(path: Path) -> SqliteStore:
    return await SqliteStore.open(path, clock=SystemClock(), synchronous="normal")


def _apart(folder: Path, format: str, url: str, traced: bool) -> Measured:
    """Measure in a process that has done nothing else."""
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        return pool.submit(anyio.run, _growth, folder, format, url, traced).result()


async def _growth(folder: Path, format: str, url: str, traced: bool) -> Measured:
    """What a long session adds once a short one has loaded all there is to load."""
    async with AsyncExitStack() as stack:
        await _asked(stack, folder / SHORT, format, url)
        gc.collect()
        before = resident()
        if traced:
            tracemalloc.start()
            stack.callback(tracemalloc.stop)
        opening = await _asked(stack, folder / LONG, format, url)
        gc.collect()
        if not traced:
            return {"resident": [float(resident() - before)]}
        kept, peak = tracemalloc.get_traced_memory()
    return {"kept": [float(kept)], "peak": [float(peak)], "opening": [float(opening)]}


async def _asked(stack: AsyncExitStack, path: Path, format: str, url: str) -> int:
    """Open a session and run a turn; it stays open. The most that was allocated while it opened."""
    store = await _store(path)
    stack.push_async_callback(store.close)
    trace = FileTrace(path.parent / "trace")
    stack.push_async_callback(trace.close)
    session = await stack.enter_async_context(opened(store, path.parent, format, url, trace))
    opening = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    await session.run("Go on.")
    await trace.flush()  # it works behind, and holds the request until it is done
    return opening


async def _idle(folder: Path, few: int, many: int) -> Figure:
    store = await _store(folder / "idle.db")
    async with AsyncExitStack() as stack:
        stack.push_async_callback(store.close)
        seen = {}
        for number in range(1, many + 1):
            await stack.enter_async_context(
                open_session(store=store, tools=[look], only_tools=True, model=script(1), cwd=folder, lease_ttl_s=600)
            )
            if number in (few, many):
                seen[number] = resident()
    return Figure(((seen[many] - seen[few]) / (many - few) / KIB,), "KiB")


def resident() -> int:
    """Bytes of memory in use now; where the system does not tell, the most that ever were."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * KIB
    return pages * resource.getpagesize()
