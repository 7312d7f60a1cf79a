"""Tool calls of a conversation as a reader sees them: arguments, how each ended, and what it gave back, without secrets."""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from msgspec import Struct

from backstay.export.dialogue import Call, Given, Media
from backstay.export.seen_text import Excerpt, excerpt
from backstay.logic.redact import Redactor
from backstay.vocab.event import Recorded
from backstay.vocab.event_tools import HookFinished
from backstay.vocab.events import ChildFinished, ChildStarted, PermissionAnswered, ToolFinished
from backstay.vocab.messages import InlineMedia, MediaLink, MediaRef, Text, TextRef, ToolCall

MOST_PARTS: Final = 20
"""Parts of a result, and arguments with lines of their own, that are shown."""
ENDINGS: Final = {
    "ok": "done",
    "completed": "done",
    "failed": "failed",
    "denied": "denied: it was not run",
    "invalid": "not valid: it was not run",
    "interrupted": "interrupted",
    "abandoned": "given up",
    "unknown": "outcome unknown: the process died while it ran, and it was not run again",
}


class Results(Struct, kw_only=True):
    """What became of calls, by their ids. An id belongs to one reply, so other paths do no harm here."""

    ends: dict[str, ToolFinished | ChildFinished] = {}
    replaced: dict[str, str] = {}
    """What a hook showed the model instead of a result."""
    args: dict[str, str] = {}
    """Arguments that a hook or a person changed."""
    children: dict[str, str] = {}

    def hear(self, record: Recorded) -> None:
        """Take an event in."""
        match event := record.event:
            case ToolFinished():
                self.ends[event.call] = event
            case ChildFinished():
                self.ends[event.call] = event
                self.children[event.call] = event.child
            case ChildStarted():
                self.children[event.call] = event.child
            case PermissionAnswered(allowed=True) if event.args:
                self.args[event.call] = event.args
            case HookFinished(event="PreToolUse" | "PermissionRequest") if event.args:
                self.args[event.subject] = event.args
            case HookFinished() if event.output is not None:
                self.replaced[event.subject] = event.output
            case _:
                pass


class Calls:
    """Tells calls; `read` gives a long result whole."""

    def __init__(self, results: Results, read: Callable[[TextRef], str], redactor: Redactor) -> None:
        self._results = results
        self._read = read
        self._redactor = redactor

    def told(self, call: ToolCall, *, over: bool) -> Call:
        """A call; `over` says whether its turn has ended."""
        end = self._results.ends.get(call.id)
        changed = self._results.args.get(call.id, call.args)
        return Call(
            name=self._redactor.text(call.name),
            given=tuple(self._given(changed)),
            changed=tuple(self._given(call.args)) if changed != call.args else (),
            ending=self._ending(call.id, over=over),
            went_well=end is not None and end.outcome in ("ok", "completed"),
            result=tuple(self._result(call.id)),
            child=self._results.children.get(call.id, ""),
        )

    def _ending(self, call: str, *, over: bool) -> str:
        end = self._results.ends.get(call)
        if end is None:
            return "it has no result in the log" if over else "it has no result yet"
        code = "" if isinstance(end, ChildFinished) or end.outcome != "failed" else end.code
        hooked = "; a hook replaced what the model saw of it" if call in self._results.replaced else ""
        return f"{ENDINGS[end.outcome]}{f' ({self._redactor.text(code)})' if code else ''}{hooked}"

    def _given(self, args: str) -> Iterator[Given]:
        try:
            read = msgspec.json.decode(args) if args.strip() else {}
            clean = self._redactor.value(read)
            whole = self._redactor.text(_pretty(clean))
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            yield Given(name="", value=excerpt(self._redactor.text(args)))
            return
        long = {name: text for name, text in clean.items() if _has_lines(text)} if isinstance(clean, dict) else {}
        if isinstance(clean, dict) and long and len(long) <= MOST_PARTS:
            clean = {name: value for name, value in clean.items() if name not in long}
            whole = self._redactor.text(_pretty(clean))
        if clean or not long:
            yield Given(name="", value=excerpt(whole))
        for name, text in long.items() if len(long) <= MOST_PARTS else ():
            yield Given(name=self._redactor.text(str(name)), value=excerpt(text))

    def _result(self, call: str) -> Iterator[Excerpt | Media]:
        end = self._results.ends.get(call)
        if (shown := self._results.replaced.get(call)) is not None:
            yield excerpt(self._redactor.text(shown))
        elif isinstance(end, ChildFinished):
            if end.text:
                yield excerpt(self._redactor.text(end.text))
        elif end is not None:
            for part in end.content[:MOST_PARTS]:
                yield self._part(part)
            if len(end.content) > MOST_PARTS:
                yield Media(name=f"{len(end.content) - MOST_PARTS} more parts, left out")

    def _part(self, part: Text | TextRef | MediaRef) -> Excerpt | Media:
        match part:
            case Text():
                return excerpt(self._redactor.text(part.text))
            case TextRef():
                return excerpt(self._redactor.text(self._read(part)))
            case MediaRef():
                return Media(name=self._redactor.text(media_name(part)))


def media_name(part: MediaRef | MediaLink | InlineMedia) -> str:
    """An image, a sound or a document in words."""
    match part:
        case MediaRef():
            named = f"{part.name}, " if part.name else ""
            return f"{named}{part.media_type}, {part.size:,} bytes"
        case MediaLink():
            return ", ".join(filter(None, (part.name, part.media_type, part.url)))
        case InlineMedia():
            return ", ".join(filter(None, (part.name, part.media_type)))


def _pretty(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _has_lines(value: object) -> bool:
    return isinstance(value, str) and "\n" in value.strip()
