"""Brace expansion, as bash does it before anything else: `{a,b}` and `{1..3}`."""

import re
from collections.abc import Sequence
from typing import Final

from holdfast.logic.shell.syntax import Part

Token = str | Part
"""One unquoted character, or a part that braces do not look into."""

MOST: Final = 256
"""How many words one word may become before it counts as unknown."""

_RANGE: Final = re.compile(r"(-?[0-9]{1,9}|[A-Za-z])\.\.(-?[0-9]{1,9}|[A-Za-z])(?:\.\.(-?[0-9]{1,9}))?")


class TooMany(ValueError):
    """Raised when a word becomes more words than anybody would read."""


def expand_braces(tokens: Sequence[Token]) -> list[list[Token]]:
    """Give the words that one word becomes. Raises `TooMany`."""
    for at, token in enumerate(tokens):
        if token != "{":
            continue
        end, commas = _closing(tokens, at)
        if end < 0:
            continue
        inside = tokens[at + 1 : end]
        choices = _choices(tokens, at, end, commas) if commas else _range(inside)
        if choices is None:
            continue
        before, after = list(tokens[:at]), expand_braces(tokens[end + 1 :])
        if len(choices) * len(after) > MOST:
            raise TooMany(f"{{ expands to more than {MOST} words")
        return [[*before, *choice, *rest] for choice in choices for rest in after]
    return [list(tokens)]


def _closing(tokens: Sequence[Token], start: int) -> tuple[int, list[int]]:
    """Find the brace that closes one, and the commas between that belong to it; -1 when it is not closed."""
    depth, commas = 0, list[int]()
    for at in range(start, len(tokens)):
        token = tokens[at]
        if token == "{":
            depth += 1
        elif token == "}":
            depth -= 1
            if not depth:
                return at, commas
        elif token == "," and depth == 1:
            commas.append(at)
    return -1, commas


def _choices(tokens: Sequence[Token], start: int, end: int, commas: list[int]) -> list[list[Token]]:
    found = list[list[Token]]()
    for left, right in zip([start, *commas], [*commas, end], strict=True):
        found += expand_braces(tokens[left + 1 : right])
        if len(found) > MOST:
            raise TooMany(f"{{ expands to more than {MOST} words")
    return found


def _range(inside: Sequence[Token]) -> list[list[Token]] | None:
    plain = [token for token in inside if isinstance(token, str)]
    found = _RANGE.fullmatch("".join(plain)) if len(plain) == len(inside) else None
    if not found:
        return None
    first, last = found[1], found[2]
    if first[-1].isdigit() != last[-1].isdigit():
        return None
    step = abs(int(found[3] or 1)) or 1
    if first[-1].isdigit():
        numbers = _count(int(first), int(last), step)
        width = max(len(first), len(last)) if re.match(r"-?0[0-9]", first) or re.match(r"-?0[0-9]", last) else 0
        return [list(f"{number:0{width}d}") for number in numbers]
    return [[chr(number)] for number in _count(ord(first), ord(last), step)]


def _count(first: int, last: int, step: int) -> range:
    numbers = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    if len(numbers) > MOST:
        raise TooMany(f"{{ expands to more than {MOST} words")
    return numbers
