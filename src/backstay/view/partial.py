"""The fragments of a reply as the stream events of a model API, for those who asked for partial messages."""

from backstay.view.result_object import stop_reason, usage_object
from backstay.vocab.deltas import Delta, ReasoningDelta, TextDelta, ToolArgsDelta
from backstay.vocab.event import Recorded
from backstay.vocab.events import ModelFailed, ModelReplied
from backstay.vocab.ids import call_id
from backstay.vocab.specs import Usage

StreamEvent = dict[str, object]


class Partials:
    """One reply while it is being written."""

    def __init__(self) -> None:
        self._message = ""
        self._blocks = 0
        self._open: tuple[str, int] | None = None

    def asked(self, record: Recorded, model: str) -> list[StreamEvent]:
        """A model was asked: a message begins."""
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
        """A fragment came."""
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

    def over(self, event: ModelReplied | ModelFailed) -> list[StreamEvent]:
        """The reply is complete, or will never be."""
        ended = self._end_block()
        if isinstance(event, ModelFailed):
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
