"""Patterns over plain text: the names of agents and skills, the arguments of tools that nobody knows."""

import re
from functools import lru_cache


def matches_text(pattern: str, text: str, *, folds: bool = False) -> bool:
    """Whether a text matches. `*` stands for any characters; a final ` *` or `:*` is a word boundary that the bare prefix matches too."""
    return _compiled(pattern, folds).fullmatch(text) is not None


@lru_cache(maxsize=1024)
def _compiled(pattern: str, folds: bool) -> re.Pattern[str]:
    bounded = pattern.endswith((" *", ":*"))
    prefix = pattern[:-2] if bounded else pattern
    body = "".join(".*" if char == "*" else re.escape(char) for char in prefix)
    return re.compile(body + (r"(?:\s.*)?" if bounded else ""), re.DOTALL | (re.IGNORECASE if folds else re.NOFLAG))
