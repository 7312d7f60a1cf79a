"""The lines of a trace: secrets stay out of them, also split ones, and a request is written as what is new in it.

Lines with a piece of a stream in them (deltas, the raw events of a provider's stream) are looked at together: their pieces are
joined, and a secret that is found is taken out of each line that holds a part of it. A line that may hold the beginning of a secret
waits for the next ones.

A request's history (the list `messages`, `input` or `contents`) is written as `{"$list": name, "after": name of the list before,
"keep": how many of its items, "new": the others}`, and any other large field as `{"$same": name}` once it was written as
`{"$value": ..., "name": name}`. Names are hashes with a key that is never written, so that they say nothing about what they name.
"""

import functools
import hashlib
import re
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, cast

import msgspec

from backstay.logic.secrets.redact import PLAIN, Redactor, StreamRedactor
from backstay.vocab.deltas import ReasoningDelta, TextDelta, ToolArgsDelta, ToolOutputDelta

RAW: Final = "provider_native_raw_payload"
"""The kind of a line with a payload as a provider sent it."""
BOUNDS: Final = frozenset(("provider_request", "provider_response_raw"))
"""Kinds of lines that begin or end a model call."""
MOST_HELD: Final = 64 * 1024
"""Characters of lines that may wait; beyond that they are written, redacted as far as they can be."""
LONGEST_LINE: Final = 1024 * 1024
LONGEST_TEXT: Final = 128 * 1024
"""Bytes of a line, and what a text in a longer line is cut to."""

_STREAMED: Final = frozenset(
    ("text thinking partial_json delta content reasoning_content reasoning arguments refusal data").split()
)
"""Under what keys providers send pieces of a stream."""

_PLAIN_DELTAS: Final = (TextDelta, ReasoningDelta)
_DELTAS: Final = (TextDelta, ReasoningDelta, ToolArgsDelta, ToolOutputDelta)
_DELTA: Final = ("delta", "text")
_MOST_STREAMS: Final = 32
_HOPELESS: Final = re.compile(rb'"data":.*', re.DOTALL)

Path = tuple[str | int, ...]


class TracePiece(NamedTuple):
    """A piece of a stream's text and where it stands in its line's data."""

    stream: str
    """What it is a piece of: what stands at the same place in all lines of one reply."""
    path: Path
    text: str


class Line(msgspec.Struct, gc=False):
    """A line that is about to be written. Made for every delta, so it is made of little."""

    written: bytes
    after: int = 0
    stream: str = ""
    """Of a delta: what it is a piece of."""
    text: str = ""
    """Of a delta: the piece."""
    pieces: tuple[TracePiece, ...] = ()
    """Of a raw event: the pieces in it."""
    ready: bool = False
    """There is nothing else in it that could be secret."""
    waiting: int = 0
    """How many of its pieces are not settled."""
    changes: tuple[tuple[Path, str], ...] = ()
    """The pieces that had a secret in them, or a part of one, and what is left of them."""


class Streams:
    """Tracks which lines belong to one stream: a reply's text does not go on in the next reply."""

    def __init__(self) -> None:
        self._reply = 0
        self._names: dict[str, str] = {}

    def name(self, kind: str) -> str:
        """Return what to call a stream of this kind in the reply under way."""
        return self._names.get(kind) or self._names.setdefault(kind, f"{kind} {self._reply}")

    def end(self) -> None:
        """Begin new streams: a model call begins or ends."""
        self._reply += 1
        self._names = {}


def line_of(written: bytes, after: int, kind: str, content: Mapping[str, object], streams: Streams) -> Line:
    """Return a line as it waits, `written` being its JSON and `content` its data. Raise `TypeError` for a delta whose text is none."""
    delta = content.get("delta")
    if isinstance(delta, _DELTAS) and type(delta.text) is not str:
        raise TypeError(f"the text of a {type(delta).__name__} is a {type(delta.text).__name__}")
    if type(delta) in _PLAIN_DELTAS:
        return Line(written, after, streams.name(kind), cast(TextDelta, delta).text, (), True)
    if isinstance(delta, ToolArgsDelta):
        name = streams.name(f"{kind} {delta.index}")
        return Line(written, after, name, delta.text, (), _is_harmless(delta.name))
    if isinstance(delta, ToolOutputDelta):
        return Line(written, after, f"{kind} {delta.call}", delta.text, (), True)
    if kind == RAW and content.get("kind") == "stream_event":
        return Line(written, after, pieces=tuple(_find_pieces(content.get("payload"), ("payload",), streams)))
    if kind.endswith("_delta") and isinstance(text := content.get("text"), str):
        return Line(written, after, pieces=(TracePiece(streams.name(kind), ("text",), text),))
    if kind in BOUNDS:
        streams.end()
    return Line(written, after)


class Scrubber:
    """Removes the secrets from the lines of one session."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held: deque[Line] = deque()
        self._size = 0
        self._streams: dict[str, _Stream] = {}

    @property
    def holds(self) -> bool:
        """Whether lines are waiting."""
        return bool(self._held)

    def drop(self) -> int:
        """Forget the lines that wait; say how many there were."""
        count = len(self._held)
        self._held.clear()
        self._size = 0
        self._streams = {}
        return count

    def take(self, fresh: list[Line], *, position: int, final: bool = False) -> list[bytes]:
        """Return the lines that may be written now. Those from before `position` wait no longer, and none does when it is `final`."""
        for line in fresh:
            self._held.append(line)
            self._size += len(line.written)
            for piece in pieces_of(line):
                line.waiting += 1
                self._stream(piece.stream).add(line, piece)
        for stream in self._streams.values():
            stream.settle(over=final or stream.is_overdue(position))
        taken = self._take_ready()
        if self._size > MOST_HELD:
            for stream in self._streams.values():
                stream.settle(over=True)
            taken += self._take_ready()
        while len(self._streams) > _MOST_STREAMS and not next(iter(self._streams.values())).waits:
            del self._streams[next(iter(self._streams))]
        return taken

    def _stream(self, name: str) -> "_Stream":
        stream = self._streams.pop(name, None) or _Stream(self._redactor)
        self._streams[name] = stream  # the one that was heard of last stands last
        return stream

    def _take_ready(self) -> list[bytes]:
        taken: list[bytes] = []
        while self._held and not self._held[0].waiting:
            line = self._held.popleft()
            self._size -= len(line.written)
            taken.append(line.written if line.ready and not line.changes else self._rewrite(line))
        return taken

    def _rewrite(self, line: Line) -> bytes:
        try:
            content = msgspec.json.decode(line.written, type=dict[str, object])
            for path, text in line.changes:
                put_text(content["data"], path, text)
            return encode_line(content if line.ready else content | {"data": self._redactor.value(content["data"])})
        except RecursionError:
            return _HOPELESS.sub(b'"data":{"unwritable":"too deep"}}', line.written)


class _Stream:
    """The pieces of one stream that are not settled, and the lines that they stand in."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = StreamRedactor(redactor)
        self._fresh: list[str] = []
        self._unsettled: deque[tuple[Line, TracePiece]] = deque()

    @property
    def waits(self) -> bool:
        """Whether a piece is not settled."""
        return bool(self._unsettled)

    def add(self, line: Line, piece: TracePiece) -> None:
        self._fresh.append(piece.text)
        self._unsettled.append((line, piece))

    def is_overdue(self, position: int) -> bool:
        return bool(self._unsettled) and self._unsettled[0][0].after < position

    def settle(self, *, over: bool) -> None:
        """Tell the lines what is left of their pieces, as far as that is certain."""
        clean = self._redactor.feed(*self._fresh) if self._fresh else []
        self._fresh = []
        if over and len(clean) < len(self._unsettled):
            clean += self._redactor.flush()
        for text in clean:
            line, piece = self._unsettled.popleft()
            line.waiting -= 1
            if text != piece.text:
                line.changes += ((piece.path, text),)


@functools.lru_cache(maxsize=1_024)
def _is_harmless(name: str) -> bool:
    """Return whether the name of a tool, as a model wrote it, has no secret in it."""
    return PLAIN.text(name) == name


def encode_line(content: dict[str, object]) -> bytes:
    """Return a line of JSON; the texts of a very long one are cut."""
    written = msgspec.json.encode(content)
    if len(written) > LONGEST_LINE:
        written = msgspec.json.encode(content | {"data": _clip(content.get("data"))})
    return written


def pieces_of(line: Line) -> tuple[TracePiece, ...]:
    """Return the pieces of streams in a line."""
    return (TracePiece(line.stream, _DELTA, line.text),) if line.stream else line.pieces


def _find_pieces(value: object, path: Path, streams: Streams) -> Iterator[TracePiece]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if isinstance(inner, str) and key in _STREAMED:
                yield TracePiece(streams.name("/".join(map(str, (*path, key)))), (*path, str(key)), inner)
            else:
                yield from _find_pieces(inner, (*path, str(key)), streams)
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _find_pieces(inner, (*path, index), streams)


def put_text(content: object, path: Path, text: str) -> None:
    """Put a text at a place in the data of a line."""
    place = cast(dict[str | int, object], content)  # a list takes the index as well
    for step in path[:-1]:
        place = cast(dict[str | int, object], place[step])
    place[path[-1]] = text


def _clip(value: object) -> object:
    match value:
        case str() if len(value) > LONGEST_TEXT:
            return f"{value[:LONGEST_TEXT]} [cut here: {len(value):,} characters]"
        case dict():
            return {key: _clip(inner) for key, inner in value.items()}
        case list():
            return [_clip(inner) for inner in value]
        case _:
            return value


# --- requests ----------------------------------------------------------------------------------------------------------------------


HISTORIES: Final = ("messages", "input", "contents")
"""What the wire formats call the conversation in a request."""
LARGE: Final = 512
"""Bytes from which on a field is worth a name."""

Fields = dict[str, object]
Clean = Callable[[object], object]


class RequestPacker:
    """Makes the requests of one session small. `clean` is applied to what is written, not to what is only named."""

    def __init__(self, clean: Clean) -> None:
        self._clean = clean
        self._key = secrets.token_bytes(16)
        self._chain: list[str] = []
        self._named: set[str] = set()

    def forget(self) -> None:
        """Write the next request whole: what was written before may be gone."""
        self._chain = []
        self._named = set()

    def pack(self, content: Mapping[str, object]) -> Fields:
        """Return `content` as it is written."""
        packed = {key: _as_plain(value) for key, value in content.items()}
        where = _holder(packed)
        if where is None:
            return cast(Fields, self._clean(packed))
        if where is packed:
            return self._fields(packed)
        return {key: self._fields(where) if value is where else self._clean(value) for key, value in packed.items()}

    def _fields(self, fields: Fields) -> Fields:
        history = next(key for key in HISTORIES if isinstance(fields.get(key), list))
        return {
            key: self._list(cast(list[object], value)) if key == history else self._field(key, value)
            for key, value in fields.items()
        }

    def _list(self, items: list[object]) -> Fields:
        chain, name = [], ""
        for item in items:
            name = self._name(name.encode() + msgspec.json.encode(item, enc_hook=repr))
            chain.append(name)
        keep = 0
        while keep < min(len(chain), len(self._chain)) and chain[keep] == self._chain[keep]:
            keep += 1
        before = self._chain[-1] if keep else ""
        self._chain = chain
        return {"$list": name, "after": before, "keep": keep, "new": self._clean(items[keep:])}

    def _field(self, key: str, value: object) -> object:
        written = msgspec.json.encode(value, enc_hook=repr)
        # The key is part of the name: under another key the same value may have to be hidden.
        name = self._name(key.encode() + b"\0" + written)
        if len(written) < LARGE:
            return cast(Fields, self._clean({key: value}))[key]
        if name in self._named:
            return {"$same": name}
        self._named.add(name)
        return {"$value": cast(Fields, self._clean({key: value}))[key], "name": name}

    def _name(self, content: bytes) -> str:
        return hashlib.blake2b(content, key=self._key, digest_size=12).hexdigest()


class RequestReader:
    """Makes the requests of one session whole again, in the order in which they were written."""

    def __init__(self) -> None:
        self._name = ""
        self._items: list[object] = []
        self._named: dict[str, object] = {}

    def unpack(self, content: Mapping[str, object]) -> Fields:
        """Return `content` as it was; what is lost is named as lost."""
        return {key: self._value(value, deep=True) for key, value in content.items()}

    def _value(self, value: object, *, deep: bool) -> object:
        if not isinstance(value, dict):
            return value
        match value:
            case {"$list": str(name), "after": str(before), "keep": int(keep), "new": list(new)} if len(value) == 4:
                return self._whole(name, before, keep, new)
            case {"$same": str(name)} if len(value) == 1:
                return self._named.get(name, {"lost": "a field that was written before"})
            case {"$value": kept, "name": str(name)} if len(value) == 2:
                self._named[name] = kept
                return kept
            case _:
                return {key: self._value(inner, deep=False) for key, inner in value.items()} if deep else value

    def _whole(self, name: str, before: str, keep: int, new: list[object]) -> list[object]:
        known = not keep or before == self._name
        kept: Iterable[object] = self._items[:keep] if known else ({"lost": f"{keep} earlier items"},)
        self._name, self._items = name, [*kept, *new]
        return self._items


def _holder(content: Fields) -> Fields | None:
    """Return the object with the history in it: the content or one that it holds."""
    for fields in (content, *content.values()):
        if isinstance(fields, dict) and any(isinstance(fields.get(key), list) for key in HISTORIES):
            return fields
    return None


def _as_plain(value: object) -> object:
    """Return `value` as plain data; a body that is JSON text is read."""
    if isinstance(value, str | bytes) and value[:1] in ("{", b"{"):
        try:
            return msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return value
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=repr)
    except (TypeError, ValueError, RecursionError):
        return value
