"""Decode an answer of the Gemini API while it arrives."""

import binascii
import re
from base64 import urlsafe_b64decode
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import msgspec

from backstay.ports import ModelReply
from backstay.providers.failure import complaint_in, stream_failure
from backstay.providers.format import Decoder
from backstay.providers.http.loose_json import (
    Fields,
    beginning,
    fields_in,
    make_unique,
    objects_in,
    read_sound,
    text_in,
)
from backstay.providers.http.sse import SseEvent
from backstay.vocab.deltas import Delta, ReasoningDelta, TextDelta, ToolArgsDelta
from backstay.vocab.errors import ProviderError
from backstay.vocab.event import Stop
from backstay.vocab.messages import InFlightPart, InlineMedia, MediaLink, Reasoning, ServerBlock, Text, ToolCall
from backstay.vocab.specs import Usage

_STEP: Final = re.compile(r"""\.([^.\[\]]+)|\[([0-9]+)\]|\['([^']*)'\]|\["([^"]*)"\]""")
_LONGEST_LIST: Final = 100_000
"""An index beyond it is taken for nonsense, not for a reason to make a list that long."""
_VALUES: Final = ("stringValue", "numberValue", "boolValue")


class UnfinishedCall:
    """A call that is still being written into `part`, a part of the reply."""

    def __init__(self, part: Fields, call: Fields) -> None:
        self.part = part
        self.call = call
        if call.get("args") is None:
            call["args"] = {}
        self._continued = ""
        """The place whose text goes on in the next piece."""

    def add(self, call: Fields) -> bool:
        """Take one more piece. Say whether all of it could be placed."""
        ours, theirs, pieces = self.call["args"], call.get("args"), call.get("partialArgs")
        if isinstance(ours, dict) and isinstance(theirs, dict):
            ours |= theirs
        placed = [self._place(each) for each in pieces if isinstance(each, dict)] if isinstance(pieces, list) else []
        return all(placed)

    def _place(self, piece: Fields) -> bool:
        path = piece.get("jsonPath")
        if not isinstance(path, str):
            return False
        value = next((piece[name] for name in _VALUES if name in piece), None)
        wakes, self._continued = self._continued == path, path if piece.get("willContinue") else ""
        steps = _steps(path)
        return bool(steps) and _put(self.call["args"], steps, value, append=wakes)


def _steps(path: str) -> list[str | int]:
    """Return the steps of a path such as `$.a[0].b`; nothing when it is none."""
    steps: list[str | int] = []
    at = 1
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None or not path.startswith("$"):
            return []
        name, index, single, double = found.groups()
        steps.append(int(index) if index is not None else next(x for x in (name, single, double) if x is not None))
        at = found.end()
    return steps


def _put(root: object, steps: list[str | int], value: object, *, append: bool) -> bool:
    """Write `value` at the end of `steps`, or append it to the text there. Say whether there is such a place."""
    place: Any = root  # objects and arrays, as the steps find them
    for step, following in pairwise(steps):
        if not _has_room(place, step):
            return False
        if place[step] is None:
            place[step] = [] if isinstance(following, int) else {}
        place = place[step]
    last = steps[-1]
    if not _has_room(place, last):
        return False
    there = place[last]
    place[last] = there + value if append and isinstance(there, str) and isinstance(value, str) else value
    return True


def _has_room(place: object, step: str | int) -> bool:
    """Return whether `step` leads somewhere in `place`; where nothing is yet, None stands afterwards."""
    if isinstance(place, dict) and isinstance(step, str):
        place.setdefault(step, None)
        return True
    if isinstance(place, list) and isinstance(step, int) and step < _LONGEST_LIST:
        place.extend([None] * (step + 1 - len(place)))
        return True
    return False


_STOPS: Final[Mapping[str, Stop]] = {
    "STOP": "end",
    "MAX_TOKENS": "length",
    "SAFETY": "filter",
    "RECITATION": "filter",
    "PROHIBITED_CONTENT": "filter",
    "BLOCKLIST": "filter",
    "SPII": "filter",
    "IMAGE_SAFETY": "filter",
    "IMAGE_PROHIBITED_CONTENT": "filter",
    "IMAGE_RECITATION": "filter",
}
"""Any other reason is `other`."""
_AROUND: Final = frozenset(("thought", "thoughtSignature", "partMetadata", "videoMetadata", "mediaResolution"))
"""What a part may have beside what it is."""
_SAID: Final = frozenset(("text", "functionCall", "inlineData", "fileData"))
"""Kinds of parts that our own parts can say."""
_SERVER_TOOLS: Final = {
    "executableCode": "codeExecution",
    "codeExecutionResult": "codeExecution",
    "toolCall": "",
    "toolResponse": "",
}
"""Kinds of parts for tools that the provider ran, and the tool, unless the part names it."""
_WORDS: Final = {"executableCode": "code", "codeExecutionResult": "output"}
_COUNTS: Final = (
    "promptTokenCount",
    "toolUsePromptTokenCount",
    "candidatesTokenCount",
    "thoughtsTokenCount",
    "cachedContentTokenCount",
)
_LONGEST: Final = 500


def kind_of(part: Fields) -> str:
    """Return the provider's name for what `part` is; empty when it is nothing."""
    return next((name for name in part if name not in _AROUND), "")


def part_calls(native: Sequence[Fields]) -> tuple[list[Fields], tuple[str, ...]]:
    """Make the ids of calls differ; say which ones had to be changed."""
    parted: list[Fields] = []
    notes: list[str] = []
    seen: set[str] = set()
    for part in native:
        call = fields_in(part, "functionCall")
        id = text_in(call, "id")
        fresh = make_unique(id, seen)
        seen |= {fresh} if id else set()
        if fresh != id:
            notes.append(f"the call id {id!r} came twice: the later one is called {fresh!r}")
        parted.append({**part, "functionCall": {**call, "id": fresh}} if fresh != id else part)
    return parted, tuple(notes)


def make_parts(native: Sequence[Fields], cut: int = -1) -> tuple[tuple[InFlightPart, ...], tuple[str, ...]]:
    """Our parts for those of the provider, and what was odd about them. Neighbouring pieces of text are one text.

    `cut` is the index of a call whose arguments never came to their end.
    """
    parts: list[InFlightPart] = []
    notes: list[str] = []
    for index, each in enumerate(native):
        kind = kind_of(each)
        made = _make_part(kind, each)
        last = parts[-1] if parts else None
        if isinstance(made, Text) and isinstance(last, Text):
            parts[-1] = Text(text=last.text + made.text)
        elif isinstance(made, Reasoning) and isinstance(last, Reasoning):
            parts[-1] = Reasoning(text=last.text + made.text)
        elif isinstance(made, ToolCall) and index == cut:
            # It must not look whole: its arguments stay open, as the model left them.
            parts.append(msgspec.structs.replace(made, args=made.args[:-1]))
            notes.append(f"the call of {made.name!r} was cut")
        elif made is not None:
            parts.append(made)
        if kind and kind not in _SAID and kind not in _SERVER_TOOLS:
            notes.append(f"an unknown kind of part: {kind!r}")
    return tuple(parts), tuple(dict.fromkeys(notes))


def make_opaque(native: Sequence[Fields]) -> bytes:
    """Return the parts as they must be sent back; empty when our own parts say all of it."""
    plain = all(kind_of(part) in _SAID and "thoughtSignature" not in part for part in native)
    return b"" if plain else msgspec.json.encode(native)


def make_grounding(candidates: Sequence[Fields]) -> Iterator[ServerBlock]:
    """Yield what the provider searched for and read by itself. It says so beside the parts and does not want it back."""
    queries: dict[str, None] = {}
    addresses: dict[str, None] = {}
    grounded = False
    for candidate in candidates:
        grounding = fields_in(candidate, "groundingMetadata")
        grounded = grounded or bool(grounding)
        asked = grounding.get("webSearchQueries")
        queries |= dict.fromkeys(q for q in (asked if isinstance(asked, list) else ()) if isinstance(q, str))
        for read in objects_in(fields_in(candidate, "urlContextMetadata"), "urlMetadata"):
            addresses[str(read.get("retrievedUrl", ""))] = None
    if grounded:
        yield ServerBlock(kind="groundingMetadata", name="googleSearch", content="; ".join(queries)[:_LONGEST])
    if addresses:
        yield ServerBlock(kind="urlContextMetadata", name="urlContext", content="; ".join(addresses)[:_LONGEST])


def make_usage(counts: Fields | None) -> Usage | None:
    """Return the tokens of the call; None when no number is given. The prompt's count has the cached ones in it already."""
    found = [counts.get(name) if counts else None for name in _COUNTS]
    if not any(isinstance(count, int) for count in found):
        return None
    prompt, searched, written, thought, cached = (count if isinstance(count, int) else 0 for count in found)
    return Usage(input=prompt + searched, output=written + thought, cache_read=cached, reasoning=thought)


def stop_for(finish: str, message: str, parts: Sequence[InFlightPart]) -> tuple[Stop, tuple[str, ...]]:
    """Return why the answer ended, and a note when that is out of the ordinary."""
    stop = _STOPS.get(finish, "other")
    if stop != "length" and any(isinstance(part, ToolCall) for part in parts):
        stop = "tool_calls"
    if finish in ("STOP", "MAX_TOKENS"):
        return stop, ()
    detail = f": {message[:_LONGEST]}" if message else ""
    return stop, (f"the provider ended the answer with {finish!r}{detail}",)


def _make_part(kind: str, part: Fields) -> InFlightPart | None:
    value = part.get(kind)
    thought = part.get("thought") is True
    match kind:
        case "":
            return None
        case "text" if isinstance(value, str):
            return None if not value else Reasoning(text=value) if thought else Text(text=value)
        case "functionCall":
            return _make_call(fields_in(part, kind))
        case "inlineData" if not thought:
            return _make_media(fields_in(part, kind))
        case "fileData" if not thought:
            link = fields_in(part, kind)
            return MediaLink(url=text_in(link, "fileUri"), media_type=text_in(link, "mimeType"))
        case _:
            return _make_block(kind, part)


def _make_call(call: Fields) -> ToolCall:
    args = msgspec.json.encode(call.get("args") or {}).decode()
    return ToolCall(id="", name=text_in(call, "name"), args=args, provider_id=text_in(call, "id"))


def _make_media(media: Fields) -> InFlightPart:
    media_type = text_in(media, "mimeType")
    coded = text_in(media, "data").replace("+", "-").replace("/", "_")
    try:
        content = urlsafe_b64decode(coded + "=" * (-len(coded) % 4))
    except (binascii.Error, ValueError):
        return ServerBlock(kind="inlineData", content=f"{media_type} that cannot be read")
    return InlineMedia(media_type=media_type, content=content, name=text_in(media, "displayName"))


def _make_block(kind: str, part: Fields) -> ServerBlock:
    fields = fields_in(part, kind)
    name = _SERVER_TOOLS.get(kind) or text_in(fields, "toolType") or text_in(fields, "name")
    if kind in _WORDS:
        content = text_in(fields, _WORDS[kind])
    elif kind in ("inlineData", "fileData"):
        content = text_in(fields, "mimeType")
    else:
        content = msgspec.json.encode(part[kind]).decode()
    return ServerBlock(kind=kind, name=name, content=content[:_LONGEST])


_MARKS: Final = frozenset(("candidates", "promptFeedback", "usageMetadata", "modelVersion", "responseId"))
"""An object with one of these is a piece of an answer."""


class GoogleDecoder:
    """Reads one answer: chunks of a stream, an array of them, or one object.

    The chunk with a `finishReason` is the terminal one. Chunks after it are still taken, because usage, and sometimes a last
    part, may follow it; a stream that ends before it was cut.
    """

    def __init__(self) -> None:
        self._native: list[Fields] = []
        """The parts as they came, pieces of one text and of one call put together."""
        self._open: UnfinishedCall | None = None
        self._calls = 0
        self._finish = ""
        self._finish_message = ""
        self._usage: Fields | None = None
        self._model = ""
        self._grounding: list[Fields] = []
        self._notes: list[str] = []
        self._known = False
        self._strange = b""
        """The beginning of the first thing that came and is no piece of an answer."""

    def event(self, event: SseEvent) -> Sequence[Delta]:
        """Take one chunk; return what can be shown of it."""
        if event.data.strip() == b"[DONE]":
            return ()
        return self._take(read_sound(event.data, "An event of the answer"), event.data)

    def body(self, content: bytes) -> Sequence[Delta]:
        """Take a whole answer that was not streamed."""
        deltas = self._take(read_sound(content, "The answer"), content)
        if not self._known:
            raise _not_an_answer(content)
        return deltas

    def finish(self) -> None:
        """Hear that the response has ended; the provider's own last word is what counts."""

    def reply(self) -> ModelReply:
        """Give the finished reply."""
        if not self._known and self._strange:
            raise _not_an_answer(self._strange)
        if not self._finish:
            raise ProviderError("transport", "The answer of the model ended without its final event: it was cut.")
        native, notes = part_calls(self._native)
        parts, more = make_parts(native, self._cut())
        stop, why = stop_for(self._finish, self._finish_message, parts)
        usage = make_usage(self._usage)
        no_usage = () if usage is not None else ("the provider sent no usage",)
        return ModelReply(
            parts=(*parts, *make_grounding(self._grounding)),
            stop=stop,
            usage=usage,
            model=self._model,
            opaque=make_opaque(native),
            notes=(*self._notes, *notes, *more, *why, *no_usage),
        )

    def _take(self, content: object, raw: bytes) -> list[Delta]:
        deltas: list[Delta] = []
        for chunk in content if isinstance(content, list) else (content,):
            if isinstance(chunk, dict) and "error" in chunk:
                raise stream_failure(complaint_in(chunk, named=True))
            if isinstance(chunk, dict) and not _MARKS.isdisjoint(chunk):
                self._known = True
                self._chunk(chunk, deltas)
            else:
                self._strange = self._strange or raw[:1000]
        return deltas

    def _chunk(self, chunk: Fields, deltas: list[Delta]) -> None:
        candidates = objects_in(chunk, "candidates")
        if not candidates:
            _refuse_blocked(fields_in(chunk, "promptFeedback"))
        self._model = text_in(chunk, "modelVersion") or self._model
        usage = fields_in(chunk, "usageMetadata")
        if make_usage(usage) is not None:
            self._usage = usage
        for candidate in candidates:
            if candidate.get("index") in (None, 0):
                self._candidate(candidate, deltas)
            else:
                self._note("the provider sent more than one candidate: only the first one counts")

    def _candidate(self, candidate: Fields, deltas: list[Delta]) -> None:
        for part in objects_in(fields_in(candidate, "content"), "parts"):
            if "functionCall" in part:
                self._call(part, deltas)
            else:
                self._part(part, deltas)
        if any(fields_in(candidate, name) for name in ("groundingMetadata", "urlContextMetadata")):
            self._grounding.append(candidate)
        finish = text_in(candidate, "finishReason")
        if finish and finish != "FINISH_REASON_UNSPECIFIED":
            self._finish, self._finish_message = finish, text_in(candidate, "finishMessage")

    def _part(self, part: Fields, deltas: list[Delta]) -> None:
        if not kind_of(part):
            part = {"text": "", **part}  # a signature alone: the provider refuses a part that is nothing
        text = part.get("text")
        if not isinstance(text, str):
            self._native.append(part)
            return
        if text:
            deltas.append(ReasoningDelta(text=text) if part.get("thought") is True else TextDelta(text=text))
        last = self._native[-1] if self._native else {}
        before = last.get("text")
        # A part with a signature stays as it came: the signature is only good for exactly that part.
        if isinstance(before, str) and {**last, "text": text} == part and "thoughtSignature" not in part:
            self._native[-1] = {**last, "text": before + text}
        elif text or "thoughtSignature" in part:
            self._native.append(part)

    def _call(self, part: Fields, deltas: list[Delta]) -> None:
        call = fields_in(part, "functionCall")
        if "name" in call or (self._open is None and "args" in call):
            self._close(deltas)
            part = {**part, "functionCall": {name: call[name] for name in ("id", "name", "args") if name in call}}
            self._native.append(part)
            self._open = UnfinishedCall(part, fields_in(part, "functionCall"))
            self._calls += 1
        if self._open is None:
            return
        if not self._open.add(call):
            self._note("a piece of a call's arguments could not be placed")
        if "thoughtSignature" in part:
            self._open.part.setdefault("thoughtSignature", part["thoughtSignature"])
        if call.get("willContinue") is not True:
            self._close(deltas)

    def _close(self, deltas: list[Delta]) -> None:
        if self._open is not None:
            name, args = text_in(self._open.call, "name"), msgspec.json.encode(self._open.call["args"]).decode()
            deltas.append(ToolArgsDelta(index=self._calls - 1, name=name, text=args))
        self._open = None

    def _cut(self) -> int:
        """Return the index of a call that never came to its end, where the answer did not come to its own end either."""
        if self._open is None or self._finish == "STOP":
            return -1
        return next(index for index, part in enumerate(self._native) if part is self._open.part)

    def _note(self, note: str) -> None:
        if note not in self._notes:
            self._notes.append(note)


def _refuse_blocked(feedback: Fields) -> None:
    reason = feedback.get("blockReason")
    if reason:
        words = text_in(feedback, "blockReasonMessage")
        detail = f": {words[:500]}" if words else ""
        raise ProviderError("content_filter", f"The provider blocked the prompt for {reason!r}{detail}.")


def _not_an_answer(content: bytes) -> ProviderError:
    return ProviderError("unknown", f"This is not an answer of the model: {beginning(content)}.")


if TYPE_CHECKING:
    _: Decoder = GoogleDecoder()
