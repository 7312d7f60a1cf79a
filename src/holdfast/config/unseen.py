"""Characters that a person does not see and a model reads: what is hidden in them was never looked at by whoever trusted a file."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
_ALWAYS: Final = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_SOMETIMES: Final = "\u200c\u200d\ufe00-\ufe0f"
_SUSPECT: Final = re.compile(f"[{_ALWAYS}{_SOMETIMES}]")
_UNSEEN: Final = re.compile(f"[{_ALWAYS}]|(?<=[{_SOMETIMES}])[{_SOMETIMES}]+")
"""Controls, changes of direction, blanks without width, fillers, tags, and selectors of variants where one emoji would have none.

Joiners and selectors belong to some scripts and to emoji, one at a time, or a selector before a joiner; a row of them spells something.
"""
_OF_EMOJI: Final = "\ufe0f\u200d"


class Seen(NamedTuple):
    """A text as a person sees it."""

    text: str
    left_out: int
    line: int
    """Where the first that was left out stood, from 1 on; 0 when nothing was."""


def seen(text: str) -> Seen:
    """`text` without what nobody sees. Line ends must be plain ones."""
    looked_at = _CONTROLS if text.isascii() else _SUSPECT
    first = next(_found(text), None) if looked_at.search(text) else None
    if first is None:
        return Seen(text, 0, 0)
    left_out = sum(len(each[0]) for each in _found(text))
    kept = _UNSEEN.sub(lambda each: each[0] if _is_of_emoji(text, each) else "", text)
    return Seen(kept, left_out, text.count("\n", 0, first.start()) + 1)


def _found(text: str) -> Iterator[re.Match[str]]:
    return (each for each in _UNSEEN.finditer(text) if not _is_of_emoji(text, each))


def _is_of_emoji(text: str, found: re.Match[str]) -> bool:
    return text[found.start() - 1 : found.end()] == _OF_EMOJI
