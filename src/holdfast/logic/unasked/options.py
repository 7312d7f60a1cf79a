"""Read a program's arguments by the flags of its row: a flag that is not listed is not known.

A row lists flags in one line of text: `-n: --lines: -q -o:read --color?`. A name alone is a switch; `:` takes a value, in the same word or the
next; `?` takes one only in the same word (`--color=auto`, `-U3`). After `:` or `?` stands what the value is: `read` and `list` name files,
`text` (the default) names none.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from holdfast.logic.unasked.grammar import Word

_FLAG: Final = re.compile(r"(-{1,2}[^:?\s]+)(?:([:?])(\w*))?(?=\s|$)")
_NUMBER: Final = re.compile(r"-[0-9]+")


class Unlisted(Exception):
    """The arguments are not those of a row; the message says which."""


class Flag(msgspec.Struct, frozen=True):
    """A flag that a row lists."""

    name: str
    takes: str
    kind: str


class Given(msgspec.Struct, frozen=True):
    """Arguments, taken apart: flags with their values, and operands, in order."""

    flags: tuple[tuple[Flag, Word | None], ...]
    operands: tuple[Word, ...]

    def has(self, *names: str) -> bool:
        """Whether one of these flags is there."""
        return any(flag.name in names for flag, _ in self.flags)

    def values(self, *names: str) -> list[Word]:
        """Give the values of these flags."""
        return [word for flag, word in self.flags if flag.name in names and word is not None]


def read_flags(line: str) -> Mapping[str, Flag]:
    """Read the flags of a row."""
    found = {name: Flag(name, takes, kind or "text") for name, takes, kind in _FLAG.findall(line)}
    if len(found) != len(line.split()):
        raise ValueError(f"not a line of flags: {line!r}")
    return found


def take_apart(
    words: Sequence[Word],
    flags: Mapping[str, Flag],
    *,
    stop: bool = False,
    number: bool = False,
    single: bool = False,
) -> Given:
    """Tell flags from operands. With `stop` all words behind the first operand are operands; with `single` one dash begins a long name."""
    seen: list[tuple[Flag, Word | None]] = []
    operands: list[Word] = []
    rest = list(reversed(words))
    while rest:
        word = rest.pop()
        value = word.value
        if value is None:
            raise Unlisted(f"{word.text} is not known before it runs")
        if value == "--":
            operands += reversed(rest)
            break
        if value == "-" or not value.startswith("-"):
            operands.append(word)
            if stop:
                operands += reversed(rest)
                break
        elif word.glob:
            raise Unlisted(f"{word.text} may become a flag")
        elif number and _NUMBER.fullmatch(value):
            continue
        elif value.startswith("--") or single:
            seen.append(_long(word, value, rest, flags))
        else:
            seen += _cluster(word, value, rest, flags)
    if any(word.value is None for word in operands):
        raise Unlisted("a word is not known before it runs")
    return Given(tuple(seen), tuple(operands))


def _long(word: Word, value: str, rest: list[Word], flags: Mapping[str, Flag]) -> tuple[Flag, Word | None]:
    name, equals, glued = value.partition("=")
    flag = flags.get(name)
    if flag is None or (equals and not flag.takes):
        raise Unlisted(f"{name} is not one of its known flags")
    if equals:
        return flag, Word(word.text, glued)
    return flag, _next(flag, rest) if flag.takes == ":" else None


def _cluster(word: Word, value: str, rest: list[Word], flags: Mapping[str, Flag]) -> list[tuple[Flag, Word | None]]:
    """Read `-abc`: each letter is a flag, until one takes the rest as its value."""
    seen: list[tuple[Flag, Word | None]] = []
    for at in range(1, len(value)):
        flag = flags.get("-" + value[at])
        if flag is None:
            raise Unlisted(f"-{value[at]} is not one of its known flags")
        glued = value[at + 1 :]
        if flag.takes and glued:
            return [*seen, (flag, Word(word.text, glued))]
        if flag.takes == ":":
            return [*seen, (flag, _next(flag, rest))]
        seen.append((flag, None))
    return seen


def _next(flag: Flag, rest: list[Word]) -> Word:
    if not rest:
        raise Unlisted(f"{flag.name} lacks its value")
    word = rest.pop()
    if word.value is None or word.glob:
        raise Unlisted(f"the value of {flag.name} is not known before it runs")
    return word
