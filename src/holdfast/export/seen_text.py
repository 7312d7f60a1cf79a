"""Texts of strangers on their way to a page: what cannot be seen is marked, and what is long is cut in the middle."""

import re
from collections.abc import Callable
from typing import Final

from msgspec import Struct

HEAD, TAIL = 3_000, 1_000
"""Characters at the beginning and at the end that are left of a long text."""
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2061-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Control characters, those that turn the direction of writing, separators of lines that are none, halves of characters, tags."""


class Excerpt(Struct, frozen=True, kw_only=True):
    """A text, or its beginning and its end."""

    text: str
    chars: int
    """Characters of the whole."""
    left_out: int = 0


def excerpt(text: str, head: int = HEAD, tail: int = TAIL) -> Excerpt:
    """`text`, cut in the middle when that makes it shorter."""
    left_out = len(text) - head - tail
    if left_out <= 100:
        return Excerpt(text=text, chars=len(text))
    shown = f"{text[:head]}\n[… {left_out:,} characters left out …]\n{text[len(text) - tail :]}"
    return Excerpt(text=shown, chars=len(text), left_out=left_out)


def seen(text: str, mark: Callable[[str], str] | None = None) -> str:
    """`text` with a sign in place of everything that nobody would see; `mark` makes what stands there of the sign."""

    def sign(found: re.Match[str]) -> str:
        name = sign_of(found[0])
        return f"[{name}]" if mark is None and len(name) > 1 else name if mark is None else mark(name)

    return _UNSEEN.sub(sign, text.replace("\r\n", "\n"))


def sign_of(character: str) -> str:
    """What stands for a character that cannot be seen: the picture of a control character, or its number."""
    number = ord(character)
    return chr(0x2400 + number) if number < 0x20 else "␡" if number == 0x7F else f"U+{number:04X}"


def one_line(text: str) -> str:
    """`text` on one line, of at most 200 characters."""
    flat = " ".join(text[:1_000].split())
    return flat if len(flat) <= 200 else f"{flat[:199]}…"


def sized(text: Excerpt) -> str:
    """How long a text is, and how much of it is not there."""
    if text.left_out:
        return f" ({text.left_out:,} of {text.chars:,} characters left out)"
    return f" ({text.chars:,} characters)" if text.chars != 1 else " (1 character)"
