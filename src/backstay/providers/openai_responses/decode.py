"""Decode an answer of the Responses API, streamed or whole."""

import binascii
from base64 import b64decode
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct, field

from backstay.logic.stored_content import replace_surrogates
from backstay.ports import ModelReply
from backstay.providers.failure import complaint_in, stream_failure
from backstay.providers.format import Decoder
from backstay.providers.http.loose_json import (
    Fields,
    beginning,
    count_in,
    fields_in,
    mend_value,
    objects_in,
    read_json,
    text_in,
)
from backstay.providers.http.sse import SseEvent
from backstay.providers.openai_responses.native import CALLS, compact_json, opaque_of, with_own_ids
from backstay.vocab.deltas import Delta, ReasoningDelta, TextDelta, ToolArgsDelta
from backstay.vocab.errors import ProviderError
from backstay.vocab.event import Stop
from backstay.vocab.messages import InFlightPart, InlineMedia, Reasoning, ServerBlock, Text, ToolCall
from backstay.vocab.specs import Usage

SHORT: Final = 500
"""Characters of a server block that are shown."""
PARAGRAPH: Final = "\n\n"
"""Between the paragraphs of a summary."""

_REASONS: Final[dict[str, Stop]] = {"max_output_tokens": "length", "content_filter": "filter"}
_SERVER_KINDS: Final = frozenset(
    (
        "web_search_call file_search_call code_interpreter_call image_generation_call mcp_call mcp_list_tools "
        "mcp_approval_request computer_call local_shell_call shell_call shell_call_output apply_patch_call "
        "apply_patch_call_output tool_search_call tool_search_output compaction"
    ).split()
)
_TELLING: Final = tuple("query queries code arguments url pattern command commands operation prompt".split())
"""Where items say what they were about."""
_MACHINERY: Final = frozenset(("id", "type", "status", "encrypted_content", "fingerprint", "result"))
_IMAGES: Final = (
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8", "image/jpeg"),
    (b"RIFF", "image/webp"),
    (b"GIF8", "image/gif"),
)


def make_reply(response: Fields, output: Sequence[Fields], notes: Sequence[str] = ()) -> ModelReply:
    """Return the reply that `response` makes of its `output` items; `notes` are what was odd about it before."""
    items, renamed = with_own_ids(output)
    parts = tuple(part for item in items for part in parts_of(item))
    usage = _usage(response)
    return ModelReply(
        parts=parts,
        stop=_stop(response, items, parts),
        usage=usage,
        model=text_in(response, "model"),
        opaque=opaque_of(items),
        notes=(*notes, *renamed, *_oddities(items), *(() if usage else ("the provider sent no usage",))),
    )


def parts_of(item: Fields) -> Iterator[InFlightPart]:
    """Yield what one output item says."""
    kind = text_in(item, "type")
    if kind == "message":
        yield from _read_text(item)
    elif kind == "reasoning":
        yield from _read_reasoning(item)
    elif kind in CALLS:
        args = compact_json(item.get(CALLS[kind]))
        yield ToolCall(id="", name=text_in(item, "name"), args=args, provider_id=text_in(item, "call_id"))
    elif kind == "image_generation_call" and (image := _image(item)) is not None:
        yield image
    else:
        name = text_in(item, "name") or kind.removesuffix("_call")
        yield ServerBlock(kind=kind, name=name, content=_gist(item)[:SHORT])


def _read_text(message: Fields) -> Iterator[InFlightPart]:
    if text := text_in(message, "content"):  # some servers send plain text in place of the list
        yield Text(text=text)
    for piece in objects_in(message, "content"):
        kind = text_in(piece, "type")
        if kind in ("output_text", "refusal", "text", ""):
            if text := text_in(piece, "refusal" if kind == "refusal" else "text"):
                yield Text(text=text)
        else:
            yield ServerBlock(kind=kind, content=_gist(piece)[:SHORT])


def _read_reasoning(item: Fields) -> Iterator[InFlightPart]:
    for key, between in (("summary", PARAGRAPH), ("content", "")):
        if text := between.join(filter(None, (text_in(piece, "text") for piece in objects_in(item, key)))):
            yield Reasoning(text=text)


def _image(item: Fields) -> InlineMedia | None:
    try:
        content = b64decode(text_in(item, "result"), validate=True)
    except (binascii.Error, ValueError):
        return None
    if not content:
        return None
    known = next((media for magic, media in _IMAGES if content.startswith(magic)), "")
    return InlineMedia(media_type=known or f"image/{text_in(item, 'output_format') or 'png'}", content=content)


def _gist(item: Fields) -> str:
    for fields in (item, fields_in(item, "action")):
        for key in _TELLING:
            value = fields.get(key)
            if value and isinstance(value, list) and all(isinstance(each, str) for each in value):
                return "; ".join(value)
            if value:
                return compact_json(value)
    return compact_json({key: value for key, value in item.items() if key not in _MACHINERY and value is not None})


def _stop(response: Fields, items: Sequence[Fields], parts: Sequence[InFlightPart]) -> Stop:
    stop: Stop = "end"
    if text_in(response, "status") == "incomplete":
        stop = _REASONS.get(text_in(fields_in(response, "incomplete_details"), "reason"), "other")
    if stop == "length":
        return stop
    if any(isinstance(part, ToolCall) for part in parts):
        return "tool_calls"
    return "filter" if any(map(_refuses, items)) else stop


def _refuses(item: Fields) -> bool:
    return any(text_in(piece, "refusal") for piece in objects_in(item, "content"))


def _usage(response: Fields) -> Usage | None:
    sent = fields_in(response, "usage")
    if not sent:
        return None
    given = fields_in(sent, "input_tokens_details")
    return Usage(
        input=count_in(sent, "input_tokens"),
        output=count_in(sent, "output_tokens"),
        cache_read=count_in(given, "cached_tokens"),
        cache_write=count_in(given, "cache_write_tokens"),
        reasoning=count_in(fields_in(sent, "output_tokens_details"), "reasoning_tokens"),
    )


def _oddities(items: Sequence[Fields]) -> Iterator[str]:
    if any(map(_refuses, items)):
        yield "the model refused"
    known = {"message", "reasoning", *CALLS, *_SERVER_KINDS}
    for kind in dict.fromkeys(text_in(item, "type") for item in items):
        if kind not in known:
            yield f"items of the kind {kind!r} are new to us and are kept as they are"


_LAST: Final = {"response.completed": "completed", "response.incomplete": "incomplete"}
"""The events that end an answer, and the status that they mean."""
_FAILED: Final = ("response.failed", "response.cancelled", "response.error", "error")
_UNFINISHED: Final = ("in_progress", "queued")

_PIECES: Final = {
    "response.output_text": "output_text",
    "response.refusal": "refusal",
    "response.reasoning_summary_text": "summary_text",
    "response.reasoning_text": "reasoning_text",
    "response.function_call_arguments": "arguments",
    "response.custom_tool_call_input": "input",
}
"""Events that come as `.delta` and `.done`, and the kind of text that they bring."""
_WHOLE: Final = {"arguments": "arguments", "input": "input", "refusal": "refusal"}
"""Where a `.done` event has its text; the others have it under `text`."""
_ITEM_OF: Final = {
    "output_text": "message",
    "refusal": "message",
    "summary_text": "reasoning",
    "reasoning_text": "reasoning",
    "arguments": "function_call",
    "input": "custom_tool_call",
}
"""The item that a piece belongs to, for servers that do not announce their items."""


class _Slot(Struct, kw_only=True):
    """One output item while it arrives."""

    item: Fields
    call: int = -1
    """Its number among the calls of the reply."""
    pieces: dict[tuple[str, int], list[str]] = field(default_factory=dict)

    def complete(self) -> Fields:
        """Return the item, with what came in pieces where the item itself does not say it."""
        item = dict(self.item)
        groups: dict[str, list[Fields]] = {}
        for (kind, _), texts in sorted(self.pieces.items(), key=lambda piece: piece[0][1]):
            text = "".join(texts)
            if kind in CALLS.values():
                item[kind] = item.get(kind) or text
            else:
                key = "summary" if kind == "summary_text" else "content"
                said: Fields = {"type": kind, ("refusal" if kind == "refusal" else "text"): text}
                groups.setdefault(key, []).append(said)
        for key, group in groups.items():
            item[key] = item.get(key) or group
        return item


class ResponsesDecoder:
    """Collects events until the one that ends the answer."""

    def __init__(self) -> None:
        self._slots: dict[object, _Slot] = {}
        self._calls = 0
        self._shown = False
        self._odd = b""
        self._response: Fields | None = None

    def event(self, event: SseEvent) -> Sequence[Delta]:
        """Take one event of a stream; return what can be shown of it."""
        content = _read(event.data)
        if not isinstance(content, dict):
            if event.data != b"[DONE]":
                self._odd = self._odd or event.data[:200]
            return ()
        kind = text_in(content, "type") or event.name
        if kind == "response.created":
            self._begin()
        if self._response is not None:
            return ()
        if kind in _FAILED or (not kind and content.get("error")):
            raise _failure_of(content)
        shown = self._end(kind, content) if kind in _LAST else tuple(self._step(kind, content))
        self._shown = self._shown or bool(shown)
        return shown

    def body(self, content: bytes) -> Sequence[Delta]:
        """Take a whole answer that was not streamed."""
        response = _read(content)
        if not isinstance(response, dict):
            raise ProviderError("unknown", f"The answer is not JSON: {beginning(content)}.")
        status = text_in(response, "status")
        if response.get("error") or status in ("failed", "cancelled"):
            raise _failure_of(response)
        if not isinstance(response.get("output"), list):
            raise ProviderError("unknown", f"The answer has no output: {beginning(content)}.")
        if status in _UNFINISHED:
            raise ProviderError("transport", f"The answer is still {status!r}. Do not ask for it in the background.")
        self._response = response
        return tuple(_deltas(self._output()))

    def finish(self) -> None:
        """Hear that the response has ended; the provider's own last word is what counts."""

    def reply(self) -> ModelReply:
        """Return the finished reply. Raise `ProviderError` of kind `transport` unless the provider's terminal event has come."""
        if self._response is None:
            odd = f" It held {beginning(self._odd)}, which is not an event." if self._odd else ""
            raise ProviderError("transport", f"The answer ended without its final event: it was cut.{odd}")
        notes = (f"a line that is not an event was passed over: {beginning(self._odd)}",) if self._odd else ()
        return make_reply(self._response, self._output(), notes)

    def _begin(self) -> None:
        """Forget what came before: a gateway that asks its own server again begins a second response in the same stream."""
        self._slots, self._calls, self._shown, self._response = {}, 0, False, None

    def _end(self, kind: str, content: Fields) -> tuple[Delta, ...]:
        response = fields_in(content, "response")
        self._response = {**response, "status": response.get("status") or _LAST[kind]}
        return () if self._shown else tuple(_deltas(self._output()))

    def _output(self) -> list[Fields]:
        sent = objects_in(self._response or {}, "output")
        items = sent or [slot.complete() for slot in self._slots.values()]
        return msgspec.convert(mend_value(items), list[Fields])

    def _step(self, kind: str, content: Fields) -> Iterator[Delta]:
        stem, _, suffix = kind.rpartition(".")
        if stem == "response.output_item":
            yield from self._item(content, done=suffix == "done")
        elif stem == "response.reasoning_summary_part" and suffix == "added" and content.get("summary_index"):
            yield ReasoningDelta(text=PARAGRAPH)
        elif stem in _PIECES and suffix in ("delta", "done"):
            yield from self._piece(_PIECES[stem], content, done=suffix == "done")

    def _item(self, content: Fields, *, done: bool) -> Iterator[Delta]:
        item = fields_in(content, "item")
        slot = self._slot(content, item)
        slot.item = item or slot.item
        if done and not slot.pieces:
            yield from _deltas((slot.item,), first=max(slot.call, 0))

    def _piece(self, kind: str, content: Fields, *, done: bool) -> Iterator[Delta]:
        slot = self._slot(content, {"type": _ITEM_OF[kind]})
        place = content.get("summary_index" if kind == "summary_text" else "content_index")
        texts = slot.pieces.setdefault((kind, place if isinstance(place, int) else 0), [])
        if not done:
            texts.append(text := text_in(content, "delta"))
        elif text := text_in(content, _WHOLE.get(kind, "text")):
            known, texts[:] = bool(texts), [text]
            text = "" if known else text
        if not text:
            return
        if kind in ("summary_text", "reasoning_text"):
            yield ReasoningDelta(text=replace_surrogates(text))
        elif kind in CALLS.values():
            yield ToolArgsDelta(index=slot.call, name=text_in(slot.item, "name"), text=replace_surrogates(text))
        else:
            yield TextDelta(text=replace_surrogates(text))

    def _slot(self, content: Fields, item: Fields) -> _Slot:
        """Return the slot of an event. The place counts before the id, which some servers write differently in each event."""
        place = content.get("output_index")
        key = place if isinstance(place, int) else text_in(content, "item_id") or text_in(item, "id")
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = _Slot(item=item)
        if slot.call < 0 and text_in(slot.item, "type") in CALLS:
            slot.call = self._calls
            self._calls += 1
        return slot


def _deltas(items: Sequence[Fields], first: int = 0) -> Iterator[Delta]:
    """Yield what can be shown of items that came whole; `first` is the number of the first call among them."""
    parts: list[InFlightPart] = [part for item in items for part in parts_of(item)]
    for part in parts:
        match part:
            case Text():
                yield TextDelta(text=replace_surrogates(part.text))
            case Reasoning():
                yield ReasoningDelta(text=replace_surrogates(part.text))
            case ToolCall():
                if part.args:
                    yield ToolArgsDelta(index=first, name=part.name, text=replace_surrogates(part.args))
                first += 1


def _read(content: bytes) -> object:
    try:
        return read_json(content)
    except ValueError:
        return None


def _failure_of(content: Fields) -> ProviderError:
    response = fields_in(content, "response")
    said = response if response.get("error") or not content.get("error") else content
    return stream_failure(complaint_in(said or content, named=True))


if TYPE_CHECKING:
    _: Decoder = ResponsesDecoder()
