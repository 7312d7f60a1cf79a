"""The entries of the full history of a path: its messages, and between them the events that a person may want to look at.

`EntryFold` makes them of the nodes of a path on request; they are never stored. A start, an end and a summary of a call belong
together by the id of the call, never by the name of its tool. Which files a call changed, line by line, and what a command gave back is
worked out from the call's arguments, its result, and what is known of the files before it; nothing is stored beside the log.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Final, Literal, TypeGuard

import msgspec

from backstay.logic.budget import add
from backstay.logic.stored_content import LONG
from backstay.tools.patch import PatchSection, patch_of, read_patch
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


# --- calls that are over ---------------------------------------------------------------------------------------------------------


DiffKind = Literal["hunk", "context", "remove", "add"]

MOST_LINES: Final = 400
"""Lines of one difference that are kept."""
LINE_CHARS: Final = 400
"""Characters of each."""
CONTEXT: Final = 3
"""Unchanged lines around a change."""
COMPARED: Final = 2_000
"""Lines that are compared with each other; of more, what went and what came is listed without looking for what stayed."""

_HUNK: Final = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")


class DiffLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One line of a difference."""

    type: DiffKind
    text: str
    """Without the sign; of a hunk, its header."""
    line: int = 0
    """Its number: in the new file, or in the old one for a line that was removed; 0 when it is not known."""


Diff = tuple[DiffLine, ...]


def diff_texts(before: str, after: str) -> Diff:
    """Return the difference that makes `after` of `before`."""
    old, new = _lines(before), _lines(after)
    head = _common(old, new)
    tail = min(_common(old[::-1], new[::-1]), len(old) - head, len(new) - head)
    start = max(0, head - CONTEXT)
    removed = old[start : len(old) - max(0, tail - CONTEXT)]
    added = new[start : len(new) - max(0, tail - CONTEXT)]
    if len(removed) + len(added) > COMPARED:
        return _bound(_number_lines(_whole(removed, added, start + 1, start + 1)))
    made = difflib.unified_diff(removed, added, lineterm="", n=CONTEXT)
    return _bound(_number_lines(_shift_header(line, start) for line in list(made)[2:]))


def diff_replacement(old: str, new: str, start: int = 0) -> Diff:
    """Return the difference of a text that stands where another stood; `start` is its first line, 0 when that is not known."""
    if start:
        return _bound(_number_lines(_whole(_lines(old), _lines(new), start, start)))
    gone = (DiffLine(type="remove", text=line) for line in _lines(old))
    return _bound((*gone, *(DiffLine(type="add", text=line) for line in _lines(new))))


def parse_unified_diff(text: str) -> Diff:
    """Return the lines of the unified difference in `text`; text around its hunks is passed over."""
    return _bound(_number_lines(text.split("\n")))


def _number_lines(lines: Iterable[str]) -> Iterator[DiffLine]:
    old = new = old_left = new_left = 0
    for line in lines:
        sign, content = line[:1] or " ", line[1:]
        if not old_left and not new_left:
            if found := _HUNK.match(line):
                old, new = int(found[1]), int(found[3])
                old_left, new_left = int(found[2] or 1), int(found[4] or 1)
                yield DiffLine(type="hunk", text=line)
        elif sign == "-" and old_left:
            yield DiffLine(type="remove", text=content, line=old)
            old, old_left = old + 1, old_left - 1
        elif sign == "+" and new_left:
            yield DiffLine(type="add", text=content, line=new)
            new, new_left = new + 1, new_left - 1
        elif sign == " " and old_left and new_left:
            yield DiffLine(type="context", text=content, line=new)
            old, new, old_left, new_left = old + 1, new + 1, old_left - 1, new_left - 1
        else:  # the difference was cut off here
            old_left = new_left = 0


def _whole(removed: Sequence[str], added: Sequence[str], old: int, new: int) -> Iterator[str]:
    yield f"@@ -{old if removed else old - 1},{len(removed)} +{new if added else new - 1},{len(added)} @@"
    yield from (f"-{line}" for line in removed)
    yield from (f"+{line}" for line in added)


def _shift_header(line: str, base: int) -> str:
    if not line.startswith("@@"):
        return line
    return re.sub(r"([-+])(\d+)", lambda found: f"{found[1]}{int(found[2]) + base}", line)


def _bound(lines: Iterable[DiffLine]) -> Diff:
    kept: list[DiffLine] = []
    for line in lines:
        if len(kept) == MOST_LINES:
            kept.append(DiffLine(type="hunk", text="(there is more)"))
            break
        cut = line.text if len(line.text) <= LINE_CHARS else f"{line.text[:LINE_CHARS]}…"
        kept.append(line if cut is line.text else msgspec.structs.replace(line, text=cut))
    return tuple(kept)


def _lines(text: str) -> list[str]:
    """Return lines without their ends; what follows the last end is no line when it is empty."""
    lines = text.split("\n")
    return [line.removesuffix("\r") for line in (lines[:-1] if not lines[-1] else lines)]


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    for at, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs:
            return at
    return min(len(one), len(other))


RESULT_CHARS: Final = 30_000
"""Characters of a result that an entry holds."""
ARG_CHARS, ARG_TAIL = 80, 30
"""Characters of a call's first argument that a summary shows, and how many of them are its last."""

_AT_LINE: Final = re.compile(r"^Edited .{1,4200} at line (\d{1,9})", re.MULTILINE)
_REPORT: Final = re.compile(r"^(?:Added|Updated|Moved|Removed) (?=['\"])", re.MULTILINE)
_LOOKING: Final = frozenset(("Read", "Glob", "Grep", "TodoWrite", "WebFetch", "WebSearch", "AskUserQuestion"))
"""Tools that change no file."""

Args = Mapping[str, object]


class FileDiff(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a call changed, and how."""

    file: str
    lines: Diff
    """Empty when what it held before is not in the log."""


def arguments(text: str) -> dict[str, object]:
    """Return the arguments of a call; empty when they cannot be read."""
    try:
        return msgspec.json.decode(text, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return {}


def file_diffs(tool: str, args: Args, result: str, before: str | None = None) -> tuple[FileDiff, ...]:
    """Return the changes of a call that went well. `before` is what a written file held; None when that is not known."""
    found = _DIFFS.get(tool)
    return found(args, result, before) if found is not None else ()


def result_content(tool: str, args: Args, result: str, code: str, *, whole: bool = True) -> dict[str, object] | None:
    """Return the result of a command as data: the object that it printed, or its output and how it ended; None for other tools."""
    if tool in _DIFFS:
        return None
    whole = whole and len(result) <= RESULT_CHARS
    if isinstance(args.get("command"), str):
        ended = re.fullmatch(r"exit:(\d{1,3})", code)
        status = int(ended[1]) if ended else None if code else 0
        return {"output": result if whole else f"{result[:RESULT_CHARS]}…", "exitCode": status}
    return arguments(result) or None if whole and result.startswith("{") else None


def first_argument(args: Args) -> str:
    """Return the first argument that is a text, on one line and not too long: its beginning and its end."""
    text = next((value for value in args.values() if isinstance(value, str) and value), "")
    flat = " ".join(text[: ARG_CHARS * 50].split())
    return flat if len(flat) <= ARG_CHARS else f"{flat[: ARG_CHARS - ARG_TAIL - 1]}…{flat[-ARG_TAIL:]}"


def diff_fields(diffs: Sequence[FileDiff]) -> dict[str, object]:
    """Return the fields of an entry about changed files: those of the first, and all of them when there are several."""
    if not diffs:
        return {}
    plain = [{"diffFile": each.file, "diffLines": list(map(msgspec.to_builtins, each.lines))} for each in diffs]
    return {**plain[0], **({"diffs": plain} if len(plain) > 1 else {})}


class KnownFiles:
    """The contents of files, as far as the calls of one turn say. After an earlier turn, any program may have changed them."""

    def __init__(self, kept: Mapping[str, str]) -> None:
        self._kept = kept
        self._contents: dict[str, str] = {}

    def forget(self) -> None:
        """Know nothing: another turn begins."""
        self._contents = {}

    def before(self, call: str, args: Args) -> str | None:
        """Return what the file of a call held before it."""
        return self._kept.get(call, self._contents.get(str(args.get("file_path"))))

    def learn(self, tool: str, args: Args, before: str | None, *, ok: bool) -> None:
        """Take in what a call did."""
        if tool in _LOOKING or (tool in _DIFFS and not ok):
            return
        path = args.get("file_path")
        if tool not in _DIFFS or not isinstance(path, str):
            self._contents = {}  # it may have changed any file
            return
        after = args.get("content") if tool == "Write" else _apply_edits(before, args)
        if isinstance(after, str):
            self._contents[path] = after
        else:
            self._contents.pop(path, None)


def _apply_edits(text: str | None, args: Args) -> str | None:
    for old, new, every in _edits(args):
        if text is None or old not in text or not old:
            return None
        text = text.replace(old, new, -1 if every else 1)
    return text


def _edits(args: Args) -> Iterator[tuple[str, str, bool]]:
    """Yield the replacements of an `Edit` or a `MultiEdit`."""
    edits = args.get("edits", [args])
    for each in edits if isinstance(edits, list) else ():
        if isinstance(each, Mapping):
            old, new = each.get("old_string"), each.get("new_string")
            if isinstance(old, str) and isinstance(new, str):
                yield old, new, each.get("replace_all") is True


def _edit(args: Args, result: str, before: str | None) -> tuple[FileDiff, ...]:
    lines = parse_unified_diff(result)
    if not lines:
        found = _AT_LINE.search(result)
        edits = tuple(_edits(args))
        start = int(found[1]) if found and len(edits) == 1 else 0
        lines = tuple(line for old, new, _ in edits for line in diff_replacement(old, new, start))
    return (FileDiff(file=str(args.get("file_path", "")), lines=lines),)


def _write(args: Args, result: str, before: str | None) -> tuple[FileDiff, ...]:
    held = "" if before is None and re.search(r"^Created '", result, re.MULTILINE) else before
    content = args.get("content")
    lines = diff_texts(held, content) if held is not None and isinstance(content, str) else ()
    return (FileDiff(file=str(args.get("file_path", "")), lines=lines),)


def _patch(args: Args, result: str, before: str | None) -> tuple[FileDiff, ...]:
    try:
        sections = read_patch(patch_of(dict(args)))
    except UserError:
        return ()
    reports = _reports(result)
    shown = reports if len(reports) == len(sections) else [""] * len(sections)
    return tuple(map(_diff_section, sections, shown))


def _reports(result: str) -> list[str]:
    """Split a patch's result by file. A line of a difference has a sign before it and is not mistaken for a beginning."""
    starts = [found.start() for found in _REPORT.finditer(result)]
    return [result[start:end] for start, end in zip(starts, [*starts[1:], len(result)], strict=False)]


def _diff_section(section: PatchSection, report: str) -> FileDiff:
    if section.kind == "add":
        return FileDiff(file=section.path, lines=diff_texts("", section.content))
    written = [DiffLine(type=_SIGNS[line.sign], text=line.text) for hunk in section.hunks for line in hunk.lines]
    return FileDiff(file=section.move or section.path, lines=parse_unified_diff(report) or tuple(written[:MOST_LINES]))


_SIGNS: Final[Mapping[str, DiffKind]] = {"+": "add", "-": "remove", " ": "context"}
_DIFFS: Final[Mapping[str, Callable[[Args, str, str | None], tuple[FileDiff, ...]]]] = {
    "Edit": _edit,
    "MultiEdit": _edit,
    "Write": _write,
    "apply_patch": _patch,
}
