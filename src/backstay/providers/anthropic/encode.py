"""Encode requests to the Messages API, and keep the bytes of messages that were sent before."""

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from backstay.ports import ModelRequest
from backstay.providers.anthropic.decode import arguments
from backstay.providers.anthropic.parameters import Fields, server_tools, shape_answer
from backstay.providers.format import Encoder, HttpRequest, stand_in, tool_name
from backstay.providers.http.prefix_cache import Prefix
from backstay.vocab.messages import (
    InFlightPart,
    InlineMedia,
    MediaLink,
    MediaRef,
    Message,
    SignedReasoning,
    Text,
    TextRef,
    ToolCall,
    ToolResult,
)
from backstay.vocab.specs import Ability, ModelFacts, ToolSpec

Block = Mapping[str, object]
"""A content block, ready to be encoded."""

FILE: Final = "file:"
"""How the address of a file in the provider's own store begins."""

_IMAGES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")
_PDF: Final = "application/pdf"
_TEXTUAL: Final = re.compile(r"text/.*|application/(json|xml|yaml|x-yaml|toml|javascript|.*\+(json|xml))")
_NO_OUTPUT: Final = "(no output)"


class BlockWriter:
    """Writes messages as blocks, and remembers which id each call has on the wire.

    A call that is sent back in the provider's own words keeps the provider's id; any other has ours, in letters that are
    allowed. Its result must have the same.
    """

    def __init__(self, provider: str, facts: ModelFacts) -> None:
        self._provider = provider
        self._facts = facts
        self._ids: dict[str, str] = {}
        self.used_files = False
        """Whether a file of the provider's store was ever cited."""

    def write(self, messages: Sequence[Message]) -> bytes:
        """Encode messages of one side as one message; nothing when there is nothing to say."""
        content = b",".join(filter(None, map(self._content, messages)))
        if not content:
            return b""
        role = b"assistant" if messages[0].role == "assistant" else b"user"
        return b'{"role":"' + role + b'","content":[' + content + b"]}"

    def begins_with_thought(self, message: Message) -> bool:
        """Return whether the first block of what the assistant said is a signed thought."""
        if self._is_native(message):
            first = msgspec.json.decode(message.opaque, type=list[dict[str, object]])[:1]
            return any(block.get("type") in ("thinking", "redacted_thinking") for block in first)
        return any(isinstance(part, SignedReasoning) and part.provider == self._provider for part in message.parts[:1])

    def _content(self, message: Message) -> bytes:
        if self._is_native(message):
            self._ids.update({part.id: part.provider_id for part in message.parts if isinstance(part, ToolCall)})
            return message.opaque.strip()[1:-1].strip()
        blocks = [block for part in message.parts for block in self._blocks(part, message.role == "assistant")]
        return msgspec.json.encode(blocks)[1:-1]

    def _is_native(self, message: Message) -> bool:
        if not message.opaque or message.provider != self._provider or message.role != "assistant":
            return False
        return message.opaque.strip()[:1] == b"["

    def _blocks(self, part: InFlightPart, by_assistant: bool) -> Iterator[Block]:
        match part:
            case Text(text=text):
                if text.strip():
                    yield _text(text)
            case SignedReasoning(text=text, signature=signature, provider=provider):
                if provider == self._provider:
                    yield {"type": "thinking", "thinking": text, "signature": signature}
            case ToolCall():
                self._ids[part.id] = _wire_id(part.id)
                yield {
                    "type": "tool_use",
                    "id": _wire_id(part.id),
                    "name": tool_name(part.name),
                    "input": arguments(part.args),
                }
            case ToolResult():
                yield self._result(part)
            case InlineMedia() | MediaLink() | MediaRef():
                yield _text(stand_in(part)) if by_assistant else self._medium(part)
            case _:
                pass  # reasoning and blocks that only their own provider may see again

    def _result(self, result: ToolResult) -> Block:
        block: dict[str, object] = {
            "type": "tool_result",
            "tool_use_id": self._ids.get(result.call) or _wire_id(result.call),
            "content": self._output(result.content),
        }
        if result.is_error:
            block["is_error"] = True
        return block

    def _output(self, content: Sequence[InFlightPart | TextRef]) -> str | list[Block]:
        blocks: list[Block] = []
        for part in content:
            if isinstance(part, Text | TextRef):
                text = part.text if isinstance(part, Text) else part.head
                if text.strip():
                    blocks.append(_text(text))
            elif isinstance(part, InlineMedia | MediaLink | MediaRef):
                blocks.append(self._medium(part))
        if len(blocks) == 1 and blocks[0]["type"] == "text":
            return str(blocks[0]["text"])
        return blocks or _NO_OUTPUT

    def _medium(self, part: InlineMedia | MediaLink | MediaRef) -> Block:
        kind = _kind(part)
        if not kind or isinstance(part, MediaRef) or self._lacks("images" if kind == "image" else "documents"):
            return _text(stand_in(part))
        block = {"type": kind, "source": self._source(part)}
        return {**block, "title": part.name} if kind == "document" and part.name else block

    def _source(self, part: InlineMedia | MediaLink) -> Block:
        match part:
            case MediaLink(url=url) if url.startswith(FILE):
                self.used_files = True
                return {"type": "file", "file_id": url.removeprefix(FILE)}
            case MediaLink(url=url):
                return {"type": "url", "url": url}
            case InlineMedia(media_type=media_type, content=content) if media_type in (*_IMAGES, _PDF):
                return {"type": "base64", "media_type": media_type, "data": b64encode(content).decode()}
            case InlineMedia(content=content):
                return {"type": "text", "media_type": "text/plain", "data": content.decode("utf-8", "replace")}

    def _lacks(self, ability: Ability) -> bool:
        return self._facts.known and ability not in self._facts.abilities


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _wire_id(call: str) -> str:
    """Our id in letters, digits, `_` and `-`: a dot becomes `_`, any other letter its number between two `_`."""
    return re.sub(r"[^A-Za-z0-9_-]", lambda found: f"_{ord(found[0]):x}_", call.replace(".", "_"))


def _kind(part: InlineMedia | MediaLink | MediaRef) -> str:
    """Return the type of block that carries a medium; empty when none does."""
    match part:
        case InlineMedia(media_type=media_type):
            return "image" if media_type in _IMAGES else _document(media_type)
        case MediaLink(url=url, media_type=""):
            path = url.partition("?")[0].lower()
            return "document" if path.startswith(FILE) or path.endswith(".pdf") else "image"
        case MediaLink(url=url, media_type=media_type):
            if media_type.startswith("image/"):
                return "image"
            return _document(media_type) if url.startswith(FILE) or media_type == _PDF else ""
        case MediaRef():
            return ""


def _document(media_type: str) -> str:
    return "document" if media_type == _PDF or _TEXTUAL.fullmatch(media_type) else ""


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
            head if "messages" in fields else b"".join((head[:-1], b',"messages":[', self._join(chunks, marks), b"]}"))
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

    def _join(self, chunks: Sequence[bytes], marks: bool) -> bytes:
        if not marks:
            return b",".join(filter(None, chunks))
        marked = list(chunks)
        users = (index for index, messages in reversed(self._prefix.newest(6)) if messages[0].role != "assistant")
        for index in islice((index for index in users if marked[index]), 2):
            marked[index] = marked[index].removesuffix(_END) + _MARKED_END
        return b",".join(filter(None, marked))

    def _may_budget(self) -> bool:
        """Return whether the model may think within a budget: not in the middle of calls that it made without a thought."""
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
