"""What a session's log and trace say, in the vocabulary of the diagnostic log.

The log is the truth: everything that can come from it does. From the trace come the fragments and the payloads as they travelled. A line
is `{"timestamp", "sessionId", "event", ...}`; lines about a model call or a tool carry `executionId` (the turn), `conversationId` (the
session), `round`, and `requestId` (the intent in the log, of which a retried round has several).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from holdfast.export.diagnostic_messages import Fields, Messages
from holdfast.export.diagnostic_tools import Batches
from holdfast.logic.redact import PLAIN, Redactor
from holdfast.logic.transcript import Transcript
from holdfast.stores.trace import TraceLine, TraceSlice
from holdfast.vocab.event import Recorded
from holdfast.vocab.event_limits import Compacted, CompactionFailed, CompactionStarted
from holdfast.vocab.events import (
    ChildFinished,
    Closed,
    FaultCaught,
    InputTaken,
    ModelAsked,
    ModelFailed,
    ModelReplied,
    Opened,
    Started,
    ToolFinished,
    TurnCompleted,
    TurnStarted,
    calls_of,
)
from holdfast.vocab.messages import ServerBlock, SessionMessage, TextRef, ToolResult, iso

LOST: Final = "TRACE_LOST"
"""The code of an `error` line that says that payloads of a model call are lost, which is not a fault of the session."""
PROVIDER_LINES: Final = ("provider_request", "provider_native_raw_payload", "provider_response_raw")
_STREAMED: Final = {"TextDelta": "text", "ReasoningDelta": "reasoning", "ToolArgsDelta": "tool_arguments"}


@dataclass(frozen=True, kw_only=True)
class Material:
    """What a diagnostic log is made of."""

    session: str
    records: Sequence[Recorded]
    trace: TraceSlice | None
    """None when the session has no trace."""
    texts: Mapping[str, str]
    """Long texts, system prompts and tool schemas, by hash."""
    ended: bool = True
    """Nobody is running the session."""


@dataclass(kw_only=True)
class _Ask:
    """A model call."""

    turn: str
    round: int
    seq: int
    payloads: int = 0
    asked: bool = True
    """Its request has been told."""


def lines_of(material: Material, redactor: Redactor = PLAIN) -> Iterator[Fields]:
    """The lines of a diagnostic log, in order, with `History` values for conversations. Not redacted but for those."""
    return _Teller(material, redactor).tell()


class _Teller:
    def __init__(self, material: Material, redactor: Redactor) -> None:
        self._material = material
        self._messages = Messages(material.texts, redactor)
        self._transcript = Transcript()
        self._shown: list[SessionMessage] = []
        self._asks: dict[str, _Ask] = {}
        self._open: dict[str, None] = {}
        """Model calls without an answer, and compactions."""
        self._batches = Batches(material.session)
        self._turn = ""
        self._parent = ""
        self._lines = {"text": 0, "raw": 0}

    def tell(self) -> Iterator[Fields]:
        trace = self._material.trace
        for at, what in _merged(self._material.records, trace.lines if trace else ()):
            told = self._event(what) if isinstance(what, Recorded) else self._traced(what)
            for event, fields in told:
                yield {"timestamp": iso(at), "sessionId": self._material.session, "event": event, **fields}

    # --- the log -----------------------------------------------------------------------------------------------------------------

    def _event(self, record: Recorded) -> Iterator[tuple[str, Fields]]:
        event = record.event
        match event:
            case Started():
                self._parent = event.parent
                self._batches.parent = event.parent
                yield "session_init", self._init(event.model) | {"cwd": event.context.working_dir, "mode": event.mode}
            case Opened():
                yield from self._lost_calls()
                yield "session_init", self._init("") | {"resumed": True, "onCrash": event.on_crash}
            case TurnStarted():
                self._turn = record.id
            case ModelAsked():
                yield "provider_request", self._request(record, event)
            case ModelReplied():
                yield from self._replied(record, event)
            case ModelFailed():
                self._open.pop(record.cause, None)
                failed = {"code": event.kind, "message": event.message, "retryAfterSeconds": event.retry_after_s}
                yield "error", self._call(record.cause) | failed
            case CompactionStarted():
                self._asks[record.id] = _Ask(turn=self._turn or record.id, round=0, seq=record.seq, asked=False)
                self._open[record.id] = None
            case Compacted() | CompactionFailed():
                yield from self._compacted(record, event)
            case Closed():
                yield "session_shutdown", {"reason": event.reason}
            case FaultCaught():
                yield "error", {"code": event.kind, "message": event.message, "where": event.where}
            case _:
                pass
        yield from self._history(record)

    def _history(self, record: Recorded) -> Iterator[tuple[str, Fields]]:
        """What an event does to the conversation, and what is told of it before and after."""
        event = record.event
        before = self._transcript.messages
        if isinstance(event, InputTaken):
            before = list(before)  # it is appended to in a moment
        self._transcript.apply(record)
        if isinstance(event, InputTaken):
            yield "pre_run", self._pre_run(before)
        if isinstance(event, ToolFinished | ChildFinished):
            yield from self._batches.finished(event, self._messages)
        yield from self._mutations()
        if isinstance(event, TurnCompleted):
            yield from self._ended(event)

    def _mutations(self) -> Iterator[tuple[str, Fields]]:
        """The conversation's change as a cut, if any, and what was added."""
        now, shown = self._transcript.messages, self._shown
        keep = _common(shown, now)
        if keep < len(shown):
            yield "history_mutation", {"mutation": "truncate", "length": keep}
        for number, message in enumerate(now[keep:], start=keep + 1):
            fields = self._messages.fields(message)
            yield "history_mutation", {"mutation": "append", "length": number, "message": fields}
            if message.role == "tool":
                calls = [part.call for part in message.content if isinstance(part, ToolResult)]
                yield "tool_message_committed", self._batches.about(calls[0]) | {"messageId": message.id}
        self._shown = list(now) if keep < len(shown) or now is not shown else shown
        if keep == len(shown):
            self._shown = [*shown, *now[keep:]]

    def _init(self, model: str) -> Fields:
        asked = next((r.event for r in self._material.records if isinstance(r.event, ModelAsked)), None)
        prompt = self._material.texts.get(asked.instructions, "") if asked else ""
        model = model or (asked.model if asked else "")
        named = {"provider": _provider(model), "model": model}
        schemas = self._schemas(asked.tools if asked else "")
        return {"systemPrompt": prompt, "systemPromptLength": len(prompt), **named, "toolSchemas": schemas}

    def _schemas(self, sha256: str) -> object:
        text = self._material.texts.get(sha256, "")
        return msgspec.json.decode(text) if text else []

    def _pre_run(self, before: Sequence[SessionMessage]) -> Fields:
        asked = next(
            (r.event for r in self._material.records if isinstance(r.event, ModelAsked) and r.event.turn == self._turn),
            None,
        )
        model = asked.model if asked else ""
        is_on = bool(asked and asked.parameters.get("web_search"))
        added = self._transcript.messages[len(before) :]
        return {
            **self._execution(),
            "provider": _provider(model),
            "model": model,
            "nativeWebSearchSupported": is_on or None,
            "nativeWebSearchEnabled": is_on,
            "input": "".join(self._messages.text(message.content) for message in added),
            "history": self._messages.history(before),
        }

    def _request(self, record: Recorded, asked: ModelAsked) -> Fields:
        self._asks[record.id] = _Ask(turn=asked.turn, round=asked.round, seq=record.seq)
        self._open[record.id] = None
        return {
            **self._call(record.id),
            "provider": _provider(asked.model),
            "model": asked.model,
            "systemPrompt": self._material.texts.get(asked.instructions, ""),
            "messages": self._messages.history(self._transcript.messages),
            "tools": self._schemas(asked.tools),
            "options": asked.parameters,
        }

    def _replied(self, record: Recorded, reply: ModelReplied) -> Iterator[tuple[str, Fields]]:
        about = self._call(record.cause)
        yield from self._lost_payloads(record.cause, interrupted=reply.stop == "interrupted")
        self._open.pop(record.cause, None)
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

    def _compacted(self, record: Recorded, event: Compacted | CompactionFailed) -> Iterator[tuple[str, Fields]]:
        ask = self._asks.get(record.cause)
        self._open.pop(record.cause, None)
        about = self._call(record.cause) if ask is not None and ask.asked else self._execution()
        if isinstance(event, CompactionFailed):
            yield "error", about | {"code": "compaction_failed", "message": event.message}
            return
        summary = self._messages.text((event.summary,)) if event.summary else ""
        if ask is not None and ask.asked:
            message = {"role": "assistant", "content": summary}
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

    def _ended(self, event: TurnCompleted) -> Iterator[tuple[str, Fields]]:
        about = {"executionId": event.turn, "conversationId": self._material.session}
        if event.outcome in ("failed", "abandoned"):
            yield (
                "error",
                about | {"code": event.code or event.outcome, "message": event.message, "outcome": event.outcome},
            )
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

    # --- the trace ---------------------------------------------------------------------------------------------------------------

    def _traced(self, line: TraceLine) -> Iterator[tuple[str, Fields]]:
        if line.kind in PROVIDER_LINES:
            yield from self._payload(line)
        elif line.kind in _STREAMED and isinstance(delta := line.data.get("delta"), Mapping):
            ask = next(reversed(self._open), "")
            about = self._call(ask) if ask else self._execution()
            text = delta.get("text", "")
            self._lines["raw"] += 1
            kind = {"sequence": self._lines["raw"], "deltaKind": _STREAMED[line.kind]}
            yield "provider_stream_raw_delta", {**about, **kind, "delta": text}
            if line.kind == "TextDelta":
                yield "text_delta", {**about, "delta": text}
        elif line.kind == "trace_lost":
            yield "error", {"code": LOST, "message": "Lines of the trace could not be written.", **line.data}

    def _payload(self, line: TraceLine) -> Iterator[tuple[str, Fields]]:
        content = dict(line.data)
        id = str(content.pop("ask", "")) or next((one for one in self._open if not self._asks[one].asked), "")
        for key in ("execution", "round"):
            content.pop(key, None)
        ask = self._asks.get(id)
        about = self._call(id) if ask is not None else self._execution()
        if ask is not None and not ask.asked:
            ask.asked = True
            yield "provider_request", about | {"purpose": "compaction", "messages": [], "tools": []}
        if ask is not None and line.kind != "provider_request":
            ask.payloads += 1
        if line.kind == "provider_response_raw":
            yield (
                "provider_response_raw",
                about | {"responseKind": "error" if "error" in content else "reply", "response": content},
            )
            return
        self._lines["text"] += 1
        kind = "request" if line.kind == "provider_request" else content.pop("kind", "response")
        payload = content.pop("payload", None) if "payload" in content else content
        rest = {} if payload is content else content
        yield (
            "provider_native_raw_payload",
            {**about, "payloadKind": kind, "sequence": self._lines["text"], "payload": payload, **rest},
        )

    # --- what is lost ------------------------------------------------------------------------------------------------------------

    def _lost_calls(self) -> Iterator[tuple[str, Fields]]:
        """The process before died in the middle of these; nobody will ever know their answers."""
        for ask in self._open:
            if self._asks[ask].asked:
                yield (
                    "error",
                    self._call(ask) | {"code": "process_ended", "message": "The process ended before the answer."},
                )
        self._open.clear()

    def _lost_payloads(self, id: str, *, interrupted: bool) -> Iterator[tuple[str, Fields]]:
        ask = self._asks.get(id)
        if ask is None or ask.payloads or interrupted:
            return
        if why := self._why_lost(ask):
            yield "error", self._call(id) | {"code": LOST, "message": why}

    def _why_lost(self, ask: _Ask) -> str:
        trace = self._material.trace
        if trace is None or not any(line.kind in PROVIDER_LINES for line in trace.lines):
            return "The session's trace holds no payloads."
        if trace.cut and trace.lines[0].after > ask.seq:
            return "The oldest lines of the trace were dropped to keep it small."
        if trace.lost:
            return "Lines of the trace are lost."
        opened = [r.seq for r in self._material.records if isinstance(r.event, Opened | Closed) and r.seq > ask.seq]
        end = opened[0] if opened else self._material.records[-1].seq + 1
        clean = bool(opened) and isinstance(self._material.records[opened[0] - 1].event, Closed)
        if not clean and not any(ask.seq < line.after < end for line in trace.lines):
            return "The end of the trace is lost: the process ended before it was written."
        return ""

    # --- who and where -----------------------------------------------------------------------------------------------------------

    def _execution(self) -> Fields:
        return {"executionId": self._turn, "conversationId": self._material.session}

    def _call(self, id: str) -> Fields:
        ask = self._asks.get(id)
        if ask is None:
            return self._execution()
        about = {"executionId": ask.turn, "conversationId": self._material.session, "round": ask.round, "requestId": id}
        return about


def cited_texts(records: Iterable[Recorded]) -> Iterator[str]:
    """The hashes of the texts that a diagnostic log needs."""
    for record in records:
        event = record.event
        if isinstance(event, ModelAsked):
            yield from filter(None, (event.instructions, event.tools))
        else:
            for name in ("parts", "content", "verbatim", "summary"):
                found = getattr(event, name, ())
                for part in found if isinstance(found, tuple) else (found,):
                    if isinstance(part, TextRef):
                        yield part.sha256


def _merged(records: Sequence[Recorded], lines: Sequence[TraceLine]) -> Iterator[tuple[int, Recorded | TraceLine]]:
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
