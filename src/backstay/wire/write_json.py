"""Write JSON on one line, or an object field by field: without secrets, and without characters that other readers take for line ends."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from backstay.logic.secrets.redact import PLAIN, Redactor

_BREAKS: Final = re.compile(rb"\xe2\x80[\xa8\xa9]|\xc2\x85")
"""U+2028, U+2029 and U+0085 in UTF-8."""


def unbroken(line: bytes) -> bytes:
    """Escape the separators of lines and paragraphs in a line of JSON."""
    return _BREAKS.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), line)


def json_line(content: Any) -> bytes:  # Any: all that msgspec can encode
    """Encode `content` as JSON on one line, without the line end."""
    return unbroken(msgspec.json.encode(content))


def json_pieces(fields: Mapping[str, object], *, indented: bool, redactor: Redactor = PLAIN) -> Iterator[bytes]:
    """Yield the object with these fields, without secrets. An iterator is written as a list, an item at a time."""
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
    line = json_line(redactor.field(key, msgspec.to_builtins(value, order="deterministic")))
    return msgspec.json.format(line, indent=2).replace(b"\n", b"\n" + _indent(depth, indented)) if indented else line


def _indent(depth: int, indented: bool) -> bytes:
    return b"  " * depth if indented else b""
