"""Files of a project as a person sees them: what is hidden in them was never looked at by whoever trusted a file."""

from typing import NamedTuple

from backstay.logic.text.invisible import HIDDEN


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
