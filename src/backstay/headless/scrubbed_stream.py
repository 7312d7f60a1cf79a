"""What programs are shown, without secrets: a format around another one.

The text of the terminal stays as it is, it is the person's own. What goes to another program goes on from there, into its logs and its
queues, so it loses what looks like a secret. The question whether a call may run is shown as it is: whoever answers must see what runs,
and gives the arguments back.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from backstay.headless.formats import OutputFormat
from backstay.headless.result import About, Answered, EndedTurn
from backstay.logic.secrets.redact import PLAIN, Redactor, StreamRedactor
from backstay.logic.secrets.rewrite import changed_texts, rewritten
from backstay.logic.secrets.secret_names import changed_names
from backstay.vocab.deltas import ReasoningDelta, TextDelta, ToolArgsDelta, ToolOutputDelta
from backstay.vocab.event import Recorded
from backstay.vocab.events import Interrupted, ModelFailed, ModelReplied, ToolFinished, TurnCompleted
from backstay.wire.json_text import json_line
from backstay.wire.stream import Item

Piece = TextDelta | ReasoningDelta | ToolArgsDelta | ToolOutputDelta
Key = tuple[str, str]
"""Of a stream: its kind, and the call or the number that it belongs to."""
_QUESTIONS: Final = ("control_request",)
_RESULTS: Final = ("result",)
_TOOL: Final = "ToolOutputDelta"


class Scrubbed:
    """Prints what `inner` prints, without secrets."""

    def __init__(self, inner: OutputFormat, redactor: Redactor = PLAIN) -> None:
        self._inner = inner
        self._redactor = redactor
        self._pieces = Pieces(redactor)

    def opening(self, about: About) -> list[bytes]:
        """What is printed before anything happens."""
        return self._clean(self._inner.opening(about))

    async def show(self, item: Item) -> list[bytes]:
        """What is printed for an item, and for the ends of streams that it ends."""
        lines: list[bytes] = []
        for each in self._pieces.take(item):
            lines += await self._inner.show(each)
        return self._clean(lines)

    def answered(self, request: str, problem: str = "") -> list[bytes]:
        """What is printed when a control request was carried out, or could not be."""
        return self._clean(self._inner.answered(request, problem))

    def result(self, ended: EndedTurn) -> list[bytes]:
        """What is printed for a turn that is over."""
        return self._clean(self._inner.result(ended))

    def command(self, answered: Answered) -> list[bytes]:
        """What is printed for a command that spoke to no model."""
        return self._clean(self._inner.command(answered))

    def _clean(self, lines: list[bytes]) -> list[bytes]:
        return [clean_line(line, self._redactor) for line in lines]


def clean_line(line: bytes, redactor: Redactor = PLAIN) -> bytes:
    """A line of JSON without secrets. Of a result only texts change: the names in it may be those of a schema."""
    said = msgspec.json.decode(line, type=dict[str, object])
    if said.get("type") in _QUESTIONS:
        return line
    by_name = said.get("type") not in _RESULTS
    after = changed_names(redactor.value(said), redactor.text) if by_name else changed_texts(said, redactor.text)
    return line if after == said else json_line(after)


def clean_item(item: Item, redactor: Redactor = PLAIN) -> Item:
    """An event without secrets; anything else as it is."""
    if not isinstance(item, Recorded):
        return item
    return replace(item, event=rewritten(item.event, redactor.text, {}))


class _Stream(Struct):
    redactor: StreamRedactor
    late: Piece | None = None
    """A piece that was held back: its number is free, and its text is what may be shown so far."""
    heard: str = ""
    told: str = ""
    """What was heard and told since nothing was held back."""


class Pieces:
    """The pieces of streams as they may be shown. No number is used twice: while anything is held back, pieces come one later."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._streams: dict[Key, _Stream] = {}

    def take(self, item: Item) -> Iterator[Item]:
        """What is shown for an item, in order."""
        if isinstance(item, Piece):
            yield from self._piece(item)
            return
        if isinstance(item, Recorded):
            yield from self._over(item)
        yield item

    def _piece(self, piece: Piece) -> Iterator[Piece]:
        key = _key(piece)
        if key[0] != _TOOL:  # a model says one thing after the other
            yield from self._rest([other for other in self._streams if other[0] != _TOOL and other != key])
        stream = self._streams.setdefault(key, _Stream(StreamRedactor(self._redactor)))
        told = "".join(stream.redactor.feed(piece.text))
        if stream.late is not None and stream.late.text:
            yield stream.late
        stream.heard, stream.told = stream.heard + piece.text, stream.told + told
        if stream.heard == stream.told:
            stream.late, stream.heard, stream.told = None, "", ""
            if told:
                yield replace(piece, text=told)
        else:
            stream.late = replace(piece, text=told)

    def _over(self, record: Recorded) -> Iterator[Piece]:
        """The rest of the streams that an event ends."""
        ends = _ended_by(record)
        yield from self._rest([key for key in self._streams if ends is not None and ends(key)])

    def _rest(self, keys: Iterable[Key]) -> Iterator[Piece]:
        for key in keys:
            stream = self._streams.pop(key)
            rest = "".join(stream.redactor.flush())
            if stream.late is not None and stream.late.text + rest:
                yield replace(stream.late, text=stream.late.text + rest)


def _ended_by(record: Recorded) -> Callable[[Key], bool] | None:
    match record.event:
        case ModelReplied() | ModelFailed():
            return lambda key: key[0] != _TOOL
        case ToolFinished(call=call):
            return lambda key: key == (_TOOL, call)
        case TurnCompleted() | Interrupted():
            return lambda key: True
        case _:
            return None


def _key(piece: Piece) -> Key:
    match piece:
        case ToolArgsDelta():
            return type(piece).__name__, str(piece.index)
        case ToolOutputDelta():
            return _TOOL, piece.call
        case _:
            return type(piece).__name__, ""
