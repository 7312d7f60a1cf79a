"""Writes the requests of one conversation with the Responses API."""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from backstay.ports import ModelRequest
from backstay.providers.format import Encoder, HttpRequest, tool_name
from backstay.providers.loose import Fields, object_text
from backstay.providers.openai_responses.content import input_content, output_content, result_output
from backstay.providers.openai_responses.native import custom_calls, without_reasoning
from backstay.providers.openai_responses.parameters import settings_of
from backstay.providers.prefix import Prefix
from backstay.vocab.messages import (
    InFlightPart,
    Message,
    Reasoning,
    Role,
    ServerBlock,
    SignedReasoning,
    ToolCall,
    ToolResult,
)
from backstay.vocab.specs import ModelFacts

PATH: Final = "/responses"
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]")


class ResponsesEncoder:
    """Writes one request after the other; what was written of a message is kept for the next."""

    def __init__(self, provider: str, facts: ModelFacts) -> None:
        self._provider = provider
        self._facts = facts
        self._prefix = Prefix(self._write, lambda one, other: False)
        self._wire_ids: dict[str, str] = {}
        """Our id of a call to its id on the wire."""
        self._custom: set[str] = set()
        """The calls, by our id, whose results need the form of custom tools."""

    def encode(self, request: ModelRequest) -> HttpRequest:
        """Write one request."""
        settings = settings_of(request, self._facts)
        head = msgspec.json.encode(settings)
        if "input" in settings:
            return HttpRequest(path=PATH, body=head)
        chunks = [chunk for chunk in self._prefix.chunks(request.messages) if chunk] or [b""]
        chunks[0] = head[:-1] + b',"input":[' + chunks[0]  # one join for all: the history may have megabytes
        chunks[-1] += b"]}"
        return HttpRequest(path=PATH, body=b",".join(chunks))

    def _write(self, group: Sequence[Message]) -> bytes:
        return b",".join(filter(None, map(self._message, group)))

    def _message(self, message: Message) -> bytes:
        if message.opaque and message.provider == self._provider:
            return self._replayed(message)
        return b",".join(map(msgspec.json.encode, self._items(message)))

    def _replayed(self, message: Message) -> bytes:
        """The reply as its provider wrote it."""
        custom = custom_calls(message.opaque)
        for part in message.parts:
            if isinstance(part, ToolCall):
                self._wire_ids[part.id] = part.provider_id
                if part.provider_id in custom:
                    self._custom.add(part.id)
        reasons = "reasoning" in self._facts.abilities or not self._facts.known
        native = message.opaque if reasons else without_reasoning(message.opaque)
        return native.strip()[1:-1]

    def _items(self, message: Message) -> Iterator[Fields]:
        said: list[InFlightPart] = []
        for part in message.parts:
            match part:
                case ToolCall() | ToolResult():
                    yield from _said(message.role, said)
                    said = []
                    yield self._call(part) if isinstance(part, ToolCall) else self._result(part)
                case Reasoning() | SignedReasoning() | ServerBlock():
                    pass  # without their opaque form they mean nothing to the provider
                case _:
                    said.append(part)
        yield from _said(message.role, said)

    def _call(self, call: ToolCall) -> Fields:
        wire_id = self._wire_ids[call.id] = _fit(call.id or call.provider_id)
        self._custom.discard(call.id)
        name, args = tool_name(call.name), object_text(call.args)
        return {"type": "function_call", "call_id": wire_id, "name": name, "arguments": args}

    def _result(self, result: ToolResult) -> Fields:
        kind = "custom_tool_call_output" if result.call in self._custom else "function_call_output"
        wire_id = self._wire_ids.get(result.call) or _fit(result.call)
        return {"type": kind, "call_id": wire_id, "output": result_output(result)}


def _said(role: Role, parts: Sequence[InFlightPart]) -> Iterator[Fields]:
    content = output_content(parts) if role == "assistant" else input_content(parts)
    if content:
        yield {"type": "message", "role": "user" if role == "tool" else role, "content": content}


def _fit(call: str) -> str:
    """`call` in the characters that an id may have; different ids stay different."""
    return _UNFIT.sub(lambda found: "_" if found[0] == "." else f"_{ord(found[0]):x}_", call)


if TYPE_CHECKING:
    _: Encoder = ResponsesEncoder("", ModelFacts())
