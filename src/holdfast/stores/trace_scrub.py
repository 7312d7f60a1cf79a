"""Secrets stay out of a trace, also those that are split over several lines.

Lines with a piece of a stream in them (deltas, the raw events of a provider's stream) are looked at together: their pieces are
joined, and a secret that is found is taken out of each line that holds a part of it. A line that may hold the beginning of a secret
waits for the next ones.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, cast

import msgspec

from holdfast.logic.redact import CONTEXT, REDACTED, Found, Redactor
from holdfast.vocab.deltas import ReasoningDelta, TextDelta, ToolArgsDelta, ToolOutputDelta

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
    (
        "text",
        "thinking",
        "partial_json",
        "delta",
        "content",
        "reasoning_content",
        "reasoning",
        "arguments",
        "refusal",
        "data",
    )
)
"""Under what keys providers send pieces of a stream."""

_PLAIN_DELTAS: Final = (TextDelta, ReasoningDelta)
_DELTAS: Final = (TextDelta, ReasoningDelta, ToolArgsDelta, ToolOutputDelta)
_DELTA: Final = ("delta", "text")
_BEYOND: Final = 1 << 60
_HOPELESS: Final = re.compile(rb'"data":.*', re.DOTALL)

Path = tuple[str | int, ...]


class Piece(NamedTuple):
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
    pieces: tuple[Piece, ...] = ()
    """Of a raw event: the pieces in it."""
    ready: bool = False
    """There is nothing else in it that could be secret."""


class Streams:
    """Knows which lines belong to one stream: a reply's text does not go on in the next reply."""

    def __init__(self) -> None:
        self._reply = 0
        self._names: dict[str, str] = {}

    def name(self, kind: str) -> str:
        """What to call a stream of this kind in the reply under way."""
        return self._names.get(kind) or self._names.setdefault(kind, f"{kind} {self._reply}")

    def end(self) -> None:
        """A model call begins or ends."""
        self._reply += 1
        self._names = {}


def line_of(written: bytes, after: int, kind: str, content: Mapping[str, object], streams: Streams) -> Line:
    """A line as it waits, `written` being its JSON and `content` its data. Raise `TypeError` for a delta whose text is none."""
    delta = content.get("delta")
    if isinstance(delta, _DELTAS) and type(delta.text) is not str:
        raise TypeError(f"the text of a {type(delta).__name__} is a {type(delta.text).__name__}")
    if type(delta) in _PLAIN_DELTAS:
        return Line(written, after, streams.name(kind), cast(TextDelta, delta).text, (), True)
    if isinstance(delta, ToolArgsDelta):
        return Line(written, after, streams.name(f"{kind} {delta.index}"), delta.text, (), True)
    if isinstance(delta, ToolOutputDelta):
        return Line(written, after, f"{kind} {delta.call}", delta.text, (), True)
    if kind == RAW and content.get("kind") == "stream_event":
        return Line(written, after, pieces=tuple(_streamed(content.get("payload"), ("payload",), streams)))
    if kind.endswith("_delta") and isinstance(text := content.get("text"), str):
        return Line(written, after, pieces=(Piece(streams.name(kind), ("text",), text),))
    if kind in BOUNDS:
        streams.end()
    return Line(written, after)


class Scrubber:
    """Takes the secrets out of the lines of one session."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held: list[Line] = []
        self._said: dict[str, str] = {}
        """The end of what was written of a stream: what follows may have a meaning only with it."""

    @property
    def holds(self) -> bool:
        """Whether lines are waiting."""
        return bool(self._held)

    def drop(self) -> int:
        """Forget the lines that wait; say how many there were."""
        count, self._held = len(self._held), []
        return count

    def take(self, fresh: list[Line], *, position: int, final: bool = False) -> list[bytes]:
        """The lines that may be written now. Those from before `position` wait no longer, and none does when it is `final`."""
        lines = [*self._held, *fresh]
        streams = {name: _Joined(self._said.get(name, ""), pieces) for name, pieces in _pieces(lines).items()}
        for stream in streams.values():
            stream.found = self._redactor.find(stream.text)
            stream.open = self._redactor.open_from(stream.text)
        cut = len(lines) if final else _first_open(lines, streams.values(), position)
        self._remember(streams, cut)
        self._held = lines[cut:]
        changes: dict[int, list[tuple[Path, str]]] = {}
        for stream in streams.values():
            for number, path, text in stream.changes():
                changes.setdefault(number, []).append((path, text))
        return [
            line.written if line.ready and number not in changes else self._rewritten(line, changes.get(number, ()))
            for number, line in enumerate(lines[:cut])
        ]

    def _remember(self, streams: Mapping[str, "_Joined"], cut: int) -> None:
        for name, stream in streams.items():
            end = stream.place_of(cut)
            self._said.pop(name, None)
            self._said[name] = stream.text[max(0, min(stream.open, end - CONTEXT)) : end]
        while len(self._said) > 32:  # streams end without a word
            del self._said[next(iter(self._said))]

    def _rewritten(self, line: Line, changes: Sequence[tuple[Path, str]]) -> bytes:
        try:
            content = msgspec.json.decode(line.written, type=dict[str, object])
            for path, text in changes:
                _put(content["data"], path, text)
            return encode_line(content if line.ready else content | {"data": self._redactor.value(content["data"])})
        except RecursionError:
            return _HOPELESS.sub(b'"data":{"unwritable":"too deep"}}', line.written)


def _first_open(lines: list[Line], streams: Collection["_Joined"], position: int) -> int:
    """The first line that has to wait."""
    cut = min((stream.line_at(stream.open) for stream in streams), default=len(lines))
    if cut >= len(lines):
        return len(lines)
    spans = [(stream.line_at(one.start), stream.line_at(one.end - 1)) for stream in streams for one in stream.found]
    while (earlier := min((start for start, end in spans if start < cut <= end), default=cut)) < cut:
        cut = earlier  # no secret may be cut in two, of whatever stream
    cut = max(cut, next((number for number, line in enumerate(lines) if line.after >= position), len(lines)))
    return cut if sum(len(line.written) for line in lines[cut:]) <= MOST_HELD else len(lines)


def encode_line(content: dict[str, object]) -> bytes:
    """A line of JSON; the texts of a very long one are cut."""
    written = msgspec.json.encode(content)
    if len(written) > LONGEST_LINE:
        written = msgspec.json.encode(content | {"data": _clipped(content.get("data"))})
    return written


class _Joined:
    """The pieces of one stream as one text, after what is remembered of it."""

    def __init__(self, before: str, pieces: list[tuple[int, Path, str]]) -> None:
        self._before = len(before)
        self._pieces = pieces
        self.text = before + "".join([text for _, _, text in pieces])
        self.found: list[Found] = []
        self.open = len(self.text)

    def _places(self) -> Iterator[tuple[int, int, Path, int]]:
        start = self._before
        for number, path, text in self._pieces:
            yield start, number, path, (start := start + len(text))

    def line_at(self, place: int) -> int:
        """The line that the character at `place` stands in; beyond all lines at the end."""
        if place >= len(self.text):
            return _BEYOND
        return next((number for _, number, _, end in self._places() if place < end), _BEYOND)

    def place_of(self, line: int) -> int:
        """Where the text of the lines from `line` on begins."""
        return next((start for start, number, _, _ in self._places() if number >= line), len(self.text))

    def changes(self) -> Iterator[tuple[int, Path, str]]:
        """The pieces that change when what was found is taken out: the mark stands where a secret begins."""
        if not self.found:
            return
        for start, number, path, end in self._places():
            text, at = "", start
            for one in self.found:
                if one.end > start and one.start < end:
                    text += self.text[at : max(at, one.start)] + (REDACTED if one.start >= start else "")
                    at = min(one.end, end)
            if at > start or text:
                yield number, path, text + self.text[at:end]


def _pieces(lines: list[Line]) -> dict[str, list[tuple[int, Path, str]]]:
    streams: dict[str, list[tuple[int, Path, str]]] = {}
    for number, line in enumerate(lines):
        if line.stream:
            streams.setdefault(line.stream, []).append((number, _DELTA, line.text))
        else:
            for piece in line.pieces:
                streams.setdefault(piece.stream, []).append((number, piece.path, piece.text))
    return streams


def _streamed(value: object, path: Path, streams: Streams) -> Iterator[Piece]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if isinstance(inner, str) and key in _STREAMED:
                yield Piece(streams.name("/".join(map(str, (*path, key)))), (*path, str(key)), inner)
            else:
                yield from _streamed(inner, (*path, str(key)), streams)
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _streamed(inner, (*path, index), streams)


def _put(content: object, path: Path, text: str) -> None:
    place = cast(dict[str | int, object], content)  # a list takes the index as well
    for step in path[:-1]:
        place = cast(dict[str | int, object], place[step])
    place[path[-1]] = text


def _clipped(value: object) -> object:
    match value:
        case str() if len(value) > LONGEST_TEXT:
            return f"{value[:LONGEST_TEXT]} [cut here: {len(value):,} characters]"
        case dict():
            return {key: _clipped(inner) for key, inner in value.items()}
        case list():
            return [_clipped(inner) for inner in value]
        case _:
            return value
