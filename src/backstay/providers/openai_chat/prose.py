"""Decode what an answer holds besides calls: texts, reasoning, media, and what the server did by itself."""

import binascii
from base64 import b64decode
from collections.abc import Iterator
from typing import Final, Literal

from msgspec import Struct, field

from backstay.providers.http.loose_json import json_text, mend, mend_value, replace_halves
from backstay.vocab.deltas import Delta, ReasoningDelta, TextDelta
from backstay.vocab.messages import InFlightPart, InlineMedia, MediaLink, Reasoning, ServerBlock, Text

LONGEST_NOTE: Final = 500
"""Characters of a server block that are kept for people."""


class Block(Struct, eq=False):
    """A stretch of one kind. `form` is how the server writes it: a field of the message, or a type of part in a list."""

    kind: Literal["text", "reasoning", "other"]
    form: str
    pieces: list[str] = field(default_factory=list)
    signature: str = ""
    raw: dict[str, object] = field(default_factory=dict)


class Prose:
    """Collects the fields of a message, whole or in pieces."""

    def __init__(self) -> None:
        self._blocks: list[Block] = []
        self._details: dict[str, list[dict[str, object]]] = {}
        self._media: list[InlineMedia | MediaLink] = []
        self._sounds: list[str] = []
        self._sources: list[str] = []
        self._ran: dict[object, dict[str, object]] = {}
        self.refused = False

    def take(self, message: dict[str, object]) -> list[Delta]:
        """Add what a message or a piece of one says; return what can be shown."""
        deltas = [*self._thoughts(message), *self._content(message.get("content")), *self._sound(message.get("audio"))]
        if refusal := _text(message.get("refusal")):
            self.refused = True
            deltas += self._add_text(refusal, "refusal")
        for image in _dicts(message.get("images")):
            self._picture(image)
        for source in _dicts(message.get("annotations")):
            self._take_source(source)
        for ran in _dicts(message.get("executed_tools")):  # sent again with its outcome, under the same index
            self._ran[ran.get("index", len(self._ran))] = ran
        return deltas

    def parts(self) -> list[InFlightPart]:
        """Return everything in the order in which it came; media and the server's own doings last."""
        parts = [part for block in self._blocks for part in _parts(block)]
        parts += self._media
        if sound := _decode_base64(self._sounds):
            parts.append(InlineMedia(media_type=_sound_type(sound), content=sound))
        if self._sources:
            parts.append(ServerBlock(kind="annotations", content=_short("; ".join(dict.fromkeys(self._sources)))))
        return [*parts, *map(_doing, self._ran.values())]

    def native(self, *, bound: bool) -> dict[str, object]:
        """Return the fields of the message that must go back as they came; empty when texts say everything and nothing else is `bound`."""
        fields = self._native_thoughts()
        if any(block.form in _PART_FORMS or block.kind == "other" for block in self._blocks):
            return {"content": [_native(block) for block in self._blocks], **fields}
        if not fields and not bound:
            return {}
        texts = [piece for block in self._blocks if block.kind == "text" for piece in block.pieces]
        return {"content": mend("".join(texts)) or None, **fields}

    def _native_thoughts(self) -> dict[str, object]:
        if self._details:
            return {name: mend_value(entries) for name, entries in self._details.items()}
        thoughts = [block for block in self._blocks if block.form in _FIELDS]
        if not thoughts:
            return {}
        return {thoughts[0].form: mend("".join(piece for block in thoughts for piece in block.pieces))}

    def _thoughts(self, message: dict[str, object]) -> list[Delta]:
        """Reasoning, once: servers that changed the name of the field send it under both."""
        text, form = next(((text, name) for name in _FIELDS if (text := _text(message.get(name)))), ("", _FIELDS[0]))
        for name, key in _DETAILS.items():
            for entry in _dicts(message.get(name)):
                _merge(self._details.setdefault(name, []), entry)
                if not any(_text(message.get(other)) for other in _FIELDS):
                    text += _text(entry.get(key)) or _text(entry.get("summary"))
        return self._add_reasoning(text, form)

    def _content(self, content: object) -> list[Delta]:
        if isinstance(content, str):
            return self._add_text(content, "content")
        if isinstance(content, list):
            return [delta for part in content if isinstance(part, dict) for delta in self._take_part(part)]
        return [] if content is None else self._add_text(json_text(content), "content")

    def _take_part(self, part: dict[str, object]) -> list[Delta]:
        match part.get("type"):
            case "text" | "output_text":
                return self._add_text(_text(part.get("text")), "content")
            case "thinking":
                return self._add_reasoning(_inner_text(part.get("thinking")), "thinking", _text(part.get("signature")))
            case "reasoning":
                signature = "".join(_text(each.get("signature")) for each in _dicts(part.get("summary")))
                return self._add_reasoning(_inner_text(part.get("summary")), "reasoning part", signature)
            case "refusal":
                self.refused = True
                return self._add_text(_text(part.get("refusal")), "refusal")
            case "image_url":
                self._picture(part)
            case kind:
                self._blocks.append(Block(kind="other", form=str(kind), raw=part))
        return []

    def _sound(self, audio: object) -> list[Delta]:
        if not isinstance(audio, dict):
            return []
        if piece := _text(audio.get("data")):
            self._sounds.append(piece)
        return self._add_text(_text(audio.get("transcript")), "transcript")

    def _take_source(self, source: dict[str, object]) -> None:
        citation = source.get("url_citation")
        if isinstance(citation, dict) and (url := _text(citation.get("url"))):
            self._sources.append(url)

    def _picture(self, part: dict[str, object]) -> None:
        address = part.get("image_url")
        url = _text(address.get("url")) if isinstance(address, dict) else _text(address)
        head, comma, content = url.partition(",")
        if head.startswith("data:") and comma:
            kind = head.removeprefix("data:").partition(";")[0]
            self._media.append(InlineMedia(media_type=kind, content=_decode_base64([content])))
        elif url:
            self._media.append(MediaLink(url=url, media_type="image/*"))

    def _add_text(self, text: str, form: str) -> list[Delta]:
        if not text:
            return []
        self._block("text", form).pieces.append(text)
        return [TextDelta(text=replace_halves(text))]

    def _add_reasoning(self, text: str, form: str, signature: str = "") -> list[Delta]:
        if text or signature:
            block = self._block("reasoning", form)
            block.pieces.append(text)
            block.signature += signature
        return [ReasoningDelta(text=replace_halves(text))] if text else []

    def _block(self, kind: Literal["text", "reasoning"], form: str) -> Block:
        if not self._blocks or (self._blocks[-1].kind, self._blocks[-1].form) != (kind, form):
            self._blocks.append(Block(kind=kind, form=form))
        return self._blocks[-1]


_FIELDS: Final = ("reasoning_content", "reasoning")
_DETAILS: Final = {"reasoning_details": "text", "thinking_blocks": "thinking"}
"""Lists of signed or encrypted reasoning, and the field of an entry that holds its text."""
_PART_FORMS: Final = ("thinking", "reasoning part")
_GROWING: Final = ("text", "summary", "thinking")
_SOUNDS: Final = ((b"RIFF", "audio/wav"), (b"ID3", "audio/mpeg"), (b"fLaC", "audio/flac"), (b"OggS", "audio/ogg"))


def _merge(entries: list[dict[str, object]], piece: dict[str, object]) -> None:
    """Add a piece of an entry to the entry it continues: the same kind and number, not yet signed."""
    last = entries[-1] if entries else None
    same = last is not None and all(last.get(key) == piece.get(key) for key in ("type", "index"))
    if last is None or not same or last.get("signature") or not any(key in piece for key in _GROWING):
        entries.append(dict(piece))
        return
    for key, value in piece.items():
        if key in _GROWING:
            last[key] = _text(last.get(key)) + _text(value)
        elif value is not None:
            last[key] = value


def _parts(block: Block) -> Iterator[InFlightPart]:
    text = mend("".join(block.pieces))
    if block.kind == "other":
        said = next((each for key in ("text", "title", "url", "name") if (each := _text(block.raw.get(key)))), "")
        content = said or json_text({key: value for key, value in block.raw.items() if key != "type"})
        yield ServerBlock(kind=block.form, content=_short(content))
    elif text:
        yield Text(text=text) if block.kind == "text" else Reasoning(text=text)


def _native(block: Block) -> object:
    """Return a block as a part of a content list."""
    text = mend("".join(block.pieces))
    signed = {"signature": block.signature} if block.signature else {}
    match block.form:
        case "thinking":
            return {"type": "thinking", "thinking": [{"type": "text", "text": text}], **signed}
        case "reasoning part":
            return {"type": "reasoning", "summary": [{"type": "summary_text", "text": text, **signed}]}
        case _:
            return mend_value(block.raw) if block.kind == "other" else {"type": "text", "text": text}


def _doing(ran: dict[str, object]) -> ServerBlock:
    """Return a tool that the server ran by itself."""
    content = _text(ran.get("arguments")) or _text(ran.get("output"))
    return ServerBlock(kind="executed_tools", name=_text(ran.get("type")), content=_short(content))


def _short(text: str) -> str:
    return mend(text)[:LONGEST_NOTE]


def _inner_text(value: object) -> str:
    """Return the text of a list of text parts, or of a text."""
    return _text(value) or "".join(_text(part.get("text")) for part in _dicts(value))


def _decode_base64(pieces: list[str]) -> bytes:
    """Return the bytes of base64 text, whether its pieces were encoded one by one or together."""
    try:
        if all(len(piece) % 4 == 0 for piece in pieces):
            return b"".join(map(b64decode, pieces))
        return b64decode("".join(pieces))
    except binascii.Error:
        return b""


def _sound_type(content: bytes) -> str:
    return next((kind for mark, kind in _SOUNDS if content.startswith(mark)), "audio/pcm")


def _dicts(value: object) -> list[dict[str, object]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
