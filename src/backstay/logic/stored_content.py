"""Turn message parts and events into their stored form, and find the blobs they refer to and the text to search."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from backstay.logic.context_usage import estimate_text
from backstay.vocab import events
from backstay.vocab.errors import Bug, UserError
from backstay.vocab.event import Event
from backstay.vocab.messages import (
    InFlightPart,
    InlineMedia,
    MediaRef,
    Reasoning,
    SignedReasoning,
    StoredPart,
    Text,
    TextRef,
    ToolCall,
    ToolResult,
    text_of,
)

LONG: Final = 32 * 1024
"""A text of more bytes than this becomes a blob."""
HEAD: Final = 512
"""Characters of a long text that stay with its handle."""


def digest(content: bytes) -> str:
    """Return the name of a blob."""
    return hashlib.sha256(content).hexdigest()


def to_stored_text(text: str) -> tuple[Text | TextRef, dict[str, bytes]]:
    """Return the stored form of `text`, and the blob that it needs, if it is long."""
    if len(text) <= LONG // 4 or len(content := text.encode("utf-8", "surrogatepass")) <= LONG:
        return Text(text=text), {}
    sha = digest(content)
    return TextRef(sha256=sha, chars=len(text), tokens=estimate_text(text), head=text[:HEAD]), {sha: content}


def make_durable(parts: Iterable[InFlightPart]) -> tuple[tuple[StoredPart, ...], dict[str, bytes]]:
    """Return in-flight parts as the log holds them, with the blobs they need. Signatures and bytes do not survive."""
    durable: list[StoredPart] = []
    blobs: dict[str, bytes] = {}
    for part in parts:
        match part:
            case Text():
                short, blob = to_stored_text(part.text)
                durable.append(short)
                blobs |= blob
            case SignedReasoning():
                durable.append(Reasoning(text=part.text))
            case InlineMedia():
                durable.append(_keep_medium(part, blobs))
            case ToolResult():
                raise Bug(f"The result of {part.call!r} is no part of a reply or of an input.")
            case _:
                durable.append(part)
    return tuple(durable), blobs


def _keep_medium(medium: InlineMedia, blobs: dict[str, bytes]) -> MediaRef:
    sha = digest(medium.content)
    blobs[sha] = medium.content
    return MediaRef(sha256=sha, media_type=medium.media_type, size=len(medium.content), name=medium.name)


def as_stored_event(event: Event) -> Event:
    """Return `event` as it will be read back: what is live and what is replayed are the same. Lone surrogates become question marks.

    Raise `UserError` when it could not be read back: structs do not check their values when they are made.
    """
    try:
        return _read_back(event)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as exc:
        raise UserError(f"{type(event).__name__} cannot be written down like this: {exc}.") from exc


def _read_back(event: Event) -> Event:
    try:
        return msgspec.json.decode(msgspec.json.encode(event), type=type(event))
    except UnicodeEncodeError:  # no encoding has them
        return msgspec.convert(_clean(msgspec.to_builtins(event)), type(event))


def replace_surrogates(text: str) -> str:
    """Return `text` without lone surrogates."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def find_cited_blobs(event: Event) -> frozenset[str]:
    """Return the blobs that `event` needs."""
    match event:
        case events.InputReceived() | events.ModelReplied() | events.MessageInjected() | events.ModelFailed():
            cited = _find_cited(event.parts)
            if isinstance(event, events.ModelReplied) and event.opaque is not None:
                cited.add(event.opaque.sha256)
            return frozenset(cited)
        case events.ToolFinished():
            return frozenset(_find_cited(event.content))
        case events.Compacted():
            return frozenset(
                _find_cited((*((event.summary,) if event.summary else ()), *event.verbatim, *event.request))
            )
        case events.OutputKept() | events.InstructionsRead():
            return frozenset((event.sha256,))
        case events.FileKept(sha256=sha) | events.TreeKept(tree=sha) | events.RestoreStarted(plan=sha):
            return frozenset((sha,)) if sha else frozenset()
        case events.ContentsKept():
            return frozenset(event.blobs)
        case events.ModelAsked():
            return frozenset(sha for sha in (event.instructions, event.tools) if sha)
        case events.ChildStarted(whole=TextRef(sha256=sha)):
            return frozenset((sha,))
        case _:
            return frozenset()


def _clean(value: object) -> object:
    match value:
        case str():
            return replace_surrogates(value)
        case dict():
            return {_clean(key): _clean(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_clean(inner) for inner in value]
        case _:
            return value


def _find_cited(parts: Sequence[object]) -> set[str]:
    cited: set[str] = set()
    for part in parts:
        if isinstance(part, TextRef | MediaRef):
            cited.add(part.sha256)
        elif isinstance(part, ToolResult):
            cited |= _find_cited(part.content)
    return cited


def searchable_text(event: Event) -> str:
    """Return the text of `event` that a search should find; empty for most events."""
    match event:
        case events.InputReceived() | events.MessageInjected():
            return text_of(event.parts)
        case events.ModelReplied():
            calls = (f"{part.name} {part.args}" for part in event.parts if isinstance(part, ToolCall))
            return "\n".join(filter(None, (text_of(event.parts), *calls)))
        case events.ToolFinished():
            return text_of(event.content)
        case events.ChildStarted():
            return event.prompt
        case events.ChildFinished():
            return event.text
        case events.EntryAdded():
            return event.content
        case _:
            return ""
