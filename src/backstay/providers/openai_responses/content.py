"""Texts and media as the content of an input item."""

from base64 import b64encode
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from backstay.providers.format import stand_in
from backstay.providers.loose import Fields
from backstay.vocab.messages import InFlightPart, InlineMedia, MediaLink, Text, TextRef, ToolResult

_IMAGES: Final = frozenset(("image/png", "image/jpeg", "image/jpg", "image/webp", "image/gif"))
_DOCUMENTS: Final = tuple(
    (
        "text/ application/pdf application/json application/xml application/rtf application/csv application/msword "
        "application/vnd."
    ).split()
)
"""The beginnings of the media types that go as files."""
_EXTENSIONS: Final = {"text/plain": "txt", "text/markdown": "md", "application/msword": "doc"}
_FILE_NAMES: Final = (".pdf", ".txt", ".md", ".csv", ".json", ".docx", ".xlsx", ".pptx", ".html", ".xml")
_FILE: Final = "file:"

Piece = InFlightPart | TextRef


def input_content(parts: Iterable[Piece]) -> list[Fields]:
    """What a user or a tool says, as content of an input item."""
    return [content for part in parts if (content := _input(part)) is not None]


def output_content(parts: Iterable[Piece]) -> list[Fields]:
    """What the assistant said. It cannot be given media: they are named in their place."""
    return [{"type": "output_text", "text": text} for part in parts if (text := _text(part) or stand_in(part))]


def result_output(result: ToolResult) -> str | list[Fields]:
    """What a call gave back: a text, or a list when media are in it. The format has no field for errors, so words say it."""
    text = "\n".join(filter(None, map(_text, result.content)))
    said = f"Error: {text or '(no output)'}" if result.is_error and not _says_error(text) else text
    media = input_content(part for part in result.content if not isinstance(part, Text | TextRef))
    if not media:
        return said
    return [{"type": "input_text", "text": said}, *media] if said else media


def _input(part: Piece) -> Fields | None:
    if isinstance(part, Text | TextRef):
        return {"type": "input_text", "text": _text(part)}
    if (carried := _carried(part)) is not None:
        return carried
    return {"type": "input_text", "text": words} if (words := stand_in(part)) else None


def _text(part: Piece) -> str:
    match part:
        case Text():
            return part.text
        case TextRef():
            return part.head
        case _:
            return ""


def _carried(part: Piece) -> Fields | None:
    match part:
        case InlineMedia():
            return _inline(part)
        case MediaLink():
            return _linked(part)
        case _:
            return None


def _inline(media: InlineMedia) -> Fields | None:
    kind = media.media_type.partition(";")[0].strip().lower()
    if kind not in _IMAGES and not kind.startswith(_DOCUMENTS):
        return None
    address = f"data:{kind};base64,{b64encode(media.content).decode()}"
    if kind in _IMAGES:
        return {"type": "input_image", "image_url": address, "detail": "auto"}
    name = media.name or f"document.{_EXTENSIONS.get(kind) or kind.rpartition('/')[2]}"
    return {"type": "input_file", "filename": name, "file_data": address}


def _linked(link: MediaLink) -> Fields | None:
    if link.media_type.startswith(("audio/", "video/")):
        return None
    place = link.url.removeprefix(_FILE)
    image = link.media_type.startswith("image/") or (not link.media_type and not _names_document(link.url))
    if link.url.startswith(_FILE):
        at: Fields = {"file_id": place}
    else:
        at = {"image_url" if image else "file_url": place}
    return {"type": "input_image", **at, "detail": "auto"} if image else {"type": "input_file", **at}


def _names_document(url: str) -> bool:
    return url.startswith(_FILE) or urlsplit(url).path.lower().endswith(_FILE_NAMES)


def _says_error(text: str) -> bool:
    return text.lstrip("[(* ").lower().startswith("error")
