"""Small streams of our own making."""

import json
from typing import Any  # Any: native JSON

from backstay.ports import ModelReply
from backstay.providers.http.sse import SseParser
from backstay.providers.openai_chat.decode import ChatDecoder
from backstay.vocab.deltas import Delta

USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    """One chunk."""
    return {"model": "m-1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def usage(**more: Any) -> dict[str, Any]:
    """The chunk that only counts."""
    return {"model": "m-1", "choices": [], "usage": {**USAGE, **more}}


def call(index: int | None = None, id: str | None = None, name: str | None = None, args: Any = None) -> dict[str, Any]:
    """A piece of a call, with only what is given."""
    function = {key: value for key, value in (("name", name), ("arguments", args)) if value is not None}
    entry = {key: value for key, value in (("index", index), ("id", id)) if value is not None}
    return {**entry, "type": "function", "function": function}


def stream(*chunks: object, done: bool = True) -> bytes:
    """Chunks as bytes."""
    frames = [each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in chunks]
    return "".join(f"data: {frame}\n\n" for frame in (*frames, *(["[DONE]"] if done else []))).encode()


def feed(*pieces: bytes) -> tuple[ChatDecoder, list[Delta]]:
    """A decoder that has taken `pieces`, and what it showed."""
    decoder, parser, deltas = ChatDecoder(), SseParser(), list[Delta]()
    for piece in pieces:
        for event in parser.feed(piece):
            deltas += decoder.event(event)
    return decoder, deltas


def read(*chunks: object, done: bool = True) -> ModelReply:
    """The reply that `chunks` make."""
    return feed(stream(*chunks, done=done))[0].reply()


def read_body(message: dict[str, Any], finish: str | None = "stop", **more: Any) -> ModelReply:
    """The reply that a whole body makes."""
    decoder = ChatDecoder()
    choice = {"index": 0, "message": message, "finish_reason": finish}
    decoder.body(json.dumps({"model": "m-1", "choices": [choice], "usage": USAGE, **more}).encode())
    return decoder.reply()
