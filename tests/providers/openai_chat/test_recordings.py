"""The format over recorded traffic of a dozen servers. Nothing of it is kept in this repository."""

import json
import random
from collections import Counter
from typing import Any  # Any: recorded JSON

import pytest
from msgspec.structs import replace

from backstay.ports import ModelReply, ModelRequest
from backstay.providers.http.sse import SseParser
from backstay.providers.openai_chat import FORMAT
from backstay.providers.openai_chat.decode import ChatDecoder
from backstay.vocab.deltas import Delta, ReasoningDelta, TextDelta, ToolArgsDelta
from backstay.vocab.errors import ProviderError
from backstay.vocab.messages import Message, Reasoning, Text, ToolCall
from backstay.vocab.specs import ModelFacts
from tests.providers.openai_chat.reading import PROVIDER, normalise, read_request
from tests.providers.openai_chat.recorded import (
    Pair,
    Reading,
    chunks_of,
    framed,
    needs_recordings,
    pairs,
    read_plainly,
    rows,
    streams,
)

REWRITTEN = ("data_extraction", "empty_response", "structured_output_resume")
"""Recordings whose client put words of its own in the place of the model's."""
STOPS = {"stop": "end", "length": "length", "tool_calls": "tool_calls"}


def feed(pieces: list[bytes]) -> tuple[ChatDecoder, list[Delta]]:
    decoder, parser, deltas = ChatDecoder(), SseParser(), list[Delta]()
    for piece in pieces:
        for event in parser.feed(piece):
            deltas += decoder.event(event)
    return decoder, deltas


def cut(stream: bytes, chance: random.Random) -> list[bytes]:
    points = sorted(chance.sample(range(1, len(stream)), min(len(stream) - 1, chance.choice((1, 7, 60)))))
    return [stream[a:b] for a, b in zip([0, *points], [*points, len(stream)], strict=True)]


def summary(reply: ModelReply, finish: str) -> Reading:
    usage = reply.usage
    return Reading(
        text="".join(part.text for part in reply.parts if isinstance(part, Text)),
        reasoning="".join(part.text for part in reply.parts if isinstance(part, Reasoning)),
        calls=tuple((part.provider_id, part.name, part.args) for part in reply.parts if isinstance(part, ToolCall)),
        finish=finish,
        sent=usage.input if usage else None,
        made=usage.output if usage else None,
    )


def is_cut(decoder: ChatDecoder) -> bool:
    try:
        decoder.reply()
    except ProviderError as exc:
        return exc.kind == "transport" and "it was cut" in str(exc)
    return False


def check(reply: ModelReply, plain: Reading) -> None:
    assert summary(reply, plain.finish) == plain
    refused = "the model refused" in reply.notes
    called = plain.calls and plain.finish != "length"
    assert reply.stop == ("filter" if refused else "tool_calls" if called else STOPS[plain.finish])


@needs_recordings
def test_every_recorded_stream_reads_the_same_at_any_split() -> None:
    chance, tried = random.Random(7), 0
    for name, stream in streams():
        whole, deltas = feed([stream])
        reply = whole.reply()
        check(reply, read_plainly(chunks_of(stream)))
        assert "".join(d.text for d in deltas if isinstance(d, TextDelta)) == summary(reply, "").text, name
        assert "".join(d.text for d in deltas if isinstance(d, ReasoningDelta)) == summary(reply, "").reasoning, name
        args = "".join(part.args for part in reply.parts if isinstance(part, ToolCall))
        assert "".join(d.text for d in deltas if isinstance(d, ToolArgsDelta)) == args, name
        for _ in range(3):
            again, _deltas = feed(cut(stream, chance))
            assert again.reply() == reply, name
        tried += 1
    assert tried >= 190
    print(f"streams tried: {tried}")


@needs_recordings
def test_every_recorded_body_reads_as_it_says() -> None:
    tried = Counter[str]()
    for pair in pairs():
        if pair.streamed:
            continue
        if pair.status == 200:
            decoder = ChatDecoder()
            decoder.body(pair.body)
            check(decoder.reply(), read_plainly([json.loads(pair.body)]))
        tried[str(pair.status)] += 1
    print(f"bodies tried: {dict(tried)}")


@needs_recordings
def test_every_recorded_failure_has_its_kind() -> None:
    kinds = {401: "auth", 404: "bad_request", 400: "bad_request"}
    found = [
        (FORMAT.failure(pair.status, {}, pair.body).kind, kinds[pair.status]) for pair in pairs() if pair.status != 200
    ]
    assert len(found) >= 7
    assert all(kind == wanted for kind, wanted in found)


@needs_recordings
def test_every_cut_of_a_recorded_stream_is_an_error() -> None:
    cuts = 0
    for name, stream in streams():
        ends = [at + 2 for at in range(len(stream)) if stream.startswith(b"\n\n", at)] or [len(stream)]
        slow = ends[-3] if len(ends) > 2 else 0
        points = sorted({*(end for end in ends if end < slow), *range(slow, len(stream))})
        decoder, parser, at = ChatDecoder(), SseParser(), 0
        for point in points:
            for event in parser.feed(stream[at:point]):
                decoder.event(event)
            at, cuts = point, cuts + 1
            assert is_cut(decoder), (name, point)
        for event in parser.feed(stream[at:]):
            decoder.event(event)
        assert decoder.reply() == feed([stream])[0].reply(), name
    print(f"cuts tried: {cuts}")


@needs_recordings
def test_a_stream_of_another_kind_is_refused_and_does_not_crash() -> None:
    for row in rows("vercel"):
        if "speech-translation" in row["id"]:
            decoder, _ = feed([framed(row["chunks"])])
            with pytest.raises(ProviderError):
                decoder.reply()


@needs_recordings
def test_every_recorded_request_is_written_as_it_was() -> None:
    tried, failed = 0, list[str]()
    for pair in pairs():
        encoder = FORMAT.encoder(PROVIDER, ModelFacts())
        ours = json.loads(encoder.encode(read_request(pair.request)).body)
        tried += 1
        if normalise(ours) != normalise(pair.request):
            failed.append(pair.id)
    print(f"requests tried: {tried}, failed: {len(failed)}")
    assert failed == []


@needs_recordings
def test_a_recorded_reply_goes_back_as_its_client_sent_it_back() -> None:
    tried, bound = 0, 0
    before: Pair | None = None
    for pair in pairs():
        asked = before.request["messages"] if before else []
        sent = pair.request["messages"]
        went_on = sent[: len(asked)] == asked and len(sent) > len(asked)
        if before and before.status == 200 and went_on and not any(name in pair.id for name in REWRITTEN):
            decoder = feed([before.body])[0] if before.streamed else ChatDecoder()
            if not before.streamed:
                decoder.body(before.body)
            reply = decoder.reply()
            assert written(reply) == normal(sent[len(asked)]), pair.id
            tried, bound = tried + 1, bound + bool(reply.opaque)
        before = pair
    print(f"replies tried: {tried}, bound to their server: {bound}")
    assert tried >= 50
    assert bound >= 4


def written(reply: ModelReply) -> object:
    parts = tuple(replace(part, id=part.provider_id) if isinstance(part, ToolCall) else part for part in reply.parts)
    message = Message(role="assistant", parts=parts, opaque=reply.opaque, provider=PROVIDER)
    request = ModelRequest(model="m", messages=(message,))
    native: Any = json.loads(FORMAT.encoder(PROVIDER, ModelFacts()).encode(request).body)
    return normal(native["messages"][0])


def normal(message: Any) -> object:
    return normalise({"messages": [message]})["messages"][0]
