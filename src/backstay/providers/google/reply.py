"""What the parts of an answer mean, once all of them are there."""

import binascii
from base64 import urlsafe_b64decode
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from backstay.providers.loose import Fields, fields_in, objects_in, text_in, unused
from backstay.vocab.event import Stop
from backstay.vocab.messages import InFlightPart, InlineMedia, MediaLink, Reasoning, ServerBlock, Text, ToolCall
from backstay.vocab.specs import Usage

_STOPS: Final[Mapping[str, Stop]] = {
    "STOP": "end",
    "MAX_TOKENS": "length",
    "SAFETY": "filter",
    "RECITATION": "filter",
    "PROHIBITED_CONTENT": "filter",
    "BLOCKLIST": "filter",
    "SPII": "filter",
    "IMAGE_SAFETY": "filter",
    "IMAGE_PROHIBITED_CONTENT": "filter",
    "IMAGE_RECITATION": "filter",
}
"""Any other reason is `other`."""
_AROUND: Final = frozenset(("thought", "thoughtSignature", "partMetadata", "videoMetadata", "mediaResolution"))
"""What a part may have beside what it is."""
_SAID: Final = frozenset(("text", "functionCall", "inlineData", "fileData"))
"""Kinds of parts that our own parts can say."""
_SERVER_TOOLS: Final = {
    "executableCode": "codeExecution",
    "codeExecutionResult": "codeExecution",
    "toolCall": "",
    "toolResponse": "",
}
"""Kinds of parts for tools that the provider ran, and the tool, unless the part names it."""
_WORDS: Final = {"executableCode": "code", "codeExecutionResult": "output"}
_COUNTS: Final = (
    "promptTokenCount",
    "toolUsePromptTokenCount",
    "candidatesTokenCount",
    "thoughtsTokenCount",
    "cachedContentTokenCount",
)
_LONGEST: Final = 500


def kind_of(part: Fields) -> str:
    """The provider's name for what `part` is; empty when it is nothing."""
    return next((name for name in part if name not in _AROUND), "")


def part_calls(native: Sequence[Fields]) -> tuple[list[Fields], tuple[str, ...]]:
    """Make the ids of calls differ; say which ones had to be changed."""
    parted: list[Fields] = []
    notes: list[str] = []
    seen: set[str] = set()
    for part in native:
        call = fields_in(part, "functionCall")
        id = text_in(call, "id")
        fresh = unused(id, seen)
        seen |= {fresh} if id else set()
        if fresh != id:
            notes.append(f"the call id {id!r} came twice: the later one is called {fresh!r}")
        parted.append({**part, "functionCall": {**call, "id": fresh}} if fresh != id else part)
    return parted, tuple(notes)


def make_parts(native: Sequence[Fields], cut: int = -1) -> tuple[tuple[InFlightPart, ...], tuple[str, ...]]:
    """Our parts for those of the provider, and what was odd about them. Neighbouring pieces of text are one text.

    `cut` is the index of a call whose arguments never came to their end.
    """
    parts: list[InFlightPart] = []
    notes: list[str] = []
    for index, each in enumerate(native):
        kind = kind_of(each)
        made = _make_part(kind, each)
        last = parts[-1] if parts else None
        if isinstance(made, Text) and isinstance(last, Text):
            parts[-1] = Text(text=last.text + made.text)
        elif isinstance(made, Reasoning) and isinstance(last, Reasoning):
            parts[-1] = Reasoning(text=last.text + made.text)
        elif isinstance(made, ToolCall) and index == cut:
            # It must not look whole: its arguments stay open, as the model left them.
            parts.append(msgspec.structs.replace(made, args=made.args[:-1]))
            notes.append(f"the call of {made.name!r} was cut")
        elif made is not None:
            parts.append(made)
        if kind and kind not in _SAID and kind not in _SERVER_TOOLS:
            notes.append(f"an unknown kind of part: {kind!r}")
    return tuple(parts), tuple(dict.fromkeys(notes))


def make_opaque(native: Sequence[Fields]) -> bytes:
    """The parts as they must be sent back; empty when our own parts say all of it."""
    plain = all(kind_of(part) in _SAID and "thoughtSignature" not in part for part in native)
    return b"" if plain else msgspec.json.encode(native)


def make_grounding(candidates: Sequence[Fields]) -> Iterator[ServerBlock]:
    """What the provider searched for and read by itself. It says so beside the parts and does not want it back."""
    queries: dict[str, None] = {}
    addresses: dict[str, None] = {}
    grounded = False
    for candidate in candidates:
        grounding = fields_in(candidate, "groundingMetadata")
        grounded = grounded or bool(grounding)
        asked = grounding.get("webSearchQueries")
        queries |= dict.fromkeys(q for q in (asked if isinstance(asked, list) else ()) if isinstance(q, str))
        for read in objects_in(fields_in(candidate, "urlContextMetadata"), "urlMetadata"):
            addresses[str(read.get("retrievedUrl", ""))] = None
    if grounded:
        yield ServerBlock(kind="groundingMetadata", name="googleSearch", content="; ".join(queries)[:_LONGEST])
    if addresses:
        yield ServerBlock(kind="urlContextMetadata", name="urlContext", content="; ".join(addresses)[:_LONGEST])


def make_usage(counts: Fields | None) -> Usage | None:
    """The tokens of the call; None when no number is given. The prompt's count has the cached ones in it already."""
    found = [counts.get(name) if counts else None for name in _COUNTS]
    if not any(isinstance(count, int) for count in found):
        return None
    prompt, searched, written, thought, cached = (count if isinstance(count, int) else 0 for count in found)
    return Usage(input=prompt + searched, output=written + thought, cache_read=cached, reasoning=thought)


def stop_for(finish: str, message: str, parts: Sequence[InFlightPart]) -> tuple[Stop, tuple[str, ...]]:
    """Why the answer ended, and a note when that is out of the ordinary."""
    stop = _STOPS.get(finish, "other")
    if stop != "length" and any(isinstance(part, ToolCall) for part in parts):
        stop = "tool_calls"
    if finish in ("STOP", "MAX_TOKENS"):
        return stop, ()
    detail = f": {message[:_LONGEST]}" if message else ""
    return stop, (f"the provider ended the answer with {finish!r}{detail}",)


def _make_part(kind: str, part: Fields) -> InFlightPart | None:
    value = part.get(kind)
    thought = part.get("thought") is True
    match kind:
        case "":
            return None
        case "text" if isinstance(value, str):
            return None if not value else Reasoning(text=value) if thought else Text(text=value)
        case "functionCall":
            return _make_call(fields_in(part, kind))
        case "inlineData" if not thought:
            return _make_media(fields_in(part, kind))
        case "fileData" if not thought:
            link = fields_in(part, kind)
            return MediaLink(url=text_in(link, "fileUri"), media_type=text_in(link, "mimeType"))
        case _:
            return _make_block(kind, part)


def _make_call(call: Fields) -> ToolCall:
    args = msgspec.json.encode(call.get("args") or {}).decode()
    return ToolCall(id="", name=text_in(call, "name"), args=args, provider_id=text_in(call, "id"))


def _make_media(media: Fields) -> InFlightPart:
    media_type = text_in(media, "mimeType")
    coded = text_in(media, "data").replace("+", "-").replace("/", "_")
    try:
        content = urlsafe_b64decode(coded + "=" * (-len(coded) % 4))
    except (binascii.Error, ValueError):
        return ServerBlock(kind="inlineData", content=f"{media_type} that cannot be read")
    return InlineMedia(media_type=media_type, content=content, name=text_in(media, "displayName"))


def _make_block(kind: str, part: Fields) -> ServerBlock:
    fields = fields_in(part, kind)
    name = _SERVER_TOOLS.get(kind) or text_in(fields, "toolType") or text_in(fields, "name")
    if kind in _WORDS:
        content = text_in(fields, _WORDS[kind])
    elif kind in ("inlineData", "fileData"):
        content = text_in(fields, "mimeType")
    else:
        content = msgspec.json.encode(part[kind]).decode()
    return ServerBlock(kind=kind, name=name, content=content[:_LONGEST])
