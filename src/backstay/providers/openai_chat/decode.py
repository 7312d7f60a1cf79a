"""Reads an answer: chunks as they arrive, or a whole body."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from backstay.ports import ModelReply
from backstay.providers.failure import broken_off, complaint_in
from backstay.providers.format import Decoder
from backstay.providers.loose import beginning, read_json
from backstay.providers.openai_chat.calls import Calls
from backstay.providers.openai_chat.prose import Prose
from backstay.providers.openai_chat.usage import read_usage, usage_in
from backstay.providers.sse import SseEvent
from backstay.vocab.deltas import Delta
from backstay.vocab.errors import ErrorKind, ProviderError
from backstay.vocab.event import Stop


class ChatDecoder:
    """Reads one answer.

    A stream is finished when a finish reason and `[DONE]` have come. Servers that never send `[DONE]` are known by what else stands in
    their last chunk, next to the finish reason and the usage; of the others, `ended` must say that the body came to its proper end.
    """

    def __init__(self) -> None:
        self._prose = Prose()
        self._calls = Calls()
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
            raise broken_off(complaint)
        return self._chunk(chunk) if isinstance(chunk, dict) else ()

    def body(self, content: bytes) -> Sequence[Delta]:
        """Take a whole answer."""
        try:
            said = read_json(content)
        except ValueError as exc:
            raise ProviderError("transport", f"The answer is not JSON ({exc}): {beginning(content)}.") from exc
        if (complaint := complaint_in(said)) is not None:
            raise broken_off(complaint)
        if not isinstance(said, dict) or not said.get("choices"):
            raise ProviderError("unknown", f"The answer is not a chat completion: {beginning(content)}.")
        deltas = self._chunk(said)
        self._finish = self._finish or "unsaid"
        self._whole = True
        return deltas

    def ended(self) -> None:
        """Say that the HTTP body came to its proper end: then a finish reason is enough.

        Only for whoever can tell a proper end from a cut, by the length that was announced or by the last chunk of the transfer.
        """
        self._whole = self._whole or bool(self._finish)

    def reply(self) -> ModelReply:
        """The finished reply."""
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
