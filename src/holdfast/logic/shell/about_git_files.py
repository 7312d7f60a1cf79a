"""Files of the work tree that `git` replaces: those that it is given, and those that no word of its names."""

import posixpath
import re
from collections.abc import Sequence
from typing import Final

from holdfast.logic.shell.effects import HERE, Effect, guessed
from holdfast.logic.shell.scope import Field, Scope

_PATHSPEC: Final = re.compile(r"[*?\[]|^:[(/!^]")
_FILE: Final = re.compile(r"(?:^\.{0,2}/|.\.[A-Za-z]\w*$)|^\.$")
"""What is a file rather than a branch: with an ending, or a way to it."""
_NEW_BRANCH: Final = frozenset(("-b", "-B", "--orphan", "-t", "--track", "-d", "--detach"))
_VALUED: Final = frozenset(("-s", "--source", "--conflict", "-U", "--unified"))
_LOOKS: Final = frozenset(("--check", "--stat", "--numstat", "--summary", "--cached", "--help"))


def given_files(
    name: str | None, arguments: Sequence[Field], folders: Sequence[Field], effect: Effect, scope: Scope
) -> None:
    """Take in the files that a subcommand is given, `folders` being those of `-C`; some put something else in their place."""
    guessed(arguments, effect, scope)
    words = [field.value or "" for field in arguments]
    flags = {word for word in words[: words.index("--") if "--" in words else None] if word.startswith("-")}
    short = {letter for word in flags if not word.startswith("--") for letter in word[1:]}
    there = _moved(folders, scope)
    match name:
        case "rm" if not flags & {"--cached", "--dry-run"} and "n" not in short:
            _replaced(_operands(arguments), effect, there)
        case "mv" if not flags & {"--dry-run"} and "n" not in short:
            _replaced(_operands(arguments), effect, there)
        case "restore" if not (flags & {"--staged"} or "S" in short) or flags & {"--worktree"} or "W" in short:
            _replaced(_operands(arguments), effect, there)
        case "checkout" if not flags & _NEW_BRANCH:
            _replaced(_checked_out(arguments), effect, there)
        case "apply" if not flags & _LOOKS or "--apply" in flags:
            _replaced([HERE], effect, there)
        case "clean" if not flags & {"--dry-run", "--help"} and "n" not in short:
            _replaced(_operands(arguments) or [HERE], effect, there)
        case _:
            pass


def _operands(arguments: Sequence[Field]) -> list[Field]:
    found, valued, plain = list[Field](), False, False
    for field in arguments:
        word = field.value or ""
        if valued or (word.startswith("-") and not plain):
            valued, plain = not valued and word in _VALUED, plain or word == "--"
        elif word:
            found.append(field)
    return found


def _checked_out(arguments: Sequence[Field]) -> list[Field]:
    """The files of a `checkout`: what comes first is a branch or a commit, unless it looks like a file."""
    words = [field.value for field in arguments]
    after = arguments[words.index("--") + 1 :] if "--" in words else []
    if after:
        return [field for field in after if field.value]
    operands = _operands(arguments)
    first = operands[:1] if operands and _FILE.search(operands[0].value or "") else []
    return [*first, *operands[1:]]


def _replaced(fields: Sequence[Field], effect: Effect, scope: Scope) -> None:
    for field in fields:
        wild = not field.glob and _PATHSPEC.search(field.value or "")
        effect.touch("read", HERE if wild else field, scope, rewrites="tree")


def _moved(folders: Sequence[Field], scope: Scope) -> Scope:
    """The place that `-C` leads to."""
    moved = scope.copy()
    for field in folders:
        moved.folders = tuple(
            None if folder is None or field.value is None else posixpath.join(folder, field.value)
            for folder in moved.folders
        )
    return moved
