"""Parts of messages as the content blocks of the Messages API."""

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from backstay.providers.anthropic.reply import arguments
from backstay.providers.format import stand_in, tool_name
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
from backstay.vocab.specs import Ability, ModelFacts

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
        """Whether the first block of what the assistant said is a signed thought."""
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
    """The type of block that carries a medium; empty when none does."""
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
