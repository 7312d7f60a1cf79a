"""Writes requests to the Messages API, and keeps the bytes of what was said before."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from backstay.ports import ModelRequest
from backstay.providers.anthropic.blocks import BlockWriter
from backstay.providers.anthropic.parameters import Fields, server_tools, shape_answer
from backstay.providers.format import Encoder, HttpRequest
from backstay.providers.prefix import Prefix
from backstay.vocab.messages import Message
from backstay.vocab.specs import ModelFacts, ToolSpec

PATH: Final = "/v1/messages"
FILES_BETA: Final = "files-api-2025-04-14"
"""Without this, files of the provider's store cannot be cited."""

_MARK: Final = {"type": "ephemeral"}
_END: Final = b"}]}"
"""How every message ends: its last block, its content, itself."""
_MARKED_END: Final = b',"cache_control":' + msgspec.json.encode(_MARK) + _END


class AnthropicEncoder:
    """Writes the requests of one conversation."""

    def __init__(self, provider: str, facts: ModelFacts) -> None:
        self._facts = facts
        self._writer = BlockWriter(provider, facts)
        self._prefix = Prefix(self._writer.write, _joins)
        self._tools: tuple[tuple[ToolSpec, ...], list[msgspec.Raw]] = ((), [])

    def encode(self, request: ModelRequest) -> HttpRequest:
        """Write one request."""
        extra = request.parameters.get("extra")
        more = extra if isinstance(extra, dict) else {}
        marks = "caching" in self._facts.abilities and "cache_control" not in more
        chunks = self._prefix.chunks(request.messages)
        fields = shape_answer(request, self._facts, may_budget=self._may_budget())
        fields |= self._system(request.instructions, marks) | self._all_tools(request, marks) | more
        head = msgspec.json.encode(fields)
        body = (
            head
            if "messages" in fields
            else b"".join((head[:-1], b',"messages":[', self._joined(chunks, marks), b"]}"))
        )
        beta = {"anthropic-beta": FILES_BETA} if self._writer.used_files else {}
        return HttpRequest(path=PATH, body=body, headers=beta)

    def _system(self, instructions: str, marks: bool) -> Fields:
        if not instructions.strip():
            return {}
        return {"system": [{"type": "text", "text": instructions, **({"cache_control": _MARK} if marks else {})}]}

    def _all_tools(self, request: ModelRequest, marks: bool) -> Fields:
        if self._tools[0] != request.tools:
            self._tools = (request.tools, [msgspec.Raw(msgspec.json.encode(_tool(tool))) for tool in request.tools])
        tools = [
            *self._tools[1],
            *(msgspec.Raw(msgspec.json.encode(tool)) for tool in server_tools(request, self._facts)),
        ]
        if tools and marks:
            tools[-1] = msgspec.Raw(bytes(tools[-1])[:-1] + b',"cache_control":' + msgspec.json.encode(_MARK) + b"}")
        return {"tools": tools} if tools else {}

    def _joined(self, chunks: Sequence[bytes], marks: bool) -> bytes:
        if not marks:
            return b",".join(filter(None, chunks))
        marked = list(chunks)
        users = (index for index, messages in reversed(self._prefix.newest(6)) if messages[0].role != "assistant")
        for index in islice((index for index in users if marked[index]), 2):
            marked[index] = marked[index].removesuffix(_END) + _MARKED_END
        return b",".join(filter(None, marked))

    def _may_budget(self) -> bool:
        """Whether the model may think within a budget: not in the middle of calls that it made without a thought."""
        if "reasoning" not in self._facts.abilities or "effort" in self._facts.abilities:
            return False
        newest = [messages for _, messages in self._prefix.newest(2)]
        in_the_middle = len(newest) == 2 and any(message.role == "tool" for message in newest[1])
        return not in_the_middle or self._writer.begins_with_thought(newest[0][0])


def _joins(one: Message, other: Message) -> bool:
    """Results and input are both the user's; the API wants the sides to take turns."""
    return (one.role == "assistant") == (other.role == "assistant")


def _tool(tool: ToolSpec) -> Mapping[str, object]:
    described = {"description": tool.description} if tool.description else {}
    return {"name": tool.name, **described, "input_schema": {"type": "object", **tool.schema}}


if TYPE_CHECKING:
    _: Encoder = AnthropicEncoder("", ModelFacts())
