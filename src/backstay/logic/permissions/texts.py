"""Patterns over plain text: the names of agents and skills, the arguments of tools that nobody knows."""

import re
from typing import Final

from backstay.logic.permissions.wildcards import star_match

_BLANK: Final = re.compile(r"\s")


def matches_text(pattern: str, text: str, *, folds: bool = False) -> bool:
    """Whether a text matches. `*` stands for any characters; a final ` *` or `:*` is a word boundary that the bare prefix matches too.

    With `folds` capitals do not matter, and a final `:*` is also what it says: the names of a plugin begin with its own and a colon.
    """
    if folds:
        pattern, text = pattern.casefold(), text.casefold()
        if pattern.endswith(":*") and star_match(tuple(pattern.split("*")), text):
            return True
    if not pattern.endswith((" *", ":*")):
        return star_match(tuple(pattern.split("*")), text)
    *head, last = pattern[:-2].split("*")
    spaced = _BLANK.sub(" ", text)
    return star_match((*head, last), text) or star_match((*head, f"{last} ", ""), spaced)
