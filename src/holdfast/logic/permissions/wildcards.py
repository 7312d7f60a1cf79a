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
    """The regular expression of a pattern. It never tries more than a few ways, however many wildcards there are.

    Wildcards are matched as early as they can be and not again: what follows is as long as it is, so nothing is gained by a later place.
    """
    first, *others = _split(tokens, BELOW)
    if not others:
        return _segments(first)
    *middle, last = others
    inner = "".join(f"(?>(?:/[^/]*)*?{_segments(piece)}(?=/|$))" for piece in middle)
    return f"{_segments(first)}{inner}(?:/.*)?{_segments(last)}"


def star_match(pieces: tuple[str, ...], text: str) -> bool:
    """Whether a text is the pieces in their order with anything between them: `a*b` in pieces is `("a", "b")`."""
    return star_spans(pieces, text) is not None


def star_spans(pieces: tuple[str, ...], text: str) -> list[tuple[int, int]] | None:
    """Where in a text each wildcard begins and ends that stands between the pieces; None when they do not match."""
    first, *others = pieces
    if not others:
        return [] if text == first else None
    *middle, last = others
    if not text.startswith(first) or not text.endswith(last) or len(text) < len(first) + len(last):
        return None
    at, end = len(first), len(text) - len(last)
    spans = []
    for piece in middle:
        found = text.find(piece, at, end)
        if found < 0:
            return None
        spans.append((at, found))
        at = found + len(piece)
    return [*spans, (at, end)]


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


def _split(tokens: Tokens, mark: str) -> list[Tokens]:
    pieces: list[list[str]] = [[]]
    for token in tokens:
        if token == mark:
            pieces.append([])
        else:
            pieces[-1].append(token)
    return [tuple(piece) for piece in pieces]


def _segments(tokens: Tokens) -> str:
    return "/".join(_segment(segment) for segment in _split(tokens, "/"))


def _segment(tokens: Tokens) -> str:
    first, *others = ("".join(map(_piece, piece)) for piece in _split(tokens, MANY))
    if not others:
        return first
    *middle, last = others
    return first + "".join(f"(?>[^/]*?{piece})" for piece in middle) + "[^/]*" + last


def _piece(token: str) -> str:
    if token == ONE:
        return "[^/]"
    if token == DEEP:
        return ".*"
    return f"(?!/){token[len(CLASS) :]}" if token.startswith(CLASS) else re.escape(token)
