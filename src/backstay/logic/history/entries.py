"""Entries of the full history: what one is, how it becomes a message and comes from one, and which of them a model may be sent."""

from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeGuard

import msgspec

from backstay.logic.state.content import LONG
from backstay.vocab.errors import UserError
from backstay.vocab.events import EntryAdded
from backstay.vocab.messages import SessionMessage

SKILL_INVOCATION: Final = "skill-invocation"
SkillMode = Literal["inject", "fork"]
"""Whether a skill's words enter the conversation, or a session of their own."""
SkillStatus = Literal["started", "completed", "failed"]
InvokedBy = Literal["user", "model"]


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry of the full history."""

    id: str
    timestamp: str
    category: Literal["chat", "event"]
    type: str
    """The role of a message, or the kind of event."""
    data: SessionMessage | dict[str, object]
    display: str = ""
    """What to show instead of the message, when they differ."""


def entry_of(message: SessionMessage) -> Entry:
    """A message as an entry of the history."""
    return Entry(id=message.id, timestamp=message.timestamp, category="chat", type=message.role, data=message)


def message_of(entry: Entry) -> SessionMessage | None:
    """The message of a chat entry; None for an event."""
    return entry.data if is_chat(entry) and isinstance(entry.data, SessionMessage) else None


def is_chat(entry: Entry) -> bool:
    """Whether an entry is a message."""
    return entry.category == "chat"


def is_entry(value: object) -> TypeGuard[Entry]:
    """Whether `value` is an entry whose category and content go together."""
    if not isinstance(value, Entry) or not value.id or not value.type:
        return False
    return isinstance(value.data, SessionMessage if value.category == "chat" else dict)


def read_entry(value: object) -> Entry:
    """The entry that a JSON-like object describes. Raise `UserError` when it describes none."""
    try:
        plain = msgspec.convert(value, _Plain)
        data = msgspec.convert(plain.data, SessionMessage) if plain.category == "chat" else plain.data
    except msgspec.ValidationError as exc:
        raise UserError(f"This is not an entry of a history: {exc}.") from exc
    return Entry(**{**{name: getattr(plain, name) for name in _Plain.__struct_fields__}, "data": data})


def messages_for_api(entries: Iterable[Entry]) -> tuple[SessionMessage, ...]:
    """The messages among `entries`, in order: those that were cleared or summed up too. What a model is sent is `session.history`."""
    return tuple(message for entry in entries if (message := message_of(entry)) is not None)


def entry_added(kind: str, content: Mapping[str, object]) -> EntryAdded:
    """The event that adds an entry. Raise `UserError` when it cannot be one: it has no kind, is no JSON, or is too long."""
    if not kind:
        raise UserError("An entry needs a kind, such as 'note'.")
    try:
        text = msgspec.json.encode(content).decode()
    except (TypeError, UnicodeEncodeError, RecursionError) as exc:
        raise UserError(f"The entry {kind!r} cannot be written as JSON: {exc}.") from exc
    if len(text) > LONG:
        raise UserError(f"The entry {kind!r} has {len(text)} characters, and {LONG} may be. Put the rest in a file.")
    return EntryAdded(kind=kind, content=text)


def skill_entry(
    name: str,
    display: str,
    *,
    mode: SkillMode = "inject",
    by: InvokedBy = "user",
    status: SkillStatus = "started",
) -> EntryAdded:
    """The event that notes the use of a skill: which, and what was typed or is shown for it."""
    said = {"skill": name, "displayInput": display[:2_000], "mode": mode, "by": by, "status": status}
    return entry_added(SKILL_INVOCATION, said)


class _Plain(msgspec.Struct, kw_only=True):
    id: str
    timestamp: str
    category: Literal["chat", "event"]
    type: str
    data: dict[str, object]
    display: str = ""
