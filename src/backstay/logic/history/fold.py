"""The full history of a path: its messages, and between them the events that a person may want to look at.

Worked out when somebody asks, never kept. A start, an end and a summary belong together by the id of their call, never by its tool's name.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce

import msgspec

from backstay.logic.history.entries import Entry, entry_of
from backstay.logic.history.tool_entries import (
    KnownFiles,
    arguments,
    diff_fields,
    file_diffs,
    first_argument,
    result_content,
)
from backstay.logic.state.usage import add
from backstay.vocab.event import Recorded, ToolOutcome, TurnOutcome
from backstay.vocab.events import (
    ChildFinished,
    ChildStarted,
    EntryAdded,
    HistoryCleared,
    InputTaken,
    ModelReplied,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
    TurnStarted,
    calls_of,
)
from backstay.vocab.events.limits import Compacted, CompactionUndone
from backstay.vocab.messages import MediaRef, SessionMessage, Text, TextRef, ToolCall, iso, text_of
from backstay.vocab.specs import Usage

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
        """The entries of `path`; `messages` are those of its nodes, by the node's id."""
        for record in path:
            yield from self._started_before(record.seq)
            if (message := messages.get(record.id)) is not None:
                yield self._chat(record, message)
            yield from self._events(record)
        yield from self._started_before(None)

    def _started_before(self, seq: int | None) -> Iterator[Entry]:
        """The starts up to a place in the log, of calls that the path has; those of other paths are passed over."""
        while self._next is not None and (seq is None or self._next.seq < seq):
            record, self._next = self._next, next(self._starts, None)
            event = record.event
            if isinstance(event, ToolStarted | ChildStarted) and (call := self._calls.get(event.call)) is not None:
                said: dict[str, object] = {"call": call.id, "tool": call.name, "args": call.args}
                if isinstance(event, ChildStarted):
                    said["child"] = event.child
                elif event.again:
                    said["again"] = True
                yield _note(record, "tool-start", said)

    def _chat(self, record: Recorded, message: SessionMessage) -> Entry:
        entry = entry_of(message)
        if isinstance(record.event, InputTaken):
            shown = [self._beside.displays.get(each, "") for each in record.event.inputs]
            if any(shown):
                return msgspec.structs.replace(entry, display="\n".join(filter(None, shown)))
        return entry

    def _events(self, record: Recorded) -> Iterator[Entry]:
        event = record.event
        match event:
            case TurnStarted():
                self._used, self._over = [], []
                self._files.forget()
            case ModelReplied():
                self._used.append(event.usage)
                changed = self._beside.args
                self._calls.update(
                    (call.id, msgspec.structs.replace(call, args=changed.get(call.id, call.args)))
                    for call in calls_of(event)
                )
            case ToolFinished():
                yield self._ended(record, event.call, event.outcome, event.code, event.content)
            case ChildFinished():
                yield self._ended(record, event.call, event.outcome, "", (Text(text=event.text),))
            case EntryAdded():
                yield _note(record, event.kind, _object(event.content))
            case HistoryCleared():
                yield _note(record, "cleared", {})
            case Compacted():
                figures = {"before": event.before, "after": event.after, "window": event.window}
                yield _note(record, "compacted", {"trigger": event.trigger, **figures})
            case CompactionUndone():
                yield _note(record, "compaction-undone", {"compaction": event.compaction})
            case TurnCompleted():
                yield from self._turn_end(record, event)
            case _:
                pass

    def _ended(
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

    def _turn_end(self, record: Recorded, event: TurnCompleted) -> Iterator[Entry]:
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
