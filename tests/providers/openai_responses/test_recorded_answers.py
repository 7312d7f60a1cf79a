"""Recorded answers give what a straightforward reading of them gives, however the bytes are split."""

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from backstay.ports import ModelReply
from backstay.providers.format import Decoder
from backstay.providers.http.sse import SseParser
from backstay.providers.openai_responses import FORMAT
from backstay.vocab.deltas import TextDelta
from backstay.vocab.errors import ProviderError
from backstay.vocab.messages import Reasoning, Text, ToolCall
from backstay.vocab.specs import Usage
from tests.providers.openai_responses.recordings import (
    Pair,
    is_other_endpoint,
    needs_recordings,
    pairs,
    stream_of,
    streams,
)
from tests.providers.openai_responses.streams import frames, read

pytestmark = needs_recordings

_TEXTS = ("response.output_text.delta", "response.refusal.delta")


def test_whole_answers_are_read() -> None:
    tried = 0
    for pair in pairs():
        if pair.get("status") != 200 or is_other_endpoint(pair) or stream_of(pair) is not None:
            continue
        decoder = FORMAT.decoder()
        decoder.body(pair["body"].encode())
        _compare(pair["id"], decoder.reply(), json.loads(pair["body"]))
        tried += 1
    print(f"{tried} whole answers")
    assert tried


def test_streams_are_read_at_any_split() -> None:
    tried = 0
    for id, content in _finished_streams():
        shown, reply = read(content)
        _compare(id, reply, _events(content)[-1]["response"])
        deltas = [event["delta"] for event in _events(content) if event["type"] in _TEXTS]
        assert "".join(delta.text for delta in shown if isinstance(delta, TextDelta)) == "".join(deltas), id
        for seed in range(3):
            cuts = random.Random(seed).choices(range(len(content)), k=min(200, len(content) // 20))
            assert read(content, cuts) == (shown, reply), id
        tried += 1
    print(f"{tried} streams")
    assert tried


def test_streams_whose_last_event_has_no_output_give_the_same_parts() -> None:
    for id, content in _finished_streams():
        events = _events(content)
        bare = {**events[-1], "response": {**events[-1]["response"], "output": []}}
        assert read(frames(*events[:-1], bare))[1].parts == read(content)[1].parts, id


def test_streams_that_are_cut_raise() -> None:
    """At each event, and within the last one."""
    cuts = 0
    for id, content in _finished_streams():
        decoder, parser = FORMAT.decoder(), SseParser()
        end = content.rstrip(b"\n").rindex(b"\n\n") + 2
        for at, piece in _pieces(content, end):
            assert _is_cut(decoder), (id, at)
            cuts += 1
            if at == end:
                late = copy.deepcopy((decoder, parser))
            for event in parser.feed(piece):
                decoder.event(event)
        for event in late[1].feed(content[end:]):
            late[0].event(event)
        assert late[0].reply() == decoder.reply() == read(content)[1], id
    print(f"{cuts} cuts")


def test_failures_have_their_kind() -> None:
    failed = [pair for pair in pairs() if pair.get("status", 200) != 200]
    kinds = {(pair["status"], FORMAT.failure(pair["status"], {}, pair["body"].encode()).kind) for pair in failed}
    assert kinds == {(400, "bad_request"), (401, "auth")}
    for _, content in streams():
        if _events(content)[-1]["type"] == "response.failed":
            with pytest.raises(ProviderError, match="quota or credit of this account is used up") as caught:
                read(content)
            assert caught.value.kind == "rate_limit"


def _finished_streams() -> Iterator[tuple[str, bytes]]:
    return ((id, content) for id, content in streams() if _events(content)[-1]["type"] != "response.failed")


def _pieces(content: bytes, end: int) -> Iterator[tuple[int, bytes]]:
    """Whole events up to `end`, where the last one begins; from there single bytes, with strides in its long middle."""
    at = 0
    while at < len(content):
        size = content.index(b"\n\n", at) + 2 - at if at < end else 1
        if end + 300 < at < len(content) - 600:
            size = 97
        yield at, content[at : at + size]
        at += size


def _is_cut(decoder: Decoder) -> bool:
    try:
        decoder.reply()
    except ProviderError as exc:
        return exc.kind == "transport"
    return False


def _events(content: bytes) -> list[dict[str, Any]]:
    lines = content.decode().split("\n")
    return [json.loads(line[6:]) for line in lines if line.startswith("data: ") and line != "data: [DONE]"]


def _compare(id: str, reply: ModelReply, response: Pair) -> None:
    output = response["output"]
    said = [piece for item in output if item["type"] == "message" for piece in item["content"]]
    texts = [piece.get("text") or piece.get("refusal") for piece in said]
    assert [part.text for part in reply.parts if isinstance(part, Text)] == list(filter(None, texts)), id
    thought = ["\n\n".join(each["text"] for each in item["summary"]) for item in output if item["type"] == "reasoning"]
    assert [part.text for part in reply.parts if isinstance(part, Reasoning)] == list(filter(None, thought)), id
    made = [item for item in output if item["type"] in ("function_call", "custom_tool_call")]
    assert [(part.name, part.args, part.provider_id) for part in reply.parts if isinstance(part, ToolCall)] == [
        (item["name"], item.get("arguments", item.get("input")), item["call_id"]) for item in made
    ], id
    usage = response["usage"]
    assert reply.usage == Usage(
        input=usage["input_tokens"],
        output=usage["output_tokens"],
        cache_read=usage["input_tokens_details"]["cached_tokens"],
        cache_write=usage["input_tokens_details"].get("cache_write_tokens") or 0,
        reasoning=usage["output_tokens_details"]["reasoning_tokens"],
    ), id
    refused = any(piece["type"] == "refusal" for piece in said)
    whole = "tool_calls" if made else "filter" if refused else "end"
    assert reply.stop == ("length" if response["status"] == "incomplete" else whole), id
    assert reply.model == response["model"], id
    others = [
        item for item in output if item["type"] not in ("message", "reasoning", "function_call", "custom_tool_call")
    ]
    assert len(reply.parts) == len([*filter(None, texts), *filter(None, thought), *made, *others]), id
    sealed = [item for item in output if item.get("encrypted_content")]
    kept = json.loads(reply.opaque) if reply.opaque else []
    assert [item for item in kept if item.get("encrypted_content")] == sealed, id
