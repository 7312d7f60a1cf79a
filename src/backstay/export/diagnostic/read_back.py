"""Read a diagnostic log back: its lines, and the conversation that they replay."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, field

from backstay.export.diagnostic.external_payloads import PayloadError, Resolver
from backstay.export.diagnostic.messages import Fields
from backstay.system.files import read_whole
from backstay.vocab.errors import UserError


class DiagnosticLog(Struct, frozen=True, kw_only=True):
    """The readable lines of a diagnostic log, and what is wrong with the others."""

    lines: tuple[Fields, ...]
    problems: tuple[str, ...] = ()


class Replayed(Struct, frozen=True, kw_only=True):
    """The conversation of a diagnostic log."""

    messages: list[Fields] = field(default_factory=list)
    history: list[Fields] = field(default_factory=list)
    """The same as entries: `{"id", "timestamp", "category": "chat", "type", "data"}`."""
    problems: tuple[str, ...] = ()


def read_diagnostic(path: Path) -> DiagnosticLog:
    """Return the lines of the file at `path`. Raise `UserError` only when the file cannot be read."""
    try:
        content = read_whole(path)
    except OSError as exc:
        raise UserError(f"Cannot read {str(path)!r}: {exc.strerror or exc}.") from exc
    return parse_diagnostic(content)


def parse_diagnostic(content: bytes) -> DiagnosticLog:
    """Return the lines of a diagnostic log."""
    lines: list[Fields] = []
    problems: list[str] = []
    pieces = content.split(b"\n")
    for number, piece in enumerate(pieces, start=1):
        if not piece.strip():
            continue
        try:
            line = msgspec.json.decode(piece, type=dict[str, object])
            if not all(isinstance(line.get(key), str) for key in ("timestamp", "sessionId", "event")):
                raise msgspec.ValidationError("it has no timestamp, sessionId or event")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            torn = number == len(pieces)
            problems.append(f"Line {number} is torn off." if torn else f"Line {number} cannot be read: {exc}.")
        else:
            lines.append(line)
    return DiagnosticLog(lines=tuple(lines), problems=tuple(problems))


def replay(lines: Iterable[Fields], resolver: Resolver | None = None) -> Replayed:
    """Return the conversation at the end of `lines`. Without a resolver, messages in payloads are missing."""
    resolver = resolver or Resolver(None)
    messages: list[Fields | None] = []
    problems: list[str] = []
    for number, line in enumerate(lines, start=1):
        if line.get("event") != "history_mutation":
            continue
        length = line.get("length")
        if not isinstance(length, int) or length < 0:
            problems.append(f"Line {number} changes the history without saying how long it is then.")
        elif line.get("mutation") == "truncate":
            del messages[length:]
        else:
            _place(messages, max(0, length - 1), _message(line, number, resolver, problems))
    missing = sum(message is None for message in messages)
    if missing:
        problems.append(f"{missing} of {len(messages)} messages are missing.")
    return _as_replay([message for message in messages if message is not None], problems)


def _place(messages: list[Fields | None], at: int, message: Fields | None) -> None:
    """Put a message at its position, also when those before it are lost."""
    del messages[at:]
    messages += [None] * (at - len(messages))
    messages.append(message)


def _message(line: Fields, number: int, resolver: Resolver, problems: list[str]) -> Fields | None:
    try:
        message = resolver.resolve(line.get("message"))
    except PayloadError as exc:
        problems.append(f"Line {number}: {exc.problem}: {exc}")
        return None
    if isinstance(message, dict) and isinstance(message.get("role"), str):
        return message
    problems.append(f"Line {number} adds something that is not a message.")
    return None


def _as_replay(messages: list[Fields], problems: Sequence[str]) -> Replayed:
    entries = [
        {"id": one.get("id"), "timestamp": one.get("timestamp"), "category": "chat", "type": one["role"], "data": one}
        for one in messages
    ]
    return Replayed(messages=messages, history=entries, problems=tuple(problems))
