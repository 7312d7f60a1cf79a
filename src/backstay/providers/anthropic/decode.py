"""Decode the answers of the Messages API, streamed or whole."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct, field

from backstay.ports import ModelReply
from backstay.providers.failure import complaint_in, stream_failure
from backstay.providers.format import Decoder
from backstay.providers.http.loose_json import (
    Fields,
    beginning,
    count_in,
    fields_in,
    object_text,
    objects_in,
    read_sound,
    text_in,
)
from backstay.providers.http.sse import SseEvent
from backstay.vocab.deltas import Delta, ReasoningDelta, TextDelta, ToolArgsDelta
from backstay.vocab.errors import ProviderError
from backstay.vocab.event import Stop
from backstay.vocab.messages import InFlightPart, Reasoning, ServerBlock, Text, ToolCall
from backstay.vocab.specs import Usage

_STOPS: Final[Mapping[str, Stop]] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "filter",
}
_KNOWN: Final = ("server_tool_use", "mcp_tool_use", "compaction", "fallback", "container_upload", "redacted_thinking")
_COUNTS: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
_TELLING: Final = (
    "query", "url", "title", "text", "code", "command", "path", "stdout", "stderr", "error_code", "tool_name",
)  # fmt: skip
_MAX_CONTENT: Final = 500


class ContentBlock(Struct, kw_only=True):
    """One block of the content: as it began, and what was added since."""

    start: Fields
    added: dict[str, list[str]] = field(default_factory=dict)
    citations: list[object] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """The provider's name for this kind of block."""
        return text_in(self.start, "type")

    @property
    def name(self) -> str:
        """The tool's, where there is one."""
        return text_in(self.start, "name")

    @property
    def args(self) -> str:
        """The arguments of a call as they were sent; empty when there are none yet."""
        given = self.start.get("input")
        return "".join(self.added.get("input", ())) or (msgspec.json.encode(given).decode() if given else "")

    def add(self, key: str, piece: str) -> str:
        """Append `piece` to the text under `key`, and return it."""
        if piece:
            self.added.setdefault(key, []).append(piece)
        return piece

    def text(self, key: str) -> str:
        """Return the whole text under `key`."""
        return text_in(self.start, key) + "".join(self.added.get(key, ()))

    def native(self) -> Fields:
        """Return the block as it must be sent back."""
        block = dict(self.start)
        for key in self.added:
            if key != "input" and (block.get(key) is None or isinstance(block[key], str)):
                block[key] = self.text(key)
        if "input" in block or "input" in self.added:
            block["input"] = arguments(self.args)
        if self.citations:
            block["citations"] = [*_as_list(block.get("citations")), *self.citations]
        elif block.get("citations") is None:
            block.pop("citations", None)
        return block


class PartialReply(Struct, kw_only=True):
    """The part of an answer that has arrived."""

    id: str = ""
    model: str = ""
    blocks: dict[int, ContentBlock] = field(default_factory=dict)
    usage: Fields = field(default_factory=dict)
    stop_reason: str = ""
    stop_details: Fields = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def conclude(self, delta: Mapping[str, object], usage: Mapping[str, object]) -> None:
        """Take what is said of the whole answer. Counts are totals: the newest holds, but a 0 says nothing."""
        self.stop_reason = text_in(delta, "stop_reason") or self.stop_reason
        self.stop_details = fields_in(delta, "stop_details") or self.stop_details
        self.usage.update({key: value for key, value in usage.items() if value or key not in self.usage})


def arguments(text: str) -> msgspec.Raw:
    """Return the arguments of a call as a JSON object, spelled as they were sent."""
    return msgspec.Raw(object_text(text).encode())


def finish(answer: PartialReply) -> ModelReply:
    """Make the reply of an answer whose end has come."""
    blocks = [block for _, block in sorted(answer.blocks.items())]
    notes = [*answer.notes, *_tell_apart(blocks), *_unknown(blocks)]
    stop = _stop(answer, blocks, notes)
    parts = tuple(_parts(blocks, cut=stop == "length"))
    usage = _usage(answer.usage)
    if usage is None:
        notes.append("the provider sent no usage")
    return ModelReply(
        parts=parts, stop=stop, usage=usage, model=answer.model, opaque=_opaque(blocks, stop), notes=tuple(notes)
    )


def _tell_apart(blocks: Sequence[ContentBlock]) -> Iterator[str]:
    """Give each call an id of its own: results are matched by it."""
    seen: set[str] = set()
    for block in blocks:
        if block.kind != "tool_use":
            continue
        given = wanted = text_in(block.start, "id")
        count = 1
        while wanted in seen:
            count += 1
            wanted = f"{given}-{count}"
        if wanted != given:
            block.start = {**block.start, "id": wanted}
            yield f"the call id {given!r} came again; the later call is {wanted!r}"
        seen.add(wanted)


def _unknown(blocks: Sequence[ContentBlock]) -> Iterator[str]:
    for block in blocks:
        known = block.kind in ("text", "thinking", "tool_use", *_KNOWN) or block.kind.endswith("_tool_result")
        if not known:
            yield f"an unknown kind of block: {block.kind!r}"


def _stop(answer: PartialReply, blocks: Sequence[ContentBlock], notes: list[str]) -> Stop:
    reason = answer.stop_reason
    stop = _STOPS.get(reason, "other")
    if reason == "refusal":
        why = text_in(answer.stop_details, "explanation") or text_in(answer.stop_details, "category")
        notes.append(f"the model refused{f': {why}' if why else ''}"[:_MAX_CONTENT])
    elif reason == "pause_turn":
        notes.append("the provider paused in the middle of its own tools; ask again to let it go on")
    elif stop == "other":
        notes.append(f"the answer stopped for {reason!r}" if reason else "the provider did not say why it stopped")
    calls = any(block.kind == "tool_use" for block in blocks)
    if calls:
        return stop if stop == "length" else "tool_calls"
    return "other" if stop == "tool_calls" else stop


def _usage(usage: Mapping[str, object]) -> Usage | None:
    if not any(isinstance(usage.get(key), int) for key in _COUNTS):
        return None
    fresh, written, read, output = (count_in(usage, key) for key in _COUNTS)
    return Usage(
        input=fresh + written + read,
        output=output,
        cache_read=read,
        cache_write=written,
        reasoning=count_in(fields_in(usage, "output_tokens_details"), "thinking_tokens"),
    )


# --- parts -----------------------------------------------------------------------------------------------------------


def _parts(blocks: Sequence[ContentBlock], *, cut: bool) -> Iterator[InFlightPart]:
    names = {text_in(block.start, "id"): block.name for block in blocks}
    for block in blocks:
        match block.kind:
            case "text":
                if text := block.text("text"):
                    yield Text(text=text)
            case "thinking":
                if text := block.text("thinking"):
                    yield Reasoning(text=text)
            case "redacted_thinking":
                pass  # nobody can read it; it is in the opaque state
            case "tool_use":
                unfinished = cut and block is blocks[-1]  # no arguments yet is not the same as none
                args = block.args or ("" if unfinished else "{}")
                yield ToolCall(id="", name=block.name, args=args, provider_id=text_in(block.start, "id"))
            case _:
                yield _server_block(block, names)


def _server_block(block: ContentBlock, names: Mapping[str, str]) -> ServerBlock:
    native = block.native()
    name = block.name or names.get(text_in(native, "tool_use_id"), "")
    said = (_gist(msgspec.json.decode(block.args)) if _is_json(block.args) else "") or block.args
    return ServerBlock(kind=block.kind or "unknown", name=name, content=(said or _gist(native))[:_MAX_CONTENT])


def _gist(value: object) -> str:
    """Return what a person would want to read of a block, without what is encrypted."""
    if isinstance(value, list):
        return "; ".join(filter(None, map(_gist, value[:10])))
    if not isinstance(value, dict):
        return ""
    said = [value[key].strip() for key in _TELLING if isinstance(value.get(key), str)]
    content = value.get("content")
    inner = content.strip() if isinstance(content, str) else _gist(content)
    return "; ".join(
        filter(None, (*said, inner, *(_gist(each) for key, each in value.items() if _is_nested(key, each))))
    )


def _is_nested(key: str, value: object) -> bool:
    return key not in ("content", "caller", "input", "citations") and isinstance(value, dict | list)


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
    return True


# --- opaque state ----------------------------------------------------------------------------------------------------


def _opaque(blocks: Sequence[ContentBlock], stop: Stop) -> bytes:
    """Return the content to send back, when `parts` cannot say it all."""
    content = [block.native() for block in blocks if not _is_blank(block)]
    if stop != "tool_calls":  # after calls, the provider itself fills in what its tools still owe
        content = [block for block in content if not _lacks_result(block, content)]
    while content and content[-1].get("type") in ("thinking", "redacted_thinking"):
        content.pop()  # thought that led to nothing is refused
    return msgspec.json.encode(content) if any(not _is_plain(block) for block in content) else b""


def _is_blank(block: ContentBlock) -> bool:
    return block.kind == "text" and not block.text("text").strip()


def _lacks_result(block: Mapping[str, object], content: Sequence[Mapping[str, object]]) -> bool:
    """Return whether the provider began one of its tools and gave no result: sent back like that, it is refused."""
    if block.get("type") not in ("server_tool_use", "mcp_tool_use"):
        return False
    return not any(each.get("tool_use_id") == block.get("id") for each in content)


def _is_plain(block: Mapping[str, object]) -> bool:
    match block.get("type"):
        case "text":
            return not block.get("citations") and set(block) <= {"type", "text", "citations"}
        case "tool_use":
            direct = fields_in(block, "caller").get("type", "direct") == "direct"
            return direct and set(block) <= {"type", "id", "name", "input", "caller"}
        case _:
            return False


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


_DONE: Final = b"[DONE]"
"""Some servers that imitate the API end with it."""


class AnthropicDecoder:
    """Collects one answer. It is finished with `message_stop`; whatever comes after that belongs to nobody."""

    def __init__(self) -> None:
        self._answer = PartialReply()
        self._finished = False

    def event(self, event: SseEvent) -> Sequence[Delta]:
        """Take one event of a stream."""
        if self._finished or event.data.strip() in (b"", _DONE):
            return ()
        fields = _read(event.data, "An event of the answer")
        match text_in(fields, "type") or event.name:
            case "message_start":
                return self._begin(fields_in(fields, "message"))
            case "content_block_start":
                return self._open(count_in(fields, "index"), fields_in(fields, "content_block"))
            case "content_block_delta":
                return self._grow(count_in(fields, "index"), fields_in(fields, "delta"))
            case "message_delta":
                self._answer.conclude(fields_in(fields, "delta"), fields_in(fields, "usage"))
            case "message_stop":
                self._finished = True
            case "error":
                raise stream_failure(complaint_in(fields, named=True))
            case _:
                pass  # ping, the end of a block, and what is yet to be invented
        return ()

    def body(self, content: bytes) -> Sequence[Delta]:
        """Take a whole answer."""
        fields = _read(content, "The answer")
        if fields.get("type") == "error" or ("error" in fields and "content" not in fields):
            raise stream_failure(complaint_in(fields, named=True))
        if not isinstance(fields.get("content"), list):
            raise ProviderError(
                "unknown", f"The answer is not a message: it has no content. It is {beginning(content)}."
            )
        deltas = self._begin(fields)
        self._finished = True
        return deltas

    def finish(self) -> None:
        """Hear that the response has ended; the provider's own last word is what counts."""

    def reply(self) -> ModelReply:
        """Return the finished reply."""
        if not self._finished:
            raise ProviderError("transport", "The answer ended without its final event: it was cut.")
        return finish(self._answer)

    def _begin(self, message: Mapping[str, object]) -> Sequence[Delta]:
        """Start the answer, or start it anew: a proxy that asked again splices the second answer after half of the first."""
        if self._answer.id and text_in(message, "id") == self._answer.id:
            return ()
        notes = ["the provider began the answer anew; what came before is left out"] if self._answer.blocks else []
        self._answer = PartialReply(id=text_in(message, "id"), model=text_in(message, "model"), notes=notes)
        self._answer.conclude(message, fields_in(message, "usage"))
        deltas: list[Delta] = []
        for index, block in enumerate(objects_in(message, "content")):
            deltas += self._open(index, block)
        return deltas

    def _open(self, index: int, start: Fields) -> Sequence[Delta]:
        block = ContentBlock(start=start)
        self._answer.blocks[index] = block
        match block.kind:
            case "text":
                text = text_in(start, "text")
                return (TextDelta(text=text),) if text else ()
            case "thinking":
                text = text_in(start, "thinking")
                return (ReasoningDelta(text=text),) if text else ()
            case "tool_use" if fields_in(start, "input"):
                return (ToolArgsDelta(index=self._nth_call(index), name=block.name, text=block.args),)
            case _:
                return ()

    def _grow(self, index: int, delta: Mapping[str, object]) -> Sequence[Delta]:
        block = self._answer.blocks.get(index)
        if block is None:
            raise ProviderError(
                "transport", f"The answer goes on with block {index}, which never began: a part is lost."
            )
        match delta.get("type"):
            case "text_delta":
                text = block.add("text", text_in(delta, "text"))
                return (TextDelta(text=text),) if text else ()
            case "thinking_delta":
                text = block.add("thinking", text_in(delta, "thinking"))
                return (ReasoningDelta(text=text),) if text else ()
            case "input_json_delta":
                text = block.add("input", text_in(delta, "partial_json"))
                shown_args = text and block.kind == "tool_use"
                return (ToolArgsDelta(index=self._nth_call(index), name=block.name, text=text),) if shown_args else ()
            case "citations_delta":
                block.citations.append(delta.get("citation"))
            case _:
                for key, value in delta.items():
                    if key != "type" and isinstance(value, str):
                        block.add(key, value)
        return ()

    def _nth_call(self, index: int) -> int:
        blocks = self._answer.blocks
        return sum(1 for at, block in blocks.items() if at < index and block.kind == "tool_use")


def _read(content: bytes, called: str) -> Fields:
    value = read_sound(content, called)
    if not isinstance(value, dict):
        raise ProviderError("transport", f"{called} is not a JSON object: {beginning(content)}.")
    return value


if TYPE_CHECKING:
    _: Decoder = AnthropicDecoder()
