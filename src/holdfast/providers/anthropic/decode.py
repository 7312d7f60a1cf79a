"""Reads the answers of the Messages API, streamed or whole."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from holdfast.ports import ModelReply
from holdfast.providers.anthropic.errors import read_error_event
from holdfast.providers.anthropic.loose import Fields, number_at, object_at, objects_at, read_object, shown, text_at
from holdfast.providers.anthropic.reply import Answer, Block, finish
from holdfast.providers.format import Decoder
from holdfast.providers.sse import SseEvent
from holdfast.vocab.deltas import Delta, ReasoningDelta, TextDelta, ToolArgsDelta
from holdfast.vocab.errors import ProviderError

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
        fields = read_object(event.data, "An event of the answer")
        match text_at(fields, "type") or event.name:
            case "message_start":
                return self._begin(object_at(fields, "message"))
            case "content_block_start":
                return self._open(number_at(fields, "index"), object_at(fields, "content_block"))
            case "content_block_delta":
                return self._grow(number_at(fields, "index"), object_at(fields, "delta"))
            case "message_delta":
                self._answer.conclude(object_at(fields, "delta"), object_at(fields, "usage"))
            case "message_stop":
                self._finished = True
            case "error":
                raise read_error_event(fields)
            case _:
                pass  # ping, the end of a block, and what is yet to be invented
        return ()

    def body(self, content: bytes) -> Sequence[Delta]:
        """Take a whole answer."""
        fields = read_object(content, "The answer")
        if fields.get("type") == "error" or ("error" in fields and "content" not in fields):
            raise read_error_event(fields)
        if not isinstance(fields.get("content"), list):
            raise ProviderError("unknown", f"The answer is not a message: it has no content. It is {shown(content)}.")
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
        if self._answer.id and text_at(message, "id") == self._answer.id:
            return ()
        notes = ["the provider began the answer anew; what came before is left out"] if self._answer.blocks else []
        self._answer = Answer(id=text_at(message, "id"), model=text_at(message, "model"), notes=notes)
        self._answer.conclude(message, object_at(message, "usage"))
        deltas: list[Delta] = []
        for index, block in enumerate(objects_at(message, "content")):
            deltas += self._open(index, block)
        return deltas

    def _open(self, index: int, start: Fields) -> Sequence[Delta]:
        block = Block(start=start)
        self._answer.blocks[index] = block
        match block.kind:
            case "text":
                text = text_at(start, "text")
                return (TextDelta(text=text),) if text else ()
            case "thinking":
                text = text_at(start, "thinking")
                return (ReasoningDelta(text=text),) if text else ()
            case "tool_use" if object_at(start, "input"):
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
                text = block.add("text", text_at(delta, "text"))
                return (TextDelta(text=text),) if text else ()
            case "thinking_delta":
                text = block.add("thinking", text_at(delta, "thinking"))
                return (ReasoningDelta(text=text),) if text else ()
            case "input_json_delta":
                text = block.add("input", text_at(delta, "partial_json"))
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


if TYPE_CHECKING:
    _: Decoder = AnthropicDecoder()
