"""Answers of the Responses API, written by hand, and ways to feed them."""

import itertools
import json
from collections.abc import Iterable, Sequence

from backstay.ports import ModelReply
from backstay.providers.http.sse import SseParser
from backstay.providers.openai_responses import FORMAT
from backstay.vocab.deltas import Delta

Fields = dict[str, object]

USAGE: Fields = {
    "input_tokens": 120,
    "input_tokens_details": {"cached_tokens": 64},
    "output_tokens": 30,
    "output_tokens_details": {"reasoning_tokens": 12},
    "total_tokens": 150,
}


def frames(*events: Fields) -> bytes:
    """Events as a server sends them."""
    return b"".join(
        f"event: {event.get('type', '')}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode()
        for event in events
    )


def response(*items: Fields, status: object = "completed", **more: object) -> Fields:
    """A response object with its output."""
    return {
        "id": "resp_1",
        "object": "response",
        "status": status,
        "model": "gpt-x",
        "output": list(items),
        "usage": USAGE,
        **more,
    }


def completed(*items: Fields, **more: object) -> Fields:
    """The event that ends a good answer."""
    return {"type": "response.completed", "response": response(*items, **more)}


def message(*texts: str, **more: object) -> Fields:
    """An output item that says something."""
    content = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content, **more}


def call(name: str = "Read", args: str = '{"path":"a"}', id: str = "call_1", **more: object) -> Fields:
    """An output item that calls a tool."""
    return {
        "type": "function_call",
        "id": "fc_1",
        "status": "completed",
        "call_id": id,
        "name": name,
        "arguments": args,
        **more,
    }


def reasoning(*summary: str, sealed: str = "gAAA", **more: object) -> Fields:
    """An output item with the model's reasoning."""
    texts = [{"type": "summary_text", "text": text} for text in summary]
    return {"type": "reasoning", "id": "rs_1", "summary": texts, "encrypted_content": sealed, **more}


def piece(kind: str, delta: str, index: int = 0, **more: object) -> Fields:
    """An event with a fragment."""
    return {
        "type": f"response.{kind}.delta",
        "item_id": "item",
        "output_index": index,
        "content_index": 0,
        "delta": delta,
        **more,
    }


def added(item: Fields, index: int = 0) -> Fields:
    """The event that announces an item."""
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(item: Fields, index: int = 0) -> Fields:
    """The event that finishes an item."""
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def read(content: bytes, cuts: Iterable[int] = ()) -> tuple[list[Delta], ModelReply]:
    """Feed a stream, split at `cuts`; return what was shown and the reply."""
    decoder, parser = FORMAT.decoder(), SseParser()
    shown: list[Delta] = []
    for chunk in split(content, cuts):
        for event in parser.feed(chunk):
            shown += decoder.event(event)
    return shown, decoder.reply()


def read_events(*events: Fields) -> tuple[list[Delta], ModelReply]:
    """Feed events in one piece."""
    return read(frames(*events))


def read_body(content: Fields) -> tuple[Sequence[Delta], ModelReply]:
    """Feed an answer that was not streamed."""
    decoder = FORMAT.decoder()
    shown = decoder.body(json.dumps(content).encode())
    return shown, decoder.reply()


def split(content: bytes, cuts: Iterable[int]) -> list[bytes]:
    """`content` in pieces."""
    places = [0, *sorted(cuts), len(content)]
    return [content[a:b] for a, b in itertools.pairwise(places)]
