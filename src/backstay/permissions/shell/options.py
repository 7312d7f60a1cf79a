"""Tell a program's options from its operands, by those of its options that take a value.

A specification is one line of text: `-n: --lines: -o:write`. `:` takes a value, glued on or the next word; `?` takes one only when it is
glued on; a word behind `:` says what the value is (`read write list target script code`; `commas`: a script whose words
stand between commas). Options that take none are not listed: nothing follows from them here but their name.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

import msgspec

from backstay.permissions.shell.expand import Field

_OPTION: Final = re.compile(r"(-{1,2}[^:?\s]+)([:?])(\w*)")
_NUMBER: Final = re.compile(r"-[0-9]+[a-zA-Z]?")


class Line(msgspec.Struct):
    """A command line, taken apart."""

    names: list[str] = []
    """Options as given, without values; each letter of a cluster by itself."""
    given: list[tuple[str, str, Field]] = []
    """Options with their values: the name, what the value is, the value."""
    operands: list[Field] = []

    def has(self, *names: str) -> bool:
        """Return whether one of these options is there; a long one may be cut short."""
        return any(name in names or (name.startswith("--") and _begins(name, names)) for name in self.names)

    def values(self, *names: str) -> list[Field]:
        """Give the values of these options, in order."""
        return [value for name, _, value in self.given if name in names]


def take_apart(fields: Sequence[Field], options: str, *, stop: bool = False, single: bool = False) -> Line:
    """Read arguments. With `stop`, all that follows the first operand is an operand; with `single`, one dash begins a long name."""
    line, known, rest = Line(), _read(options), list(reversed(fields))
    while rest:
        field = rest.pop()
        value = field.value or ""
        if value == "--":
            line.names.append(value)
            line.operands += reversed(rest)
            break
        if field.glob or value in ("", "-") or not value.startswith("-") or _NUMBER.fullmatch(value):
            line.operands.append(field)
            if stop:
                line.operands += reversed(rest)
                break
        elif value.startswith("--") or single:
            _long(field, value, rest, known, line)
        else:
            _cluster(field, value, rest, known, line)
    return line


@cache
def _read(options: str) -> Mapping[str, tuple[str, str]]:
    return {name: (takes, kind) for name, takes, kind in _OPTION.findall(options)}


def _begins(name: str, names: Sequence[str]) -> bool:
    return len(name) > 3 and any(each.startswith(name) for each in names)


def _long(field: Field, value: str, rest: list[Field], known: Mapping[str, tuple[str, str]], line: Line) -> None:
    if value not in known and value[:2] in known and not value.startswith("--"):
        return _cluster(field, value, rest, known, line)
    name, equals, glued = value.partition("=")
    meant = [name] if name in known else [each for each in known if _begins(name, (each,))]
    full = meant[0] if meant else name
    takes, kind = known.get(full, ("", ""))
    line.names += meant or [name]
    if equals:
        line.given.append((full, kind, Field(glued, field.text)))
    elif takes == ":" and rest:
        line.given.append((full, kind, rest.pop()))


def _cluster(field: Field, value: str, rest: list[Field], known: Mapping[str, tuple[str, str]], line: Line) -> None:
    for at in range(1, len(value)):
        name, glued = f"-{value[at]}", value[at + 1 :]
        takes, kind = known.get(name, ("", ""))
        line.names.append(name)
        if takes and glued:
            line.given.append((name, kind, Field(glued, field.text)))
            return
        if takes == ":" and rest:
            line.given.append((name, kind, rest.pop()))
