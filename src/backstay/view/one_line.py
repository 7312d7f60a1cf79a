"""An item of a session's stream as a person reads it: one line."""

from typing import Final

import msgspec

from backstay.logic.text.lines import shortened
from backstay.vocab.deltas import Delta, Notice
from backstay.vocab.event import Event, Recorded
from backstay.vocab.messages import iso
from backstay.wire.names import NAME_OF
from backstay.wire.stream import Item

WIDTH: Final = 160
_LEFT_OUT: Final = frozenset({"instructions", "tools", "rules", "schema", "type", "usage"})


def one_line(item: Item) -> str:
    """An event, a delta or a notice on one line; empty for what a person need not see."""
    match item:
        case Recorded():
            place = f"{item.seq:>5}  {iso(item.at)[11:23]}  {item.by:<6}"
            return f"{place}  {NAME_OF[type(item.event)]:<20}  {summary(item.event)}".rstrip()
        case Delta():
            return f"    +  {NAME_OF[type(item)]}: {_short(_values(msgspec.to_builtins(item)))}"
        case Notice():
            return f"    *  {item.notice} ({item.state})"
        case _:
            return ""


def summary(event: Event) -> str:
    """What an event says, without what only machines read."""
    return _short(_values(msgspec.to_builtins(event)))


def _values(found: object) -> str:
    match found:
        case dict():
            pairs = [(key, _values(value)) for key, value in found.items() if key not in _LEFT_OUT]
            return " ".join(value if key in ("text", "parts", "content") else f"{key}={value}" for key, value in pairs)
        case list() | tuple():
            return " ".join(map(_values, found))
        case _:
            return str(found)


def _short(text: str) -> str:
    return shortened(text, WIDTH)
