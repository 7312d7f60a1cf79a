"""What the trace adds to the diagnostic log: fragments, payloads as they travelled, and what is known of those that are lost."""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from backstay.export.diagnostic.messages import Fields
from backstay.export.diagnostic.payloads import PayloadError, Resolver
from backstay.logic.secrets.redact import Redactor, StreamRedactor
from backstay.stores.trace.trace import LOST as LINES_LOST
from backstay.stores.trace.trace import TraceLine, TraceSlice
from backstay.system.files import read_whole
from backstay.vocab.errors import UserError
from backstay.vocab.event import Recorded
from backstay.vocab.events import Closed, Opened, Started, StoreChanged

LOST: Final = "TRACE_LOST"
"""The code of an `error` line that says that payloads are lost, which is no fault of the session."""
PAYLOADS: Final = ("provider_request", "provider_native_raw_payload", "provider_response_raw")
"""Kinds of lines of the trace."""
_DELTAS: Final = {"TextDelta": "text", "ReasoningDelta": "reasoning", "ToolArgsDelta": "tool_arguments"}

Told = Iterator[tuple[str, Fields]]
"""Events of the diagnostic log and their fields."""


class Ask(Struct, kw_only=True):
    """A model call, or a compaction that may make some."""

    turn: str
    round: int
    seq: int
    payloads: int = 0
    """Lines about its answer."""
    requested: bool = True
    """Its request has been told."""


class TracedCalls:
    """The model calls of a session."""

    def __init__(self, session: str) -> None:
        self.turn = ""
        self.asks: dict[str, Ask] = {}
        self.open: dict[str, None] = {}
        """Those without an answer, oldest first."""
        self._session = session

    def begin(self, id: str, ask: Ask) -> None:
        """A call is open from here on."""
        self.asks[id] = ask
        self.open[id] = None

    def forget(self, kept: Collection[str]) -> None:
        """Drop the calls that are over, but for those of the turns `kept`."""
        self.asks = {id: ask for id, ask in self.asks.items() if id in self.open or ask.turn in kept}

    def execution(self) -> Fields:
        """What lines say that belong to a turn."""
        return {"executionId": self.turn, "conversationId": self._session}

    def about(self, id: str) -> Fields:
        """What lines say that belong to a model call."""
        ask = self.asks.get(id)
        if ask is None:
            return self.execution()
        return {"executionId": ask.turn, "conversationId": self._session, "round": ask.round, "requestId": id}


def scrubbed(lines: Sequence[TraceLine], redactor: Redactor) -> Sequence[TraceLine]:
    """The lines of a trace without the secrets that several deltas hold together: an older version may have left them."""
    streams: dict[tuple[object, ...], list[tuple[int, Fields]]] = {}
    reply = 0
    for number, line in enumerate(lines):
        reply += line.kind in ("provider_request", "provider_response_raw")
        if line.kind in _DELTAS and isinstance(delta := line.data.get("delta"), dict):
            streams.setdefault((reply, line.kind, delta.get("index")), []).append((number, delta))
    clean = list(lines)
    for pieces in streams.values():
        stream = StreamRedactor(redactor)
        said = [str(delta.get("text", "")) for _, delta in pieces]
        for (number, delta), text in zip(pieces, [*stream.feed(*said), *stream.flush()], strict=True):
            clean[number] = replace(lines[number], data=lines[number].data | {"delta": delta | {"text": text}})
    return clean


class Traced:
    """Tells the lines of a trace."""

    def __init__(self, calls: TracedCalls) -> None:
        self._calls = calls
        self._deltas = 0
        self._payloads = 0

    def tell(self, line: TraceLine) -> Told:
        """A line of the trace in the words of the diagnostic log; nothing for most kinds."""
        if line.kind in PAYLOADS:
            yield from self._payload(line)
        elif line.kind in _DELTAS and isinstance(delta := line.data.get("delta"), Mapping):
            about = self._calls.about(next(reversed(self._calls.open), ""))
            self._deltas += 1
            kind = {"sequence": self._deltas, "deltaKind": _DELTAS[line.kind]}
            yield "provider_stream_raw_delta", {**about, **kind, "delta": delta.get("text", "")}
            if line.kind == "TextDelta":
                yield "text_delta", {**about, "delta": delta.get("text", "")}
        elif line.kind == LINES_LOST:
            yield "error", {"code": LOST, "message": "Lines of the trace could not be written.", **line.data}

    def _payload(self, line: TraceLine) -> Told:
        content = {key: value for key, value in line.data.items() if key not in ("execution", "round", "ask")}
        id = str(line.data.get("ask", "")) or self._compaction()
        ask = self._calls.asks.get(id)
        about = self._calls.about(id)
        if ask is not None:
            if not ask.requested:
                ask.requested = True
                yield "provider_request", about | {"purpose": "compaction"}
            ask.payloads += line.kind != "provider_request"
        if line.kind == "provider_response_raw":
            kind = "error" if "error" in content else "reply"
            yield "provider_response_raw", {**about, "responseKind": kind, "response": content}
            return
        self._payloads += 1
        kind = "request" if line.kind == "provider_request" else str(content.pop("kind", "response"))
        fields = {"payloadKind": kind, "sequence": self._payloads, **content}
        if "payload" not in fields:
            fields = {"payloadKind": kind, "sequence": self._payloads, "payload": content}
        yield "provider_native_raw_payload", about | fields

    def _compaction(self) -> str:
        """The open compaction, to which lines belong that name no call."""
        return next((id for id in self._calls.open if not self._calls.asks[id].round), "")


class Losses:
    """Tells why payloads are not there, when that is nobody's fault."""

    def __init__(self, records: Sequence[Recorded], trace: TraceSlice | None) -> None:
        lines = trace.lines if trace is not None else ()
        self._empty = not any(line.kind in PAYLOADS for line in lines)
        self._lost = trace is not None and trace.lost > 0
        self._cut_before = lines[0].after if trace is not None and trace.cut and lines else 0
        self._traced = sorted(line.after for line in lines)
        self._ends = [record for record in records if isinstance(record.event, Opened | Closed)]
        self._last = records[-1].seq if records else 0
        self._elsewhere = max((r.seq for r in records if isinstance(r.event, StoreChanged)), default=0)
        if records and isinstance(records[0].event, Started) and records[0].event.origin and self._traced:
            self._elsewhere = max(self._elsewhere, self._traced[0])

    def why(self, ask: Ask) -> str:
        """Why nothing of the answer is in the trace; empty when it ought to be."""
        if self._empty:
            return "The session's trace holds no payloads."
        if ask.seq < self._elsewhere:
            return "They were traced elsewhere: the session is a copy, or was moved."
        if ask.seq < self._cut_before:
            return "The oldest lines of the trace were dropped to keep it small."
        if self._lost:
            return "Lines of the trace are lost."
        end = next((record for record in self._ends if record.seq > ask.seq), None)
        if end is None or isinstance(end.event, Opened):
            last = end.seq - 1 if end is not None else self._last
            if bisect_right(self._traced, last) == bisect_right(self._traced, ask.seq):
                return "The end of the trace is lost: the process ended before it was written."
        return ""


class DiagnosticLog(Struct, frozen=True, kw_only=True):
    """The lines of a diagnostic log that can be read, and what is wrong with the others."""

    lines: tuple[Fields, ...]
    problems: tuple[str, ...] = ()


class Replayed(Struct, frozen=True, kw_only=True):
    """A conversation as a diagnostic log tells it."""

    messages: list[Fields] = field(default_factory=list)
    history: list[Fields] = field(default_factory=list)
    """The same as entries: `{"id", "timestamp", "category": "chat", "type", "data"}`."""
    problems: tuple[str, ...] = ()


def read_diagnostic(path: Path) -> DiagnosticLog:
    """The lines of the file at `path`. Raise `UserError` only when there is no such file."""
    try:
        content = read_whole(path)
    except OSError as exc:
        raise UserError(f"Cannot read {str(path)!r}: {exc.strerror or exc}.") from exc
    return parse_diagnostic(content)


def parse_diagnostic(content: bytes) -> DiagnosticLog:
    """The lines of a diagnostic log."""
    lines: list[Fields] = []
    problems: list[str] = []
    pieces = content.split(b"\n")
    for number, piece in enumerate(pieces, start=1):
        if not piece.strip():
            continue
        try:
            line = msgspec.json.decode(piece, type=dict[str, object])
            if not all(isinstance(line.get(key), str) for key in ("timestamp", "sessionId", "event")):
                raise msgspec.ValidationError("it has no timestamp, sessionId or event")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            torn = number == len(pieces)
            problems.append(f"Line {number} is torn off." if torn else f"Line {number} cannot be read: {exc}.")
        else:
            lines.append(line)
    return DiagnosticLog(lines=tuple(lines), problems=tuple(problems))


def replay(lines: Iterable[Fields], resolver: Resolver | None = None) -> Replayed:
    """The conversation at the end of `lines`. Without a resolver, messages in payloads are missing."""
    resolver = resolver or Resolver(None)
    messages: list[Fields | None] = []
    problems: list[str] = []
    for number, line in enumerate(lines, start=1):
        if line.get("event") != "history_mutation":
            continue
        length = line.get("length")
        if not isinstance(length, int) or length < 0:
            problems.append(f"Line {number} changes the history without saying how long it is then.")
        elif line.get("mutation") == "truncate":
            del messages[length:]
        else:
            _place(messages, max(0, length - 1), _message(line, number, resolver, problems))
    missing = sum(message is None for message in messages)
    if missing:
        problems.append(f"{missing} of {len(messages)} messages are missing.")
    return _replayed([message for message in messages if message is not None], problems)


def _place(messages: list[Fields | None], at: int, message: Fields | None) -> None:
    """Put a message where it belongs, also when those before it are lost."""
    del messages[at:]
    messages += [None] * (at - len(messages))
    messages.append(message)


def _message(line: Fields, number: int, resolver: Resolver, problems: list[str]) -> Fields | None:
    try:
        message = resolver.resolve(line.get("message"))
    except PayloadError as exc:
        problems.append(f"Line {number}: {exc.problem}: {exc}")
        return None
    if isinstance(message, dict) and isinstance(message.get("role"), str):
        return message
    problems.append(f"Line {number} adds something that is not a message.")
    return None


def _replayed(messages: list[Fields], problems: Sequence[str]) -> Replayed:
    entries = [
        {"id": one.get("id"), "timestamp": one.get("timestamp"), "category": "chat", "type": one["role"], "data": one}
        for one in messages
    ]
    return Replayed(messages=messages, history=entries, problems=tuple(problems))
