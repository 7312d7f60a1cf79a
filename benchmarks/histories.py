"""Sessions with a past, put into a store without living through it, and a model and a tool that cost nothing."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from backstay.ports import EventStore
from backstay.providers.scripted import ScriptedModel
from backstay.stores.owners import this_process
from backstay.testing.builders import conversation, started
from backstay.tools.define import tool
from backstay.vocab.event import Recorded
from backstay.vocab.events import ToolFinished
from backstay.vocab.messages import Text
from backstay.vocab.specs import SessionContext

EVENTS_A_TURN: Final = 12
"""Of a turn that calls one tool."""
MESSAGES_A_TURN: Final = 4
REPLIES_A_TURN: Final = 2
NO_LIMIT: Final = 1_000_000
"""Turns that a session of a benchmark may have."""
WORDS: Final = "the quick brown fox jumps over the lazy dog and thinks of what it has seen on the way home "
QUESTION: Final = WORDS * 2
ANSWER: Final = WORDS * 4
LOOKED: Final = WORDS * 8
"""What the tool gives back: about 750 characters, so a turn has about 1.4 KB of text."""


def past(session: str, turns: int, *, store: str = "", folder: Path | None = None) -> tuple[Recorded, ...]:
    """The log of a session with so many turns behind it, one call in each."""
    exchanges = ((f"{number} {QUESTION}", f"{number} {ANSWER}") for number in range(turns))
    records = conversation(*exchanges, session=session, tool="look")
    context = SessionContext(working_dir=str(folder or Path.cwd()))
    first = started(session, store=store, context=context, project=str(folder or ""))
    return (replace(records[0], event=first), *map(_with_content, records[1:]))


async def fill(store: EventStore, session: str, turns: int, folder: Path) -> tuple[Recorded, ...]:
    """Put such a log into a store; the session is free afterwards."""
    records = past(session, turns, store=store.identity, folder=folder)
    lease = await store.lease(session, this_process())
    for at in range(0, len(records), 4096):
        await store.append(lease, at, records[at : at + 4096])
    await store.release(lease)
    return records


@tool(effect="pure")
async def look(file_path: str) -> str:
    """Look at something."""
    return LOOKED


def script(turns: int, after: int = 0) -> ScriptedModel:
    """A model that calls the tool once in each of `turns` turns, for a session that has had `after` replies."""
    usage = {"input": 1000, "output": 100}
    turn: tuple[Mapping[str, object], ...] = (
        {"calls": [{"name": "look", "args": {"file_path": "a.txt"}}], "usage": usage, "chunk": 4096},
        {"text": ANSWER, "usage": usage, "chunk": 4096},
    )
    return ScriptedModel.of(turn * turns, -after)


def _with_content(record: Recorded) -> Recorded:
    if isinstance(record.event, ToolFinished):
        return replace(record, event=replace(record.event, content=(Text(text=LOOKED),)))
    return record
