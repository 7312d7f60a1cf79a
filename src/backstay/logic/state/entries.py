"""The entries of the full history of a path: its messages, and between them the events that a person may want to look at.

`EntryFold` makes them of the nodes of a path on request; they are never stored. A start, an end and a summary of a call belong
together by the id of the call, never by the name of its tool.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from typing import Final, Literal, TypeGuard

import msgspec

from backstay.logic.budget import add
from backstay.logic.state.file_diffs import (
    KnownFiles,
    arguments,
    diff_fields,
    file_diffs,
    first_argument,
    result_content,
)
from backstay.logic.stored_content import LONG
from backstay.vocab import events
from backstay.vocab.errors import UserError
from backstay.vocab.event import Recorded, ToolOutcome, TurnOutcome
from backstay.vocab.messages import MediaRef, SessionMessage, Text, TextRef, ToolCall, iso, text_of
from backstay.vocab.specs import Usage

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
    """Return a message as an entry of the history."""
    return Entry(id=message.id, timestamp=message.timestamp, category="chat", type=message.role, data=message)


def message_of(entry: Entry) -> SessionMessage | None:
    """Return the message of a chat entry; None for an event."""
    return entry.data if is_chat(entry) and isinstance(entry.data, SessionMessage) else None


def is_chat(entry: Entry) -> bool:
    """Return whether an entry is a message."""
    return entry.category == "chat"


def is_entry(value: object) -> TypeGuard[Entry]:
    """Return whether `value` is an entry whose category and content go together."""
    if not isinstance(value, Entry) or not value.id or not value.type:
        return False
    return isinstance(value.data, SessionMessage if value.category == "chat" else dict)


def read_entry(value: object) -> Entry:
    """Return the entry that a JSON-like object describes. Raise `UserError` when it describes none."""
    try:
        plain = msgspec.convert(value, _Plain)
        data = msgspec.convert(plain.data, SessionMessage) if plain.category == "chat" else plain.data
    except msgspec.ValidationError as exc:
        raise UserError(f"This is not an entry of a history: {exc}.") from exc
    return Entry(**{**{name: getattr(plain, name) for name in _Plain.__struct_fields__}, "data": data})


def messages_for_api(entries: Iterable[Entry]) -> tuple[SessionMessage, ...]:
    """Return the messages among `entries`, in order, cleared and summarised ones too. `session.history` is what a model is sent."""
    return tuple(message for entry in entries if (message := message_of(entry)) is not None)


def entry_added(kind: str, content: Mapping[str, object]) -> events.EntryAdded:
    """Return the event that adds an entry. Raise `UserError` when it cannot be one: it has no kind, is no JSON, or is too long."""
    if not kind:
        raise UserError("An entry needs a kind, such as 'note'.")
    try:
        text = msgspec.json.encode(content).decode()
    except (TypeError, UnicodeEncodeError, RecursionError) as exc:
        raise UserError(f"The entry {kind!r} cannot be written as JSON: {exc}.") from exc
    if len(text) > LONG:
        raise UserError(f"The entry {kind!r} has {len(text)} characters, and {LONG} may be. Put the rest in a file.")
    return events.EntryAdded(kind=kind, content=text)


def skill_entry(
    name: str,
    display: str,
    *,
    mode: SkillMode = "inject",
    by: InvokedBy = "user",
    status: SkillStatus = "started",
) -> events.EntryAdded:
    """Return the event that notes the use of a skill: which, and what was typed or is shown for it."""
    return entry_added(SKILL_INVOCATION, _skill_fields(name, display, mode=mode, by=by, status=status))


def _skill_fields(name: str, display: str, *, mode: SkillMode, by: InvokedBy, status: SkillStatus) -> dict[str, object]:
    return {"skill": name, "displayInput": display[:2_000], "mode": mode, "by": by, "status": status}


class _Plain(msgspec.Struct, kw_only=True):
    id: str
    timestamp: str
    category: Literal["chat", "event"]
    type: str
    data: dict[str, object]
    display: str = ""


# --- entries of a path -----------------------------------------------------------------------------------------------------------


Content = tuple[Text | TextRef | MediaRef, ...]


class Beside(msgspec.Struct, kw_only=True):
    """What the history needs besides the nodes of its path: found in events that are no nodes. Of every path, by call and by input."""

    starts: list[Recorded] = []
    """The starts of calls, in order."""
    args: dict[str, str] = {}
    """The arguments of calls that a hook or a person changed."""
    displays: dict[str, str] = {}
    """What is shown instead of an input."""
    kept: dict[str, str] = {}
    """Calls that were about to change a file first in their turn, and the blob with what it held; empty when there was no file."""


class EntryFold:
    """Makes entries of the nodes of one path, oldest first."""

    def __init__(self, beside: Beside, before: Mapping[str, str]) -> None:
        self._beside = beside
        self._starts = iter(beside.starts)
        self._next = next(self._starts, None)
        self._calls: dict[str, ToolCall] = {}
        self._files = KnownFiles(before)
        self._used: list[Usage | None] = []
        self._over: list[dict[str, object]] = []

    def entries(self, path: Iterable[Recorded], messages: Mapping[str, SessionMessage]) -> Iterator[Entry]:
        """Yield the entries of `path`; `messages` are those of its nodes, by the node's id."""
        for record in path:
            yield from self._take_starts(record.seq)
            if (message := messages.get(record.id)) is not None:
                yield self._chat(record, message)
            yield from self._events(record)
        yield from self._take_starts(None)

    def _take_starts(self, seq: int | None) -> Iterator[Entry]:
        """Yield the starts up to a place in the log, of calls that the path has; those of other paths are passed over."""
        while self._next is not None and (seq is None or self._next.seq < seq):
            record, self._next = self._next, next(self._starts, None)
            event = record.event
            if (
                isinstance(event, events.ToolStarted | events.ChildStarted)
                and (call := self._calls.get(event.call)) is not None
            ):
                said: dict[str, object] = {"call": call.id, "tool": call.name, "args": call.args}
                if isinstance(event, events.ChildStarted):
                    said["child"] = event.child
                elif event.again:
                    said["again"] = True
                yield _note(record, "tool-start", said)

    def _chat(self, record: Recorded, message: SessionMessage) -> Entry:
        entry = entry_of(message)
        if isinstance(record.event, events.InputTaken):
            shown = [self._beside.displays.get(each, "") for each in record.event.inputs]
            if any(shown):
                return msgspec.structs.replace(entry, display="\n".join(filter(None, shown)))
        return entry

    def _events(self, record: Recorded) -> Iterator[Entry]:
        event = record.event
        match event:
            case events.TurnStarted():
                self._used, self._over = [], []
                self._files.forget()
            case events.ModelReplied():
                self._used.append(event.usage)
                changed = self._beside.args
                self._calls.update(
                    (call.id, msgspec.structs.replace(call, args=changed.get(call.id, call.args)))
                    for call in events.calls_of(event)
                )
            case events.ToolFinished():
                yield self._end_entry(record, event.call, event.outcome, event.code, event.content)
            case events.ChildFinished(skill=str() as skill) if skill:
                yield self._skill_end(record, event)
            case events.ChildFinished():
                yield self._end_entry(record, event.call, event.outcome, "", (Text(text=event.text),))
            case events.EntryAdded():
                yield _note(record, event.kind, _object(event.content))
            case events.HistoryCleared():
                yield _note(record, "cleared", {})
            case events.Compacted():
                figures = {"before": event.before, "after": event.after, "window": event.window}
                yield _note(record, "compacted", {"trigger": event.trigger, **figures})
            case events.CompactionUndone():
                yield _note(record, "compaction-undone", {"compaction": event.compaction})
            case events.TurnCompleted():
                yield from self._turn_end(record, event)
            case _:
                pass

    def _end_entry(
        self, record: Recorded, call_id: str, outcome: ToolOutcome | TurnOutcome, code: str, content: Content
    ) -> Entry:
        call = self._calls.get(call_id, ToolCall(id=call_id, name="", args=""))
        args = arguments(call.args)
        ok = outcome in ("ok", "completed")
        before = self._files.before(call_id, args)
        whole = not any(isinstance(part, TextRef) for part in content)
        result = text_of(content)  # of a blob only the beginning, which is not to be mistaken for the whole
        diffs = file_diffs(call.name, args, result if whole else "", before) if ok else ()
        self._files.learn(call.name, args, before, ok=ok)
        said: dict[str, object] = {"call": call_id, "tool": call.name, "outcome": outcome, "code": code}
        files = {"files": [each.file for each in diffs]} if diffs else {}
        self._over.append({**said, "shown": first_argument(args), **files})
        given: dict[str, object] = {}
        if outcome in ("ok", "failed") and (found := result_content(call.name, args, result, code, whole=whole)):
            given["toolResultData"] = found
        return _note(record, "tool-end", {**said, **diff_fields(diffs), **given})

    def _skill_end(self, record: Recorded, event: events.ChildFinished) -> Entry:
        starts = (each.event for each in self._beside.starts)
        runs = (each.skill for each in starts if isinstance(each, events.ChildStarted) and each.call == event.call)
        display = next((run.display for run in runs if run is not None), "")
        status: SkillStatus = "completed" if event.outcome == "completed" else "failed"
        return _note(
            record, SKILL_INVOCATION, _skill_fields(event.skill, display, mode="fork", by="user", status=status)
        )

    def _turn_end(self, record: Recorded, event: events.TurnCompleted) -> Iterator[Entry]:
        if event.outcome != "completed":
            yield _note(record, "turn-end", {"outcome": event.outcome, "code": event.code, "message": event.message})
        if self._over:
            went_well = sum(each["outcome"] in ("ok", "completed") for each in self._over)
            figures = {"turn": event.turn, "calls": len(self._over), "ok": went_well}
            yield _note(record, "tool-summary", {**figures, "tools": self._over})
        counted = [usage for usage in self._used if usage is not None and not usage.estimated]
        if counted and len(counted) == len(self._used):  # the provider counted all of it
            yield _note(record, "usage-summary", msgspec.to_builtins(reduce(add, counted)))


def _object(content: str) -> dict[str, object]:
    try:
        return msgspec.json.decode(content, type=dict[str, object])
    except (msgspec.DecodeError, RecursionError):
        return {"content": content}


def _note(record: Recorded, kind: str, data: dict[str, object]) -> Entry:
    return Entry(id=record.id, timestamp=iso(record.at), category="event", type=kind, data=data)
