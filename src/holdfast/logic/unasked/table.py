"""The tables of programs whose effect is known: what each row says, read from `tables/*.toml` when first needed.

A key names one program, or several between blanks. A program without a row is not known. Exactly one of these says how a row is read:
`options` with `operands`; `words` (every word is text); `match` (the arguments, joined by blanks, are this pattern); `runs` (such arguments, then
a command that it runs unchanged); `grammar` (a function of `programs.py`); `version` (this word alone); `sub` (rows of subcommands).

`operands`: what they are, the last for all that follow: `read list write remove` name files, `text` and `format` none, `none` is none.
`given`: flags that take the place of the first operand. `here`: what becomes of the folder without operands. `deep`: flags with which
everything below a folder is read, or `always`. `tame`: no flag of the program, listed or not, does harm, so a wildcard may begin a word;
`ending`: if it ends in letters. `fed`: `xargs` may give it files. `needs`: one of these flags must be there. `number`: `-5` is a flag.
`single`: one dash begins a long name. `edits`: it changes the files that it names and nothing else. `trusted`: free only in a workspace
that is trusted. `os`: the system that the row is for. `checked`: how its flags were looked at.
"""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

import msgspec

from holdfast.logic.unasked.options import Flag, read_flags

FILES: Final = ("shell", "reading", "editing", "tools", "git")


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    checked: str
    options: str = ""
    operands: str = ""
    words: bool = False
    match: str | None = None
    runs: str | None = None
    grammar: str = ""
    version: str = ""
    given: str = ""
    here: str = ""
    deep: str = ""
    tame: bool | str = False
    fed: bool = False
    needs: str = ""
    number: bool = False
    single: bool = False
    edits: bool = False
    trusted: bool = False
    os: str = ""


class Row(msgspec.Struct, frozen=True):
    """A row, ready for use."""

    flags: Mapping[str, Flag]
    operands: tuple[str, ...]
    words: bool
    match: re.Pattern[str] | None
    runs: re.Pattern[str] | None
    grammar: str
    version: str
    given: tuple[str, ...]
    here: str
    deep: tuple[str, ...]
    tame: bool | str
    fed: bool
    needs: tuple[str, ...]
    number: bool
    single: bool
    edits: bool
    trusted: bool
    os: str
    checked: str


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
        assert isinstance(shared, dict)
        tables = load(file)["programs"]
        assert isinstance(tables, dict)
        for names, table in tables.items():
            subs = {
                name: _row(row, shared) for subnames, row in table.pop("sub", {}).items() for name in subnames.split()
            }
            rows = (_row(table, shared),) if table else ()
            for name in names.split():
                before = found.get(name, Program())
                found[name] = Program((*before.rows, *rows), {**before.sub, **subs})
    return found


@cache
def word_list(key: str) -> frozenset[str]:
    """Give a list of words of `shell.toml`."""
    text = load("shell")[key]
    assert isinstance(text, str)
    return frozenset(text.split())


def load(file: str) -> dict[str, object]:
    """Read one of the tables."""
    return tomllib.loads(files(__package__).joinpath("tables", f"{file}.toml").read_text(encoding="utf-8"))


def _row(table: dict[str, object], shared: Mapping[str, str]) -> Row:
    row = msgspec.convert(table, _Row)
    options = " ".join(shared.get(word, word) for word in row.options.split())
    return Row(
        flags=read_flags(options),
        operands=tuple(row.operands.split()),
        words=row.words,
        match=None if row.match is None else re.compile(row.match),
        runs=None if row.runs is None else re.compile(row.runs),
        grammar=row.grammar,
        version=row.version,
        given=tuple(row.given.split()),
        here=row.here,
        deep=tuple(row.deep.split()),
        tame=row.tame,
        fed=row.fed,
        needs=tuple(row.needs.split()),
        number=row.number,
        single=row.single,
        edits=row.edits,
        trusted=row.trusted,
        os=row.os,
        checked=row.checked,
    )
