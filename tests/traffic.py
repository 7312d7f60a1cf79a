"""What our wire formats make of recorded traffic: `python -m tests.traffic [--splits 100] [--cases FOLDER]`.

Each answer is read whole and then again from pieces cut at random bytes, also inside characters; each request is read into our messages and
written again, and compared after the normaliser of its format (`tests/providers/*/reading.py`). A stream is also fed a
byte at a time, and must not look finished before its provider's last word. Prints what was tried and what failed.
"""

import argparse
import gzip
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from backstay.ports import ModelRequest
from backstay.providers import anthropic, google, openai_chat, openai_responses
from backstay.providers.format import Format
from backstay.providers.http.response import HttpAnswer
from backstay.vocab.errors import ProviderError
from backstay.vocab.specs import ModelFacts
from tests.providers.anthropic import reading as read_anthropic
from tests.providers.anthropic import test_recordings as test_anthropic
from tests.providers.google import reading as read_google
from tests.providers.openai_chat import reading as read_chat
from tests.providers.openai_responses import reading as read_responses

CASES: Final = Path(__file__).parents[2] / "shared" / "cases" / "traffic"
FORMATS: Final[dict[str, Format]] = {
    "anthropic": anthropic.FORMAT,
    "openai-responses": openai_responses.FORMAT,
    "openai-chat": openai_chat.FORMAT,
    "google": google.FORMAT,
}
FACTS: Final[dict[str, ModelFacts]] = {"anthropic": test_anthropic.ABLE, "google": read_google.FACTS}
"""What the models of the recordings can do, where a request shows it."""
PROVIDERS: Final[dict[str, str]] = {"openai-responses": "openai", "openai-chat": read_chat.PROVIDER}
"""Who wrote the opaque state in the recordings, where it is not called like its format."""
OTHER: Final = ("batchGenerateContent", "/input_tokens", "/count_tokens")
"""Ends of paths that are no question to a model."""
Row = dict[str, Any]  # Any: recorded JSON
Outcome = tuple[str, object]


def main() -> int:
    """Run it and say how it went."""
    parser = argparse.ArgumentParser(prog="python -m tests.traffic", description=__doc__)
    parser.add_argument("--splits", type=int, default=100)
    parser.add_argument("--cases", type=Path, default=CASES)
    given = parser.parse_args()
    tried: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for row in rows(given.cases):
        for what, problem in look(row, given.splits):
            tried[f"{row['format']:18} {what}"] += 1
            if problem:
                failed[f"{row['format']:18} {what}"] += 1
                print(f"{row['id']}: {what}: {problem[:300]}", file=sys.stderr)
    for name, count in sorted(tried.items()):
        print(f"{name:45} tried {count:5}   failed {failed[name]:3}")
    return 1 if failed else 0


def rows(folder: Path) -> Iterator[Row]:
    """Every recording."""
    for path in sorted(folder.glob("*.jsonl.gz")):
        with gzip.open(path, "rb") as lines:
            yield from (msgspec.json.decode(line) for line in lines)


def look(row: Row, splits: int) -> Iterator[tuple[str, str]]:
    """What was tried with one recording, and what was wrong; empty when nothing was."""
    if row.get("path", "").endswith(OTHER):
        yield "other endpoint, passed over", ""
        return
    format = FORMATS[row["format"]]
    body, status = body_of(row), row.get("status") or 200
    if status != 200:
        yield f"status {status} is {format.failure(status, {}, body).kind}", ""
    else:
        whole = read(format, row.get("content_type") or "text/event-stream", [body])
        ended = f"as {whole[1]}" if whole[0] == "error" else "finished"
        yield f"answers, {ended}", split_problem(format, row, body, whole, splits)
        if whole[0] == "reply" and body.lstrip()[:1] not in (b"{", b"["):
            yield "streams, cut at every byte", cut_problem(format, row, body)
    if isinstance(row.get("request"), dict):
        yield "requests", request_problem(format, row)


def body_of(row: Row) -> bytes:
    """The bytes of an answer; a list of chunks is framed as a stream."""
    if "chunks" not in row:
        return bytes(row["body"], "utf-8")
    frames = (
        (b"event: " + str(chunk["type"]).encode() + b"\n" if row["format"] == "anthropic" and "type" in chunk else b"")
        + b"data: "
        + msgspec.json.encode(chunk)
        + b"\n\n"
        for chunk in row["chunks"]
    )
    return b"".join(frames) + (b"data: [DONE]\n\n" if row["format"] == "openai-chat" else b"")


def read(format: Format, content_type: str, pieces: list[bytes]) -> Outcome:
    """What the pieces of an answer come to."""
    answer = HttpAnswer(format, content_type)
    try:
        for piece in pieces:
            answer.feed(piece)
        answer.close()
        return "reply", answer.reply()
    except ProviderError as exc:
        return "error", exc.kind


def split_problem(format: Format, row: Row, body: bytes, whole: Outcome, splits: int) -> str:
    for seed in range(splits):
        chance = random.Random(f"{row['id']}/{seed}")
        cuts = sorted(chance.randrange(len(body) + 1) for _ in range(chance.randrange(1, 30)))
        pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
        found = read(format, row.get("content_type") or "text/event-stream", pieces)
        if found != whole:
            return f"split {seed} reads as {found!r:.200}, whole as {whole!r:.200}"
    return ""


TERMINAL: Final[dict[str, bytes]] = {
    "anthropic": rb'"type":\s*"message_stop"',
    "openai-responses": rb'"type":\s*"response\.(?:completed|incomplete)"',
    "openai-chat": rb"data:\s*\[DONE\]|\"finish_reason\":\s*\"[a-z_]+\".*\"time_info\"",
    "google": rb'"finishReason":\s*"[A-Z_]+"',
}
"""What each provider's last word looks like, in the bytes."""


def cut_problem(format: Format, row: Row, body: bytes) -> str:
    """Why a stream that is cut before the last byte of its terminal event looks finished; empty when it never does.

    Fed a byte at a time: what it would come to is looked at whenever an event is complete, because nothing changes in between.
    """
    answer = HttpAnswer(format, row.get("content_type") or "text/event-stream")
    for end in range(1, len(body) + 1):
        before = answer.payloads
        answer.feed(body[end - 1 : end])
        if answer.payloads == before or not answer.is_finished():
            continue
        frame = body[:end].rstrip()
        start = max(frame.rfind(b"\n\n"), frame.rfind(b"\r\n\r\n"), 0)
        said = re.search(TERMINAL[row["format"]], body[start:end], re.DOTALL)
        return "" if said else f"finished at byte {end} of {len(body)}: {body[max(0, end - 120) : end]!r}"
    return "never finished"


def request_problem(format: Format, row: Row) -> str:
    """Why a request cannot be said in our messages and written again; empty when it can."""
    native = row["request"]
    normalise: Callable[[Any], Any]
    facts = FACTS.get(row["format"], ModelFacts())
    try:
        request: ModelRequest
        if row["format"] == "google":
            request, normalise = read_google.read_request(row["path"], native), read_google.normalise
        elif row["format"] == "openai-responses":
            (request, facts), normalise = read_responses.read_request(native), read_responses.normalise
        elif row["format"] == "anthropic":
            request, normalise = read_anthropic.read_request(native), read_anthropic.normalise
        else:
            request, normalise = read_chat.read_request(native), read_chat.normalise
        provider: str = PROVIDERS.get(format.name, format.name)
        written = msgspec.json.decode(format.encoder(provider, facts).encode(request).body)
    except (KeyError, TypeError, ValueError, ProviderError) as exc:
        return f"{type(exc).__name__}: {exc}"
    ours, theirs = normalise(written), normalise(native)
    return (
        ""
        if ours == theirs
        else f"ours {msgspec.json.encode(ours).decode()} theirs {msgspec.json.encode(theirs).decode()}"
    )


if __name__ == "__main__":
    sys.exit(main())
