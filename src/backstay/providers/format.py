"""The interface of a wire format: encode a request, decode an answer. Bytes in, bytes out, no network."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from backstay.ports import ModelReply, ModelRequest
from backstay.providers.failure import failure
from backstay.providers.http.sse import SseEvent
from backstay.vocab.deltas import Delta
from backstay.vocab.errors import ProviderError
from backstay.vocab.messages import InlineMedia, MediaLink, MediaRef
from backstay.vocab.specs import ModelFacts

LONGEST_NAME: Final = 64
"""Letters that a tool's name may have with every provider."""


def tool_name(name: str) -> str:
    """Return the name of a called tool as every provider takes it: a model may have made it up, and another is told of the call."""
    fit = re.sub(r"[^A-Za-z0-9_-]", "_", name) or "unnamed"
    return (fit if fit[0].isalpha() or fit[0] == "_" else f"_{fit}")[:LONGEST_NAME]


def stand_in(part: object) -> str:
    """Return what is sent in the place of a medium that a format or a model cannot take; empty for what is no medium."""
    match part:
        case InlineMedia():
            what = f"{part.media_type}, {len(part.content)} bytes"
        case MediaRef():
            what = f"{part.media_type}, {part.size} bytes"
        case MediaLink():
            what = f"{part.media_type or 'a file'} at {part.url}"
        case _:
            return ""
    return f"[{what}: this model cannot take it]"


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that is ready to be posted, without address and key."""

    path: str
    """Below the provider's base address, with a leading slash."""
    body: bytes
    headers: dict[str, str] = {}


class Encoder(Protocol):
    """Writes the requests of one conversation, and keeps what it wrote: the next request repeats most of it."""

    def encode(self, request: ModelRequest) -> HttpRequest:
        """Write one request."""


class Decoder(Protocol):
    """Reads one answer while it arrives. Raises `ProviderError` when the provider says in mid-stream that it failed."""

    def event(self, event: SseEvent) -> Sequence[Delta]:
        """Take one event of a stream; return what can be shown of it."""

    def body(self, content: bytes) -> Sequence[Delta]:
        """Take a whole answer that was not streamed."""

    def finish(self) -> None:
        """Hear that the response has ended, and that its framing proves that nothing is missing."""

    def reply(self) -> ModelReply:
        """Return the finished reply. Raise `ProviderError` of kind `transport` unless the provider's terminal event has come."""


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """One provider's way of writing things down."""

    name: str
    """anthropic, openai-responses, openai-chat or google."""
    encoder: Callable[[str, ModelFacts], Encoder]
    """Makes a writer for one conversation with a model; its first argument is whose opaque state may be sent."""
    decoder: Callable[[], Decoder]
    """Makes a reader for one answer."""
    key: str
    """The variable that the key is read from."""
    key_header: tuple[str, str] = ("authorization", "Bearer ")
    """The header that carries the key, and what stands before it."""
    more: Mapping[str, str] = {}
    """Whatever other headers every request needs."""

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers of every request. Without a key none is sent: a local server may need none."""
        name, before = self.key_header
        return {"content-type": "application/json", **({name: before + key} if key else {}), **self.more}

    def failure(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """Say what an answer that is not a success means."""
        return failure(self.key, status, headers, body)
