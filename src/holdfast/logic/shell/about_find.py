"""What `find` does: where it looks, what it writes, removes and runs."""

import re
from collections.abc import Sequence
from typing import Final

from holdfast.logic.shell.effects import HERE, Effect
from holdfast.logic.shell.options import may_be_option
from holdfast.logic.shell.scope import Field, Scope
from holdfast.logic.shell.table import Program

_ALONE: Final = frozenset(
    (
        *(
            "-print",
            "-print0",
            "-ls",
            "-prune",
            "-quit",
            "-daystart",
            "-depth",
            "-d",
            "-mount",
            "-xdev",
            "-x",
            "-noleaf",
            "-s",
            "-E",
            "-X",
        ),
        *(
            "-ignore_readdir_race",
            "-noignore_readdir_race",
            "-empty",
            "-executable",
            "-readable",
            "-writable",
            "-nouser",
        ),
        *(
            "-nogroup",
            "-true",
            "-false",
            "-a",
            "-and",
            "-o",
            "-or",
            "-not",
            "!",
            "(",
            ")",
            ",",
            "-warn",
            "-nowarn",
            "-help",
            "--help",
        ),
        *("-version", "--version"),
    )
)
_VALUED: Final = frozenset(
    (
        *(
            "-name",
            "-iname",
            "-path",
            "-ipath",
            "-wholename",
            "-iwholename",
            "-regex",
            "-iregex",
            "-regextype",
            "-type",
            "-xtype",
            "-size",
        ),
        *(
            "-mtime",
            "-atime",
            "-ctime",
            "-mmin",
            "-amin",
            "-cmin",
            "-user",
            "-group",
            "-uid",
            "-gid",
            "-perm",
            "-maxdepth",
            "-mindepth",
        ),
        *(
            "-links",
            "-inum",
            "-lname",
            "-ilname",
            "-fstype",
            "-used",
            "-printf",
            "-context",
            "-flags",
            "-Btime",
            "-Bmin",
            "-D",
        ),
    )
)
_COMPARED: Final = re.compile(r"-(?:a|c)?newer|-newer[aBcmt][aBcmt]|-samefile")
_WRITES: Final = frozenset(("-fprint", "-fprint0", "-fls", "-fprintf"))
_RUNS: Final = frozenset(("-exec", "-execdir", "-ok", "-okdir"))
_LEADING: Final = re.compile(r"-[HLP]+|-O[0-9]?")


def about_find(fields: Sequence[Field], _program: Program, scope: Scope) -> Effect:
    """Say what a `find` does."""
    effect = Effect()
    folders, at = _folders(fields, effect)
    removes = False
    while at < len(fields):
        word = fields[at].value
        at += 1
        if word is None or fields[at - 1].glob:
            effect.run(f"{fields[at - 1].text} may become an action")
        elif word in _RUNS:
            at = _runs(fields, at, effect)
        elif word == "-delete":
            removes = True
        elif word in _WRITES:
            at = _writes(word, fields, at, effect, scope)
        elif word in _VALUED or _COMPARED.fullmatch(word):
            at = _value(word, fields, at, effect, scope)
        elif word not in _ALONE:
            effect.run(f"{word} is not a known action")
    if removes:
        effect.exact = True
        effect.run("-delete removes files")
    for folder in folders or [HERE]:
        effect.touch("remove" if removes else "list", folder, scope)
    return effect


def _folders(fields: Sequence[Field], effect: Effect) -> tuple[list[Field], int]:
    folders, at = list[Field](), 1
    while at < len(fields):
        field = fields[at]
        if field.value is None or field.glob:
            if may_be_option(field) or field.glob:
                effect.run(f"{field.text} may become an action")
            folders.append(field)
        elif _LEADING.fullmatch(field.value):
            if "L" in field.value:
                effect.run("-L leads it to files that are not known before it runs")
        elif field.value == "-D":
            at += 1
        elif field.value.startswith("-") or field.value in ("(", ")", "!", ","):
            break
        else:
            folders.append(field)
        at += 1
    return folders, at


def _value(word: str, fields: Sequence[Field], at: int, effect: Effect, scope: Scope) -> int:
    if at < len(fields):
        if fields[at].many or fields[at].glob:
            effect.run(f"{fields[at].text} may become an action")
        if _COMPARED.fullmatch(word):
            effect.touch("list", fields[at], scope)
    return at + 1


def _writes(word: str, fields: Sequence[Field], at: int, effect: Effect, scope: Scope) -> int:
    effect.exact = True
    effect.run(f"{word} writes a file")
    if at < len(fields):
        effect.touch("write", fields[at], scope)
    return at + (2 if word == "-fprintf" else 1)


def _runs(fields: Sequence[Field], at: int, effect: Effect) -> int:
    """Take in the command of `-exec`, whose `{}` becomes a file's name."""
    effect.exact = True
    effect.run(f"{fields[at - 1].value} runs a program")
    inner = list[Field]()
    while at < len(fields):
        field = fields[at]
        at += 1
        if field.value == ";" or (field.value == "+" and inner and inner[-1].text == "{}"):
            break
        inner.append(filled_in(field, "{}"))
    if inner:
        effect.inner.append(inner)
    else:
        effect.hide("-exec has no program")
    return at


def filled_in(field: Field, mark: str) -> Field:
    """Give a word in which another program puts something unknown for a mark."""
    if field.value is None or mark not in field.value:
        return field
    start = field.value.partition(mark)[0]
    return Field(None, field.text, start=start, hint=field.value.replace(mark, "$__"))
