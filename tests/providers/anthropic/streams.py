"""Answers written by hand, in the form that the API documents."""

import json
from collections.abc import Iterable
from typing import Any

from backstay.ports import ModelReply
from backstay.providers.anthropic import FORMAT
from backstay.providers.http.sse import SseParser
from backstay.vocab.deltas import Delta

USAGE: dict[str, Any] = {
    "input_tokens": 10,
    "cache_creation_input_tokens": 200,
    "cache_read_input_tokens": 3000,
    "output_tokens": 1,
}


def frame(type: str, **fields: object) -> bytes:
    """One event."""
    return f"event: {type}\ndata: {json.dumps({'type': type, **fields}, ensure_ascii=False)}\n\n".encode()


def start(usage: dict[str, Any] | None = USAGE, id: str = "msg_1", **fields: object) -> bytes:
    """The event that begins an answer."""
    said = {"usage": usage} if usage is not None else {}
    message = {"id": id, "type": "message", "role": "assistant", "model": "claude-x", "content": []}
    return frame("message_start", message={**message, "stop_reason": None, **said, **fields})


def block(index: int, begin: dict[str, Any], *deltas: dict[str, Any]) -> bytes:
    """The events of one block."""
    return b"".join(
        (
            frame("content_block_start", index=index, content_block=begin),
            frame("ping"),
            *(frame("content_block_delta", index=index, delta=delta) for delta in deltas),
            frame("content_block_stop", index=index),
        )
    )


def text(index: int, *pieces: str) -> bytes:
    """A block of text."""
    return block(index, {"type": "text", "text": ""}, *({"type": "text_delta", "text": piece} for piece in pieces))


def thinking(index: int, signature: str, *pieces: str) -> bytes:
    """A block of signed reasoning."""
    said = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
    begin = {"type": "thinking", "thinking": "", "signature": ""}
    return block(index, begin, *said, {"type": "signature_delta", "signature": signature})


def call(index: int, id: str, name: str, *pieces: str, type: str = "tool_use", **more: object) -> bytes:
    """A call of a tool, ours or the provider's."""
    begin = {"type": type, "id": id, "name": name, "input": {}, **more}
    return block(index, begin, *({"type": "input_json_delta", "partial_json": piece} for piece in pieces))


def stop(reason: str | None = "end_turn", usage: dict[str, Any] | None = None, **delta: object) -> bytes:
    """The events that end an answer."""
    said = {"usage": {"output_tokens": 42} if usage is None else usage}
    return frame("message_delta", delta={"stop_reason": reason, **delta}, **said) + frame("message_stop")


def read(pieces: Iterable[bytes]) -> tuple[ModelReply, list[Delta]]:
    """What comes of a stream: the reply, and what was shown meanwhile."""
    parser, decoder = SseParser(), FORMAT.decoder()
    deltas: list[Delta] = []
    for piece in pieces:
        for event in parser.feed(piece):
            deltas += decoder.event(event)
    return decoder.reply(), deltas


def reply_of(*frames: bytes) -> ModelReply:
    """The reply alone."""
    return read(frames)[0]
