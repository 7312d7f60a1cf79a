"""Recorded answers of model APIs, one JSON object a line, read through the adapters in random pieces."""

import random
import sys
from collections.abc import Iterator
from typing import Final

import msgspec

from backstay.logic.stored_content import make_durable
from backstay.ports import ModelReply
from backstay.providers.format import Format
from backstay.providers.http.response import HttpAnswer
from backstay.providers.registry import load_format
from backstay.vocab.errors import ProviderError
from backstay.vocab.messages import DurablePart, ToolCall
from backstay.vocab.specs import Usage
from backstay.wire.write_json import json_line

_SIZES: Final = (3, 40, 600)
"""Average lengths of the pieces of a body; one is drawn for each body."""
_FEWEST_BYTES: Final = 100
"""The least average length of the pieces of a long body, so that thousands of lines are read in a second."""
_SMALL: Final = 48
"""Pieces that even a short body may be cut into."""


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded answer: the body as text, or the events of a stream as JSON objects."""

    id: msgspec.Raw = msgspec.Raw(b"null")
    status: int | None = None
    content_type: str | None = None
    body: str | None = None
    chunks: list[msgspec.Raw] | None = None
    retry_after: str | float | None = None


class _ReadMessage(msgspec.Struct, frozen=True, kw_only=True):
    content: tuple[DurablePart, ...]
    role: str = "assistant"


class _ReadAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that was read."""

    id: msgspec.Raw
    message: _ReadMessage
    usage: Usage | None
    stop: str
    model: str
    notes: tuple[str, ...]


class _ReadFailure(msgspec.Struct, frozen=True, kw_only=True):
    id: msgspec.Raw
    error: dict[str, object]


def decode_lines(format_name: str, seed: int) -> int:
    """Answer each line of standard input with a line, in order."""
    format = load_format(format_name)
    out = sys.stdout
    for number, line in enumerate(sys.stdin.buffer):
        if line.strip():
            out.write(decode_line(format, line, random.Random(seed * 1_000_003 + number)).decode() + "\n")
            out.flush()  # a sender may wait for each answer
    return 0


def decode_line(format: Format, line: bytes, chance: random.Random) -> bytes:
    """Read one line through the adapter; a line that is no recording is answered with an error."""
    try:
        recording = _lines.decode(line)
        body = _body(recording, format.name)
    except ValueError as exc:  # not JSON, or not what a line must have
        return _encode(
            _failure(_id_of(line), ProviderError("bad_request", f"This line is not a recorded answer: {exc}"))
        )
    try:
        return _encode(_success(recording.id, _read(format, recording, body, chance)))
    except ProviderError as exc:
        return _encode(_failure(recording.id, exc))
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as exc:
        # a broken adapter is reported in a line of its own, and the other lines are still read
        problem = ProviderError("unknown", f"The adapter failed with {type(exc).__name__}: {exc}")
        return _encode(_failure(recording.id, problem))


def _read(format: Format, recording: Recording, body: bytes, chance: random.Random) -> ModelReply:
    status = 200 if recording.status is None else recording.status
    content_type = recording.content_type or ""
    if not 200 <= status < 300:
        headers = {"content-type": content_type}
        if recording.retry_after is not None:
            headers["retry-after"] = str(recording.retry_after)
        raise format.failure(status, headers, body)
    answer = HttpAnswer(format, content_type)
    for piece in _pieces(body, chance):
        answer.feed(piece)
    answer.close()
    return answer.reply()


def _body(recording: Recording, format_name: str) -> bytes:
    if recording.body is not None:
        return recording.body.encode()
    if recording.chunks is None:
        raise ValueError("it has neither a body nor chunks")
    frames = [_frame(bytes(chunk)) for chunk in recording.chunks]
    if format_name == "openai-chat" and not any(b"[DONE]" in frame for frame in frames[-1:]):
        frames.append(b"data: [DONE]\n\n")
    return b"".join(frames)


def _frame(chunk: bytes) -> bytes:
    """Return one event as a server sends it, named by its type where it has one."""
    if chunk.startswith(b'"'):
        return b"data: " + msgspec.json.decode(chunk, type=str).encode() + b"\n\n"
    name = msgspec.json.decode(chunk, type=_Typed).type
    event = f"event: {name}\n".encode() if isinstance(name, str) else b""
    return event + b"data: " + chunk.replace(b"\n", b" ").replace(b"\r", b" ") + b"\n\n"


class _Typed(msgspec.Struct, frozen=True):
    type: object = None


def _pieces(body: bytes, chance: random.Random) -> Iterator[bytes]:
    count = min(len(body) // chance.choice(_SIZES), _SMALL + len(body) // _FEWEST_BYTES)
    cuts = sorted([int(chance.random() * len(body)) for _ in range(count)])
    at = 0
    for cut in (*cuts, len(body)):
        if cut > at:
            yield body[at:cut]
            at = cut


def _success(id: msgspec.Raw, reply: ModelReply) -> _ReadAnswer:
    content, _ = make_durable(reply.parts)
    said = _ReadMessage(content=tuple(_with_id(part, number) for number, part in enumerate(content, start=1)))
    return _ReadAnswer(id=id, message=said, usage=reply.usage, stop=reply.stop, model=reply.model, notes=reply.notes)


def _with_id(part: DurablePart, number: int) -> DurablePart:
    """Return a call with the provider's id: in a session it would have one of ours."""
    if isinstance(part, ToolCall) and not part.id:
        return msgspec.structs.replace(part, id=part.provider_id or f"call-{number}")
    return part


def _failure(id: msgspec.Raw, problem: ProviderError) -> _ReadFailure:
    error: dict[str, object] = {"kind": problem.kind, "message": str(problem)}
    if problem.retry_after_s is not None:
        error["retry_after_s"] = problem.retry_after_s
    return _ReadFailure(id=id, error=error)


def _id_of(line: bytes) -> msgspec.Raw:
    try:
        return msgspec.json.decode(line, type=_WithId).id
    except ValueError:
        return _NO_ID


_NO_ID: Final = msgspec.Raw(b"null")


class _WithId(msgspec.Struct, frozen=True):
    id: msgspec.Raw = _NO_ID


_lines: Final = msgspec.json.Decoder(Recording)


def _encode(content: _ReadAnswer | _ReadFailure) -> bytes:
    try:
        return json_line(content)
    except UnicodeEncodeError as exc:
        problem = ProviderError("unknown", f"The answer has text that cannot be written: {exc.reason}.")
        return json_line(_failure(content.id, problem))
