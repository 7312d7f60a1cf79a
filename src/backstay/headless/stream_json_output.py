"""`--output-format stream-json`: a session as the lines that programs around coding agents read."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from backstay.headless.formats import OutputFormat
from backstay.headless.result import (
    EndedTurn,
    FinishedCommand,
    SessionSummary,
    call_arguments,
    command_object,
    result_object,
    stable_uuid,
    stop_reason,
    usage_object,
    usd,
)
from backstay.logic.budget import dollars
from backstay.ports import EventStore
from backstay.runtime.ask_approval import BUDGET
from backstay.runtime.services import fetch_text
from backstay.version import VERSION
from backstay.vocab import events
from backstay.vocab.deltas import Delta, ReasoningDelta, TextDelta, ToolArgsDelta
from backstay.vocab.event import Recorded
from backstay.vocab.ids import call_id
from backstay.vocab.messages import DurablePart, MediaRef, Reasoning, Text, TextRef, ToolCall
from backstay.vocab.specs import Usage
from backstay.wire.stream import Item
from backstay.wire.write_json import json_line

StreamEvent = dict[str, object]


class PartialMessage:
    """The stream events of one reply while it is written."""

    def __init__(self) -> None:
        self._message = ""
        self._blocks = 0
        self._open: tuple[str, int] | None = None

    def start(self, record: Recorded, model: str) -> list[StreamEvent]:
        """Begin a message: a model was asked."""
        self._message, self._blocks, self._open = record.id, 0, None
        message: StreamEvent = {
            "id": record.id,
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [],
            "stop_reason": None,
            "usage": usage_object(Usage()),
        }
        return [{"type": "message_start", "message": message}]

    def delta(self, delta: Delta) -> list[StreamEvent]:
        """Add a fragment."""
        match delta:
            case TextDelta():
                begin = {"type": "text", "text": ""}
                return self._piece(("text", 0), begin, {"type": "text_delta", "text": delta.text})
            case ReasoningDelta():
                begin = {"type": "thinking", "thinking": "", "signature": ""}
                return self._piece(("thinking", 0), begin, {"type": "thinking_delta", "thinking": delta.text})
            case ToolArgsDelta():
                call = call_id(self._message, delta.index)
                use = {"type": "tool_use", "id": call, "name": delta.name, "input": {}}
                piece = {"type": "input_json_delta", "partial_json": delta.text}
                return self._piece(("tool_use", delta.index), use, piece)
            case _:
                return []

    def end(self, event: events.ModelReplied | events.ModelFailed) -> list[StreamEvent]:
        """End the message: the reply is complete, or failed."""
        ended = self._end_block()
        if isinstance(event, events.ModelFailed):
            failure: StreamEvent = {"type": "error", "error": {"type": event.kind, "message": event.message}}
            return [*ended, failure]
        usage = usage_object(event.usage or Usage())
        last: StreamEvent = {"type": "message_delta", "delta": {"stop_reason": stop_reason(event.stop)}, "usage": usage}
        return [*ended, last, {"type": "message_stop"}]

    def _piece(self, block: tuple[str, int], begin: object, piece: object) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        if self._open != block:
            events += self._end_block()
            events.append({"type": "content_block_start", "index": self._blocks, "content_block": begin})
            self._open = block
        events.append({"type": "content_block_delta", "index": self._blocks, "delta": piece})
        return events

    def _end_block(self) -> list[StreamEvent]:
        if self._open is None:
            return []
        self._open = None
        self._blocks += 1
        return [{"type": "content_block_stop", "index": self._blocks - 1}]


Line = dict[str, object]
_REASONS: Final = {"rule": "rule", "mode": "mode", "hook": "hook", "shell": "subcommandResults"}
"""Our kinds of reasons in the convention's words; any other kind is `other`."""


class StreamJson(OutputFormat):
    """Turn the items of a session into lines."""

    def __init__(
        self,
        store: EventStore,
        session: str,
        find_call: Callable[[str], ToolCall | None],
        *,
        partial: bool = False,
        answerable: bool = False,
    ) -> None:
        self._store = store
        self._session = session
        self._find_call = find_call
        self._partial = PartialMessage() if partial else None
        self._answerable = answerable
        self._waiting: list[str] = []
        self._judged: dict[str, events.CallJudged] = {}
        """The judgement of each call that a question is open about."""
        self._budget: Line = {}
        """The amounts of the newest question about the budget."""

    def opening(self, summary: SessionSummary) -> list[bytes]:
        """Return the first line: what this session has."""
        init: Line = {
            "type": "system",
            "subtype": "init",
            "cwd": summary.cwd,
            "tools": list(summary.tools),
            "mcp_servers": [
                {"name": name, "status": status, "source": source} for name, status, source in summary.servers
            ],
            "model": summary.model,
            "permissionMode": summary.mode,
            "slash_commands": list(summary.commands),
            "apiKeySource": "none",
            "output_style": "default",
            "agents": list(summary.agents),
            "skills": list(summary.skills),
            "plugins": [{"name": name, "path": path} for name, path in summary.plugins],
            "capabilities": [],
            "version": VERSION,
            "claude_code_version": VERSION,  # the name that programs around coding agents look for
        }
        return [self._line(init, "init", str(summary.seq))]

    async def show(self, item: Item) -> list[bytes]:
        """Return the lines of one item; most items have none."""
        if isinstance(item, Delta):
            return self._stream(self._partial.delta(item), f"{item.after}.{item.n}") if self._partial else []
        return await self._event(item) if isinstance(item, Recorded) else []

    def control_reply(self, request: str, problem: str = "") -> list[bytes]:
        """Return the line that answers a control request."""
        response: Line = {"subtype": "error" if problem else "success", "request_id": request}
        if problem:
            response["error"] = problem
        return [self._line({"type": "control_response", "response": response}, "response", request)]

    def result(self, ended: EndedTurn) -> list[bytes]:
        """Return the line that ends a turn."""
        return [json_line(result_object(self._session, ended))]

    def command(self, ended: FinishedCommand) -> list[bytes]:
        """Return the line that ends a command."""
        return [json_line(command_object(self._session, ended))]

    async def _event(self, record: Recorded) -> list[bytes]:
        event = record.event
        match event:
            case events.ModelAsked():
                return self._stream(self._partial.start(record, event.model), record.id) if self._partial else []
            case events.ModelReplied():
                ended = self._stream(self._partial.end(event), record.id) if self._partial else []
                return [*await self._assistant(record, event), *ended]
            case events.ModelFailed():
                return self._stream(self._partial.end(event), record.id) if self._partial else []
            case events.ToolFinished():
                content = await self._content(event.content)
                return self._tool_result(record, event.call, content, failed=event.outcome != "ok")
            case events.ChildFinished(skill=""):
                return self._tool_result(record, event.call, event.text, failed=event.outcome != "completed")
            case events.CallJudged(decision="ask") if self._answerable:
                self._judged[event.call] = event
                return []
            case events.PermissionAsked() if self._answerable:
                return self._question(record, event)
            case events.PermissionAnswered() if event.call in self._waiting:
                self._waiting.remove(event.call)
                return []
            case events.BudgetAsked():
                self._budget = {"spent_usd": usd(event.spent), "limit_usd": usd(event.limit)}
                return self._budget_question(record, event) if self._answerable else []
            case events.BudgetAnswered():
                if record.cause in self._waiting:
                    self._waiting.remove(record.cause)
                paused: Line = {"type": "system", "subtype": "budget_paused", **self._budget}
                return [self._line(paused, record.id)] if event.nobody else []
            case events.Interrupted():
                withdrawn, self._waiting = self._waiting, []
                line: Line = {"type": "control_cancel_request"}
                return [self._line(line | {"request_id": call}, "cancel", call) for call in withdrawn]
            case _:
                body = limit_line(record)
                return [self._line({"type": "system", **body}, record.id)] if body else []

    async def _assistant(self, record: Recorded, event: events.ModelReplied) -> list[bytes]:
        """Return one line for each block, all with the id of the same message."""
        lines: list[bytes] = []
        for index, part in enumerate(event.parts):
            block = await self._block(part)
            if block is None:
                continue
            message: Line = {
                "id": record.cause,
                "type": "message",
                "role": "assistant",
                "model": event.model,
                "content": [block],
                "stop_reason": stop_reason(event.stop),
                "usage": usage_object(event.usage or Usage()),
            }
            line: Line = {"type": "assistant", "message": message, "parent_tool_use_id": None}
            lines.append(self._line(line, record.id, str(index)))
        return lines

    async def _block(self, part: DurablePart) -> Line | None:
        match part:
            case Text() | TextRef():
                text = await fetch_text((part,), self._store.blob)
                return {"type": "text", "text": text} if text else None
            case Reasoning():
                return {"type": "thinking", "thinking": part.text, "signature": ""}
            case ToolCall():
                return {"type": "tool_use", "id": part.id, "name": part.name, "input": call_arguments(part.args)}
            case _:
                return None

    async def _content(self, parts: Sequence[Text | TextRef | MediaRef]) -> str | list[Line]:
        if not any(isinstance(part, MediaRef) for part in parts):
            return await fetch_text(parts, self._store.blob)
        blocks: list[Line] = []
        for part in parts:
            if isinstance(part, MediaRef):
                source = {"type": "sha256", "media_type": part.media_type, "data": part.sha256}
                blocks.append({"type": "image", "source": source})
            else:
                blocks.append({"type": "text", "text": await fetch_text((part,), self._store.blob)})
        return blocks

    def _tool_result(self, record: Recorded, call: str, content: object, *, failed: bool) -> list[bytes]:
        block = {"type": "tool_result", "tool_use_id": call, "content": content, "is_error": failed}
        message: Line = {"role": "user", "content": [block]}
        return [self._line({"type": "user", "message": message, "parent_tool_use_id": None}, record.id)]

    def _question(self, record: Recorded, event: events.PermissionAsked) -> list[bytes]:
        """Return the question about a call; its request id is the call's id."""
        self._waiting.append(event.call)
        call = self._find_call(event.call)
        judged = self._judged.pop(event.call, None)
        request: Line = {
            "subtype": "can_use_tool",
            "tool_name": call.name if call else "",
            "input": call_arguments(event.args or call.args) if call else {},
            "tool_use_id": event.call,
            "decision_reason": event.detail,
            "decision_reason_type": _REASONS.get(judged.reason if judged else "", "other"),
            "permission_suggestions": _suggestions(judged.offers if judged else ()),
        }
        return [self._line({"type": "control_request", "request_id": event.call, "request": request}, record.id)]

    def _budget_question(self, record: Recorded, event: events.BudgetAsked) -> list[bytes]:
        """Return the question whether more may be spent; it is answered like one about a call."""
        self._waiting.append(record.id)
        request: Line = {
            "subtype": "can_use_tool",
            "tool_name": BUDGET,
            "input": self._budget,
            "tool_use_id": record.id,
            "decision_reason": f"{dollars(event.spent)} of {dollars(event.limit)} are spent. "
            f"Allow {dollars(event.limit)} more?",
            "decision_reason_type": "other",
        }
        return [self._line({"type": "control_request", "request_id": record.id, "request": request}, record.id)]

    def _stream(self, events: Iterable[object], key: str) -> list[bytes]:
        line: Line = {"type": "stream_event", "parent_tool_use_id": None}
        return [self._line(line | {"event": event}, "stream", key, str(n)) for n, event in enumerate(events)]

    def _line(self, line: Line, *names: str) -> bytes:
        identity = {"session_id": self._session, "uuid": stable_uuid(self._session, *names)}
        return json_line(line | identity)


def _suggestions(offers: Sequence[str]) -> list[Line]:
    """Return the rules that an answer may grant, as the convention writes them."""
    rules = [_rule_object(offer) for offer in offers]
    added: Line = {"type": "addRules", "rules": rules, "behavior": "allow"}
    return [added | {"destination": place} for place in ("session", "localSettings")] if rules else []


def _rule_object(text: str) -> Line:
    tool, bracket, rest = text.partition("(")
    return {"toolName": tool, "ruleContent": rest.removesuffix(")")} if bracket else {"toolName": tool}


def limit_line(record: Recorded) -> Line:
    """Return the fields of a line about an event that concerns limits, in the convention's words where it has any."""
    event = record.event
    match event:
        case events.WaitStarted():
            return {
                "subtype": "api_retry",
                "attempt": event.attempt - 1,  # the convention counts the retries, the log counts the calls
                "max_retries": event.attempts - 1,
                "retry_delay_ms": max(0, event.until - record.at) // 1000,
                "error_status": None,  # the log keeps kinds of errors, not the numbers that providers have for them
                "error": event.kind,
                "model": event.model,
            }
        case events.FallbackTaken():
            return {"subtype": "model_fallback", "from": event.came_from, "to": event.to, "error": event.kind}
        case events.Compacted():
            trigger = "manual" if event.trigger == "manual" else "auto"
            tokens = {"pre_tokens": event.before, "post_tokens": event.after}
            return {"subtype": "compact_boundary", "compact_metadata": {"trigger": trigger, **tokens}}
        case events.ModelNoted():
            return {"subtype": "model_note", "note": event.note}
        case events.BudgetWarned():
            return {"subtype": "budget_warning", "spent_usd": usd(event.spent), "limit_usd": usd(event.limit)}
        case _:
            return {}
