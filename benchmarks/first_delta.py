"""How long a person waits for the first word: a whole turn of a session beside plain HTTP and the official clients, on one server."""

import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio
import httpx

from benchmarks.conversations import CLIENTS, FACTS, INSTRUCTIONS, KEY, MODEL, PROVIDERS, length, longest
from benchmarks.frame import Bench, Figure, Row, figures
from benchmarks.histories import MESSAGES_A_TURN, NO_LIMIT, fill
from benchmarks.loopback import BASES, MARKS, serving
from benchmarks.peers import CLIENT_WORK, pinned
from holdfast.assemble import open_session
from holdfast.ports import EventStore, Trace
from holdfast.providers.http_model import HttpModel
from holdfast.providers.registry import load_format
from holdfast.runtime.clock import SystemClock
from holdfast.session import Session
from holdfast.stores.memory import MemoryStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.vocab.deltas import TextDelta

NO_SYNCS: Final = "in a memory store, no syncs"


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
    plain = {NO_SYNCS: _figure(waits.memory), "plain httpx": _figure(waits.plain)}
    yield Row(
        what=f"first delta at {messages:,} messages, {format}",
        figure=_figure(waits.sqlite),
        beside={**plain, **named},
    )
    over = {f"over {name}": _over(waits.sqlite, figure) for name, figure in named.items()}
    yield Row(
        what="... over plain httpx",
        figure=_less(waits.sqlite, waits.plain),
        beside={NO_SYNCS: _less(waits.memory, waits.plain), **over},
    )


@dataclass
class _Waits:
    """Milliseconds until the first piece of text, taken by turns, so that what the machine does meanwhile hits all."""

    sqlite: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)


async def _wait(folder: Path, format: str, messages: int, url: str, body: object, times: int) -> _Waits:
    waits = _Waits()
    disk = await SqliteStore.open(folder / f"{format}-{messages}.db", clock=SystemClock())
    memory = await MemoryStore.open(clock=SystemClock())
    async with AsyncExitStack() as stack:
        stack.push_async_callback(disk.close)
        stack.push_async_callback(memory.close)
        client = await stack.enter_async_context(httpx.AsyncClient(trust_env=False))
        for store in (disk, memory):
            await fill(store, "s1", messages // MESSAGES_A_TURN, folder)
        on_disk = await stack.enter_async_context(opened(disk, folder, format, url))
        in_memory = await stack.enter_async_context(opened(memory, folder, format, url))
        for number in range(times + 1):
            taken = (
                await _turn(on_disk),
                await _turn(in_memory),
                await _plain(client, url + _PATHS[format], body, MARKS[format]),
            )
            if number:  # the first one opens the connections
                for waited, one in zip((waits.sqlite, waits.memory, waits.plain), taken, strict=True):
                    waited.append(one)
    return waits


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
