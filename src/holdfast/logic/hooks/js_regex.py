"""Patterns written for JavaScript, read by Python."""

import functools
import itertools
import re
from typing import Final

_LONGEST: Final = 1_000
_KEPT: Final = "dDwWsSbBfnrtv"
"""Escapes that mean the same in both."""
_GROUPS: Final = ("(?:", "(?=", "(?!", "(?<=", "(?<!")
_NAME: Final = re.compile(r"\(\?<([A-Za-z_$][\w$]*)>")
_BACK: Final = re.compile(r"\\k<([A-Za-z_$][\w$]*)>")
_HEX: Final = re.compile(r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4})")
_CONTROL: Final = re.compile(r"\\c([A-Za-z])")
_CLASS: Final = re.compile(r"\[(?:\\.|[^\]\\])*\]", re.DOTALL)
_CLASS_PIECE: Final = re.compile(r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|c[A-Za-z]|.)|.", re.DOTALL)


@functools.lru_cache(maxsize=512)
def compiled(pattern: str) -> "re.Pattern[str]":
    """The pattern, ready. Raise `ValueError` with the reason when it cannot be read."""
    if len(pattern) > _LONGEST:
        raise ValueError(f"it is longer than {_LONGEST} characters")
    try:
        return re.compile(_translated(pattern), re.ASCII)
    except (re.error, OverflowError, RecursionError) as exc:
        raise ValueError(str(exc)) from None


def _translated(pattern: str) -> str:
    pieces: list[str] = []
    at, repeats = 0, False
    while at < len(pattern):
        taken, piece = _next(pattern, at)
        if repeats and piece == "+":
            raise ValueError("nothing to repeat")  # to Python, `a++` is a quantifier of its own
        repeats = piece in ("*", "+", "?")
        pieces.append(piece)
        at += taken
    return "".join(pieces)


def _next(pattern: str, at: int) -> tuple[int, str]:
    """How many characters the next piece has, and what Python calls it."""
    match pattern[at]:
        case "\\":
            return _escape(pattern, at)
        case "$":
            return 1, r"\Z"
        case "[":
            return _class(pattern, at)
        case "(" if pattern.startswith("(?", at):
            return _group(pattern, at)
        case "{" if pattern.startswith("{,", at):
            return 1, r"\{"
        case other:
            return 1, other


def _escape(pattern: str, at: int) -> tuple[int, str]:
    if at + 1 == len(pattern):
        raise ValueError("it ends with a backslash")
    letter = pattern[at + 1]
    if found := _BACK.match(pattern, at):
        return len(found[0]), f"(?P={found[1]})"
    if found := _HEX.match(pattern, at):
        return len(found[0]), found[0]
    if found := _CONTROL.match(pattern, at):
        return len(found[0]), f"\\x{ord(found[1]) % 32:02x}"
    if letter in "pPu":
        raise ValueError(f"\\{letter} is not supported")
    if letter == "0":
        return 2, r"\x00"
    return 2, f"\\{letter}" if letter in _KEPT or letter.isdigit() else re.escape(letter)


def _group(pattern: str, at: int) -> tuple[int, str]:
    for opening in _GROUPS:
        if pattern.startswith(opening, at):
            return len(opening), opening
    if found := _NAME.match(pattern, at):
        return len(found[0]), f"(?P<{found[1]}>"
    raise ValueError(f"{pattern[at : at + 3]!r} is no group")


def _class(pattern: str, at: int) -> tuple[int, str]:
    if pattern.startswith("[^]", at):
        return 3, r"[\s\S]"
    if pattern.startswith("[]", at):
        return 2, "(?!)"
    found = _CLASS.match(pattern, at)
    if found is None:
        raise ValueError("a [ is never closed")
    inside = found[0][1:-1]
    negated = inside.startswith("^")
    pieces = [_member(each) for each in _CLASS_PIECE.findall(inside.removeprefix("^"))]
    if any(one == two == "-" for one, two in itertools.pairwise(pieces)):
        raise ValueError("a set with two hyphens in a row is not supported")
    return len(found[0]), f"[{'^' if negated else ''}{''.join(pieces)}]"


def _member(piece: str) -> str:
    if len(piece) == 1:
        return piece if piece in "-^" or piece.isalnum() else re.escape(piece)
    letter = piece[1]
    if letter in "pPu" and len(piece) == 2:
        raise ValueError(f"\\{letter} is not supported")
    if letter == "c" and len(piece) == 3:
        return f"\\x{ord(piece[2]) % 32:02x}"
    if letter == "b":
        return r"\x08"
    if letter == "0":
        return r"\x00"
    return piece if len(piece) > 2 or letter in "dDwWsSfnrtv" else re.escape(letter)
