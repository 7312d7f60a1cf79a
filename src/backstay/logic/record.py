"""A session as one record, and its history as entries: for programs that want a document rather than a log.

The record is a projection. Nothing reads it back: it is no source of commands and keeps no preferences. An older record that has messages
but no history gets its history from them.
"""

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from backstay.logic.entries import Entry, entry_of
from backstay.logic.state import State
from backstay.vocab.event_memory import MemoryNoted
from backstay.vocab.messages import SessionMessage, iso
from backstay.vocab.specs import ToolSpec


class SessionRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Everything about a session in one place."""

    id: str
    cwd: str
    created_at: str
    updated_at: str
    messages: tuple[SessionMessage, ...]
    history: tuple[Entry, ...] = ()
    name: str = ""
    system_prompt: str = ""
    """As it was sent last: kept beside the messages to make diagnosis easy."""
    tool_schemas: tuple[ToolSpec, ...] = ()
    memory_events: tuple[MemoryNoted, ...] = ()
    """What became of memories in it."""
    used_memory_references: tuple[str, ...] = ()
    """The ids of the memories that were used, each once."""


def record_of(state: State, *, system_prompt: str = "", tool_schemas: tuple[ToolSpec, ...] = ()) -> SessionRecord:
    """The record of a session."""
    meta = state.meta
    return SessionRecord(
        id=meta.id,
        cwd=meta.cwd,
        created_at=iso(meta.created),
        updated_at=iso(meta.updated),
        messages=tuple(state.transcript.messages),
        history=state.transcript.entries(),
        name=meta.name,
        system_prompt=system_prompt,
        tool_schemas=tool_schemas,
        memory_events=tuple(state.transcript.memory),
        used_memory_references=used_memories(state.transcript.memory),
    )


def used_memories(noted: Iterable[MemoryNoted]) -> tuple[str, ...]:
    """The ids of the memories that were used, each once."""
    return tuple(dict.fromkeys(each.memory for each in noted if each.act == "used"))


def backfilled(record: SessionRecord) -> SessionRecord:
    """`record` with a history, made from its messages when it has none. Doing it twice changes nothing."""
    if record.history or not record.messages:
        return record
    return replace(record, history=tuple(map(entry_of, record.messages)))
