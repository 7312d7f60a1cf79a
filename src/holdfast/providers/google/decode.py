"""An answer of Gemini, read while it arrives."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.ports import ModelReply
from holdfast.providers.format import Decoder
from holdfast.providers.google.calls import Native, OpenCall
from holdfast.providers.google.errors import make_failure
from holdfast.providers.google.reply import (
    as_object,
    as_objects,
    kind_of,
    make_grounding,
    make_opaque,
    make_parts,
    make_usage,
    part_calls,
    stop_for,
)
from holdfast.providers.sse import SseEvent
from holdfast.vocab.deltas import Delta, ReasoningDelta, TextDelta, ToolArgsDelta
from holdfast.vocab.errors import ProviderError

_MARKS: Final = frozenset(("candidates", "promptFeedback", "usageMetadata", "modelVersion", "responseId"))
"""An object with one of these is a piece of an answer."""


class GoogleDecoder:
    """Reads one answer: chunks of a stream, an array of them, or one object.

    The chunk with a `finishReason` is the terminal one. Chunks after it are still taken, because usage, and sometimes a last
    part, may follow it; a stream that ends before it was cut.
    """

    def __init__(self) -> None:
        self._native: list[Native] = []
        """The parts as they came, pieces of one text and of one call put together."""
        self._open: OpenCall | None = None
        self._calls = 0
        self._finish = ""
        self._finish_message = ""
        self._usage: Native | None = None
        self._model = ""
        self._grounding: list[Native] = []
        self._notes: list[str] = []
        self._known = False
        self._strange = b""
        """The beginning of the first thing that came and is no piece of an answer."""

    def event(self, event: SseEvent) -> Sequence[Delta]:
        """Take one chunk; return what can be shown of it."""
        if event.data.strip() == b"[DONE]":
            return ()
        try:
            content: object = msgspec.json.decode(event.data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            raise ProviderError("transport", f"An event of the answer is not JSON: {_quote(event.data)}.") from exc
        return self._take(content, event.data)

    def body(self, content: bytes) -> Sequence[Delta]:
        """Take a whole answer that was not streamed."""
        try:
            decoded: object = msgspec.json.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            kind: Final = "transport" if content.lstrip()[:1] in (b"", b"{", b"[") else "unknown"
            raise ProviderError(kind, f"The answer is not JSON, or was cut: {_quote(content)}.") from exc
        deltas = self._take(decoded, content)
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
                raise make_failure(chunk["error"])
            if isinstance(chunk, dict) and not _MARKS.isdisjoint(chunk):
                self._known = True
                self._chunk(chunk, deltas)
            else:
                self._strange = self._strange or raw[:1000]
        return deltas

    def _chunk(self, chunk: Native, deltas: list[Delta]) -> None:
        candidates = as_objects(chunk.get("candidates"))
        if not candidates:
            _refuse_blocked(as_object(chunk.get("promptFeedback")))
        model = chunk.get("modelVersion")
        self._model = model if isinstance(model, str) else self._model
        usage = as_object(chunk.get("usageMetadata"))
        if make_usage(usage) is not None:
            self._usage = usage
        for candidate in candidates:
            if candidate.get("index") in (None, 0):
                self._candidate(candidate, deltas)
            else:
                self._note("the provider sent more than one candidate: only the first one counts")

    def _candidate(self, candidate: Native, deltas: list[Delta]) -> None:
        for part in as_objects(as_object(candidate.get("content")).get("parts")):
            if "functionCall" in part:
                self._call(part, deltas)
            else:
                self._part(part, deltas)
        if any(as_object(candidate.get(name)) for name in ("groundingMetadata", "urlContextMetadata")):
            self._grounding.append(candidate)
        finish = candidate.get("finishReason")
        if isinstance(finish, str) and finish and finish != "FINISH_REASON_UNSPECIFIED":
            message = candidate.get("finishMessage")
            self._finish, self._finish_message = finish, message if isinstance(message, str) else ""

    def _part(self, part: Native, deltas: list[Delta]) -> None:
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

    def _call(self, part: Native, deltas: list[Delta]) -> None:
        call = as_object(part["functionCall"])
        if "name" in call or (self._open is None and "args" in call):
            self._close(deltas)
            part = {**part, "functionCall": {name: call[name] for name in ("id", "name", "args") if name in call}}
            self._native.append(part)
            self._open = OpenCall(part, as_object(part["functionCall"]))
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
            name, args = self._open.call.get("name"), msgspec.json.encode(self._open.call["args"]).decode()
            deltas.append(ToolArgsDelta(index=self._calls - 1, name=name if isinstance(name, str) else "", text=args))
        self._open = None

    def _cut(self) -> int:
        """The index of a call that never came to its end, where the answer did not come to its own end either."""
        if self._open is None or self._finish == "STOP":
            return -1
        return next(index for index, part in enumerate(self._native) if part is self._open.part)

    def _note(self, note: str) -> None:
        if note not in self._notes:
            self._notes.append(note)


def _refuse_blocked(feedback: Native) -> None:
    reason = feedback.get("blockReason")
    if reason:
        words = feedback.get("blockReasonMessage")
        detail = f": {words[:500]}" if isinstance(words, str) and words else ""
        raise ProviderError("content_filter", f"The provider blocked the prompt for {reason!r}{detail}.")


def _not_an_answer(content: bytes) -> ProviderError:
    return ProviderError("unknown", f"This is not an answer of the model: {_quote(content)}.")


def _quote(content: bytes) -> str:
    return repr(content[:1000].decode("utf-8", "replace")[:200])


if TYPE_CHECKING:
    _: Decoder = GoogleDecoder()
