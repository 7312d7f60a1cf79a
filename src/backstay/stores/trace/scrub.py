"""Secrets stay out of a trace, also those that are split over several lines.

Lines with a piece of a stream in them (deltas, the raw events of a provider's stream) are looked at together: their pieces are
joined, and a secret that is found is taken out of each line that holds a part of it. A line that may hold the beginning of a secret
waits for the next ones.
"""

import functools
import re
from collections import deque
from collections.abc import Iterator, Mapping
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
    """Knows which lines belong to one stream: a reply's text does not go on in the next reply."""

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
    """Takes the secrets out of the lines of one session."""

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
