"""Messages and their parts, in two forms.

*Durable* parts are what the log holds: media and long text only as handles, reasoning without its signature. *In-flight* parts are what
a provider adapter sends and receives. `logic/stored_content.py` turns one into the other.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

import msgspec

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST: Final = -62_135_424_000_000_000
_LAST: Final = 253_402_128_000_000_000
"""A day within what a calendar has, so that every zone has it."""
Role = Literal["system", "user", "assistant", "tool"]


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", gc=False):
    """A piece of a message."""


class Text(Part, frozen=True, kw_only=True, tag="text"):
    """Plain text."""

    text: str


class TextRef(Part, frozen=True, kw_only=True, tag="text_ref"):
    """A text too long for an event: it is a blob, and this is its handle."""

    sha256: str
    chars: int
    tokens: int
    """An estimate, taken when the text was stored, so that folds stay pure."""
    head: str = ""
    """The first characters, for lists and search."""


class Reasoning(Part, frozen=True, kw_only=True, tag="reasoning"):
    """What the model thought aloud. Carries no signature."""

    text: str


class ToolCall(Part, frozen=True, kw_only=True, tag="tool_call"):
    """The model wants a tool run. `args` is the text the model sent, well formed or not."""

    id: str
    name: str
    args: str
    provider_id: str = ""
    """The provider's own id for the call: data only."""


class MediaRef(Part, frozen=True, kw_only=True, tag="media_ref"):
    """An image, a sound or a document, by handle."""

    sha256: str
    media_type: str
    size: int
    name: str = ""


class MediaLink(Part, frozen=True, kw_only=True, tag="media_link"):
    """An image, a sound or a document that the provider fetches itself: by its address, or by its id in the provider's own file store."""

    url: str
    """An address, or `file:ID`."""
    media_type: str = ""
    name: str = ""


class ToolResult(Part, frozen=True, kw_only=True, tag="tool_result"):
    """What a call gave back."""

    call: str
    content: tuple["Text | TextRef | MediaRef | InlineMedia", ...] = ()
    """In flight, media are there as bytes; what is stored has handles only."""
    is_error: bool = False


class ServerBlock(Part, frozen=True, kw_only=True, tag="server_block"):
    """Something that only the provider that made it can read: a tool that it ran itself, or a kind of block that is new to us.

    It marks the place and says what stood there. The thing itself is in the reply's opaque state and goes back to the same provider only.
    """

    kind: str
    """The provider's own name for this kind of block."""
    name: str = ""
    """The tool that the provider ran, if it ran one."""
    content: str = ""
    """What it was given or what came of it, shortened."""


class SignedReasoning(Part, frozen=True, kw_only=True, tag="signed_reasoning"):
    """In flight only: reasoning with the provider's opaque proof of it."""

    text: str
    signature: str
    provider: str


class InlineMedia(Part, frozen=True, kw_only=True, tag="inline_media"):
    """In flight only: media as bytes."""

    media_type: str
    content: bytes
    name: str = ""


StoredPart = Text | TextRef | Reasoning | ToolCall | MediaRef | MediaLink | ServerBlock
"""What an event may hold: media and long texts only by handle, no signature. A result is an event of its own."""
DurablePart = StoredPart | ToolResult
"""What a message of the transcript is made of."""
InputPart = Text | TextRef | MediaRef | MediaLink
"""What a person may send, once it is stored."""
InFlightPart = (
    Text | Reasoning | SignedReasoning | ToolCall | ToolResult | MediaRef | MediaLink | ServerBlock | InlineMedia
)


class Message(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One message as a provider adapter sees it, every handle of text and media already resolved."""

    role: Role
    parts: tuple[InFlightPart, ...]
    opaque: bytes = b""
    """The reply as its provider wrote it (JSON), where `parts` cannot say everything: signatures, encrypted reasoning, server tools."""
    provider: str = ""
    """Who wrote `opaque`. Only the same provider is sent it, in place of `parts`."""


class SessionMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One message of a session's transcript: appended, never edited, never deleted."""

    id: str
    session: str
    number: int
    """Monotonic within the session: the `seq` of the event that brought the message."""
    role: Role
    content: tuple[DurablePart, ...]
    at: int
    """Microseconds since 1970."""
    model: str = ""
    """The model that answered, for assistant messages."""
    state: Literal["complete", "interrupted"] = "complete"

    @property
    def timestamp(self) -> str:
        """When it was said, as ISO 8601 in UTC."""
        return iso(self.at)


def in_calendar(at: int) -> int:
    """Return `at` (microseconds since 1970), or the nearest time that a calendar has: a file may say anything."""
    return min(max(at, _FIRST), _LAST)


def iso(at: int) -> str:
    """Return `at` (microseconds since 1970) as ISO 8601 in UTC."""
    moment = EPOCH + timedelta(microseconds=in_calendar(at))
    return f"{moment.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def text_of(parts: Iterable[object]) -> str:
    """Return the plain text of `parts`, joined; long text contributes its head."""
    return "".join([p.text if isinstance(p, Text) else p.head for p in parts if isinstance(p, (Text, TextRef))])
