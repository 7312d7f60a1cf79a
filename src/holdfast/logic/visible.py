"""Text of models, tools and files as a person is shown it: a sign stands for whatever a terminal would obey or not show."""

import re
from typing import Final

_HIDDEN: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Controls, changes of direction, separators, blanks without width, fillers, tags. Scripts and emoji need joiners, so they stay."""


def visible(text: str, *, keep: str = "\n\t") -> str:
    """Return `text` with a sign for each character that a terminal would obey or not show, except those of `keep`.

    A control character becomes its picture (`␛`), any other its number (`<U+202E>`). Each character is looked at alone, so pieces of a
    stream may be given one by one.
    """
    return _HIDDEN.sub(lambda found: found[0] if found[0] in keep else _sign(ord(found[0])), text)


def _sign(number: int) -> str:
    if number < 0x20:
        return chr(0x2400 + number)
    return "␡" if number == 0x7F else f"<U+{number:04X}>"
