"""Strangers' words on their way to a person: bounded, without secrets, and with nothing in them that a terminal obeys."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from backstay.logic.secrets.redact import Redactor
from backstay.logic.text.invisible import shown
from backstay.logic.text.lines import shortened

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
