"""Recorded traffic is read and written as an independent, simple reading of it says. Skipped where there is none."""

import gzip
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from backstay.ports import ModelReply
from backstay.providers.google import FORMAT
from backstay.providers.http.sse import SseParser
from backstay.vocab.errors import ProviderError
from backstay.vocab.messages import Reasoning, Text, ToolCall
from backstay.vocab.specs import Usage
from tests.providers.google.reading import FACTS, normalise, read_request
from tests.providers.google.streams import frames, random_cuts, read

TRAFFIC = Path(__file__).resolve().parents[4] / "shared" / "cases" / "traffic"
pytestmark = pytest.mark.skipif(not TRAFFIC.is_dir(), reason="there are no recordings here")

Json = dict[str, Any]  # recorded JSON, read by hand


@cache
def recorded(name: str) -> tuple[Json, ...]:
    """The recordings of this format in one file."""
    with gzip.open(TRAFFIC / f"{name}.jsonl.gz", "rt") as lines:
        return tuple(row for row in map(json.loads, lines) if row["format"] == "google")


def pairs() -> Iterator[Json]:
    """Every recorded pair of the endpoints that this format has."""
    for row in (*recorded("chatlas"), *recorded("mira")):
        if re.search(r":(stream)?[gG]enerateContent$", row["path"]):
            yield row


def streams() -> Iterator[tuple[str, bytes]]:
    """Every recorded stream of this format. Chunks of other endpoints (interactions, live) have no candidates."""
    for row in pairs():
        if row["status"] == 200 and row["content_type"].startswith("text/event-stream"):
            yield row["id"], row["body"].encode()
    for row in recorded("vercel"):
        chunks = [json.loads(each) if isinstance(each, str) else each for each in row["chunks"]]
        if "candidates" in chunks[0]:
            yield row["id"], frames(chunks, "\n")


def chunks_of(stream: bytes) -> list[Json]:
    """The chunks of a stream, read without any of our code."""
    return [json.loads(line) for line in re.findall(r"^data: (.*?)\r?$", stream.decode(), re.M)]


def simply(chunks: list[Json]) -> Json:
    """What the chunks say, by a simple reading."""
    candidates = [chunk["candidates"][0] for chunk in chunks if chunk.get("candidates")]
    parts = [part for candidate in candidates for part in candidate.get("content", {}).get("parts", [])]
    finish = next(candidate["finishReason"] for candidate in candidates if "finishReason" in candidate)
    named = [part["functionCall"] for part in parts if part.get("functionCall", {}).get("name")]
    usage = next(c["usageMetadata"] for c in reversed(chunks) if "promptTokenCount" in c.get("usageMetadata", {}))
    plain = {"STOP": "tool_calls" if named else "end", "MAX_TOKENS": "length"}
    return {
        "text": "".join(part["text"] for part in parts if "text" in part and not part.get("thought")),
        "thoughts": "".join(part["text"] for part in parts if "text" in part and part.get("thought")),
        "calls": [(call["name"], call.get("id", "")) for call in named],
        "args": flat_args(parts),
        "signatures": [part["thoughtSignature"] for part in parts if "thoughtSignature" in part],
        "stop": plain[finish],
        "usage": Usage(
            input=usage["promptTokenCount"] + usage.get("toolUsePromptTokenCount", 0),
            output=usage.get("candidatesTokenCount", 0) + usage.get("thoughtsTokenCount", 0),
            cache_read=usage.get("cachedContentTokenCount", 0),
            reasoning=usage.get("thoughtsTokenCount", 0),
        ),
    }


def flat_args(parts: list[Json]) -> list[Json]:
    """The arguments of each call by their paths; pieces of one text put together."""
    calls: list[Json] = []
    for part in parts:
        call = part.get("functionCall", {})
        if call.get("name"):
            calls.append(dict(flat("$", call.get("args", {}))))
        for piece in call.get("partialArgs", []):
            value = piece.get("stringValue", piece.get("numberValue"))
            before = calls[-1].get(piece["jsonPath"], "")
            calls[-1][piece["jsonPath"]] = before + value if isinstance(value, str) else value
    return calls


def flat(path: str, value: object) -> Iterator[tuple[str, object]]:
    """The leaves of a value by their paths."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from flat(f"{path}.{name}", each)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from flat(f"{path}[{index}]", each)
    else:
        yield path, value


def summary(reply: ModelReply) -> Json:
    """What a reply says, in the terms of `simply`."""
    calls = [part for part in reply.parts if isinstance(part, ToolCall)]
    native = json.loads(reply.opaque) if reply.opaque else []
    return {
        "text": "".join(part.text for part in reply.parts if isinstance(part, Text)),
        "thoughts": "".join(part.text for part in reply.parts if isinstance(part, Reasoning)),
        "calls": [(call.name, call.provider_id) for call in calls],
        "args": [dict(flat("$", json.loads(call.args))) for call in calls],
        "signatures": [part["thoughtSignature"] for part in native if "thoughtSignature" in part],
        "stop": reply.stop,
        "usage": reply.usage,
    }


def test_every_stream_is_read_alike_however_it_is_cut_and_as_a_simple_reading_has_it() -> None:
    tried = 0
    for seed, (name, stream) in enumerate(streams()):
        expected = read(stream)
        assert summary(expected[1]) == simply(chunks_of(stream)), name
        for turn in range(4):
            assert read(stream, random_cuts(stream, seed * 10 + turn)) == expected, name
        tried += 1
    print(f"{tried} streams read")
    assert tried > 90


def test_every_stream_is_unfinished_before_the_end_of_its_last_chunk() -> None:
    for name, stream in streams():
        end = len(stream)
        edges = [found.end() for found in re.finditer(rb"\r?\n\r?\n", stream)]
        slow = edges[-3] if len(edges) > 2 else 0
        cuts = [edge for edge in edges if edge <= slow] + list(range(slow + 1, len(stream) + 1))
        parser, decoder, fed = SseParser(), FORMAT.decoder(), 0
        for cut in cuts:
            for event in parser.feed(stream[fed:cut]):
                decoder.event(event)
            fed = cut
            if cut >= end:
                decoder.reply()
                continue
            with pytest.raises(ProviderError) as caught:
                decoder.reply()
            assert caught.value.kind == "transport", name


def test_every_whole_body_is_read_as_a_simple_reading_has_it() -> None:
    tried = 0
    for row in pairs():
        if row["status"] == 200 and row["content_type"].startswith("application/json"):
            decoder = FORMAT.decoder()
            decoder.body(row["body"].encode())
            assert summary(decoder.reply()) == simply([json.loads(row["body"])]), row["id"]
            tried += 1
    print(f"{tried} bodies read")
    assert tried > 100


def test_every_failure_has_its_kind() -> None:
    kinds = [
        (row["status"], FORMAT.failure(row["status"], {}, row["body"].encode()).kind)
        for row in pairs()
        if row["status"] != 200
    ]

    assert sorted(set(kinds)) == [(400, "auth"), (404, "bad_request")]


def test_every_request_is_written_as_it_was_recorded() -> None:
    tried, failed = 0, []
    for row in pairs():
        native = row["request"] if isinstance(row["request"], dict) else json.loads(row["request"])
        written = FORMAT.encoder("google", FACTS).encode(read_request(row["path"], native))
        tried += 1
        path = row["path"].rpartition(":")[0] + ":streamGenerateContent?alt=sse"
        if (written.path, normalise(json.loads(written.body))) != (path, normalise(native)):
            failed.append(row["id"])
    others = len(recorded("chatlas")) + len(recorded("mira")) - tried
    print(f"{tried} requests tried, {len(failed)} failed; {others} of other endpoints")
    assert failed == []
    assert tried > 200


def test_every_reply_that_was_sent_back_in_a_recorded_request_can_be_sent_back_from_its_recording() -> None:
    """What we keep of a reply is what its client sent back: each signed part of a recorded request came in some reply."""
    kept = [part for _, stream in streams() for part in json.loads(read(stream)[1].opaque or b"[]")]
    for row in pairs():
        if row["status"] == 200 and row["content_type"].startswith("application/json"):
            decoder = FORMAT.decoder()
            decoder.body(row["body"].encode())
            kept += json.loads(decoder.reply().opaque or b"[]")
    signed = {same(part["thoughtSignature"]): part for part in kept if "thoughtSignature" in part}
    found = 0
    for row in pairs():
        for content in row["request"]["contents"] if isinstance(row["request"], dict) else ():
            for part in content["parts"]:
                ours = signed.get(same(part.get("thoughtSignature", "")))
                if ours is not None:
                    assert {**ours, "thoughtSignature": 0} == {**part, "thoughtSignature": 0}, row["id"]
                    found += 1
    print(f"{found} signed parts of requests found in replies")
    assert found > 40


def same(text: str) -> str:
    """Base64 in one alphabet."""
    return text.replace("+", "-").replace("/", "_").rstrip("=")
