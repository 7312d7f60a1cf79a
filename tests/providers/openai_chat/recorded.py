"""Recorded traffic, where it lies beside the project, and a plain reading of it that shares no code with the decoder."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any  # Any: recorded JSON

import msgspec
import pytest

TRAFFIC = Path(__file__).parents[4] / "shared" / "cases" / "traffic"
FORMAT = "openai-chat"

needs_recordings = pytest.mark.skipif(not TRAFFIC.is_dir(), reason="there are no recordings beside the project")


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """A request and its answer."""

    id: str
    request: dict[str, Any]
    status: int
    path: str
    streamed: bool
    body: bytes


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer says."""

    text: str
    reasoning: str
    calls: tuple[tuple[str, str, str], ...]
    """Id, name and arguments of each."""
    finish: str
    sent: int | None
    made: int | None


def pairs() -> Iterator[Pair]:
    """Every recorded pair of this format."""
    for source in ("chatlas", "mira"):
        for row in rows(source):
            streamed = "event-stream" in (row["content_type"] or "")
            body = row["body"].encode()
            yield Pair(
                id=row["id"],
                request=row["request"],
                status=row["status"],
                path=row["path"],
                streamed=streamed,
                body=body,
            )


def streams() -> Iterator[tuple[str, bytes]]:
    """Every recorded stream as bytes; chunk lists are framed and ended as their servers do."""
    for pair in pairs():
        if pair.streamed and pair.status == 200:
            yield pair.id, pair.body
    for row in rows("vercel"):
        if "speech-translation" not in row["id"]:
            yield row["id"], framed(row["chunks"])


def framed(chunks: list[Any]) -> bytes:
    """Chunks as a stream."""
    frames = [json.dumps(chunk, ensure_ascii=False) for chunk in chunks]
    return "".join(f"data: {frame}\n\n" for frame in [*frames, "[DONE]"]).encode()


def chunks_of(stream: bytes) -> list[Any]:
    """The JSON chunks of a stream."""
    lines = [line[5:].strip() for line in stream.decode().splitlines() if line.startswith("data:")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def read_plainly(chunks: list[Any]) -> Reading:
    """Join the fields of all chunks, or of one whole body."""
    text, reasoning, finish, sent, made = "", "", "", None, None
    calls: dict[int, list[str]] = {}
    for chunk in chunks:
        usage = chunk.get("usage") or {}
        if usage.get("completion_tokens") is not None:
            sent, made = usage["prompt_tokens"], usage["total_tokens"] - usage["prompt_tokens"]
        for choice in chunk["choices"]:
            finish = choice.get("finish_reason") or finish
            message = choice.get("delta") or choice.get("message") or {"content": choice.get("text")}
            said, thought = _content(message.get("content"))
            text += said + (message.get("refusal") or "")
            reasoning += thought + (message.get("reasoning_content") or message.get("reasoning") or "")
            for place, call in enumerate(message.get("tool_calls") or ()):
                known = calls.setdefault(call.get("index", place), ["", "", ""])
                for at, piece in enumerate(
                    (call.get("id"), call["function"].get("name"), call["function"]["arguments"])
                ):
                    known[at] += piece or ""
    whole = tuple((known[0], known[1], known[2]) for known in calls.values())
    return Reading(text=text, reasoning=reasoning, calls=whole, finish=finish, sent=sent, made=made)


def _content(content: Any) -> tuple[str, str]:
    if isinstance(content, list):
        texts = [part["text"] for part in content if part["type"] == "text"]
        thoughts = [inner["text"] for part in content if part["type"] == "thinking" for inner in part["thinking"]]
        return "".join(texts), "".join(thoughts)
    if isinstance(content, dict):
        return json.dumps(content, ensure_ascii=False, separators=(",", ":")), ""
    return content or "", ""


def rows(source: str) -> Iterator[Any]:
    path = TRAFFIC / f"{source}.jsonl.gz"
    if path.exists():
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            yield from (row for row in map(json.loads, lines) if row["format"] == FORMAT)
