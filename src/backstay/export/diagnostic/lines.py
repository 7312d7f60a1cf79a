"""The lines of a diagnostic log, made from the log and the trace of a session.

The log is the truth: everything that can come from it does. Fragments and the payloads of requests come from the trace. A line is
`{"timestamp", "sessionId", "event", ...}`; lines about a model call or a tool carry `executionId` (the turn), `conversationId` (the
session), `round`, and `requestId` (the id of the intent in the log; a round that is retried has several)."""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from sys import intern
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from backstay.catalog.paged_log import PAGE
from backstay.export.diagnostic.messages import Batches, Fields, Messages
from backstay.logic.secrets.redact import PLAIN, Redactor, StreamRedactor
from backstay.logic.state.conversation import VisibleTranscript
from backstay.logic.state.transcript import Transcript
from backstay.stores.stored_trace import TraceSlice
from backstay.stores.trace import LOST as LINES_LOST
from backstay.stores.trace import TraceLine
from backstay.vocab import events
from backstay.vocab.event import Recorded
from backstay.vocab.messages import ServerBlock, SessionMessage, ToolResult, iso

LANDMARKS: Final = (events.Started, events.Opened, events.Closed, events.StoreChanged)
"""Events that explain why something is not in a trace."""
LOST_CALL: Final = "process_ended"
"""The code of an `error` line for a model call that died with its process."""


NamedFields = Iterator[tuple[str, Fields]]
"""The `event` of lines and their other fields."""


class DiagnosticSource(Struct, frozen=True, kw_only=True):
    """The log, trace and texts that a diagnostic log is made from."""

    session: str
    records: Iterable[Recorded]
    """Read from the beginning as often as is needed."""
    trace: TraceSlice | None
    """None when the session has no trace."""
    text: Callable[[str], str | None]
    """Return a long text, a system prompt or tool schemas by the hash; None when it is gone."""


def lines_of(source: DiagnosticSource, redactor: Redactor = PLAIN) -> Iterator[Fields]:
    """Yield the lines of a diagnostic log, in order, with `MessageHistory` values for conversations. Only those are redacted."""
    lines = _scrub(source.trace.lines, redactor) if source.trace else ()
    maker, records = _LineMaker(source, lines, redactor), iter(source.records)
    while page := tuple(islice(records, PAGE)):
        yield from maker.take(page)
    yield from maker.rest()


class _LineMaker:
    def __init__(self, source: DiagnosticSource, lines: Iterable[TraceLine], redactor: Redactor) -> None:
        self._source = source
        self._lines: deque[TraceLine] = deque(sorted(lines, key=lambda line: line.after))
        self._messages = Messages(source.text, redactor)
        self._transcript: Transcript = VisibleTranscript(source.records)
        self._shown: tuple[list[SessionMessage], int] = ([], 0)
        """The conversation as lines have it: the list, which only grows, and how much of it."""
        self._calls = ModelCalls(source.session)
        self._traced = TraceLines(self._calls)
        self._batches = Batches(source.session)
        self._run = ""
        self._before = ""
        """The turn before the current one."""
        self._first_ask: events.ModelAsked | None = None
        self._first_of: dict[str, tuple[str, bool]] = {}
        """The first model of each turn, and whether it may search the web."""
        self._losses = Losses(self._look_ahead(), source.trace)

    def _look_ahead(self) -> list[Recorded]:
        """Return the landmarks of the log and its last event."""
        landmarks: list[Recorded] = []
        record = None
        for record in self._source.records:
            event = record.event
            if isinstance(event, LANDMARKS):
                landmarks.append(record)
            elif isinstance(event, events.ModelAsked):
                self._first_ask = self._first_ask or event
                if event.turn not in self._first_of:
                    self._first_of[event.turn] = (intern(event.model), bool(event.parameters.get("web_search")))
        return landmarks if record is None or landmarks[-1:] == [record] else [*landmarks, record]

    def take(self, records: Sequence[Recorded]) -> Iterator[Fields]:
        """Yield the lines of the next events, and of what was traced until then."""
        last = records[-1].seq if records else 0
        traced: list[TraceLine] = []
        while self._lines and self._lines[0].after <= last:
            traced.append(self._lines.popleft())
        yield from self._lines_of(records, traced)

    def rest(self) -> Iterator[Fields]:
        """Yield the lines of what was traced after the last event."""
        return self._lines_of((), self._lines)

    def _lines_of(self, records: Sequence[Recorded], lines: Iterable[TraceLine]) -> Iterator[Fields]:
        for at, what in _merge(records, lines):
            named = self._event(what) if isinstance(what, Recorded) else self._traced.line(what)
            for event, fields in named:
                yield {"timestamp": iso(at), "sessionId": self._source.session, "event": event, **fields}

    # --- the log -----------------------------------------------------------------------------------------------------------------

    def _event(self, record: Recorded) -> NamedFields:
        event = record.event
        match event:
            case events.Started():
                self._batches.parent = event.parent
                yield "session_init", self._init(event.model) | {"cwd": event.context.working_dir, "mode": event.mode}
            case events.Opened():
                yield from self._give_up_calls()
                yield "session_init", self._init("") | {"resumed": True, "onCrash": event.on_crash}
            case events.TurnStarted():
                kept = {self._before, self._calls.turn}
                self._calls.forget(kept)
                self._batches.forget(kept)
                self._before, self._calls.turn = self._calls.turn, record.id
            case events.ModelAsked():
                yield "provider_request", self._request(record, event)
            case events.ModelReplied():
                yield from self._fold_reply(record, event)
            case events.ModelFailed():
                self._calls.open.pop(record.cause, None)
                failed = {"code": event.kind, "message": event.message, "retryAfterSeconds": event.retry_after_s}
                yield "error", self._calls.about(record.cause) | failed
            case events.CompactionStarted():
                turn = self._calls.turn or record.id
                self._calls.begin(record.id, Ask(turn=turn, round=0, seq=record.seq, requested=False))
            case events.Compacted() | events.CompactionFailed():
                yield from self._fold_compaction(record, event)
            case events.Closed():
                yield "session_shutdown", {"reason": event.reason}
            case events.FaultCaught():
                yield "error", {"code": event.kind, "message": event.message, "where": event.where}
            case _:
                pass
        yield from self._history(record)

    def _history(self, record: Recorded) -> NamedFields:
        """Apply an event to the conversation; yield the lines before the change, about it, and after it."""
        event = record.event
        before = len(self._transcript.messages)
        self._transcript.apply(record)
        if isinstance(event, events.InputTaken) and self._run != self._calls.turn:
            self._run = self._calls.turn
            yield "pre_run", self._pre_run(before)
        if isinstance(event, events.ToolFinished) or (isinstance(event, events.ChildFinished) and not event.skill):
            yield from self._batches.finish(event, self._messages)
        yield from self._mutations()
        if isinstance(event, events.TurnCompleted):
            yield from self._end_turn(event)

    def _mutations(self) -> NamedFields:
        """Yield the change of the conversation: a cut, if there was any, and each message that was added."""
        (shown, count), now = self._shown, self._transcript.messages
        keep = count if now is shown else _common(shown[:count], now)
        if now is not shown:
            self._messages.forget(now)
        self._shown = now, len(now)
        if keep < count:
            yield "history_mutation", {"mutation": "truncate", "length": keep}
        for number, message in enumerate(now[keep:], start=keep + 1):
            yield (
                "history_mutation",
                {"mutation": "append", "length": number, "message": self._messages.fields(message)},
            )
            for part in message.content:
                if isinstance(part, ToolResult) and now is shown:
                    yield "tool_message_committed", self._batches.about(part.call) | {"messageId": message.id}

    def _init(self, model: str) -> Fields:
        asked = self._first_ask
        prompt = self._text(asked.instructions) if asked else ""
        model = model or (asked.model if asked else "")
        named = {"provider": _provider(model), "model": model}
        schemas = self._schemas(asked.tools if asked else "")
        return {"systemPrompt": prompt, "systemPromptLength": len(prompt), **named, "toolSchemas": schemas}

    def _schemas(self, sha256: str) -> object:
        text = self._text(sha256)
        return msgspec.json.decode(text) if text else []

    def _text(self, sha256: str) -> str:
        return (self._source.text(sha256) or "") if sha256 else ""

    def _pre_run(self, before: int) -> Fields:
        model, is_on = self._first_of.get(self._calls.turn, ("", False))
        messages = self._transcript.messages
        return {
            **self._calls.execution(),
            "provider": _provider(model),
            "model": model,
            "nativeWebSearchSupported": is_on or None,
            "nativeWebSearchEnabled": is_on,
            "input": "".join(self._messages.text(message.content) for message in messages[before:]),
            "history": self._messages.history(messages[:before]),
        }

    def _request(self, record: Recorded, asked: events.ModelAsked) -> Fields:
        self._calls.begin(record.id, Ask(turn=asked.turn, round=asked.round, seq=record.seq))
        return {
            **self._calls.about(record.id),
            "provider": _provider(asked.model),
            "model": asked.model,
            "systemPrompt": self._text(asked.instructions),
            "messages": self._messages.history(self._transcript.messages),
            "tools": self._schemas(asked.tools),
            "options": asked.parameters,
        }

    def _fold_reply(self, record: Recorded, reply: events.ModelReplied) -> NamedFields:
        about = self._calls.about(record.cause)
        self._calls.open.pop(record.cause, None)
        ask = self._calls.asks.get(record.cause)
        due = ask is not None and not ask.payloads and reply.stop != "interrupted"
        if ask is not None and due and (why := self._losses.why(ask)):
            yield "error", about | {"code": LOST, "message": why}
        calls = events.calls_of(reply)
        yield (
            "provider_response_normalized",
            {
                **about,
                "provider": _provider(reply.model),
                "model": reply.model,
                "message": self._messages.fields(_as_message(record, reply, self._source.session)),
                "toolCallCount": len(calls),
                "stopReason": reply.stop,
                "usage": msgspec.to_builtins(reply.usage),
            },
        )
        for part in reply.parts:
            if isinstance(part, ServerBlock) and part.name:
                yield "server_tool", about | {"tool": part.name, "query": part.content, "kind": part.kind}
        yield from self._batches.start(record.id, calls, about)

    def _fold_compaction(self, record: Recorded, event: events.Compacted | events.CompactionFailed) -> NamedFields:
        self._calls.open.pop(record.cause, None)
        ask = self._calls.asks.get(record.cause)
        about = self._calls.about(record.cause)
        if isinstance(event, events.CompactionFailed):
            yield "error", about | {"code": "compaction_failed", "message": event.message}
            return
        summary = self._messages.text((event.summary,)) if event.summary else ""
        if ask is not None and ask.requested:
            message: Fields = {"role": "assistant", "content": summary}
            yield "provider_response_normalized", about | {"model": event.model, "message": message, "toolCallCount": 0}
        window = {"maxTokens": event.window}
        yield (
            "context_compact",
            {
                **about,
                "trigger": event.trigger,
                "before": {"usedTokens": event.before, **window},
                "after": {"usedTokens": event.after, **window},
                "summary": summary,
            },
        )

    def _end_turn(self, event: events.TurnCompleted) -> NamedFields:
        about: Fields = {"executionId": event.turn, "conversationId": self._source.session}
        if event.outcome in ("failed", "abandoned"):
            ended = {"code": event.code or event.outcome, "message": event.message, "outcome": event.outcome}
            yield "error", {**about, **ended}
            return
        messages = self._transcript.messages
        said = next((message for message in reversed(messages) if message.role == "assistant"), None)
        yield (
            "assistant",
            {
                **about,
                "content": self._messages.text(said.content) if said else "",
                "outcome": event.outcome,
                "history": self._messages.history(messages),
                "historyStructure": self._messages.structure(messages),
            },
        )

    def _give_up_calls(self) -> NamedFields:
        """Yield an error for each call that was open when the process before died."""
        for id in self._calls.open:
            if self._calls.asks[id].requested:
                yield (
                    "error",
                    self._calls.about(id) | {"code": LOST_CALL, "message": "The process ended before the answer."},
                )
        self._calls.open.clear()


class LogOutline(_LineMaker):
    """Make the lines of a long log a page at a time, without texts: enough to check that every request and call has its answer.

    Its `source` needs no texts, and of the records only `LANDMARKS` and the last one.
    """

    def __init__(self, source: DiagnosticSource) -> None:
        super().__init__(source, source.trace.lines if source.trace else (), PLAIN)
        self._transcript = _NoConversation()


class _NoConversation(Transcript):
    def apply(self, record: Recorded) -> None:
        """Keep nothing."""


def _merge(records: Sequence[Recorded], lines: Iterable[TraceLine]) -> Iterator[tuple[int, Recorded | TraceLine]]:
    """Yield events and lines of the trace in order: a line follows the event that it names."""
    found: list[tuple[tuple[int, int], int, Recorded | TraceLine]] = [((r.seq, 0), r.at, r) for r in records]
    found += [((line.after, 1), line.at, line) for line in lines]
    for _, at, what in sorted(found, key=lambda one: one[0]):
        yield at, what


def _common(one: Sequence[SessionMessage], other: Sequence[SessionMessage]) -> int:
    """Count the messages that two conversations have in common at their beginning."""
    at = 0
    for left, right in zip(one, other, strict=False):
        if left is not right and left != right:
            break
        at += 1
    return at


def _as_message(record: Recorded, reply: events.ModelReplied, session: str) -> SessionMessage:
    state = "interrupted" if reply.stop == "interrupted" else "complete"
    return msgspec.convert(
        {"id": record.id, "session": session, "number": record.seq, "role": "assistant", "content": reply.parts}
        | {"at": record.at, "model": reply.model, "state": state},
        SessionMessage,
    )


def _provider(model: str) -> str:
    return model.partition(":")[0]


LOST: Final = "TRACE_LOST"
"""The code of an `error` line for lost payloads, which are no fault of the session."""
PAYLOADS: Final = ("provider_request", "provider_native_raw_payload", "provider_response_raw")
"""Kinds of lines of the trace."""
_DELTAS: Final = {"TextDelta": "text", "ReasoningDelta": "reasoning", "ToolArgsDelta": "tool_arguments"}


class Ask(Struct, kw_only=True):
    """A model call, or a compaction that may make some."""

    turn: str
    round: int
    seq: int
    payloads: int = 0
    """The number of lines about its answer."""
    requested: bool = True
    """Whether its request has a line."""


class ModelCalls:
    """The model calls of a session."""

    def __init__(self, session: str) -> None:
        self.turn = ""
        self.asks: dict[str, Ask] = {}
        self.open: dict[str, None] = {}
        """Calls without an answer, oldest first."""
        self._session = session

    def begin(self, id: str, ask: Ask) -> None:
        """Add an open call."""
        self.asks[id] = ask
        self.open[id] = None

    def forget(self, kept: Collection[str]) -> None:
        """Drop the calls that are over, but for those of the turns `kept`."""
        self.asks = {id: ask for id, ask in self.asks.items() if id in self.open or ask.turn in kept}

    def execution(self) -> Fields:
        """Return the fields that every line of a turn has."""
        return {"executionId": self.turn, "conversationId": self._session}

    def about(self, id: str) -> Fields:
        """Return the fields that every line of a model call has."""
        ask = self.asks.get(id)
        if ask is None:
            return self.execution()
        return {"executionId": ask.turn, "conversationId": self._session, "round": ask.round, "requestId": id}


def _scrub(lines: Sequence[TraceLine], redactor: Redactor) -> Sequence[TraceLine]:
    """Return the lines of a trace without secrets that are spread over several deltas: an older version may have left them."""
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


class TraceLines:
    """Make lines of the diagnostic log from the lines of a trace."""

    def __init__(self, calls: ModelCalls) -> None:
        self._calls = calls
        self._deltas = 0
        self._payloads = 0

    def line(self, line: TraceLine) -> NamedFields:
        """Yield the lines for a line of the trace; none for most kinds."""
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

    def _payload(self, line: TraceLine) -> NamedFields:
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
        """Return the open compaction, to which lines without a call belong."""
        return next((id for id in self._calls.open if not self._calls.asks[id].round), "")


class Losses:
    """Explain why payloads are missing that the session could not keep."""

    def __init__(self, records: Sequence[Recorded], trace: TraceSlice | None) -> None:
        lines = trace.lines if trace is not None else ()
        self._empty = not any(line.kind in PAYLOADS for line in lines)
        self._lost = trace is not None and trace.lost > 0
        self._cut_before = lines[0].after if trace is not None and trace.cut and lines else 0
        self._traced = sorted(line.after for line in lines)
        self._ends = [record for record in records if isinstance(record.event, events.Opened | events.Closed)]
        self._last = records[-1].seq if records else 0
        self._elsewhere = max((r.seq for r in records if isinstance(r.event, events.StoreChanged)), default=0)
        if records and isinstance(records[0].event, events.Started) and records[0].event.origin and self._traced:
            self._elsewhere = max(self._elsewhere, self._traced[0])

    def why(self, ask: Ask) -> str:
        """Return why the trace has nothing of the answer; empty when it should have it."""
        if self._empty:
            return "The session's trace holds no payloads."
        if ask.seq < self._elsewhere:
            return "They were traced elsewhere: the session is a copy, or was moved."
        if ask.seq < self._cut_before:
            return "The oldest lines of the trace were dropped to keep it small."
        if self._lost:
            return "Lines of the trace are lost."
        end = next((record for record in self._ends if record.seq > ask.seq), None)
        if end is None or isinstance(end.event, events.Opened):
            last = end.seq - 1 if end is not None else self._last
            if bisect_right(self._traced, last) == bisect_right(self._traced, ask.seq):
                return "The end of the trace is lost: the process ended before it was written."
        return ""
