"""Texts and media as the content of a message."""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Final

from backstay.providers.format import stand_in
from backstay.vocab.messages import InFlightPart, InlineMedia, MediaLink, MediaRef, Text, TextRef

Content = str | list[dict[str, object]]

IMAGES: Final = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
_SOUNDS: Final = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/mp3": "mp3",
    "audio/mpeg": "mp3",
}
_TEXTS: Final = ("text/", "application/json", "application/xml", "application/yaml", "application/x-yaml")


def content_of(parts: Iterable[InFlightPart | TextRef]) -> Content:
    """The content that `parts` make: one text when all of them are texts, which every server takes, else a list."""
    written = [each for part in parts if (each := content_part(part))]
    if all(part["type"] == "text" for part in written):
        return joined([str(part["text"]) for part in written])
    return [part for part in written if part.get("text") != ""]


def text_of(parts: Iterable[InFlightPart | TextRef]) -> str:
    """`parts` where only text may stand: media are named."""
    texts = [
        part.text if isinstance(part, Text) else part.head if isinstance(part, TextRef) else stand_in(part)
        for part in parts
    ]
    return joined(texts)


def joined(texts: Sequence[str]) -> str:
    """Texts that were said apart, as one."""
    return "\n\n".join(filter(None, texts))


def content_part(part: InFlightPart | TextRef) -> dict[str, object]:
    """One text or medium; empty for what is neither."""
    match part:
        case Text():
            return _text(part.text)
        case TextRef():
            return _text(part.head)
        case InlineMedia():
            return _inline(part)
        case MediaLink():
            return _link(part)
        case MediaRef():
            return _text(stand_in(part))
        case _:
            return {}


def _inline(media: InlineMedia) -> dict[str, object]:
    kind = media.media_type.partition(";")[0].strip().lower()
    if kind in IMAGES:
        return {"type": "image_url", "image_url": {"url": _data_url(kind, media.content)}}
    if kind in _SOUNDS:
        return {"type": "input_audio", "input_audio": {"data": _base64(media.content), "format": _SOUNDS[kind]}}
    if kind == "application/pdf":
        file = {"filename": media.name or "document.pdf", "file_data": _data_url(kind, media.content)}
        return {"type": "file", "file": file}
    if kind.startswith(_TEXTS):
        return _text(joined([media.name and f"{media.name}:", media.content.decode("utf-8", "replace")]))
    return _text(stand_in(media))


def _link(media: MediaLink) -> dict[str, object]:
    if media.url.startswith("file:"):
        return {"type": "file", "file": {"file_id": media.url.removeprefix("file:")}}
    if media.media_type.startswith("image/") or not media.media_type:
        return {"type": "image_url", "image_url": {"url": media.url}}
    return _text(stand_in(media))


def _text(text: str) -> dict[str, object]:
    return {"type": "text", "text": text}


def _data_url(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{_base64(content)}"


def _base64(content: bytes) -> str:
    return b64encode(content).decode()
