"""Deltas through the bus and the trace, while one listener keeps up and another has gone to sleep."""

import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import anyio.lowlevel

from backstay.ports import ModelReply, ModelRequest
from backstay.session.assemble import open_session
from backstay.vocab.deltas import Delta, TextDelta
from backstay.vocab.messages import Text
from backstay.vocab.specs import ModelFacts, Usage
from benchmarks.frame import Aim, Bench, Figure, Row

BURST = 32
"""Deltas that arrive together, as they do from a socket."""


def measure(bench: Bench) -> Iterator[Row]:
    """Deltas a second from a model's stream to a listener and the trace file."""
    rates, busy, kept_up = anyio.run(_rates, bench.folder, bench.pick(200_000, 500), bench.pick(5, 1))
    yield Row(what="deltas through model call, bus and trace", figure=Figure(rates, "/s"), aim=Aim(least=100_000))
    yield Row(what="... for each second of CPU", figure=Figure(busy, "/s"), note="the same on a busy machine")
    yield Row(what="deltas seen by the listener that keeps up", figure=Figure(kept_up, "%"), aim=Aim(least=100))


class _Chatter:
    """A model that only streams."""

    name = "chatter"
    format = "anthropic"
    facts = ModelFacts()

    def __init__(self, deltas: int) -> None:
        self._deltas = deltas

    async def ask(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        """Say `word ` many times."""
        for number in range(self._deltas):
            if number % BURST == 0:
                await anyio.lowlevel.checkpoint()
            yield TextDelta(text="word ")
        yield ModelReply(parts=(Text(text="word"),), usage=Usage(input=1, output=1))


async def _rates(folder: Path, deltas: int, times: int) -> tuple[tuple[float, ...], ...]:
    rates, busy, seen = [], [], []
    for number in range(times):
        store = f"sqlite://{folder}/stream-{number}.db"
        async with open_session(store=store, only_tools=True, model=_Chatter(deltas), cwd=folder) as session:
            session.subscribe()  # never read: it must not slow anybody down
            count, start, cpu = 0, time.perf_counter(), time.process_time()
            async for item in session.send("Talk."):
                count += isinstance(item, TextDelta)
            rates.append(deltas / (time.perf_counter() - start))
            busy.append(deltas / (time.process_time() - cpu))
            seen.append(100 * count / deltas)
    return tuple(rates), tuple(busy), tuple(seen)
