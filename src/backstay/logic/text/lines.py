"""Texts of any length on one short line."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from backstay.logic.secrets.redact import Redactor
from backstay.logic.text.invisible import shown, visible


def one_line(text: str, most: int) -> str:
    """Return a stranger's `text` on one line of at most `most` characters, without what a person would not see."""
    return shortened(visible(text[: 4 * most]), most)


def shortened(text: str, most: int) -> str:
    """Return `text` on one line of at most `most` characters. Of a long one only the beginning is looked at."""
    flat = " ".join(text[: 4 * most].split())
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"


def pluralise(number: int, one: str, many: str = "") -> str:
    """`1 reply`, `2 replies`: a number and the word for so many; `many` is `one` with an s when it is left out."""
    return f"{number} {one if number == 1 else many or one + 's'}"


MOST_NOTES: Final = 10
"""Notes that a person is told at the beginning of a run."""
LONGEST: Final = 240
"""Characters of a note."""
_WAITS: Final = re.compile(r"the workspace is not trusted|waits for trust\.$")


def note(text: str) -> str:
    """`text` as one short line without secrets."""
    return shortened(shown(Redactor().text(text)), LONGEST)


def told(notes: Sequence[str], *, trusted: bool = True) -> Iterator[str]:
    """The first of `notes`, and where the rest can be seen.

    What only waits for trust is left out where the workspace is not trusted: one line says that of everything at once.
    """
    different = [each for each in dict.fromkeys(notes) if trusted or not _WAITS.search(each)]
    yield from map(note, different[:MOST_NOTES])
    if len(different) > MOST_NOTES:
        yield f"and {len(different) - MOST_NOTES} more: backstay doctor"


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


def one_line_excerpt(text: str) -> str:
    """`text` on one line, of at most 200 characters."""
    return shortened(text, 200)


def sized(text: Excerpt) -> str:
    """How long a text is, and how much of it is not there."""
    if text.left_out:
        return f" ({text.left_out:,} of {text.chars:,} characters left out)"
    return f" ({text.chars:,} characters)" if text.chars != 1 else " (1 character)"
