"""Read a program's arguments by the flags of its row: a flag that is not listed is not known.

A row lists flags in one line of text: `-n: --lines: -q -f:read --color?`. A name alone is a switch; `:` takes a value, in the same word or
the next; `?` takes one only in the same word (`--color=auto`, `-U3`), and a long name with `=` must have it there: alone, some systems take
the next word for it. Behind it stands what the value is: `read` and `list` name files, and without a word it names none.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

import msgspec

from backstay.permissions.unasked.shell_grammar import Word

_FLAG: Final = re.compile(r"(-{1,2}[^:?=\s]+)(?:([:?=])(\w*))?(?=\s|$)")


class Unlisted(Exception):
    """The tables do not know what a command does; the message says why."""


class Flag(msgspec.Struct, frozen=True):
    """A flag that a row lists."""

    name: str
    takes: str
    kind: str


class Given(msgspec.Struct, frozen=True):
    """Arguments, taken apart: flags with their values, and operands, in order."""

    flags: tuple[tuple[Flag, Word | None], ...]
    operands: tuple[Word, ...]

    def has(self, names: str) -> bool:
        """Return whether one of these flags is there; `names` stand between blanks."""
        return any(flag.name in names.split() for flag, _ in self.flags)

    def values(self, name: str) -> list[Word]:
        """Give the values of a flag."""
        return [word for flag, word in self.flags if flag.name == name and word is not None]


@cache
def read_flags(line: str) -> Mapping[str, Flag]:
    """Read the flags of a row."""
    found = {name: Flag(name, takes, kind) for name, takes, kind in _FLAG.findall(line)}
    if not set(line.split()) == {f"{flag.name}{flag.takes}{flag.kind}" for flag in found.values()}:
        raise ValueError(f"not a line of flags: {line!r}")
    return found


def take_apart(
    words: Sequence[Word], options: str, *, stop: bool = False, number: bool = False, single: bool = False
) -> Given:
    """Tell flags from operands. With `stop` all behind the first operand are operands; with `single` one dash begins a long name."""
    flags, seen, operands = read_flags(options), list[tuple[Flag, Word | None]](), list[Word]()
    rest = list(reversed(words))
    while rest:
        word = rest.pop()
        value = word.value
        if value is None:
            raise Unlisted(f"{word.text} is not known before it runs")
        if value == "--" or (stop and (value == "-" or not value.startswith("-"))):
            operands += reversed(rest if value == "--" else [*rest, word])
            break
        if value == "-" or not value.startswith("-"):
            operands.append(word)
        elif number and value[1:].isascii() and value[1:].isdigit():
            continue
        elif value.startswith("--") or single:
            seen.append(_long(word, value, rest, flags))
        else:
            seen += _cluster(word, value, rest, flags)
    if any(word.value is None for word in operands):
        raise Unlisted("a word is not known before it runs")
    return Given(tuple(seen), tuple(operands))


def _long(word: Word, value: str, rest: list[Word], flags: Mapping[str, Flag]) -> tuple[Flag, Word | None]:
    """Read `--name`, `--name=value`. A wildcard in a value that is text is harmless: what it matches begins with the flag, too."""
    name, equals, glued = value.partition("=")
    flag = flags.get(name)
    fits = flag and (flag.takes if equals else flag.takes != "=")
    if flag is None or not fits or (word.glob and (not equals or flag.kind)):
        raise Unlisted(f"{name} is not one of its known flags")
    return flag, Word(word.text, glued) if equals else _next(flag, rest) if flag.takes == ":" else None


def _cluster(word: Word, value: str, rest: list[Word], flags: Mapping[str, Flag]) -> list[tuple[Flag, Word | None]]:
    """Read `-abc`: each letter is a flag, until one takes the rest as its value."""
    seen = list[tuple[Flag, Word | None]]()
    for at in range(1, len(value)):
        flag = flags.get("-" + value[at])
        if flag is None or word.glob:
            raise Unlisted(f"-{value[at]} is not one of its known flags")
        if flag.takes and (glued := value[at + 1 :]):
            return [*seen, (flag, Word(word.text, glued))]
        if flag.takes == ":":
            return [*seen, (flag, _next(flag, rest))]
        seen.append((flag, None))
    return seen


def _next(flag: Flag, rest: list[Word]) -> Word:
    word = rest.pop() if rest else Word("", None)
    looks = re.match("-[A-Za-z-]", word.value or "") and flag.name not in ("-e", "--regexp", "--sort")
    if word.value is None or word.glob or looks:
        raise Unlisted(f"the value of {flag.name} is not known, or looks like a flag: some versions take it for one")
    return word
