"""Messages as the diagnostic log has them: one neutral shape, long texts whole, secrets taken out, each written down once."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from backstay.logic.redact import Redactor
from backstay.vocab.messages import MediaRef, SessionMessage, Text, TextRef, ToolCall, ToolResult, iso

Fields = dict[str, object]


class History(NamedTuple):
    """A conversation at one moment, each message as JSON."""

    items: tuple[bytes, ...]


class Messages:
    """Writes messages down, each one once. `read` gives long texts by their hash."""

    def __init__(self, read: Callable[[str], str | None], redactor: Redactor) -> None:
        self._read = read
        self._redactor = redactor
        self._written: dict[int, tuple[SessionMessage, bytes, bytes]] = {}

    def fields(self, message: SessionMessage) -> Fields:
        """A message: its role, its text, its calls or the call that it answers, and what else there is in it."""
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
        """The text of `parts`, whole."""
        return "".join([self._text(part) for part in parts])

    def history(self, messages: Sequence[SessionMessage]) -> History:
        """A conversation."""
        return History(tuple([self._known(message)[1] for message in messages]))

    def forget(self, kept: Iterable[SessionMessage]) -> None:
        """Drop all messages but those `kept`."""
        ids = {id(message) for message in kept}
        self._written = {at: known for at, known in self._written.items() if at in ids}

    def structure(self, messages: Sequence[SessionMessage]) -> History:
        """The outline of a conversation: who said how much and called what."""
        return History(tuple([self._known(message)[2] for message in messages]))

    def _known(self, message: SessionMessage) -> tuple[SessionMessage, bytes, bytes]:
        # By identity, since the same message may be shortened later; it is kept so that its place is not used again.
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
