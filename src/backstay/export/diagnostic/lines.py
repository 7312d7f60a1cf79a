"""What a session's log and trace say, in the vocabulary of the diagnostic log.

The log is the truth: everything that can come from it does. From the trace come the fragments and the payloads as they travelled. A line
is `{"timestamp", "sessionId", "event", ...}`; lines about a model call or a tool carry `executionId` (the turn), `conversationId` (the
session), `round`, and `requestId` (the intent in the log, of which a retried round has several).
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from sys import intern
from typing import Final

import msgspec
from msgspec import Struct

from backstay.catalog.load import PAGE
from backstay.export.diagnostic.messages import Batches, Fields, Messages
from backstay.export.diagnostic.trace import LOST, Ask, Losses, Told, Traced, TracedCalls, scrubbed
from backstay.logic.secrets.redact import PLAIN, Redactor
from backstay.logic.state.conversation import VisibleTranscript
from backstay.logic.state.transcript import Transcript
from backstay.stores.trace.trace import TraceLine, TraceSlice
from backstay.vocab.event import Recorded
from backstay.vocab.events import (
    ChildFinished,
    Closed,
    FaultCaught,
    InputTaken,
    ModelAsked,
    ModelFailed,
    ModelReplied,
    Opened,
    Started,
    StoreChanged,
    ToolFinished,
    TurnCompleted,
    TurnStarted,
    calls_of,
)
from backstay.vocab.events.limits import Compacted, CompactionFailed, CompactionStarted
from backstay.vocab.messages import ServerBlock, SessionMessage, ToolResult, iso

LANDMARKS: Final = (Started, Opened, Closed, StoreChanged)
"""Events that tell why something is not in a trace."""
LOST_CALL: Final = "process_ended"
"""The code of an `error` line for a model call that died with its process."""


class Material(Struct, frozen=True, kw_only=True):
    """What a diagnostic log is made of."""

    session: str
    records: Iterable[Recorded]
    """Read from the beginning as often as is needed."""
    trace: TraceSlice | None
    """None when the session has no trace."""
    text: Callable[[str], str | None]
    """Gives a long text, a system prompt or tool schemas by the hash; None when it is gone."""


def lines_of(material: Material, redactor: Redactor = PLAIN) -> Iterator[Fields]:
    """The lines of a diagnostic log, in order, with `History` values for conversations. Not redacted but for those."""
    lines = scrubbed(material.trace.lines, redactor) if material.trace else ()
    teller, records = _Teller(material, lines, redactor), iter(material.records)
    while page := tuple(islice(records, PAGE)):
        yield from teller.take(page)
    yield from teller.rest()


class _Teller:
    def __init__(self, material: Material, lines: Iterable[TraceLine], redactor: Redactor) -> None:
        self._material = material
        self._lines: deque[TraceLine] = deque(sorted(lines, key=lambda line: line.after))
        self._messages = Messages(material.text, redactor)
        self._transcript: Transcript = VisibleTranscript(material.records)
        self._shown: tuple[list[SessionMessage], int] = ([], 0)
        """The conversation as it was told: the list, which is only ever added to, and how much of it."""
        self._calls = TracedCalls(material.session)
        self._traced = Traced(self._calls)
        self._batches = Batches(material.session)
        self._run = ""
        self._before = ""
        """The turn before the one that is going on."""
        self._first_ask: ModelAsked | None = None
        self._first_of: dict[str, tuple[str, bool]] = {}
        """The model that each turn asks first, and whether it may search the web."""
        self._losses = Losses(self._look_ahead(), material.trace)

    def _look_ahead(self) -> list[Recorded]:
        """The landmarks of the log and its last event."""
        landmarks: list[Recorded] = []
        record = None
        for record in self._material.records:
            event = record.event
            if isinstance(event, LANDMARKS):
                landmarks.append(record)
            elif isinstance(event, ModelAsked):
                self._first_ask = self._first_ask or event
                if event.turn not in self._first_of:
                    self._first_of[event.turn] = (intern(event.model), bool(event.parameters.get("web_search")))
        return landmarks if record is None or landmarks[-1:] == [record] else [*landmarks, record]

    def take(self, records: Sequence[Recorded]) -> Iterator[Fields]:
        """The lines about the next events, and what was traced until then."""
        last = records[-1].seq if records else 0
        traced: list[TraceLine] = []
        while self._lines and self._lines[0].after <= last:
            traced.append(self._lines.popleft())
        yield from self._tell(records, traced)

    def rest(self) -> Iterator[Fields]:
        """The lines about what was traced after the last event."""
        return self._tell((), self._lines)

    def _tell(self, records: Sequence[Recorded], lines: Iterable[TraceLine]) -> Iterator[Fields]:
        for at, what in _merged(records, lines):
            told = self._event(what) if isinstance(what, Recorded) else self._traced.tell(what)
            for event, fields in told:
                yield {"timestamp": iso(at), "sessionId": self._material.session, "event": event, **fields}

    # --- the log -----------------------------------------------------------------------------------------------------------------

    def _event(self, record: Recorded) -> Told:
        event = record.event
        match event:
            case Started():
                self._batches.parent = event.parent
                yield "session_init", self._init(event.model) | {"cwd": event.context.working_dir, "mode": event.mode}
            case Opened():
                yield from self._lost_calls()
                yield "session_init", self._init("") | {"resumed": True, "onCrash": event.on_crash}
            case TurnStarted():
                kept = {self._before, self._calls.turn}
                self._calls.forget(kept)
                self._batches.forget(kept)
                self._before, self._calls.turn = self._calls.turn, record.id
            case ModelAsked():
                yield "provider_request", self._request(record, event)
            case ModelReplied():
                yield from self._replied(record, event)
            case ModelFailed():
                self._calls.open.pop(record.cause, None)
                failed = {"code": event.kind, "message": event.message, "retryAfterSeconds": event.retry_after_s}
                yield "error", self._calls.about(record.cause) | failed
            case CompactionStarted():
                turn = self._calls.turn or record.id
                self._calls.begin(record.id, Ask(turn=turn, round=0, seq=record.seq, requested=False))
            case Compacted() | CompactionFailed():
                yield from self._compacted(record, event)
            case Closed():
                yield "session_shutdown", {"reason": event.reason}
            case FaultCaught():
                yield "error", {"code": event.kind, "message": event.message, "where": event.where}
            case _:
                pass
        yield from self._history(record)

    def _history(self, record: Recorded) -> Told:
        """What an event does to the conversation, and what is told of it before and after."""
        event = record.event
        before = len(self._transcript.messages)
        self._transcript.apply(record)
        if isinstance(event, InputTaken) and self._run != self._calls.turn:
            self._run = self._calls.turn
            yield "pre_run", self._pre_run(before)
        if isinstance(event, ToolFinished) or (isinstance(event, ChildFinished) and not event.skill):
            yield from self._batches.finished(event, self._messages)
        yield from self._mutations()
        if isinstance(event, TurnCompleted):
            yield from self._ended(event)

    def _mutations(self) -> Told:
        """The conversation's change as a cut, if any, and what was added."""
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
        return (self._material.text(sha256) or "") if sha256 else ""

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

    def _request(self, record: Recorded, asked: ModelAsked) -> Fields:
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

    def _replied(self, record: Recorded, reply: ModelReplied) -> Told:
        about = self._calls.about(record.cause)
        self._calls.open.pop(record.cause, None)
        ask = self._calls.asks.get(record.cause)
        due = ask is not None and not ask.payloads and reply.stop != "interrupted"
        if ask is not None and due and (why := self._losses.why(ask)):
            yield "error", about | {"code": LOST, "message": why}
        calls = calls_of(reply)
        yield (
            "provider_response_normalized",
            {
                **about,
                "provider": _provider(reply.model),
                "model": reply.model,
                "message": self._messages.fields(_as_message(record, reply, self._material.session)),
                "toolCallCount": len(calls),
                "stopReason": reply.stop,
                "usage": msgspec.to_builtins(reply.usage),
            },
        )
        for part in reply.parts:
            if isinstance(part, ServerBlock) and part.name:
                yield "server_tool", about | {"tool": part.name, "query": part.content, "kind": part.kind}
        yield from self._batches.started(record.id, calls, about)

    def _compacted(self, record: Recorded, event: Compacted | CompactionFailed) -> Told:
        self._calls.open.pop(record.cause, None)
        ask = self._calls.asks.get(record.cause)
        about = self._calls.about(record.cause)
        if isinstance(event, CompactionFailed):
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

    def _ended(self, event: TurnCompleted) -> Told:
        about: Fields = {"executionId": event.turn, "conversationId": self._material.session}
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

    def _lost_calls(self) -> Told:
        """The process before died in the middle of these; nobody will ever know their answers."""
        for id in self._calls.open:
            if self._calls.asks[id].requested:
                yield (
                    "error",
                    self._calls.about(id) | {"code": LOST_CALL, "message": "The process ended before the answer."},
                )
        self._calls.open.clear()


class LogOutline(_Teller):
    """Tells the lines of a long log a page at a time, without what was said: enough to check that everything has its answer.

    Its `material` needs no texts, and of the records only `LANDMARKS` and the last one.
    """

    def __init__(self, material: Material) -> None:
        super().__init__(material, material.trace.lines if material.trace else (), PLAIN)
        self._transcript = _NoConversation()


class _NoConversation(Transcript):
    def apply(self, record: Recorded) -> None:
        """Keep nothing."""


def _merged(records: Sequence[Recorded], lines: Iterable[TraceLine]) -> Iterator[tuple[int, Recorded | TraceLine]]:
    """Events and lines in the order in which they happened: a line belongs after the event that it names."""
    found: list[tuple[tuple[int, int], int, Recorded | TraceLine]] = [((r.seq, 0), r.at, r) for r in records]
    found += [((line.after, 1), line.at, line) for line in lines]
    for _, at, what in sorted(found, key=lambda one: one[0]):
        yield at, what


def _common(one: Sequence[SessionMessage], other: Sequence[SessionMessage]) -> int:
    """How many messages two conversations have in common at their beginning."""
    at = 0
    for left, right in zip(one, other, strict=False):
        if left is not right and left != right:
            break
        at += 1
    return at


def _as_message(record: Recorded, reply: ModelReplied, session: str) -> SessionMessage:
    state = "interrupted" if reply.stop == "interrupted" else "complete"
    return msgspec.convert(
        {"id": record.id, "session": session, "number": record.seq, "role": "assistant", "content": reply.parts}
        | {"at": record.at, "model": reply.model, "state": state},
        SessionMessage,
    )


def _provider(model: str) -> str:
    return model.partition(":")[0]
