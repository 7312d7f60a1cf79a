"""Read the tables of programs whose effect is known, `tables/*.toml`, when first needed.

A key names one program, or several between blanks; a program without a row is not known. One of these says how a row is read: `options`
with `operands`; `words` (every word is text); `match` (the arguments, joined by blanks, fit this pattern); `runs` (such arguments, then a
command that it runs unchanged); `grammar` (a function of `programs.py`); `version` (this word alone). `sub` has rows of subcommands.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

import msgspec

FILES: Final = ("shell", "reading", "editing", "tools", "git")


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is known of a program or a subcommand."""

    checked: str
    """How its flags were looked at."""
    options: str = ""
    """Its flags; see `options.py`."""
    operands: str = ""
    """What they are, the last for all that follow: `read list write remove` name files, `text` none, `none` is none."""
    plain: str = ""
    """A pattern that each operand must fit."""
    form: str | None = None
    """A pattern that the operands, joined by blanks, must fit, unless a flag of `lists` is there."""
    lists: str = ""
    leads: bool = False
    """Whether the first operand, a subcommand of its own, must come first."""
    stops: bool = False
    """Whether flags come before all operands."""
    words: bool = False
    first: str = ""
    """For `words`: a pattern that the first must fit."""
    match: str | None = None
    runs: str | None = None
    grammar: str = ""
    version: str = ""
    given: str = ""
    """Flags that take the place of the first operand."""
    here: str = ""
    """What becomes of the folder without operands: `list`, or `deep` with a flag of `deep`."""
    deep: str = ""
    """Flags with which everything below a folder is read, or `always`."""
    tame: bool | str = False
    """Whether no flag at all does harm, so that a wildcard may begin a word; `ending`: if it ends like `.pyc`."""
    fed: bool = False
    """Whether `xargs` may give it files."""
    pairs: bool = False
    """Whether of a folder and a file it reads the file of that name in the folder."""
    needs: str = ""
    """Flags of which one must be there."""
    number: bool = False
    """Whether `-5` is a flag."""
    single: bool = False
    """Whether one dash begins a long name."""
    edits: bool = False
    """Whether it changes the files that it names, and nothing else."""
    trusted: bool = False
    """Whether it is free only in a workspace that a person trusts: it may load files of it."""
    loads: bool = False
    """Whether it loads the code of the project, which no list of files holds."""
    os: str = ""
    """The system that it is for, if not all."""


class Program(msgspec.Struct, frozen=True):
    """A program: its rows, and those of its subcommands by name."""

    rows: tuple[Row, ...] = ()
    sub: Mapping[str, Row] = {}


@cache
def programs() -> Mapping[str, Program]:
    """Give the programs by name."""
    found: dict[str, Program] = {}
    for file in FILES:
        shared = load(file).get("shared", {})
        for names, table in load(file)["programs"].items():
            subs = {sub: _row(row, shared) for subs, row in table.pop("sub", {}).items() for sub in subs.split()}
            rows = (_row(table, shared),) if table else ()
            for name in names.split():
                before = found.get(name, Program())
                found[name] = Program((*before.rows, *rows), {**before.sub, **subs})
    return found


@cache
def word_list(key: str, file: str = "shell") -> frozenset[str]:
    """Give a list of words of a table."""
    return frozenset(load(file)[key].split())


def load(file: str) -> dict[str, Any]:  # what a table holds is checked when it becomes rows
    """Read one of the tables."""
    return tomllib.loads(files(__package__).joinpath("tables", f"{file}.toml").read_text(encoding="utf-8"))


def _row(table: dict[str, Any], shared: Mapping[str, str]) -> Row:
    options = " ".join(shared.get(word, word) for word in table.get("options", "").split())
    return msgspec.convert({**table, "options": options}, Row)


def operand_kinds(name: str) -> tuple[str, ...]:
    """Say what the operands of a program are, if it is known to read what it is given: `("text", "read")` for `grep`."""
    program = programs().get(name)
    row = program.rows[0] if program is not None and program.rows else None
    return tuple(row.operands.split()) if row is not None else ()


def free_programs() -> frozenset[str]:
    """Return the names of all programs that may run unasked."""
    return frozenset(programs())


@cache
def loading_programs() -> frozenset[str]:
    """Return the programs that load the code of the project, even when they are asked for their version."""
    return frozenset(name for name, program in programs().items() if any(row.loads for row in program.rows))


@cache
def trusting_programs() -> frozenset[str]:
    """Return the programs that may load files of the workspace, even when they are asked for their version."""
    return frozenset(
        name
        for name, program in programs().items()
        if any(row.trusted for row in (*program.rows, *program.sub.values()))
    )
