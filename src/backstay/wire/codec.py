"""Wire names of events, and events in their envelopes to JSON and back.

The line is `{"seq","id","at","by","cause"?,"type","v","data"}`. `v` stands outside the body, so that an old body is recognised before it
is decoded; the current version decodes directly.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec

from backstay.vocab import events
from backstay.vocab.deltas import DELTAS
from backstay.vocab.errors import Bug, LogDamaged, NeedsUpgrade, SeqConflict
from backstay.vocab.event import By, Event, Recorded
from backstay.vocab.specs import Trouble
from backstay.wire.upcast import Raw, upcast


def _snake(name: str) -> str:
    """Return a name in snake case: `ToolStarted` -> `tool_started`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


NAME_OF: Final[dict[type, str]] = {cls: _snake(cls.__name__) for cls in (*events.EVENTS, *DELTAS)}
"""The wire names of events and deltas: the snake-case names of their classes."""
EVENT_NAMED: Final[dict[str, type[Event]]] = {NAME_OF[cls]: cls for cls in events.EVENTS}


class _Line(msgspec.Struct, frozen=True, omit_defaults=True):
    seq: int
    id: str
    at: int
    by: By
    type: str
    v: int
    data: msgspec.Raw
    cause: str = ""


_encoder: Final = msgspec.json.Encoder()
_line_decoder: Final = msgspec.json.Decoder(_Line)
_current: Final = {name: (events.VERSIONS[cls], msgspec.json.Decoder(cls)) for name, cls in EVENT_NAMED.items()}


def encode(record: Recorded) -> bytes:
    """Encode one event as a line of JSON, without the line end."""
    event = record.event
    body = msgspec.Raw(_encoder.encode(event))
    kind = type(event)
    return _encoder.encode(
        _Line(record.seq, record.id, record.at, record.by, NAME_OF[kind], events.VERSIONS[kind], body, record.cause)
    )


def decode(line: bytes | memoryview | str) -> Recorded:
    """Decode the event of a line. Raise `NeedsUpgrade` when a newer Backstay wrote it, `LogDamaged` when it is no event."""
    try:
        head = _line_decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise LogDamaged(f"Not an event: {line[:80] if isinstance(line, str) else bytes(line[:80])!r}: {exc}") from exc
    return Recorded(
        seq=head.seq,
        id=head.id,
        at=head.at,
        by=head.by,
        cause=head.cause,
        event=decode_body(head.type, head.v, head.data),
    )


def encode_batch(session: str, expected: int, records: Sequence[Recorded]) -> list[bytes]:
    """Return the lines of events that follow the event `expected`. Raise `SeqConflict` when they are not numbered so."""
    if [record.seq for record in records] != list(range(expected + 1, expected + 1 + len(records))):
        raise SeqConflict(f"Events for session {session!r} must be numbered from {expected + 1} without a gap.")
    try:
        return [encode(record) for record in records]
    except (msgspec.MsgspecError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as exc:
        raise Bug(f"An event of session {session!r} cannot be written down: {exc}. Please report it.") from exc


def decode_batch(rows: Iterable[tuple[int, bytes]], after: int) -> tuple[tuple[Recorded, ...], Trouble | None]:
    """Return the events of lines and their numbers, up to the first that cannot be read or does not follow; and what is wrong there."""
    records: list[Recorded] = []
    try:
        for seq, line in rows:
            record = decode(line)
            if not seq == record.seq == after + 1:
                raise LogDamaged(f"Event {after + 1} is missing: {record.seq} stands at {seq}.")
            records.append(record)
            after = seq
    except (LogDamaged, NeedsUpgrade) as exc:
        kind: Literal["newer", "damaged"] = "newer" if isinstance(exc, NeedsUpgrade) else "damaged"
        return tuple(records), Trouble(kind=kind, detail=str(exc), seq=after)
    return tuple(records), None


def decode_body(name: str, version: int, body: bytes | memoryview | msgspec.Raw) -> Event:
    """Decode the event called `name` from the JSON of its body as `version` wrote it."""
    known = _current.get(name)
    if known is None:
        raise NeedsUpgrade(
            f"The event type {name!r} is unknown here. A newer Backstay wrote it: upgrade to open this session."
        )
    current, decoder = known
    if version > current:
        raise NeedsUpgrade(
            f"{name!r} is version {version}, this Backstay knows {current}. Upgrade to open this session."
        )
    try:
        if version == current:
            return decoder.decode(body)
        raw: Raw = msgspec.json.decode(body, type=dict[str, object])
        return msgspec.convert(upcast(name, version, current, raw), EVENT_NAMED[name])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError) as exc:
        raise LogDamaged(f"The body of a {name!r} event cannot be read: {exc}") from exc
