"""Patterns as tokens: turn them into regular expressions, and tell whether two can match the same text.

A token is one character, or one of the marks below. Two patterns *meet* when some text matches both; that is what must be known when a
part of a command or path is not known before it runs.
"""

import re
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from msgspec import Struct

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

_BRACKETS: Final = re.compile(r"\[.*\]", re.DOTALL)
_LARGE: Final = 4_000_000
"""Pairs of tokens beyond which two patterns count as meeting."""

Tokens = tuple[str, ...]


def expression(tokens: Tokens) -> str:
    """Return the regular expression of a pattern. It never tries more than a few ways, however many wildcards there are.

    Wildcards are matched as early as they can be and not again: what follows is as long as it is, so nothing is gained by a later place.
    """
    first, *others = _split(tokens, BELOW)
    if not others:
        return _segments(first)
    *middle, last = others
    inner = "".join(f"(?>(?:/[^/]*)*?{_segments(piece)}(?=/|$))" for piece in middle)
    return f"{_segments(first)}{inner}(?:/.*)?{_segments(last)}"


def may_climb(part: str) -> bool:
    """Return whether a part of a pattern may stand for the folder above: in dash and in older shells `.*` matches `..`."""
    return part == ".." or (part.startswith(".") and fnmatchcase("..", _BRACKETS.sub("*", part)))


def star_match(pieces: tuple[str, ...], text: str) -> bool:
    """Return whether a text is the pieces in their order with anything between them: `a*b` in pieces is `("a", "b")`."""
    return star_spans(pieces, text) is not None


def star_spans(pieces: tuple[str, ...], text: str) -> list[tuple[int, int]] | None:
    """Return where in a text each wildcard begins and ends that stands between the pieces; None when they do not match."""
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
    """Return whether some text matches both patterns. Yes when it would take too long to tell.

    `BELOW` at the end of a pattern is exact; anywhere else it counts as any characters.
    """
    return any(_meet(a, b) for a in _variants(one) for b in _variants(other))


def _variants(tokens: Tokens) -> list[Tokens]:
    open_ended = bool(tokens) and tokens[-1] == BELOW
    body = tuple(DEEP if token == BELOW else token for token in (tokens[:-1] if open_ended else tokens))
    return [body, (*body, "/", DEEP)] if open_ended else [body]


def _meet(one: Tokens, other: Tokens) -> bool:
    """Go through the longer pattern once, with all places of the shorter one that may be reached as the bits of a number."""
    if one and other and (_differ(one[0], other[0]) or _differ(one[-1], other[-1])):
        return False
    if len(one) > len(other):
        one, other = other, one
    if len(one) * len(other) > _LARGE:
        return True
    return _places(one).meets(other)


def _differ(a: str, b: str) -> bool:
    return a != b and a[0] != "\x00" and b[0] != "\x00"


class _Places(Struct, frozen=True, eq=False):
    """A pattern as sets of places, each a number whose bits are places: bit 3 is before the token 3."""

    size: int
    literal: dict[str, int]
    """Before each character that is meant as it stands."""
    one: int
    """Before what stands for any character but `/`."""
    classes: tuple[tuple[re.Pattern[str], int], ...]
    many: int
    deep: int

    def meets(self, other: Tokens) -> bool:
        """Return whether some text matches this pattern and the other one."""
        moves = dict[str, tuple[int, int]]()
        wild = self.many | self.deep
        reached = self._skip(1)
        for token in other:
            if token == DEEP:
                reached = self._behind(reached)
            elif token == MANY:
                reached = self._flood(reached)
            else:
                if token not in moves:
                    moves[token] = (self.deep if token == "/" else wild, self._taking(token))
                stays, steps = moves[token]
                reached = (reached & stays) | ((reached & steps) << 1)
                if reached & wild:
                    reached = self._skip(reached)
            if not reached:
                return False
        return bool(reached >> self.size & 1)

    def _skip(self, reached: int) -> int:
        """Add to `reached` what follows when a wildcard stands for nothing."""
        while (more := reached | ((reached & (self.many | self.deep)) << 1)) != reached:
            reached = more
        return reached

    def _behind(self, reached: int) -> int:
        """Return the lowest place of `reached`, and every place after it."""
        return ((1 << (self.size + 1)) - 1) & -(reached & -reached)

    def _taking(self, token: str) -> int:
        """Return the places before a token for one character that the given token may stand for too."""
        if token == "/":
            return self.literal.get("/", 0)
        if token[0] != "\x00":
            found = self.literal.get(token, 0) | self.one
            for pattern, places in self.classes:
                found |= places if pattern.fullmatch(token) else 0
            return found
        kind = re.compile(token[len(CLASS) :]) if token.startswith(CLASS) else None
        found = self.one
        for _, places in self.classes:
            found |= places
        for char, places in self.literal.items():
            found |= places if char != "/" and (kind is None or kind.fullmatch(char)) else 0
        return found

    def _flood(self, reached: int) -> int:
        """Add to `reached` every place up to the next slash."""
        enters = (((1 << self.size) - 1) & ~self.literal.get("/", 0)) << 1
        width = 1
        while width <= self.size:
            reached |= enters & (reached << width)
            enters &= enters << width
            width *= 2
        return reached


@lru_cache(maxsize=512)
def _places(tokens: Tokens) -> _Places:
    literal = dict[str, int]()
    classes = dict[str, int]()
    for at, token in enumerate(tokens):
        kind = classes if token.startswith(CLASS) else literal
        kind[token] = kind.get(token, 0) | 1 << at
    one, many, deep = (literal.pop(mark, 0) for mark in (ONE, MANY, DEEP))
    compiled = tuple((re.compile(token[len(CLASS) :]), places) for token, places in classes.items())
    return _Places(len(tokens), literal, one, compiled, many, deep)


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
