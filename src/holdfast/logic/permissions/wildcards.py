"""Patterns as tokens: turned into regular expressions, and asked whether two of them can ever mean the same text.

A token is one character, or one of the marks below. Two patterns *meet* when some text matches both; that is what must be known when a
part of a command or path is not known before it runs.
"""

import re
from typing import Final

ONE: Final = "\x00?"
"""Any character but `/`."""
MANY: Final = "\x00*"
"""Any characters but `/`."""
DEEP: Final = "\x00**"
"""Any characters at all."""
BELOW: Final = "\x00/"
"""Nothing, or a slash and any characters: a folder and what is in it."""
CLASS: Final = "\x00["
"""One character of a class; the class follows as it stands in a regular expression."""

_LONG: Final = 40_000
"""States that are looked at before two patterns count as meeting."""

Tokens = tuple[str, ...]


def expression(tokens: Tokens) -> str:
    """The regular expression of a pattern."""
    return "".join(_piece(token) for token in tokens)


def meets(one: Tokens, other: Tokens) -> bool:
    """Whether some text matches both patterns. Yes when it would take too long to tell.

    `BELOW` at the end of a pattern is exact; anywhere else it counts as any characters.
    """
    return any(_meet(a, b) for a in _variants(one) for b in _variants(other))


def _variants(tokens: Tokens) -> list[Tokens]:
    open_ended = bool(tokens) and tokens[-1] == BELOW
    body = tuple(DEEP if token == BELOW else token for token in (tokens[:-1] if open_ended else tokens))
    return [body, (*body, "/", DEEP)] if open_ended else [body]


def _meet(one: Tokens, other: Tokens) -> bool:
    if one and other and (_differ(one[0], other[0]) or _differ(one[-1], other[-1])):
        return False
    todo = [(0, 0)]
    seen = {(0, 0)}
    while todo:
        i, j = todo.pop()
        if i == len(one) and j == len(other):
            return True
        for step in _steps(one, other, i, j):
            if step not in seen:
                seen.add(step)
                todo.append(step)
        if len(seen) > _LONG:
            return True
    return False


def _differ(a: str, b: str) -> bool:
    return a != b and a[0] != "\x00" and b[0] != "\x00"


def _steps(one: Tokens, other: Tokens, i: int, j: int) -> list[tuple[int, int]]:
    a = one[i] if i < len(one) else ""
    b = other[j] if j < len(other) else ""
    steps: list[tuple[int, int]] = []
    if a in _LOOPS:
        steps.append((i + 1, j))
        if b and _takes(a, b):
            steps.append((i, j + 1))
    if b in _LOOPS:
        steps.append((i, j + 1))
        if a and _takes(b, a):
            steps.append((i + 1, j))
    if a and b and a not in _LOOPS and b not in _LOOPS and _same(a, b):
        steps.append((i + 1, j + 1))
    return steps


_LOOPS: Final = (MANY, DEEP)


def _takes(loop: str, token: str) -> bool:
    return loop == DEEP or token != "/"


def _same(a: str, b: str) -> bool:
    if a[0] != "\x00" and b[0] != "\x00":
        return a == b
    literal = a if a[0] != "\x00" else b if b[0] != "\x00" else ""
    if literal == "/":
        return False
    mark = b if literal == a else a
    if literal and mark.startswith(CLASS):
        return re.fullmatch(mark[len(CLASS) :], literal) is not None
    return True


def _piece(token: str) -> str:
    match token:
        case "\x00?":
            return "[^/]"
        case "\x00*":
            return "[^/]*"
        case "\x00/":
            return "(?:/.*)?"
        case "\x00**":
            return ".*"
        case _ if token.startswith(CLASS):
            return f"(?!/){token[len(CLASS) :]}"
        case _:
            return re.escape(token)
