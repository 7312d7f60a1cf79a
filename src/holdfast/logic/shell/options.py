"""Reading a program's arguments: options in every spelling that getopt takes, their values, and the operands.

A specification is one line of text: `-n: --lines: -q --pre!: -o:write --color?`. A name alone is a switch, `:` takes a value, `?`
takes one only when it is glued on, a word after `:` says what the value is (`read write list remove script text two`), `!` marks
what makes a harmless program dangerous, and `~` what lets it go on behind links, or to files that only another file names.
"""

import re
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from holdfast.logic.shell.scope import Field

_SPEC: Final = re.compile(r"(-{1,2}[^!~:?\s]+)([!~]?)(?:(:|\?)(\w*))?")
_NUMBER: Final = re.compile(r"-[0-9]+[a-zA-Z]?")


class Option(msgspec.Struct, frozen=True):
    """One option of a program."""

    name: str
    takes: Literal["", ":", "?"] = ""
    kind: str = "text"
    danger: bool = False
    strays: bool = False


class Seen(msgspec.Struct, frozen=True):
    """An option on a command line."""

    option: Option
    value: Field | None = None


class Line(msgspec.Struct):
    """A command line, taken apart."""

    seen: list[Seen] = []
    operands: list[Field] = []
    unknown: list[str] = []
    """Options that the program is not known to have."""
    unsure: str = ""
    """A word that may turn out to be an option, as written."""

    def has(self, *names: str) -> bool:
        """Whether one of these options is there."""
        return any(seen.option.name in names for seen in self.seen)

    def values(self, *names: str) -> list[Field]:
        """Give the values of these options, in order."""
        return [seen.value for seen in self.seen if seen.option.name in names and seen.value is not None]


class Options:
    """The options that a program takes."""

    __slots__ = ("dangerous", "long", "short", "writes")

    def __init__(self, specification: str) -> None:
        self.short: dict[str, Option] = {}
        self.long: dict[str, Option] = {}
        for name, mark, takes, kind in _SPEC.findall(specification):
            danger = mark == "!" or kind in ("write", "remove", "script")
            option = Option(name, takes, kind or "text", danger, mark == "~")
            (self.long if len(name) > 2 else self.short)[name] = option
        every = (*self.short.values(), *self.long.values())
        self.dangerous = any(option.danger for option in every)
        self.writes = any(option.kind == "write" for option in every)

    def named(self, name: str) -> Option | None:
        """Look up a long option; a unique beginning is enough, and one that could mean a dangerous option does."""
        found = self.long.get(name)
        if found:
            return found
        candidates = [option for full, option in self.long.items() if full.startswith(name)]
        if len(candidates) > 1:
            candidates = [option for option in candidates if option.danger][:1]
        return candidates[0] if candidates and len(name) > 2 else None


def take_apart(
    fields: Sequence[Field], options: Options, *, stop: bool = False, number: bool = False, single: bool = False
) -> Line:
    """Read arguments. With `stop`, all that follows the first operand is an operand; with `single`, one dash begins a long name."""
    line, at = Line(), 0
    while at < len(fields):
        field = fields[at]
        at += 1
        value = field.value
        if value is None and not field.many and "=" in field.start and field.start.startswith("--"):
            at = _long(field.start + "\0", field, fields, at, options, line)
            continue
        if value is None or field.glob:
            if may_be_option(field):
                line.unsure = line.unsure or field.text
            line.operands.append(field)
        elif value == "--":
            line.operands += fields[at:]
            break
        elif value == "-" or not value.startswith("-"):
            line.operands.append(field)
        elif number and _NUMBER.fullmatch(value):
            continue
        elif value.startswith("--") or single or value in options.long:
            at = _long(value, field, fields, at, options, line)
            continue
        else:
            at = _cluster(value, field, fields, at, options, line)
            continue
        if stop:
            line.operands += fields[at:]
            break
    return line


def may_be_option(field: Field) -> bool:
    """Whether a word that is not known could turn out to be an option, or to hold one."""
    if field.number:
        return False
    if field.value is None:
        return field.many or not field.start or field.start.startswith("-")
    return field.glob and field.value[:1] in ("*", "?", "[", "-")


def _long(value: str, field: Field, fields: Sequence[Field], at: int, options: Options, line: Line) -> int:
    name, equals, rest = value.partition("=")
    option = options.named(name) or (options.short.get(name) if len(name) == 2 else None)
    if option is None:
        line.unknown.append(name)
        return at
    if equals:
        line.seen.append(Seen(option, Field(rest if field.value is not None else None, field.text)))
        return at
    return _with_value(option, fields, at, line)


def _cluster(value: str, field: Field, fields: Sequence[Field], at: int, options: Options, line: Line) -> int:
    for place in range(1, len(value)):
        option = options.short.get("-" + value[place])
        if option is None:
            line.unknown.append("-" + value[place])
            continue
        rest = value[place + 1 :]
        if option.takes == "?" or (option.takes == ":" and rest):
            line.seen.append(Seen(option, Field(rest, field.text) if rest else None))
            return at
        if option.takes == ":":
            return _with_value(option, fields, at, line)
        line.seen.append(Seen(option))
    return at


def _with_value(option: Option, fields: Sequence[Field], at: int, line: Line) -> int:
    if option.takes != ":":
        line.seen.append(Seen(option))
        return at
    if option.kind == "two" and at + 1 < len(fields):
        at += 1
    if at >= len(fields):
        line.seen.append(Seen(option))
        return at
    if fields[at].many or fields[at].glob:
        line.unsure = line.unsure or fields[at].text
    line.seen.append(Seen(option, fields[at]))
    return at + 1
