"""Read the tables of programs that change files, run others or talk to other machines: `tables/*.toml`, when first needed.

A key names one program, or several between blanks. `options`: those that take a value, see `options.py`. `operands`: what they are, the
last kind for all that follow (`read list write remove text`). `edits`: all that it changes are the files that it names. `deep`: it goes
through folders, always or with one of these options. `by`: code of `effects.py` reads it. A program without a row may still run anything;
nothing is ever allowed because of what stands here.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import takewhile
from typing import Any, Final, Literal

import msgspec

_TABLES: Final = ("changing", "running")


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is known of a program."""

    options: str = ""
    operands: str = "read"
    edits: bool = False
    deep: str = ""
    by: str = ""
    single: bool = False
    """Whether one dash begins a long option."""


class Rewriter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When a program puts something else in the place of the files that it is given: a formatter, a linter that mends."""

    needs: str = ""
    """Options, or a first subcommand, of which one makes it do so."""
    unless: str = ""
    """Options with which it only looks."""

    def changes(self, words: Sequence[str]) -> bool:
        """Return whether it does so with these arguments."""
        given = {form for word in words if word.startswith("-") for form in _forms(word)}
        first = next((word for word in words if not word.startswith("-")), "")
        return given.isdisjoint(self.unless.split()) and (
            not self.needs or not (given | {first}).isdisjoint(self.needs.split())
        )


@cache
def rows() -> Mapping[str, Row]:
    """Give the rows by the name of the program."""
    found = {names: msgspec.convert(row, Row) for table in _TABLES for names, row in _load(table).items()}
    return {name: row for names, row in found.items() for name in names.split()}


@cache
def rewriters() -> Mapping[str, Rewriter]:
    """Give the programs that change the files they are given, by name."""
    found = {names: msgspec.convert(row, Rewriter) for names, row in _load("rewriters")["programs"].items()}
    return {name: row for names, row in found.items() for name in names.split()}


@cache
def words(key: str, table: str = "words") -> frozenset[str]:
    """Give a list of words."""
    return frozenset(_load(table)[key].split())


def text_of(key: str, table: str) -> str:
    """Give a text of a table."""
    return str(_load(table)[key])


def wraps(name: str, arguments: Sequence[str | None]) -> bool:
    """Return whether a program runs another one that stands among its arguments: always, or with this subcommand."""
    subcommands = _load("words")["wrappers_with"].get(name, "").split()
    return name in words("wrappers") or any(word in subcommands for word in arguments[:8])


def talks(name: str, arguments: Sequence[str | None]) -> bool:
    """Return whether a program talks to other machines: always, or with this subcommand."""
    subcommands = _load("words")["network_with"].get(name, "").split()
    return name in words("network") or any(word in subcommands for word in arguments[:3])


def folders_read(name: str, arguments: Sequence[str | None]) -> Literal["", "named", "own"]:
    """Say whether a program reads everything below folders with these arguments: those that it is given, or its own too."""
    words_given = [word.partition("=")[0] for word in arguments if word is not None]
    ahead = list(takewhile(lambda word: word != "run", words_given))  # behind `run` stand names of scripts and services
    given = set(words_given if any(word.startswith("-") for word in ahead) else ahead)
    for reads in ("named", "own"):
        entries = _load("words")[f"folders_{reads}"].get(name, "").split()
        if any(given.issuperset(entry.split("+")) for entry in entries):
            return reads
    return ""


def usual_name(name: str) -> tuple[str, ...]:
    """Give the words by which a program is better known: `grm` is `rm`, `git-push` is `git push`; its name when there are none."""
    if name.startswith("git-") and len(name) > len("git-"):
        return ("git", name.removeprefix("git-"))
    return (name[1:],) if name[:1] == "g" and name[1:] in words("gnu") else (name,)


@cache
def _load(table: str) -> dict[str, Any]:  # what a table holds is checked when it becomes rows
    return tomllib.loads(files(__package__).joinpath("tables", f"{table}.toml").read_text(encoding="utf-8"))


def _forms(option: str) -> Iterator[str]:
    """Give an option as written, without its value, and each letter of a cluster."""
    yield option
    yield option.partition("=")[0]
    if not option.startswith("--"):
        yield from (f"-{letter}" for letter in option[1:])
