"""The native stream: one JSON object a line, for people who follow a session from outside.

    event      {"seq","id","type":"session:tool_started","session","at","by","cause","data"}
    delta      {"type":"session:text_delta","session","after","n","data"}
    lifecycle  {"type":"session:lifecycle","session","after","data":{"notice","state","outcome"?}}
    lagged     {"type":"session:lagged","session","after","data":{"missed"}}
    command    {"type":"session:command_result","session","after","data":{"command","success","message","data"}}

Only events have a `seq`. Unlike the stored line, `at` is a text, `cause` is there when it is empty too, and there is no
`v`: what is streamed always has the current shape.
"""

from datetime import datetime, timedelta
from typing import Any, Final, TypeVar, assert_never

import msgspec

from backstay.vocab.deltas import DELTAS, CommandResult, Delta, Lagged, Notice
from backstay.vocab.errors import NeedsUpgrade, UserError
from backstay.vocab.event import By, Recorded
from backstay.vocab.messages import EPOCH, iso
from backstay.wire.codec import EVENT_NAMED, NAME_OF
from backstay.wire.write_json import unbroken

PREFIX: Final = "session:"
LIFECYCLE: Final = "session:lifecycle"
LAGGED: Final = "session:lagged"
COMMAND_RESULT: Final = "session:command_result"

Item = Recorded | Delta | Notice | Lagged | CommandResult
"""What a subscriber sees."""


def line(session: str, item: Item) -> bytes:
    """Encode any item as a line of JSON, without the line end."""
    match item:
        case Recorded():
            return unbroken(event_line(session, item))
        case Delta():
            return unbroken(delta_line(session, item))
        case Notice():
            return notice_line(session, item)
        case Lagged():
            return line_of_lag(session, item)
        case CommandResult():
            return unbroken(command_line(session, item))
        case _:
            assert_never(item)


def event_line(session: str, record: Recorded) -> bytes:
    """Encode an event as a line of the stream."""
    event = record.event
    body = _EventLine(
        seq=record.seq,
        id=record.id,
        type=PREFIX + NAME_OF[type(event)],
        session=session,
        at=iso(record.at),
        by=record.by,
        cause=record.cause,
        data=event,
    )
    return _encoder.encode(body)


def delta_line(session: str, delta: Delta) -> bytes:
    """Encode a fragment as a line of the stream; its place stands beside its content, not inside."""
    kind = type(delta)
    content = {name: getattr(delta, name) for name in kind.__struct_fields__ if name not in _PLACE}
    body = _DeltaLine(type=PREFIX + NAME_OF[kind], session=session, after=delta.after, n=delta.n, data=content)
    return _encoder.encode(body)


def notice_line(session: str, notice: Notice) -> bytes:
    """Encode a point of the lifecycle as a line of the stream."""
    content: dict[str, object] = {"notice": notice.notice, "state": notice.state}
    if notice.outcome:
        content["outcome"] = notice.outcome
    return _encoder.encode(_MarkLine(type=LIFECYCLE, session=session, after=notice.after, data=content))


def line_of_lag(session: str, lagged: Lagged) -> bytes:
    """Encode the notice to a slow subscriber as a line of the stream."""
    return _encoder.encode(_MarkLine(type=LAGGED, session=session, after=lagged.after, data={"missed": lagged.missed}))


def parse_line(line: bytes | str) -> tuple[str, Item]:
    """Return the session and the item of a line.

    Raise `NeedsUpgrade` for a type that a newer Backstay sent, `UserError` for anything that is not such a line.
    """
    try:
        head = _head_decoder.decode(line)
        return head.session, _item(head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise UserError(
            f"{line[:80]!r} is not a line of the native stream: {exc}. Give one JSON object a line."
        ) from exc


def micros(text: str) -> int:
    """Parse the format of `iso`: return microseconds since 1970. Raise `UserError` for a text without a zone or a date."""
    try:
        moment = datetime.fromisoformat(text)
        return (moment - EPOCH) // timedelta(microseconds=1)
    except (ValueError, TypeError) as exc:
        raise UserError(f"{text!r} is not a time. Write it like '2026-03-01T12:00:00.000000Z'.") from exc


class _EventLine(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    id: str
    type: str
    session: str
    at: str
    by: By
    cause: str
    data: Any  # one of EVENTS; encoded by its own type


class _DeltaLine(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    session: str
    after: int
    n: int
    data: dict[str, object]


class _MarkLine(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    session: str
    after: int
    data: dict[str, object]


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    """Every line, before its type is known."""

    type: str
    session: str
    data: msgspec.Raw
    seq: int = 0
    id: str = ""
    at: str = ""
    by: By = "system"
    cause: str = ""
    after: int = 0
    n: int = 0


_T = TypeVar("_T")
_PLACE: Final = ("after", "n")


def command_line(session: str, result: CommandResult) -> bytes:
    """Encode the result of a command as a line of the stream."""
    content = {name: getattr(result, name) for name in CommandResult.__struct_fields__ if name not in _PLACE}
    return _encoder.encode(_MarkLine(type=COMMAND_RESULT, session=session, after=result.after, data=content))


_encoder: Final = msgspec.json.Encoder()
_head_decoder: Final = msgspec.json.Decoder(_Head)
_DELTA_NAMED: Final = {NAME_OF[cls]: cls for cls in DELTAS}


def _item(head: _Head) -> Item:
    name = head.type.removeprefix(PREFIX)
    if head.type == LIFECYCLE:
        return _decode_item(head, Notice, after=head.after)
    if head.type == LAGGED:
        return _decode_item(head, Lagged, after=head.after)
    if head.type == COMMAND_RESULT:
        return _decode_item(head, CommandResult, after=head.after)
    if name in _DELTA_NAMED:
        return _decode_item(head, _DELTA_NAMED[name], after=head.after, n=head.n)
    if name not in EVENT_NAMED:
        raise NeedsUpgrade(
            f"The type {head.type!r} is unknown here. A newer Backstay sent it: upgrade to follow this session."
        )
    if head.seq < 1 or not head.id:
        raise msgspec.ValidationError("An event needs a `seq` and an `id`")
    event = msgspec.json.decode(head.data, type=EVENT_NAMED[name])
    return Recorded(seq=head.seq, id=head.id, at=micros(head.at), by=head.by, cause=head.cause, event=event)


def _decode_item(head: _Head, kind: type[_T], **place: int) -> _T:
    content = msgspec.json.decode(head.data, type=dict[str, object])
    return msgspec.convert(content | place, kind)
