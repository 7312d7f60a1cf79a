"""The table of programs: what each is known to do, read from the files in `programs/` when it is first needed.

A key names one program, or several between blanks. `does`: `reads`, `edits` or `runs`. `options`: see `options.py`. `loose`: an option
that is not listed is harmless too, because the program has none that is not. `operands`: what they are, the last kind for all that follow
(`read list write remove text`, `!` for one that makes it dangerous). `given`: options that take the place of the first operand. `here`:
what it does to its folder without operands. `number`: `-5` is an option. `single`: one dash begins a long option. `network`: it talks to
other machines. `deep`: options with which it reads everything below a folder, or `always`. `by`: it
is read by code of that name. `sub`: its subcommands, each such a table.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Final, Literal, TypeAlias

import msgspec

from holdfast.logic.shell.options import Options

FILES: Final = ("reading", "editing", "running", "tools", "git")

Does: TypeAlias = Literal["reads", "edits", "runs"]


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    does: Does = "runs"
    options: str = ""
    loose: bool = False
    operands: str = ""
    given: str = ""
    here: str = ""
    number: bool = False
    single: bool = False
    network: bool = False
    deep: str = ""
    by: str = ""
    sub: Mapping[str, "_Row"] = {}


class Program(msgspec.Struct, frozen=True):
    """What is known of a program."""

    does: Does
    options: Options
    loose: bool
    operands: tuple[str, ...]
    given: tuple[str, ...]
    here: str
    number: bool
    single: bool
    network: bool
    deep: tuple[str, ...]
    by: str
    sub: Mapping[str, "Program"]

    @property
    def risky(self) -> bool:
        """Whether some argument could make it dangerous."""
        return not self.loose or self.options.dangerous or "write" in self.operands or "!" in self.operands


class Wrapper(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A program that runs another one, given as its arguments."""

    options: str = ""
    skip: int = 0
    """How many operands come before the program."""
    transparent: bool = False
    """Whether it changes nothing about the program: rules that allow look past it."""
    tame: bool = False
    """Whether a harmless program stays harmless behind it, although a rule that allows the program does not look past it."""
    strict: bool = False
    """Whether any option ends that."""
    assigns: bool = False
    """Whether `NAME=value` may come before the program."""
    joins: bool = False
    """Whether a shell runs its arguments, joined by blanks."""
    exact: bool = False
    network: bool = False
    number: bool = False
    moves: bool = False
    """Whether the program runs in another folder, or another file system."""
    stays: bool = False
    """Whether that may be this folder as well."""
    folder: str = ""
    """Options that name the folder that the program runs in."""
    unsure: bool = False
    """Whether what comes before the program is not known."""
    sub: str = ""
    """Subcommands of which one must come first."""
    groups: Mapping[str, str] = {}
    """Words that may come before a subcommand, each with the row that holds for what follows it."""


@cache
def programs() -> Mapping[str, Program]:
    """Give the table, by name."""
    rows = dict[str, Program]()
    for name in FILES:
        for names, row in msgspec.convert(_load(name), dict[str, _Row]).items():
            program = _program(row)
            rows.update(dict.fromkeys(names.split(), program))
    return rows


@cache
def wrappers() -> Mapping[str, tuple[Wrapper, Options]]:
    """Give the programs that run others, by name."""
    rows = msgspec.convert(_load("wrappers"), dict[str, Wrapper])
    return {name: (row, Options(row.options)) for names, row in rows.items() for name in names.split()}


class Rewriter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When a program changes the files that it is given."""

    needs: str = ""
    unless: str = ""

    def changes(self, words: Sequence[str]) -> bool:
        """Whether it does so with these arguments."""
        given = {form for word in words if word.startswith("-") for form in _forms(word)}
        first = next((word for word in words if not word.startswith("-")), "")
        return given.isdisjoint(self.unless.split()) and (
            not self.needs or not (given | {first}).isdisjoint(self.needs.split())
        )


def _forms(option: str) -> Iterator[str]:
    """An option as written, without its value, and each letter of a cluster."""
    yield option
    yield option.partition("=")[0]
    if not option.startswith("--"):
        yield from (f"-{letter}" for letter in option[1:])


@cache
def rewriters() -> Mapping[str, Rewriter]:
    """Give the programs that change the files they are given, by name."""
    tables = {name: row for name, row in _load("rewriters").items() if isinstance(row, dict)}
    rows = msgspec.convert(tables, dict[str, Rewriter])
    return {name: row for names, row in rows.items() for name in names.split()}


@cache
def words(file: str, key: str) -> frozenset[str]:
    """Give a list of words of the file `programs/<file>.toml`."""
    text = _load(file)[key]
    return frozenset(text.split()) if isinstance(text, str) else frozenset()


@cache
def _load(name: str) -> dict[str, object]:
    return tomllib.loads(files(__package__).joinpath("programs", f"{name}.toml").read_text(encoding="utf-8"))


def _program(row: _Row) -> Program:
    shared = {name: sub.options for name, sub in row.sub.items() if name.startswith("@")}
    subs = {name: sub for name, sub in row.sub.items() if not name.startswith("@")}
    return _compiled(row, {name: _spelled_out(sub, shared) for name, sub in subs.items()})


def _spelled_out(row: _Row, shared: Mapping[str, str]) -> _Row:
    """Put the options that several subcommands share where a row names them."""
    options = row.options
    for name, text in shared.items():
        options = " ".join(text if word == name else word for word in options.split())
    return msgspec.structs.replace(row, options=options)


def _compiled(row: _Row, subs: Mapping[str, _Row]) -> Program:
    return Program(
        does=row.does,
        options=Options(row.options),
        loose=row.loose,
        operands=tuple(row.operands.split()),
        given=tuple(row.given.split()),
        here=row.here,
        number=row.number,
        single=row.single,
        network=row.network,
        deep=tuple(row.deep.split()),
        by=row.by,
        sub={name: _program(sub) for names, sub in subs.items() for name in names.split()},
    )
