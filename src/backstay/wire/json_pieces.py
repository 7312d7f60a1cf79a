"""A large JSON object, written piece by piece."""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from backstay.logic.field_names import changed_names
from backstay.logic.redact import PLAIN, Redactor
from backstay.wire.unbroken import json_line


def json_pieces(fields: Mapping[str, object], *, indented: bool, redactor: Redactor = PLAIN) -> Iterator[bytes]:
    """The object with these fields, without secrets. An iterator is written as a list, an item at a time."""
    end = b"\n" if indented else b""
    yield b"{"
    for number, (key, value) in enumerate(fields.items()):
        yield (b"," if number else b"") + end + _indent(1, indented) + json_line(key) + (b": " if indented else b":")
        if isinstance(value, Iterator):
            yield from _list(value, key, end, redactor, indented=indented)
        else:
            yield _value(key, value, 1, redactor, indented=indented)
    yield end + b"}"


def _list(items: Iterable[object], key: str, end: bytes, redactor: Redactor, *, indented: bool) -> Iterator[bytes]:
    empty = True
    for item in items:
        yield (b"[" if empty else b",") + end + _indent(2, indented) + _value(key, item, 2, redactor, indented=indented)
        empty = False
    yield b"[]" if empty else end + _indent(1, indented) + b"]"


def _value(key: str, value: object, depth: int, redactor: Redactor, *, indented: bool) -> bytes:
    clean = redactor.value({key: msgspec.to_builtins(value, order="deterministic")})
    assert isinstance(clean, dict)
    line = json_line(changed_names(clean[key], redactor.text))
    return msgspec.json.format(line, indent=2).replace(b"\n", b"\n" + _indent(depth, indented)) if indented else line


def _indent(depth: int, indented: bool) -> bytes:
    return b"  " * depth if indented else b""
