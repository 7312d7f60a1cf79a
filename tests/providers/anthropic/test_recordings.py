"""Recorded answers and requests of the real API. Skipped where the recordings are not at hand."""

import json
from collections import Counter
from typing import Any

import pytest

from backstay.ports import ModelReply
from backstay.providers.anthropic import FORMAT
from backstay.providers.http.sse import SseParser
from backstay.vocab.errors import ProviderError
from backstay.vocab.messages import Reasoning, ServerBlock, Text, ToolCall
from backstay.vocab.specs import ModelFacts
from tests.providers.anthropic import recordings
from tests.providers.anthropic.reading import normalise, read_request

pytestmark = pytest.mark.skipif(not recordings.TRAFFIC.exists(), reason="there are no recordings here")

STOPS = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "refusal": "filter",
}
SHOWN = ("text", "thinking", "tool_use", "redacted_thinking")
ABLE = ModelFacts(
    known=True,
    max_output=64_000,
    abilities=frozenset(("tools", "images", "documents", "structured", "web_search", "caching")),
)


def feed(pieces: Any) -> ModelReply:
    parser, decoder = SseParser(), FORMAT.decoder()
    for piece in pieces:
        for event in parser.feed(piece):
            decoder.event(event)
    return decoder.reply()


def read_plainly(stream: bytes) -> dict[str, Any]:
    """Put a stream together as its documentation tells, without a thought of anything else."""
    message: dict[str, Any] = {}
    for line in stream.decode().split("\n"):
        if not line.startswith("data:"):
            continue
        event = json.loads(line[5:])
        if event["type"] == "message_start" and event["message"]["id"] != message.get("id"):
            message = event["message"]
            message["content"] = dict(enumerate(message["content"]))
        elif event["type"] == "content_block_start":
            message["content"][event["index"]] = {**event["content_block"], "json": ""}
        elif event["type"] == "content_block_delta":
            block, delta = message["content"][event["index"]], event["delta"]
            block["text"] = block.get("text", "") + delta.get("text", "")
            block["thinking"] = block.get("thinking", "") + delta.get("thinking", "")
            block["json"] += delta.get("partial_json", "")
        elif event["type"] == "message_delta":
            message["stop_reason"] = event["delta"]["stop_reason"]
            message["usage"] |= event["usage"]
    return {**message, "content": list(message["content"].values())}


def compare(reply: ModelReply, message: dict[str, Any]) -> None:
    blocks = message["content"]
    calls = [block for block in blocks if block["type"] == "tool_use"]
    usage = message["usage"]
    sent = [usage.get(f"{kind}input_tokens") or 0 for kind in ("", "cache_creation_", "cache_read_")]
    assert [p.text for p in reply.parts if isinstance(p, Text)] == [
        block["text"] for block in blocks if block["type"] == "text" and block["text"]
    ]
    assert [p.text for p in reply.parts if isinstance(p, Reasoning)] == [
        block["thinking"] for block in blocks if block["type"] == "thinking" and block["thinking"]
    ]
    assert [(p.name, p.provider_id, json.loads(p.args)) for p in reply.parts if isinstance(p, ToolCall)] == [
        (call["name"], call["id"], json.loads(call.get("json") or json.dumps(call["input"]))) for call in calls
    ]
    assert [p.kind for p in reply.parts if isinstance(p, ServerBlock)] == [
        block["type"] for block in blocks if block["type"] not in SHOWN
    ]
    assert reply.stop == ("tool_calls" if calls else STOPS[message["stop_reason"]])
    assert reply.usage is not None
    assert (reply.usage.input, reply.usage.output) == (sum(sent), usage["output_tokens"])
    assert (reply.usage.cache_write, reply.usage.cache_read) == (sent[1], sent[2])
    assert reply.model == message["model"]


def test_recorded_streams_read_the_same_under_any_split() -> None:
    streams = list(recordings.streams())

    for number, (_, stream) in enumerate(streams):
        whole = feed([stream])
        compare(whole, read_plainly(stream))
        for seed in range(3):
            assert feed(recordings.split(stream, seed * 1000 + number)) == whole
    print(f"{len(streams)} streams read")
    assert len(streams) > 200


def test_recorded_whole_answers_are_read() -> None:
    bodies = list(recordings.bodies())

    for _, body in bodies:
        decoder = FORMAT.decoder()
        decoder.body(body)
        compare(decoder.reply(), json.loads(body))
    print(f"{len(bodies)} whole answers read")
    assert len(bodies) > 200


def test_recorded_failures_have_kinds() -> None:
    kinds: Counter[tuple[int, str]] = Counter()

    for row in recordings.pairs():
        if row["status"] != 200:
            kinds[row["status"], FORMAT.failure(row["status"], {}, row["body"].encode()).kind] += 1

    assert dict(kinds) == {(401, "auth"): 4, (404, "bad_request"): 8}


def test_no_cut_of_a_recorded_stream_looks_finished() -> None:
    for _, stream in recordings.streams():
        frames = [frame + b"\n\n" for frame in stream.replace(b"\r\n", b"\n").split(b"\n\n")]
        last = next(at for at, frame in enumerate(frames) if b'"message_stop"' in frame)
        tail = b"".join(frames[last - 1 : last + 1])
        parser, decoder = SseParser(), FORMAT.decoder()
        for piece in (*frames[: last - 1], *(tail[at : at + 1] for at in range(len(tail)))):
            with pytest.raises(ProviderError, match="it was cut"):
                decoder.reply()
            for event in parser.feed(piece):
                decoder.event(event)
        decoder.reply()


def test_recorded_requests_are_written_as_they_were() -> None:
    tried = tools_apart = 0
    different: list[str] = []
    for row in recordings.pairs():
        tried += 1
        request = read_request(row["request"])
        extra = request.parameters["extra"]
        tools_apart += isinstance(extra, dict) and "tools" in extra
        written = json.loads(FORMAT.encoder("anthropic", ABLE).encode(request).body)
        if normalise(written) != normalise(row["request"]):
            different.append(row["id"])
    print(f"{tried} requests tried, {len(different)} different, {tools_apart} with tools that we have no words for")

    assert different == []
    assert tried > 400
