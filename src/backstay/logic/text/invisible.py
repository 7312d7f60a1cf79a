"""Characters that nobody sees, in two classes: hidden from people while a model reads them, and obeyed by terminals.

`HIDDEN` is for what a model is to read: a person who looked at the text saw none of it. `OBEYED` is for what a person is to read: it
moves the cursor, changes colours or turns the direction of the text around it. Controls and changes of direction are in both.

Joiners and selectors of variants belong to some scripts and to emoji. They count as hidden where they cannot have that sense: a joiner
behind anything but an emoji or a letter of a script that joins, a selector behind a Latin letter or behind another selector.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

_TURNING: Final = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Changes of the direction of writing."""
_BREAKING: Final = "\u2028\u2029"
"""Ends of lines that are none to most programs."""
_BLANK: Final = (
    "\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065\u206a-\u206f\u2800\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Fillers, blanks without width, tags and what else has no picture of its own: `Default_Ignorable_Code_Point` and some more."""
_HALVES: Final = "\ud800-\udfff"
_CONTROLS: Final = "\x00-\x08\x0b-\x1f\x7f-\x9f"
"""All control characters but tab and line feed."""
_JOINERS: Final = "\u200c\u200d"
_SELECTORS: Final = "\ufe00-\ufe0f"
_JOINING: Final = (
    "\u0590-\u061b\u061d-\u109f\u1200-\u13ff\u1700-\u17b3\u17b6-\u180a\u1810-\u1c7f\u1cd0-\u1cff\u2190-\u27bf\u2b00-\u2bff\u3030\u303d"
    "\u3297\u3299\ua800-\uabff\ufb1d-\ufdff\ufe0f\U00010a00-\U00010fff\U00011000-\U00011fff\U0001e900-\U0001e95f\U0001f000-\U0001faff"
)
"""Emoji, their selector, and scripts whose letters join: what a joiner may follow."""
_KEYS: Final = f"^\x00-\x22\x24-\x29\x2b-\x2f\x3a-\x7f{_JOINERS}{_SELECTORS}"
"""What a selector may follow: no ASCII but `#`, `*` and digits, which are the keys of telephones."""
_AT_HOME: Final = f"(?<![{_JOINING}][{_JOINERS}])(?<![{_KEYS}][{_SELECTORS}])"
"""Behind a character: not when it is a joiner or a selector where it belongs."""

INVISIBLE: Final = f"{_CONTROLS}{_TURNING}{_BREAKING}{_BLANK}{_HALVES}{_JOINERS}{_SELECTORS}"
"""All that may be hidden, for a class of characters in a pattern."""
HIDDEN: Final = re.compile(f"[{INVISIBLE}]{_AT_HOME}")
"""What a person does not see and a model reads."""
OBEYED: Final = re.compile(f"[\t\n{_CONTROLS}{_TURNING}{_BREAKING}]")
"""What a terminal obeys instead of showing it, tab and line feed too."""
_EITHER: Final = re.compile(f"[\t\n{INVISIBLE}]{_AT_HOME}")


def visible(text: str) -> str:
    """Return `text` as a person would see it, with one kind of line end."""
    return HIDDEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def shown(text: str, *, keep: str = "\t\n", mark: Callable[[str], str] = str) -> str:
    """Return `text` with a sign in place of every character of either class, but those of `keep`. `mark` dresses the sign."""
    return _EITHER.sub(lambda found: found[0] if found[0] in keep else mark(sign_of(found[0])), text)


def sign_of(character: str) -> str:
    """Return what stands for a character that cannot be seen: the picture of a control character, or its number as `<U+202E>`."""
    number = ord(character)
    if number < 0x20:
        return chr(0x2400 + number)
    return "\N{SYMBOL FOR DELETE}" if number == 0x7F else f"<U+{number:04X}>"


class Seen(NamedTuple):
    """A text as a person sees it."""

    text: str
    left_out: int
    line: int
    """Where the first that was left out stood, from 1 on; 0 when nothing was."""


def seen(text: str) -> Seen:
    """Return `text` without what nobody sees. Line ends must be plain ones."""
    first = HIDDEN.search(text)
    if first is None:
        return Seen(text, 0, 0)
    kept = HIDDEN.sub("", text)
    return Seen(kept, len(text) - len(kept), text.count("\n", 0, first.start()) + 1)
