"""The escapes of `$'...'`, and the same in `printf` and `echo -e`."""

import re
from typing import Final

_ESCAPE: Final = re.compile(
    r"\\(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8}|[0-7]{1,3}|c.|.)",
    re.DOTALL,
)
_BYTE: Final = re.compile("[\udc80-\udcff]")
_LETTERS: Final = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
}  # fmt: skip


def unescape(text: str) -> str:
    """Give what the shell makes of the inside of `$'...'`."""
    if "\\" not in text:
        return text
    done = _ESCAPE.sub(_replace, text)
    return done.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape") if _BYTE.search(done) else done


def _replace(found: re.Match[str]) -> str:
    body = found[1]
    first = body[0]
    if first in "xuU" and len(body) > 1:
        number = int(body[1:], 16)
        if first == "x":
            return _byte(number)
        return "\0" if number >= 0x110000 or 0xD800 <= number < 0xE000 else chr(number)
    if first in "01234567":
        return _byte(int(body, 8) & 0xFF)
    if first == "c" and len(body) > 1:
        return chr(ord(body[1].upper()) ^ 0x40)
    if body in _LETTERS:
        return _LETTERS[body]
    return body if body in "\\'\"?" else "\\" + body


def _byte(number: int) -> str:
    """A byte above ASCII is a part of a character: it stands in as a surrogate until its neighbours are there."""
    return chr(number if number < 0x80 else 0xDC00 + number)
