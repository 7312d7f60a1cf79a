"""Messages and calls as the diagnostic log has them: in one neutral shape, in full, without secrets, each encoded once."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct

from backstay.logic.secrets.redact import Redactor
from backstay.vocab import events
from backstay.vocab.messages import MediaRef, SessionMessage, Text, TextRef, ToolCall, ToolResult, iso

Fields = dict[str, object]


class MessageHistory(NamedTuple):
    """A conversation at one point, each message as JSON."""

    items: tuple[bytes, ...]


class Messages:
    """Encode messages, each once. `read` returns long texts by their hash."""

    def __init__(self, read: Callable[[str], str | None], redactor: Redactor) -> None:
        self._read = read
        self._redactor = redactor
        self._written: dict[int, tuple[SessionMessage, bytes, bytes]] = {}

    def fields(self, message: SessionMessage) -> Fields:
        """Return a message: its role, its text, its calls or the call that it answers, and its other parts."""
        fields: Fields = {"id": message.id, "role": message.role, "content": self.text(message.content)}
        if calls := [_call(part) for part in message.content if isinstance(part, ToolCall)]:
            fields["toolCalls"] = calls
        for part in message.content:
            if isinstance(part, ToolResult):
                fields |= {"toolCallId": part.call, "content": self.text(part.content), "isError": part.is_error}
        if others := [part for part in message.content if not isinstance(part, Text | TextRef | ToolCall | ToolResult)]:
            fields["parts"] = msgspec.to_builtins(others)
        if message.model:
            fields["model"] = message.model
        return fields | {"state": message.state, "timestamp": iso(message.at)}

    def text(self, parts: Sequence[object]) -> str:
        """Return the text of `parts`, in full."""
        return "".join([self._text(part) for part in parts])

    def history(self, messages: Sequence[SessionMessage]) -> MessageHistory:
        """Encode a conversation."""
        return MessageHistory(tuple([self._encode(message)[1] for message in messages]))

    def forget(self, kept: Iterable[SessionMessage]) -> None:
        """Drop all messages but those `kept`."""
        ids = {id(message) for message in kept}
        self._written = {at: known for at, known in self._written.items() if at in ids}

    def structure(self, messages: Sequence[SessionMessage]) -> MessageHistory:
        """Encode the outline of a conversation: the role, length and calls of each message."""
        return MessageHistory(tuple([self._encode(message)[2] for message in messages]))

    def _encode(self, message: SessionMessage) -> tuple[SessionMessage, bytes, bytes]:
        # By identity, since the same message may be shortened later; it is kept so that its id is not used again.
        known = self._written.get(id(message))
        if known is None:
            fields = self.fields(message)
            known = message, self._json(fields), self._json(_outline(message, fields))
            self._written[id(message)] = known
        return known

    def _json(self, value: object) -> bytes:
        return msgspec.json.encode(self._redactor.value(value))

    def _text(self, part: object) -> str:
        match part:
            case Text():
                return part.text
            case TextRef():
                text = self._read(part.sha256)
                return f"{part.head}… [the rest of {part.chars:,} characters is missing]" if text is None else text
            case MediaRef():
                return f"[{part.media_type}, {part.size:,} bytes]"
            case _:
                return ""


def _outline(message: SessionMessage, fields: Fields) -> Fields:
    calls = [part.name for part in message.content if isinstance(part, ToolCall)]
    return {
        "role": message.role,
        "contentLength": len(str(fields["content"])),
        "hasToolCalls": bool(calls),
        "toolCallNames": calls,
        "metadata": {"id": message.id, "state": message.state, "model": message.model},
    }


def _call(call: ToolCall) -> Fields:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.args}}


class _Call(Struct, frozen=True, kw_only=True):
    call: ToolCall
    about: Fields


class Batches:
    """The calls of a session, by batch."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._calls: dict[str, _Call] = {}
        self.parent = ""
        """The session whose call opened this one."""

    def start(self, batch: str, calls: Sequence[ToolCall], about: Fields) -> Iterator[tuple[str, Fields]]:
        """Yield the lines of a reply with `calls`; `about` are the fields of its model call."""
        if not calls:
            return
        names = [call.name for call in calls]
        mode = {"mode": "parallel" if len(calls) > 1 else "sequential", "maxConcurrency": 8 if len(calls) > 1 else 1}
        yield "tool_batch_started", {**about, "batchId": batch, **mode, "requestCount": len(calls), "toolNames": names}
        for index, call in enumerate(calls):
            place = {"batchId": batch, "batchIndex": index, "ownerPath": self._owners(about)}
            one = _Call(call=call, about={**about, "toolCallId": call.id, "toolName": call.name, **place})
            self._calls[call.id] = one
            yield "tool_execution_request", one.about | {"parameters": _parameters(call.args)}

    def finish(
        self, event: events.ToolFinished | events.ChildFinished, messages: Messages
    ) -> Iterator[tuple[str, Fields]]:
        """Yield the line of the result of a call."""
        child = isinstance(event, events.ChildFinished)
        ok = event.outcome in ("ok", "completed")
        text = event.text if isinstance(event, events.ChildFinished) else messages.text(event.content)
        fields: Fields = {"success": ok, "denied": event.outcome == "denied", "outcome": event.outcome, "result": text}
        if not ok:
            fields["error"] = {
                "code": "" if isinstance(event, events.ChildFinished) else event.code,
                "message": text[:2000],
            }
        if child:
            fields["childSessionId"] = event.child if isinstance(event, events.ChildFinished) else ""
        yield "tool_execution_result", self.about(event.call) | fields

    def forget(self, kept: Collection[str]) -> None:
        """Drop the calls of all turns but those `kept`."""
        self._calls = {id: one for id, one in self._calls.items() if one.about.get("executionId") in kept}

    def about(self, call: str) -> Fields:
        """Return the fields that every line about `call` has."""
        known = self._calls.get(call)
        return known.about if known is not None else {"conversationId": self._session, "toolCallId": call}

    def _owners(self, about: Fields) -> list[Fields]:
        parents: list[Fields] = [{"type": "session", "id": self.parent}] if self.parent else []
        return [
            *parents,
            {"type": "session", "id": self._session},
            {"type": "execution", "id": about.get("executionId")},
        ]


def _parameters(args: str) -> object:
    """Decode the arguments; return text that is not JSON as the model sent it."""
    try:
        return msgspec.json.decode(args) if args.strip() else {}
    except (msgspec.DecodeError, RecursionError):
        return args
