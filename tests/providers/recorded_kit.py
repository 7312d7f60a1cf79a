"""Sessions to be recorded and run again."""

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any

import msgspec

from backstay import Session, open_session, open_store, tool
from backstay.logic.state.retries import Retries
from backstay.ports import EventStore, ModelReply, ModelRequest, Tool
from backstay.providers.recorded import RecordedModel
from backstay.providers.scripted import ScriptedModel
from backstay.session.subagents import child_tool
from backstay.system.machine import SystemClock
from backstay.vocab.deltas import Delta
from backstay.vocab.errors import TurnError
from backstay.vocab.event import Event, Recorded
from backstay.vocab.messages import Message, Text
from backstay.wire.codec import NAME_OF

QUICK = Retries(first_wait_s=0.001)
LONG = "a long story " * 4_000
ORIGINAL = "scripted:inline"


@tool(effect="pure")
async def look(n: int) -> str:
    """Look."""
    return f"saw {n}"


@tool
async def pay(n: int) -> str:
    """Pay."""
    return LONG if n > 100 else f"paid {n}"


TOOLS: tuple[Tool, ...] = (look, pay, child_tool())
Reply = Mapping[str, object]
SCRIPT: list[Reply] = [
    {
        "reasoning": "Hm.",
        "text": "I look.",
        "calls": [{"name": "look", "args": {"n": 1}}, {"name": "look", "args": {"n": 2}}],
        "usage": {"input": 120, "output": 30, "cache_read": 100},
    },
    {"calls": [{"name": "pay", "args": {"n": 200}}, {"name": "nothing"}], "usage": {"input": 150, "output": 10}},
    {"raw_args": {"name": "pay", "text": '{"n": '}, "usage": {"input": 180, "output": 12}},
    {"text": LONG, "chunk": 5_000, "usage": {"input": 200, "output": 9_000}},
    {"text": "Good bye.", "usage": {"input": 9_300, "output": 3}},
]


async def memory() -> EventStore:
    return await open_store("memory:", clock=SystemClock())


def opened(store: EventStore, model: str | ScriptedModel, **more: Any) -> AbstractAsyncContextManager[Session]:
    return open_session(
        **{"store": store, "model": model, "tools": TOOLS, "only_tools": True, "retries": QUICK, **more}
    )


async def recording(store: EventStore, replies: Sequence[Reply], *prompts: str, **more: Any) -> tuple[Recorded, ...]:
    """A session called `then` that was answered from a script."""
    async with opened(store, ScriptedModel.of(replies), session_id="then", name="the first", **more) as session:
        for prompt in prompts:
            with suppress(TurnError):
                await session.run(prompt)
    return (await store.read("then")).records


async def rerun(
    store: EventStore, *prompts: str, model: str = "recorded:then", as_name: str = "the first", **more: Any
) -> tuple[Recorded, ...]:
    async with opened(store, model, session_id="now", name=as_name, **more) as session:
        for prompt in prompts:
            with suppress(TurnError):
                await session.run(prompt)
    return (await store.read("now")).records


def plain(log: Sequence[Recorded]) -> list[str]:
    """The events without ids, times and the names of session and model."""
    names = {record.id.partition(".")[0] for record in log}
    lines: list[str] = []
    for record in log:
        content = msgspec.to_builtins(record.event)
        content.pop("until", None)
        line = json.dumps([NAME_OF[type(record.event)], record.by, record.cause, content])
        for each in names:
            line = line.replace(each, "NONCE")
        for each in ("recorded:then", ORIGINAL):
            line = line.replace(each, "MODEL")
        lines.append(line.replace('"now', '"ID').replace('"then', '"ID'))
    return lines


def of(log: Sequence[Recorded], *kinds: type[Event]) -> list[Any]:
    return [record.event for record in log if isinstance(record.event, kinds)]


def request(*said: str, position: int = 0, **more: Any) -> ModelRequest:
    messages = tuple(Message(role="user", parts=(Text(text=each),)) for each in said)
    return ModelRequest(**{"model": "recorded:x", "messages": messages, "position": position, **more})


async def no_blob(sha256: str) -> bytes:
    raise AssertionError(sha256)


async def items(model: RecordedModel, asked: ModelRequest) -> list[Delta | ModelReply]:
    return [item async for item in model.ask(asked)]


async def log(store: EventStore, session: str) -> tuple[Recorded, ...]:
    return (await store.read(session)).records
