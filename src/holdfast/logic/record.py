"""A session as one record, and its history as entries: for programs that want a document rather than a log.

The record is a projection. Nothing reads it back: it is no source of commands and keeps no preferences. An older record that has messages
but no history gets its history from them.
"""

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from holdfast.logic.state import State
from holdfast.logic.transcript import Entry
from holdfast.vocab.messages import SessionMessage, iso
from holdfast.vocab.specs import ToolSpec


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
    )


def backfilled(record: SessionRecord) -> SessionRecord:
    """`record` with a history, made from its messages when it has none. Doing it twice changes nothing."""
    if record.history or not record.messages:
        return record
    return replace(record, history=tuple(map(entry_of, record.messages)))


def entry_of(message: SessionMessage) -> Entry:
    """A message as an entry of the history."""
    return Entry(id=message.id, timestamp=message.timestamp, category="chat", type=message.role, data=message)


def message_of(entry: Entry) -> SessionMessage | None:
    """The message of a chat entry; None for an event."""
    return entry.data if is_chat(entry) and isinstance(entry.data, SessionMessage) else None


def is_chat(entry: Entry) -> bool:
    """Whether an entry is a message."""
    return entry.category == "chat"


def messages_for_api(entries: Iterable[Entry]) -> tuple[SessionMessage, ...]:
    """The messages among `entries`, in order: what a model may be sent."""
    return tuple(message for entry in entries if (message := message_of(entry)) is not None)
