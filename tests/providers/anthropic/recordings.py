"""Recorded traffic of the Messages API, where it lies beside the project."""

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TRAFFIC = Path(__file__).resolve().parents[4] / "shared" / "cases" / "traffic"


def pairs() -> list[dict[str, Any]]:
    """Requests and their answers."""
    return [row for name in ("chatlas", "mira") for row in _rows(name)]


def streams() -> Iterator[tuple[str, bytes]]:
    """Streamed answers that were a success, each with its id."""
    for row in pairs():
        if row["status"] == 200 and "event-stream" in row["content_type"]:
            yield row["id"], row["body"].encode()
    for row in _rows("vercel"):
        for number, chunks in enumerate(_one_by_one(row["chunks"])):
            yield f"{row['id']}#{number}", b"".join(map(_frame, chunks))


def bodies() -> Iterator[tuple[str, bytes]]:
    """Answers that were not streamed."""
    for row in pairs():
        if row["status"] == 200 and "event-stream" not in row["content_type"]:
            yield row["id"], row["body"].encode()


def split(content: bytes, seed: int) -> Iterator[bytes]:
    """`content` in pieces of random length, the same for the same seed."""
    dice = random.Random(seed)
    at = 0
    while at < len(content):
        size = dice.choice((1, 2, 3, 7, 40, 300, 5000))
        yield content[at : at + size]
        at += size


def _rows(name: str) -> list[dict[str, Any]]:
    with gzip.open(TRAFFIC / f"{name}.jsonl.gz") as lines:
        return [row for row in map(json.loads, lines) if row["format"] == "anthropic"]


def _one_by_one(chunks: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Some lists hold several answers, one after the other; a stream is one of them."""
    answer: list[dict[str, Any]] = []
    for chunk in chunks:
        answer.append(chunk)
        if chunk["type"] == "message_stop":
            yield answer
            answer = []


def _frame(chunk: dict[str, Any]) -> bytes:
    return f"event: {chunk['type']}\ndata: {json.dumps(chunk, ensure_ascii=False)}\n\n".encode()
