"""Messages of a conversation as the server wants them."""

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from backstay.providers.format import tool_name
from backstay.providers.loose import object_text
from backstay.providers.openai_chat.dialect import Dialect
from backstay.providers.openai_chat.media import IMAGES, content_of, content_part, text_of
from backstay.vocab.messages import InFlightPart, InlineMedia, Message, TextRef, ToolCall, ToolResult

LONGEST_ID: Final = 40
"""Characters that the id of a call may have."""


class MessageWriter:
    """Writes groups of neighbouring messages. Remembers under which id each call was sent, for its result."""

    def __init__(self, provider: str, dialect: Dialect, *, shows_images: bool) -> None:
        self._provider = provider
        self._dialect = dialect
        self._shows_images = shows_images
        self._ids: dict[str, str] = {}

    def write(self, group: Sequence[Message]) -> bytes:
        """The messages of one group, separated by commas."""
        return b",".join(map(msgspec.json.encode, self._natives(group)))

    def _natives(self, group: Sequence[Message]) -> Iterator[dict[str, object]]:
        match group[0].role:
            case "assistant":
                for message in group:
                    yield from self._assistant(message)
            case "tool":
                spoken = [part for message in group if message.role != "tool" for part in message.parts]
                yield from self._results(
                    [part for message in group if message.role == "tool" for part in message.parts], spoken
                )
            case role:
                parts = [part for message in group for part in message.parts]
                if parts:
                    yield {"role": role, "content": content_of(parts)}

    def _assistant(self, message: Message) -> Iterator[dict[str, object]]:
        own = _native(message.opaque) if message.opaque and message.provider == self._provider else {}
        said = [part for part in message.parts if not isinstance(part, ToolCall)]
        text = text_of(said) or None
        native: dict[str, object] = {"role": "assistant", "content": text, **own}
        native["content"] = native["content"] or text
        native.pop("tool_calls", None)
        if calls := [part for part in message.parts if isinstance(part, ToolCall)]:
            native["tool_calls"] = self._calls(calls, own)
        if len(native) > 2 or native["content"]:
            yield native

    def _calls(self, calls: Sequence[ToolCall], own: dict[str, object]) -> list[dict[str, object]]:
        sent = own.get("tool_calls")
        if not isinstance(sent, list) or len(sent) != len(calls):
            sent = [{} for _ in calls]
        return [self._call(call, each, own=bool(own)) for call, each in zip(calls, sent, strict=True)]

    def _call(self, call: ToolCall, sent: dict[str, object], *, own: bool) -> dict[str, object]:
        id = call.provider_id if own and call.provider_id else self._wire_id(call.id)
        self._ids[call.id] = id
        function = {"name": tool_name(call.name), "arguments": object_text(call.args)}
        return {**sent, "id": id, "type": "function", "function": function}

    def _results(self, parts: Sequence[InFlightPart], spoken: Sequence[InFlightPart]) -> Iterator[dict[str, object]]:
        """A message for each result. What they cannot hold begins the message of the user that has what is `spoken` after them."""
        shown: list[dict[str, object]] = []
        for part in parts:
            if not isinstance(part, ToolResult):
                continue
            id = self._ids.get(part.call) or self._wire_id(part.call)
            content: Sequence[InFlightPart | TextRef] = part.content
            images = [each for each in content if self._shows_images and _is_image(each)]
            text = text_of([each for each in content if each not in images])
            text = _marked(text) if part.is_error else text
            if images:
                shown += [{"type": "text", "text": f"[The image of the result {id}:]"}, *map(content_part, images)]
            yield {"role": "tool", "tool_call_id": id, "content": text or _nothing(images)}
        if shown:
            yield {"role": "user", "content": [*shown, *filter(None, map(content_part, spoken))]}
        elif spoken:
            yield {"role": "user", "content": content_of(spoken)}

    def _wire_id(self, id: str) -> str:
        if self._dialect.short_ids:
            return _digest(id)[:9]
        wire = id.replace(".", "_")
        return wire if len(wire) <= LONGEST_ID and _PLAIN_ID.fullmatch(wire) else _digest(id)[:LONGEST_ID]


_PLAIN_ID: Final = re.compile(r"[A-Za-z0-9_-]+")


def _native(opaque: bytes) -> dict[str, object]:
    try:
        said = msgspec.json.decode(opaque)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _is_image(part: InFlightPart | TextRef) -> bool:
    return isinstance(part, InlineMedia) and part.media_type in IMAGES


def _nothing(images: Sequence[object]) -> str:
    return "(an image, shown below)" if images else "(no output)"


def _marked(text: str) -> str:
    """A failed result: the format has no field that says so."""
    return text if text.lower().startswith("error") else f"Error: {text or '(no output)'}"


def _digest(id: str) -> str:
    """Letters and digits that stand for `id`, always the same."""
    return b64encode(hashlib.sha256(id.encode()).digest(), b"ab").decode().rstrip("=")
