"""Decode one answer of a model as it arrives: bytes, split anywhere, become deltas and at the end a reply. No network."""

from collections.abc import Callable, Sequence
from typing import Final, Literal

import msgspec

from backstay.ports import ModelReply
from backstay.providers.format import Format
from backstay.providers.http.sse import SseEvent, SseParser
from backstay.vocab.deltas import Delta
from backstay.vocab.errors import ProviderError

PayloadKind = Literal["stream_event", "response"]
Watch = Callable[[PayloadKind, str, bytes], None]
"""Sees each payload as it came: its kind, the name of the event, the bytes."""

SHOWN: Final = 200
"""Characters of something unexpected that an error shows."""
MAX_BODY: Final = 64 * 1024 * 1024
"""An answer longer than this is not one."""
_BLANK: Final = b" \t\r\n\xef\xbb\xbf"
"""What may stand before the first word: white space and a byte order mark."""


class HttpAnswer:
    """Reads the body of a successful response.

    Whether it is an event stream or one JSON document is told by its first byte, and by its content type where that leaves room: servers
    that mislabel one as the other are common.
    """

    def __init__(self, format: Format, content_type: str = "", watch: Watch | None = None) -> None:
        self._decoder = format.decoder()
        self._type = content_type.partition(";")[0].strip().lower()
        self._watch = watch
        self._lead: bytes | None = b""
        """What came before it was clear what comes; None once that is clear."""
        self._whole: bytearray | None = None
        self._stream = SseParser()
        self._head = b""
        self._reply: ModelReply | None = None
        """What the last look found; it holds until more comes."""
        self.size = 0
        """Bytes that have come."""
        self.payloads = 0
        """Events, or documents, that have come."""

    def feed(self, chunk: bytes) -> Sequence[Delta]:
        """Take the next bytes; return what can be shown of them."""
        self.size += len(chunk)
        if self._lead is not None:
            chunk = self._begin(self._lead + chunk)
        if self._whole is not None:
            self._whole += chunk
            if len(self._whole) > MAX_BODY:
                raise ProviderError(
                    "transport", f"The answer has more than {MAX_BODY:,} bytes: no model says that much."
                )
            return ()
        deltas: list[Delta] = []
        for event in self._events(chunk):
            self.payloads += 1
            self._reply = None
            if self._watch is not None:
                self._watch("stream_event", event.name, event.data)
            shown = self._read(event)
            if not shown:
                _refuse_garbage(event.data)
            deltas += shown
        return deltas

    def close(self, *, whole: bool = False) -> Sequence[Delta]:
        """Say that the body has ended; return what can be shown of a body that was not streamed.

        `whole`: the transport proves that nothing of it is missing. Some servers stop without a last word of their own.
        """
        if whole:
            self._decoder.finish()
        if self._whole is not None:
            body = bytes(self._whole)
            self.payloads += 1
            if self._watch is not None:
                self._watch("response", "", body)
            return self._read(body)
        if self._head and not self.payloads and self._type != "text/event-stream":
            raise ProviderError("unknown", _not_an_answer(self._type, self._head))
        return ()

    def reply(self) -> ModelReply:
        """Return the finished reply. Raise `ProviderError` when the provider's last word has not come."""
        if self._reply is None:
            self._reply = self._decoder.reply()
        return self._reply

    def is_finished(self) -> bool:
        """Return whether the provider's last word has come: then a connection that breaks changes nothing."""
        if self._whole is not None:
            return False
        try:
            self.reply()
        except ProviderError:
            return False
        return True

    def _begin(self, lead: bytes) -> bytes:
        first = lead.lstrip(_BLANK)
        if not first:
            self._lead = lead
            return b""
        self._lead = None
        self._head = first[: SHOWN * 4]
        if first[:1] in (b"{", b"[") or (self._type.endswith("json") and first[:1] not in b"deir:"):
            self._whole = bytearray()
            return first
        return lead

    def _events(self, chunk: bytes) -> Sequence[SseEvent]:
        try:
            return self._stream.feed(chunk)
        except ValueError as exc:
            raise ProviderError("transport", f"The answer is not an event stream: {exc}.") from exc

    def _read(self, payload: SseEvent | bytes) -> Sequence[Delta]:
        try:
            return self._decoder.body(payload) if isinstance(payload, bytes) else self._decoder.event(payload)
        except msgspec.DecodeError as exc:
            shown = quote_beginning(payload if isinstance(payload, bytes) else payload.data)
            raise ProviderError("transport", f"The provider sent something unreadable ({exc}): {shown!r}.") from exc


def _refuse_garbage(payload: bytes) -> None:
    """Raise when an event that showed nothing is not JSON: what it was to say is lost, even where the adapter goes on without it."""
    try:
        msgspec.json.decode(payload, type=msgspec.Raw)
    except ValueError as exc:
        if payload.strip() not in (b"", b"[DONE]"):
            raise ProviderError(
                "transport", f"The stream is broken: {quote_beginning(payload)!r} is not an event."
            ) from exc


def quote_beginning(content: bytes) -> str:
    """Return the beginning of an answer that is not as expected."""
    text = content[: SHOWN * 4].decode("utf-8", "replace")
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _not_an_answer(content_type: str, head: bytes) -> str:
    what = content_type or "something without a content type"
    return (
        f"The address answered with {what}, which is not an answer of a model. "
        f"It begins: {quote_beginning(head)!r}. Is the address right?"
    )
