"""Answers in Gemini's form, made by hand, and ways to read them."""

import json
import random
from collections.abc import Sequence
from itertools import pairwise

from backstay.ports import ModelReply
from backstay.providers.google import FORMAT
from backstay.providers.http.sse import SseParser
from backstay.vocab.deltas import Delta


def chunk(*parts: object, finish: str = "", usage: object = None, **candidate: object) -> dict[str, object]:
    """One chunk of an answer, with one candidate."""
    first: dict[str, object] = {"content": {"role": "model", "parts": list(parts)}, "index": 0, **candidate}
    if finish:
        first["finishReason"] = finish
    made: dict[str, object] = {"candidates": [first], "modelVersion": "gemini-test"}
    return made if usage is None else {**made, "usageMetadata": usage}


USAGE = {"promptTokenCount": 10, "candidatesTokenCount": 4, "thoughtsTokenCount": 3, "totalTokenCount": 17}


def frames(chunks: Sequence[object], end: str = "\r\n") -> bytes:
    """The chunks as a stream of events."""
    return "".join(f"data: {json.dumps(each, ensure_ascii=False)}{end}{end}" for each in chunks).encode()


def read(stream: bytes, cuts: Sequence[int] = ()) -> tuple[list[Delta], ModelReply]:
    """Read a stream that arrives in pieces, cut at `cuts`."""
    parser, decoder = SseParser(), FORMAT.decoder()
    deltas: list[Delta] = []
    edges = [0, *sorted(cuts), len(stream)]
    for start, end in pairwise(edges):
        for event in parser.feed(stream[start:end]):
            deltas += decoder.event(event)
    return deltas, decoder.reply()


def read_chunks(*chunks: object) -> ModelReply:
    """The reply that some chunks make."""
    return read(frames(chunks))[1]


def random_cuts(stream: bytes, seed: int) -> list[int]:
    """Some places to cut a stream at."""
    chance = random.Random(seed)
    return [chance.randrange(len(stream) + 1) for _ in range(chance.randrange(1, 40))]
