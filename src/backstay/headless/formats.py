"""Format the output of a headless run: a class for each `--output-format`, and a wrapper that removes secrets.

The text format goes to the person and stays as it is. What goes to another program may reach its logs, so everything that looks like a
secret is removed. Only the question whether a call may run is passed on unchanged: the program that answers must see what runs."""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, Literal, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from backstay.headless.result import EndedTurn, FinishedCommand, SessionSummary, command_object, result_object
from backstay.logic.secrets.redact import PLAIN, Redactor, StreamRedactor
from backstay.logic.secrets.rewrite import change_texts, rewrite_event
from backstay.logic.text import show_invisible
from backstay.stores.open import default_store_url
from backstay.vocab import events
from backstay.vocab.deltas import CommandResult, ReasoningDelta, TextDelta, ToolArgsDelta, ToolOutputDelta
from backstay.vocab.errors import BackstayError
from backstay.vocab.event import Recorded
from backstay.wire.stream import Item, line
from backstay.wire.write_json import json_line

FormatName = Literal["text", "json", "stream-json", "events"]


class OutputFormat(Protocol):
    """Turn what happens into lines, each without its end. By itself it prints nothing; each format adds what it prints."""

    def opening(self, summary: SessionSummary) -> list[bytes]:
        """Return the lines before anything happens."""
        return []

    async def show(self, item: Item) -> list[bytes]:
        """Return the lines of an event, a delta, a notice, or a gap."""
        return []

    def control_reply(self, request: str, problem: str = "") -> list[bytes]:
        """Return the lines that answer a control request; `problem` says why it could not be carried out."""
        return []

    def result(self, ended: EndedTurn) -> list[bytes]:
        """Return the lines of a turn that is over."""
        return []

    def command(self, ended: FinishedCommand) -> list[bytes]:
        """Return the lines of a command that called no model."""
        return []


class TextFormat(OutputFormat):
    """The final text of each turn."""

    def result(self, ended: EndedTurn) -> list[bytes]:
        """Return the text, if there is any."""
        return [ended.text.encode("utf-8", "replace")] if ended.text else []

    def command(self, ended: FinishedCommand) -> list[bytes]:
        """Return the message without control characters; the message of a failed command is a warning, and not output."""
        text = show_invisible(ended.message)
        return [text.encode("utf-8", "replace")] if text and ended.success else []


class ResultObjects(OutputFormat):
    """The result of each prompt as a JSON object, on a line of its own."""

    def __init__(self, session: str) -> None:
        self._session = session

    def result(self, ended: EndedTurn) -> list[bytes]:
        """Return the object of a turn."""
        return [json_line(result_object(self._session, ended))]

    def command(self, ended: FinishedCommand) -> list[bytes]:
        """Return the object of a command."""
        return [json_line(command_object(self._session, ended))]


class NativeStream(OutputFormat):
    """Every event, delta and notice."""

    def __init__(self, session: str) -> None:
        self._session = session

    async def show(self, item: Item) -> list[bytes]:
        """Return the line of an item."""
        return [line(self._session, item)]

    def command(self, ended: FinishedCommand) -> list[bytes]:
        """Return a line that is no event: the log has nothing of the command."""
        result = CommandResult(
            after=ended.seq,
            command=ended.name,
            success=ended.success,
            message=ended.message,
            data=dict(ended.content),
        )
        return [line(self._session, result)]


_COMMAND: Final = re.compile(r"`(backstay (?:log|sessions|export|-r|-c|-p)\b[^`]*)`")
"""A command about sessions, as messages quote it."""


def with_store(words: str, url: str) -> str:
    """Return `words` with `--store URL` in each quoted command about sessions, unless `url` is the default store."""
    if not url or url.startswith("memory:") or _path(url) == _path(default_store_url()):
        return words
    return _COMMAND.sub(lambda found: f"`{_add_store(found[1], url)}`", words)


@contextmanager
def hinting(url: str) -> Iterator[None]:
    """Add the store at `url` to the hints of errors that are raised inside."""
    try:
        yield
    except BackstayError as exc:
        exc.args = (with_store(str(exc), url), *exc.args[1:])
        raise


def _add_store(command: str, url: str) -> str:
    return command if "--store" in command else f"{command} --store {shlex.quote(url)}"


def _path(url: str) -> str:
    """Return the file of a URL, without its query and with one slash in front."""
    return re.sub(r"^\w+:/*", "/", url).partition("?")[0]


Piece = TextDelta | ReasoningDelta | ToolArgsDelta | ToolOutputDelta
Key = tuple[str, str]
"""A stream: its kind, and the call or the number that it belongs to."""
_TOOL: Final = "ToolOutputDelta"


class Scrubbed:
    """Print what `inner` prints, without secrets."""

    def __init__(self, inner: OutputFormat, redactor: Redactor = PLAIN) -> None:
        self._inner = inner
        self._redactor = redactor
        self._pieces = Pieces(redactor)

    def opening(self, summary: SessionSummary) -> list[bytes]:
        """Return the lines before anything happens."""
        return self._clean(self._inner.opening(summary))

    async def show(self, item: Item) -> list[bytes]:
        """Return the lines of an item, and of the rest of the streams that it ends."""
        lines: list[bytes] = []
        for each in self._pieces.take(item):
            lines += await self._inner.show(each)
        return self._clean(lines)

    def control_reply(self, request: str, problem: str = "") -> list[bytes]:
        """Return the lines that answer a control request."""
        return self._clean(self._inner.control_reply(request, problem))

    def result(self, ended: EndedTurn) -> list[bytes]:
        """Return the lines of a turn that is over."""
        return self._clean(self._inner.result(ended))

    def command(self, ended: FinishedCommand) -> list[bytes]:
        """Return the lines of a command that called no model."""
        return self._clean(self._inner.command(ended))

    def _clean(self, lines: list[bytes]) -> list[bytes]:
        return [clean_line(line, self._redactor) for line in lines]


def clean_line(line: bytes, redactor: Redactor = PLAIN) -> bytes:
    """Return a line of JSON without secrets. Of a result only texts change: the names in it may be those of a schema."""
    before = msgspec.json.decode(line, type=dict[str, object])
    if before.get("type") == "control_request":
        return line
    by_name = before.get("type") != "result"
    after = redactor.value(before) if by_name else change_texts(before, redactor.text)
    return line if after == before else json_line(after)


def clean_item(item: Item, redactor: Redactor = PLAIN) -> Item:
    """Return an event without secrets; anything else as it is."""
    if not isinstance(item, Recorded):
        return item
    return replace(item, event=rewrite_event(item.event, redactor.text, {}))


class _Stream(Struct):
    redactor: StreamRedactor
    late: Piece | None = None
    """A piece that was held back: its number is free, and its text is what may be shown so far."""
    received: str = ""
    passed_on: str = ""
    """What came in and went out since nothing was held back."""


class Pieces:
    """Pass on the pieces of streams without secrets. No number is used twice: while text is held back, pieces come one later."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._streams: dict[Key, _Stream] = {}

    def take(self, item: Item) -> Iterator[Item]:
        """Yield what is shown for an item, in order."""
        if isinstance(item, Piece):
            yield from self._piece(item)
            return
        if isinstance(item, Recorded) and (ends := _end_test(item)):
            yield from self._rest([key for key in self._streams if ends(key)])
        yield item

    def _piece(self, piece: Piece) -> Iterator[Piece]:
        key = _key(piece)
        if key[0] != _TOOL:  # a model says one thing after the other
            yield from self._rest([other for other in self._streams if other[0] != _TOOL and other != key])
        stream = self._streams.setdefault(key, _Stream(StreamRedactor(self._redactor)))
        text = "".join(stream.redactor.feed(piece.text))
        if stream.late is not None and stream.late.text:
            yield stream.late
        stream.received, stream.passed_on = stream.received + piece.text, stream.passed_on + text
        if stream.received == stream.passed_on:
            stream.late, stream.received, stream.passed_on = None, "", ""
            if text:
                yield replace(piece, text=text)
        else:
            stream.late = replace(piece, text=text)

    def _rest(self, keys: Iterable[Key]) -> Iterator[Piece]:
        for key in keys:
            stream = self._streams.pop(key)
            rest = "".join(stream.redactor.flush())
            if stream.late is not None and stream.late.text + rest:
                yield replace(stream.late, text=stream.late.text + rest)


def _end_test(record: Recorded) -> Callable[[Key], bool] | None:
    """Return a test for the streams that an event ends."""
    match record.event:
        case events.ModelReplied() | events.ModelFailed():
            return lambda key: key[0] != _TOOL
        case events.ToolFinished(call=call):
            return lambda key: key == (_TOOL, call)
        case events.TurnCompleted() | events.Interrupted():
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
