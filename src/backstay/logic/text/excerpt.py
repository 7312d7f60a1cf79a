"""Texts of strangers on their way to a page: what cannot be seen is marked, and what is long is cut in the middle."""

from collections.abc import Callable

from msgspec import Struct

from backstay.logic.text.invisible import shown
from backstay.logic.text.lines import shortened

HEAD, TAIL = 3_000, 1_000
"""Characters at the beginning and at the end that are left of a long text."""


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


def seen(text: str, mark: Callable[[str], str] = str) -> str:
    """`text` with a sign in place of everything that nobody would see; `mark` makes what stands there of the sign."""
    return shown(text.replace("\r\n", "\n"), mark=mark)


def one_line(text: str) -> str:
    """`text` on one line, of at most 200 characters."""
    return shortened(text, 200)


def sized(text: Excerpt) -> str:
    """How long a text is, and how much of it is not there."""
    if text.left_out:
        return f" ({text.left_out:,} of {text.chars:,} characters left out)"
    return f" ({text.chars:,} characters)" if text.chars != 1 else " (1 character)"
