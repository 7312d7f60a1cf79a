"""Recorded traffic of the Responses API, read where it lies; nothing of it is in this repository."""

import functools
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[4] / "shared" / "cases" / "traffic"
Pair = dict[str, Any]

needs_recordings = pytest.mark.skipif(not FOLDER.is_dir(), reason="the recordings are not beside the project")


@functools.cache
def pairs() -> tuple[Pair, ...]:
    """Every recorded exchange of this format."""
    found: list[Pair] = []
    for source in ("chatlas", "mira", "vercel"):
        with gzip.open(FOLDER / f"{source}.jsonl.gz", "rt", encoding="utf-8") as lines:
            found += (pair for pair in map(json.loads, lines) if pair["format"] == "openai-responses")
    return tuple(found)


def is_other_endpoint(pair: Pair) -> bool:
    """Whether the exchange asks for something that is not an answer."""
    return not pair.get("path", "/responses").endswith("/responses")


def streams() -> Iterator[tuple[str, bytes]]:
    """The bytes of every streamed answer. Recordings that hold several answers after one another are taken apart."""
    for pair in pairs():
        content = stream_of(pair)
        for answer in re.split(rb'(?=^data: {"type": "response.created")', content or b"", flags=re.MULTILINE):
            if answer.startswith((b"data:", b"event:")) and answer != b"event: response.created\n":
                yield pair["id"], answer.rstrip(b"\n") + b"\n\n"


def stream_of(pair: Pair) -> bytes | None:
    """The bytes of a streamed answer; None when the answer was not streamed."""
    if "chunks" in pair:
        return b"".join(f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n".encode() for chunk in pair["chunks"])
    return pair["body"].encode() if "event-stream" in (pair["content_type"] or "") else None
