"""Turn the answers of servers into tool outputs: text, pictures, sounds, and a note for each part that cannot be passed on.

Everything here is untrusted: all of it is bounded, and nonsense becomes a failed result.
"""

import base64
import binascii
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from backstay.logic.text import one_line, strip_invisible
from backstay.ports import ToolOutput
from backstay.vocab.messages import InFlightPart, InlineMedia

Shorten = Callable[[str], Awaitable[str]]
"""Shortens a long text for a model, and stores the whole of it."""
ImageType = Callable[[bytes], str]
"""The media type of an image that models understand, by its bytes; empty when it is none."""

MOST_PARTS: Final = 200
LARGEST_MEDIUM: Final = 5 * 1024 * 1024
"""Bytes of a picture, a sound or a document that are passed on."""
MOST_MEDIA: Final = 20
_JSON_BEGINS: Final = tuple('{["-0123456789tfn')
_SOUNDS: Final = ("audio/wav", "audio/x-wav", "audio/mpeg", "audio/mp3", "audio/ogg", "audio/flac")


async def call_output(raw: Mapping[str, object], *, shorten: Shorten, image_type: ImageType) -> ToolOutput:
    """Return the output of a call."""
    if raw.get("resultType") == "input_required":
        text = "The server wants to ask something first. Servers are not answered by sessions, so nothing came of the call."
        return ToolOutput(text=text, failed=True, code="input_required")
    content = raw.get("content", [])
    structured = raw.get("structuredContent")
    if not isinstance(content, list) or ("content" not in raw and structured is None):
        return nonsense("its answer has no content")
    parts_read = _AnswerParts(image_type)
    parts_read.take(content)
    if structured is not None and not parts_read.says(structured):
        parts_read.texts.append(_json(structured))
    failed = raw.get("isError") is True
    return await parts_read.output(shorten, failed=failed)


async def resource_output(raw: Mapping[str, object], *, shorten: Shorten, image_type: ImageType) -> ToolOutput:
    """Return the contents of a resource."""
    contents = raw.get("contents")
    if not isinstance(contents, list):
        return nonsense("its answer has no contents")
    parts_read = _AnswerParts(image_type)
    parts_read.take([{"type": "resource", "resource": each} for each in contents])
    return await parts_read.output(shorten, failed=False)


async def prompt_output(raw: Mapping[str, object], *, shorten: Shorten, image_type: ImageType) -> ToolOutput:
    """Return the text of a prompt, its messages one after the other."""
    messages = raw.get("messages")
    if not isinstance(messages, list):
        return nonsense("its answer has no messages")
    parts_read = _AnswerParts(image_type)
    parts_read.take([each.get("content") if isinstance(each, Mapping) else each for each in messages])
    return await parts_read.output(shorten, failed=False)


def nonsense(why: str) -> ToolOutput:
    """Return a failed result for an answer that is not one."""
    return ToolOutput(text=f"The server answered with nonsense: {why}.", failed=True, code="nonsense")


class _AnswerParts(Struct):
    """The parts of an answer that can be passed on."""

    image_type: ImageType
    texts: list[str] = field(default_factory=list)
    media: list[InFlightPart] = field(default_factory=list)
    odd: int = 0
    """Parts that cannot be read."""

    def take(self, parts: Sequence[object]) -> None:
        """Take the parts in order."""
        for part in parts[:MOST_PARTS]:
            self.texts += self._part(part)
        if len(parts) > MOST_PARTS:
            self.texts.append(f"[{len(parts) - MOST_PARTS} more parts are left out]")

    def says(self, structured: object) -> bool:
        """Return whether the texts equal a structured content: servers are told to send both, often with one key around it."""
        inner = tuple(structured.values()) if isinstance(structured, Mapping) and len(structured) == 1 else ()
        return any(self._says_value(value) for value in (structured, *inner))

    def _says_value(self, value: object) -> bool:
        if value in (self.texts, "\n".join(self.texts)):
            return True
        return any(_same(text, value) for text in self.texts if text[:1] in _JSON_BEGINS)

    async def output(self, shorten: Shorten, *, failed: bool) -> ToolOutput:
        """Return all parts as one output."""
        if self.odd and self.odd == len(self.texts) + len(self.media):
            return nonsense(self.texts[0].strip("[]"))
        text = "\n".join(self.texts) or ("" if self.media else "(no output)")
        return ToolOutput(
            text=await shorten(text), media=tuple(self.media), failed=failed, code="tool_error" if failed else ""
        )

    def _part(self, part: object) -> Iterator[str]:
        match part:
            case {"type": "text", "text": str(text)}:
                yield strip_invisible(text)
            case {"type": "image" | "audio", "data": str(data), "mimeType": str(kind)}:
                yield from self._medium(data, kind, "")
            case {"type": "resource", "resource": Mapping() as resource}:
                yield from self._resource(resource)
            case {"type": "resource_link", "uri": str(uri), **rest}:
                yield f"[{one_line(_text(rest, 'name'), 120)}: {one_line(uri, 500)}]"
            case _:
                self.odd += 1
                claimed = part.get("type") if isinstance(part, Mapping) else type(part).__name__
                yield f"[a part of the kind {one_line(str(claimed), 40)!r} cannot be read]"

    def _resource(self, resource: Mapping[str, object]) -> Iterator[str]:
        uri = one_line(_text(resource, "uri"), 500)
        if isinstance(text := resource.get("text"), str):
            yield f"[{uri}]\n{strip_invisible(text)}" if uri else strip_invisible(text)
        elif isinstance(blob := resource.get("blob"), str):
            yield from self._medium(blob, _text(resource, "mimeType"), uri)
        else:
            self.odd += 1
            yield f"[the resource {uri!r} has neither text nor bytes]"

    def _medium(self, data: str, kind: str, name: str) -> Iterator[str]:
        named = f"{name or 'a medium'} ({one_line(kind, 60) or 'of no claimed kind'})"
        if len(data) > LARGEST_MEDIUM * 4 // 3 + 4:
            yield f"[{named} has more than {LARGEST_MEDIUM:,} bytes and is not shown]"
            return
        try:
            content = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            self.odd += 1
            yield f"[{named} is not base64 and cannot be read]"
            return
        known = self._media_type_of(content, kind.partition(";")[0].strip().lower())
        if known and len(self.media) < MOST_MEDIA:
            self.media.append(InlineMedia(media_type=known, content=content, name=name))
        else:
            yield f"[{named}, {len(content):,} bytes, is nothing that a model can be shown]"

    def _media_type_of(self, content: bytes, claimed: str) -> str:
        """Return the media type that the bytes prove: a picture that is none would make every later request fail."""
        if picture := self.image_type(content):
            return picture
        if content.startswith(b"%PDF-"):
            return "application/pdf"
        return claimed if claimed in _SOUNDS and content else ""


def _same(text: str, structured: object) -> bool:
    try:
        return bool(msgspec.json.decode(text) == structured)
    except (msgspec.DecodeError, RecursionError):
        return False


def _json(value: object) -> str:
    try:
        return strip_invisible(msgspec.json.format(msgspec.json.encode(value), indent=1).decode())
    except (TypeError, RecursionError, UnicodeEncodeError, OverflowError):
        return "[structured content that cannot be written]"


def _text(entry: Mapping[Any, object], key: str) -> str:
    found = entry.get(key)
    return found if isinstance(found, str) else ""
