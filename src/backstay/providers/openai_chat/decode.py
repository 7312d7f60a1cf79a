"""Decode an answer of Chat Completions: chunks as they arrive, or a whole body."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct, field

from backstay.ports import ModelReply
from backstay.providers.failure import complaint_in, stream_failure
from backstay.providers.format import Decoder
from backstay.providers.http.loose_json import (
    beginning,
    count_in,
    fields_in,
    json_text,
    make_unique,
    mend,
    read_json,
    replace_halves,
)
from backstay.providers.http.sse import SseEvent
from backstay.providers.openai_chat.prose import Prose
from backstay.vocab.deltas import Delta, ToolArgsDelta
from backstay.vocab.errors import ErrorKind, ProviderError
from backstay.vocab.event import Stop
from backstay.vocab.messages import ToolCall
from backstay.vocab.specs import Usage


class StreamedCall(Struct, eq=False):
    """A call whose pieces are still arriving."""

    index: int | None
    id: str = ""
    name: str = ""
    args: list[str] = field(default_factory=list)
    extra: dict[str, object] = field(default_factory=dict)
    """What only the server that sent it can read, such as the signature of a thought."""


class StreamedCalls:
    """The calls of one answer."""

    def __init__(self) -> None:
        self._calls: list[StreamedCall] = []

    def take(self, entries: object) -> list[ToolArgsDelta]:
        """Add the pieces of a `tool_calls` list."""
        if not isinstance(entries, list):
            return []
        return [self._take(entry) for entry in entries if isinstance(entry, dict)]

    def take_function(self, entry: object) -> list[ToolArgsDelta]:
        """Add a piece of the one call that `function_call`, the older form, can have."""
        return [self._take({"index": 0, "function": entry})] if isinstance(entry, dict) else []

    @property
    def bound(self) -> bool:
        """Whether a call carries something that must go back to the server that sent it."""
        return any(call.extra for call in self._calls)

    def parts(self) -> tuple[list[ToolCall], list[str]]:
        """Return the calls, no two with the same id, and what was odd about them."""
        parts: list[ToolCall] = []
        notes: list[str] = []
        used: set[str] = set()
        for call in self._real_calls():
            name = make_unique(call.id, used)
            if name != call.id:
                notes.append(f"two calls came with the id {call.id!r}; one is called {name!r}")
            used.add(name)
            parts.append(ToolCall(id="", name=mend(call.name), args=mend("".join(call.args)), provider_id=name))
        return parts, notes

    def native(self) -> list[dict[str, object]]:
        """Return the calls as they are sent back; the writer puts in ids and arguments."""
        return [
            {**call.extra, "type": "function", "function": {"name": mend(call.name)}} for call in self._real_calls()
        ]

    def _real_calls(self) -> list[StreamedCall]:
        """Return the calls that have an id, a name or arguments."""
        return [call for call in self._calls if call.id or call.name or any(call.args)]

    def _take(self, entry: dict[str, object]) -> ToolArgsDelta:
        function = entry.get("function")
        inner: dict[str, object] = function if isinstance(function, dict) else {}
        id, name, args = _text(entry.get("id")), _text(inner.get("name")), _arguments(inner.get("arguments"))
        index = entry.get("index")
        call = self._find(index if isinstance(index, int) else None, id, name, args)
        call.id = call.id or id
        call.name = _extend_name(call.name, name)
        call.args.append(args)
        call.extra.update((key, value) for key, value in entry.items() if key not in _OURS and value is not None)
        return ToolArgsDelta(index=self._calls.index(call), name=replace_halves(call.name), text=replace_halves(args))

    def _find(self, index: int | None, id: str, name: str, args: str) -> StreamedCall:
        for call in reversed(self._calls):
            fits = call.index == index if index is not None else call.id == id if id else call is self._calls[-1]
            if fits:
                if _begins_another(call, id, name, args):
                    break
                return call
        self._calls.append(StreamedCall(index=index))
        return self._calls[-1]


_OURS = frozenset(("id", "index", "type", "function"))


def _begins_another(call: StreamedCall, id: str, name: str, args: str) -> bool:
    """Return whether a piece that could continue `call` is the beginning of the next one instead."""
    if id and call.id and id != call.id:
        return True
    if not name or not call.name:
        return False
    if call.index is None and name != call.name:
        return True
    return bool(args.strip()) and _is_whole("".join(call.args))


def _is_whole(args: str) -> bool:
    if not args.rstrip().endswith("}"):
        return False
    try:
        msgspec.json.decode(args)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
    return True


def _extend_name(name: str, piece: str) -> str:
    """Return a name that comes in pieces, joined; one that is repeated stays as it is."""
    if not piece or piece == name:
        return name
    return piece if piece.startswith(name) else name + piece


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _arguments(value: object) -> str:
    """Return the text of arguments; some servers send the object itself."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json_text(value)


def usage_in(chunk: Mapping[str, object]) -> Mapping[str, object] | None:
    """Return the counts that a chunk or a body carries, if it carries any."""
    for holder in (chunk, fields_in(chunk, "x_groq")):
        counts = fields_in(holder, "usage")
        if any(isinstance(count, int) for count in counts.values()):
            return counts
    return None


def read_usage(counts: Mapping[str, object]) -> Usage:
    """Return `counts` in our terms: cached tokens are part of the input, reasoning is part of the output.

    A server that counts one of them apart gives itself away: only with it do its numbers make its total.
    """
    prompt, completion = count_in(counts, "prompt_tokens"), count_in(counts, "completion_tokens")
    sent, made = fields_in(counts, "prompt_tokens_details"), fields_in(counts, "completion_tokens_details")
    read = _first(
        (sent, "cached_tokens"),
        (counts, "prompt_cache_hit_tokens"),
        (counts, "cache_read_input_tokens"),
        (counts, "cached_tokens"),
    )
    written = _first((sent, "cache_write_tokens"), (counts, "cache_creation_input_tokens"))
    reasoning = _first((made, "reasoning_tokens"), (counts, "reasoning_tokens"))
    apart = count_in(counts, "total_tokens") - prompt - completion
    aside = apart > 0 and apart in (reasoning, reasoning + read + written)
    cached_aside = apart > 0 and apart in (read + written, reasoning + read + written)
    return Usage(
        input=prompt + (read + written if cached_aside else 0),
        output=completion + (reasoning if aside else 0),
        cache_read=read,
        cache_write=written,
        reasoning=reasoning,
    )


def _first(*places: tuple[Mapping[str, object], str]) -> int:
    return next((number for holder, key in places if (number := count_in(holder, key))), 0)


class ChatDecoder:
    """Reads one answer.

    A stream is finished when a finish reason and `[DONE]` have come. Servers that never send `[DONE]` are known by what else stands in
    their last chunk, next to the finish reason and the usage; of the others, `finish` must say that the body came to its proper end.
    """

    def __init__(self) -> None:
        self._prose = Prose()
        self._calls = StreamedCalls()
        self._usage: Mapping[str, object] | None = None
        self._model = ""
        self._finish = ""
        self._whole = False
        self._index: object = None
        """Of the answer that counts: the first one that came."""
        self._other_choices = False

    def event(self, event: SseEvent) -> Sequence[Delta]:
        """Take one chunk."""
        content = event.data.strip()
        if content == b"[DONE]":
            self._whole = True
            return ()
        if not content or self._whole:
            return ()
        try:
            chunk = read_json(content)
        except ValueError as exc:
            raise ProviderError(
                "transport", f"A chunk of the stream is not JSON ({exc}): {beginning(content)}."
            ) from exc
        if (complaint := complaint_in(chunk, named=event.name == "error")) is not None:
            raise stream_failure(complaint)
        return self._chunk(chunk) if isinstance(chunk, dict) else ()

    def body(self, content: bytes) -> Sequence[Delta]:
        """Take a whole answer."""
        try:
            said = read_json(content)
        except ValueError as exc:
            raise ProviderError("transport", f"The answer is not JSON ({exc}): {beginning(content)}.") from exc
        if (complaint := complaint_in(said)) is not None:
            raise stream_failure(complaint)
        if not isinstance(said, dict) or not said.get("choices"):
            raise ProviderError("unknown", f"The answer is not a chat completion: {beginning(content)}.")
        deltas = self._chunk(said)
        self._finish = self._finish or "unsaid"
        self._whole = True
        return deltas

    def finish(self) -> None:
        """Note that the HTTP body came to its proper end: then a finish reason is enough.

        Only for whoever can tell a proper end from a cut, by the length that was announced or by the last chunk of the transfer.
        """
        self._whole = self._whole or bool(self._finish)

    def reply(self) -> ModelReply:
        """Return the finished reply."""
        if not (self._whole and self._finish):
            raise ProviderError("transport", "The stream ended without its final event: it was cut. Ask again.")
        if self._finish in _BREAKDOWNS:
            raise ProviderError(_BREAKDOWNS[self._finish], f"The provider gave up its answer: {self._finish!r}.")
        calls, notes = self._calls.parts()
        notes += self._notes(bool(calls))
        return ModelReply(
            parts=(*self._prose.parts(), *calls),
            stop=self._stop(bool(calls)),
            usage=read_usage(self._usage) if self._usage is not None else None,
            model=self._model,
            opaque=self._opaque(),
            notes=tuple(notes),
        )

    def _chunk(self, chunk: dict[str, object]) -> Sequence[Delta]:
        if isinstance(model := chunk.get("model"), str) and model:
            self._model = model
        self._usage = usage_in(chunk) or self._usage
        deltas: list[Delta] = []
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict):
                deltas += self._choice(choice)
        if self._finish and usage_in(chunk) and any(mark in chunk for mark in _LAST_CHUNK):
            self._whole = True
        return deltas

    def _choice(self, choice: dict[str, object]) -> Sequence[Delta]:
        index = choice.get("index") or 0
        if self._index is None:
            self._index = index
        if index != self._index:
            self._other_choices = True
            return ()
        if isinstance(finish := choice.get("finish_reason"), str) and finish:
            self._finish = finish
        message = choice.get("delta") or choice.get("message")
        if not isinstance(message, dict):
            message = {"content": choice.get("text")}
        return (
            *self._prose.take(message),
            *self._calls.take(message.get("tool_calls")),
            *self._calls.take_function(message.get("function_call")),
        )

    def _stop(self, called: bool) -> Stop:
        stop = _STOPS.get(self._finish, "other")
        if called:
            return "length" if stop == "length" else "tool_calls"
        if stop == "tool_calls":
            return "other"
        return "filter" if self._prose.refused and stop != "length" else stop

    def _notes(self, called: bool) -> list[str]:
        notes: list[str] = []
        if self._usage is None:
            notes.append("the provider sent no usage")
        if self._prose.refused:
            notes.append("the model refused")
        if self._finish not in _STOPS:
            notes.append(f"the provider gave an unknown finish reason: {self._finish!r}")
        elif _STOPS[self._finish] == "filter":
            notes.append("the provider's content filter stopped the reply")
        elif _STOPS[self._finish] == "tool_calls" and not called:
            notes.append("the provider announced calls and sent none")
        if self._other_choices:
            notes.append("the provider sent several answers; the first one counts")
        return notes

    def _opaque(self) -> bytes:
        fields = self._prose.native(bound=self._calls.bound)
        if not fields:
            return b""
        calls = self._calls.native()
        return msgspec.json.encode({"role": "assistant", **fields} | ({"tool_calls": calls} if calls else {}))


_STOPS: Final[Mapping[str, Stop]] = {
    "stop": "end",
    "eos": "end",
    "stop_sequence": "end",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "filter",
}
_BREAKDOWNS: Final[Mapping[str, ErrorKind]] = {
    "error": "transport",
    "abort": "transport",
    "insufficient_system_resource": "overloaded",
}
"""Finish reasons that mean that there is no answer."""
_LAST_CHUNK: Final = ("time_info",)
"""Fields that only the last chunk of a server without `[DONE]` has: what the whole answer took."""

if TYPE_CHECKING:
    _: Decoder = ChatDecoder()
