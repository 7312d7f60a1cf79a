"""How long a person waits for the first word: a whole turn of a session beside plain HTTP and the official clients, on one server."""

import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
import httpx

from backstay.ports import EventStore, Trace
from backstay.providers.http.model import HttpModel
from backstay.providers.registry import load_format
from backstay.session.assemble import open_session
from backstay.session.session import Session
from backstay.stores.memory import MemoryStore
from backstay.stores.sqlite.store import SqliteStore
from backstay.stores.trace import FileTrace, NoTrace
from backstay.system.machine import SystemClock
from backstay.vocab.deltas import TextDelta
from benchmarks.conversations import CLIENTS, FACTS, INSTRUCTIONS, KEY, MODEL, PROVIDERS, length, longest
from benchmarks.frame import Bench, Figure, Row, figures
from benchmarks.histories import MESSAGES_A_TURN, NO_LIMIT, fill
from benchmarks.loopback import BASES, MARKS, serving
from benchmarks.peers import CLIENT_WORK, pinned

WHOLE: Final = "with its store on the disk and its trace"
NO_TRACE: Final = "without a trace"
NO_DISK: Final = "in a memory store, without a trace"
PLAIN: Final = "plain httpx"


def measure(bench: Bench) -> Iterator[Row]:
    """The wait at two lengths in three formats, and how much of it is ours."""
    with serving() as port:
        for messages in bench.pick((8, 600), (8,)):
            for format in CLIENTS:
                yield from _rows(bench, format, messages, f"http://127.0.0.1:{port}{BASES[format]}")


def _rows(bench: Bench, format: str, messages: int, url: str) -> Iterator[Row]:
    times = bench.pick(40, 2)
    path = bench.folder / f"{format}-{messages}.json"
    longest(format, messages, 0, path)
    body = json.loads(path.read_text(encoding="utf-8"))
    waits = anyio.run(_wait, bench.folder, format, messages, url, body, times)
    given = {"path": str(path), "format": format, "url": url, "length": length(format, path.read_bytes())}
    client = bench.peers.measure("first_delta", work=CLIENT_WORK, times=times, **given).get("wall", [])
    named = figures({f"{pinned(CLIENTS[format])} client": client} if client else {})
    yield Row(
        what=f"first delta at {messages:,} messages, {format}",
        figure=_figure(waits[WHOLE]),
        beside={**{name: _figure(waits[name]) for name in (NO_TRACE, NO_DISK, PLAIN)}, **named},
    )
    over = {f"over {name}": _over(waits[WHOLE], figure) for name, figure in named.items()}
    yield Row(
        what="... over plain httpx",
        figure=_less(waits[WHOLE], waits[PLAIN]),
        beside={**{name: _less(waits[name], waits[PLAIN]) for name in (NO_TRACE, NO_DISK)}, **over},
    )


async def _wait(folder: Path, format: str, messages: int, url: str, body: object, times: int) -> dict[str, list[float]]:
    """Milliseconds until the first piece of text, taken by turns, so that what the machine does meanwhile hits all."""
    waits: dict[str, list[float]] = {WHOLE: [], NO_TRACE: [], NO_DISK: [], PLAIN: []}
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(httpx.AsyncClient(trust_env=False))
        trace = FileTrace(folder / f"{format}-{messages}-trace")
        stack.push_async_callback(trace.close)
        sessions = {
            WHOLE: await _session(stack, folder, format, messages, url, trace),
            NO_TRACE: await _session(stack, folder, format, messages, url, NoTrace()),
            NO_DISK: await _session(stack, folder, format, messages, url, None),
        }
        for number in range(times + 1):
            taken = {PLAIN: await _plain(client, url + _PATHS[format], body, MARKS[format])}
            for name, session in sessions.items():
                taken[name] = await _turn(session)
                await trace.flush()  # what it still has to do is not to slow the next one down
            if number:  # the first one opens the connections
                for name, one in taken.items():
                    waits[name].append(one)
    return waits


async def _session(
    stack: AsyncExitStack, folder: Path, format: str, messages: int, url: str, trace: Trace | None
) -> Session:
    """A session with a past; without a trace it is not on the disk either."""
    path = folder / f"{format}-{messages}-{type(trace).__name__}.db"
    clock = SystemClock()
    store: EventStore = await (MemoryStore.open(clock=clock) if trace is None else SqliteStore.open(path, clock=clock))
    stack.push_async_callback(store.close)
    await fill(store, "s1", messages // MESSAGES_A_TURN, folder)
    return await stack.enter_async_context(opened(store, folder, format, url, trace))


@asynccontextmanager
async def opened(
    store: EventStore, folder: Path, format: str, url: str, trace: Trace | None = None
) -> AsyncIterator[Session]:
    """Open the session of a store again, with a model that is at `url`."""
    model = HttpModel(
        f"{PROVIDERS[format]}:{MODEL}", format=load_format(format), base_url=url, key=KEY, facts=FACTS, model=MODEL
    )
    async with open_session(
        resume="s1",
        store=store,
        model=model,
        cwd=folder,
        system_prompt=INSTRUCTIONS,
        max_session_turns=NO_LIMIT,
        trace=trace,
    ) as session:
        yield session
    await model.aclose()


async def _turn(session: Session) -> float:
    start, first = time.perf_counter(), 0.0
    async for item in session.send("What do you see?"):
        if not first and isinstance(item, TextDelta):
            first = time.perf_counter()
    return (first - start) * 1000


async def _plain(client: httpx.AsyncClient, url: str, body: object, mark: str) -> float:
    start, first = time.perf_counter(), 0.0
    async with client.stream("POST", url, json=body) as response:
        async for line in response.aiter_lines():
            if not first and mark in line:
                first = time.perf_counter()
    return (first - start) * 1000


_PATHS: Final = {"anthropic": "/v1/messages", "openai-responses": "/responses", "openai-chat": "/chat/completions"}


def _figure(values: list[float]) -> Figure:
    return Figure(tuple(values), "ms")


def _less(values: list[float], others: list[float]) -> Figure:
    return Figure(tuple(one - other for one, other in zip(values, others, strict=True)), "ms")


def _over(values: list[float], other: Figure) -> Figure:
    return Figure((_figure(values).median - other.median,), "ms")
