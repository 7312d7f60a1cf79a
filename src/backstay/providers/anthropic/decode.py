"""Reads the answers of the Messages API, streamed or whole."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from backstay.ports import ModelReply
from backstay.providers.anthropic.reply import Answer, Block, finish
from backstay.providers.failure import broken_off, complaint_in
from backstay.providers.format import Decoder
from backstay.providers.loose import Fields, beginning, count_in, fields_in, objects_in, read_sound, text_in
from backstay.providers.sse import SseEvent
from backstay.vocab.deltas import Delta, ReasoningDelta, TextDelta, ToolArgsDelta
from backstay.vocab.errors import ProviderError

_DONE: Final = b"[DONE]"
"""Some servers that imitate the API end with it."""


class AnthropicDecoder:
    """Collects one answer. It is finished with `message_stop`; whatever comes after that belongs to nobody."""

    def __init__(self) -> None:
        self._answer = Answer()
        self._finished = False

    def event(self, event: SseEvent) -> Sequence[Delta]:
        """Take one event of a stream."""
        if self._finished or event.data.strip() in (b"", _DONE):
            return ()
        fields = _read(event.data, "An event of the answer")
        match text_in(fields, "type") or event.name:
            case "message_start":
                return self._begin(fields_in(fields, "message"))
            case "content_block_start":
                return self._open(count_in(fields, "index"), fields_in(fields, "content_block"))
            case "content_block_delta":
                return self._grow(count_in(fields, "index"), fields_in(fields, "delta"))
            case "message_delta":
                self._answer.conclude(fields_in(fields, "delta"), fields_in(fields, "usage"))
            case "message_stop":
                self._finished = True
            case "error":
                raise broken_off(complaint_in(fields, named=True))
            case _:
                pass  # ping, the end of a block, and what is yet to be invented
        return ()

    def body(self, content: bytes) -> Sequence[Delta]:
        """Take a whole answer."""
        fields = _read(content, "The answer")
        if fields.get("type") == "error" or ("error" in fields and "content" not in fields):
            raise broken_off(complaint_in(fields, named=True))
        if not isinstance(fields.get("content"), list):
            raise ProviderError(
                "unknown", f"The answer is not a message: it has no content. It is {beginning(content)}."
            )
        deltas = self._begin(fields)
        self._finished = True
        return deltas

    def ended(self) -> None:
        """Hear that the response has ended; the provider's own last word is what counts."""

    def reply(self) -> ModelReply:
        """The finished reply."""
        if not self._finished:
            raise ProviderError("transport", "The answer ended without its final event: it was cut.")
        return finish(self._answer)

    def _begin(self, message: Mapping[str, object]) -> Sequence[Delta]:
        """Start the answer, or start it anew: a proxy that asked again splices the second answer after half of the first."""
        if self._answer.id and text_in(message, "id") == self._answer.id:
            return ()
        notes = ["the provider began the answer anew; what came before is left out"] if self._answer.blocks else []
        self._answer = Answer(id=text_in(message, "id"), model=text_in(message, "model"), notes=notes)
        self._answer.conclude(message, fields_in(message, "usage"))
        deltas: list[Delta] = []
        for index, block in enumerate(objects_in(message, "content")):
            deltas += self._open(index, block)
        return deltas

    def _open(self, index: int, start: Fields) -> Sequence[Delta]:
        block = Block(start=start)
        self._answer.blocks[index] = block
        match block.kind:
            case "text":
                text = text_in(start, "text")
                return (TextDelta(text=text),) if text else ()
            case "thinking":
                text = text_in(start, "thinking")
                return (ReasoningDelta(text=text),) if text else ()
            case "tool_use" if fields_in(start, "input"):
                return (ToolArgsDelta(index=self._nth_call(index), name=block.name, text=block.args),)
            case _:
                return ()

    def _grow(self, index: int, delta: Mapping[str, object]) -> Sequence[Delta]:
        block = self._answer.blocks.get(index)
        if block is None:
            raise ProviderError(
                "transport", f"The answer goes on with block {index}, which never began: a part is lost."
            )
        match delta.get("type"):
            case "text_delta":
                text = block.add("text", text_in(delta, "text"))
                return (TextDelta(text=text),) if text else ()
            case "thinking_delta":
                text = block.add("thinking", text_in(delta, "thinking"))
                return (ReasoningDelta(text=text),) if text else ()
            case "input_json_delta":
                text = block.add("input", text_in(delta, "partial_json"))
                shown_args = text and block.kind == "tool_use"
                return (ToolArgsDelta(index=self._nth_call(index), name=block.name, text=text),) if shown_args else ()
            case "citations_delta":
                block.citations.append(delta.get("citation"))
            case _:
                for key, value in delta.items():
                    if key != "type" and isinstance(value, str):
                        block.add(key, value)
        return ()

    def _nth_call(self, index: int) -> int:
        blocks = self._answer.blocks
        return sum(1 for at, block in blocks.items() if at < index and block.kind == "tool_use")


def _read(content: bytes, called: str) -> Fields:
    value = read_sound(content, called)
    if not isinstance(value, dict):
        raise ProviderError("transport", f"{called} is not a JSON object: {beginning(content)}.")
    return value


if TYPE_CHECKING:
    _: Decoder = AnthropicDecoder()
