"""An answer of Gemini, read while it arrives."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from backstay.ports import ModelReply
from backstay.providers.failure import broken_off, complaint_in
from backstay.providers.format import Decoder
from backstay.providers.google.calls import OpenCall
from backstay.providers.google.reply import (
    kind_of,
    make_grounding,
    make_opaque,
    make_parts,
    make_usage,
    part_calls,
    stop_for,
)
from backstay.providers.loose import Fields, beginning, fields_in, objects_in, read_sound, text_in
from backstay.providers.sse import SseEvent
from backstay.vocab.deltas import Delta, ReasoningDelta, TextDelta, ToolArgsDelta
from backstay.vocab.errors import ProviderError

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
        self._open: OpenCall | None = None
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

    def ended(self) -> None:
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
                raise broken_off(complaint_in(chunk, named=True))
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
            self._open = OpenCall(part, fields_in(part, "functionCall"))
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
        """The index of a call that never came to its end, where the answer did not come to its own end either."""
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
