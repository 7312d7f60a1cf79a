"""Programs that others may start: named among the words of one that nobody knows, or in the code of an interpreter."""

import re
from itertools import pairwise
from typing import Final

from backstay.logic.acts import Command, Layer

_INTERPRETER: Final = re.compile(
    r"(?:python|pypy|perl|ruby|node|nodejs|deno|bun|php|lua|luajit|tclsh|expect|osascript|Rscript|R|ghci|julia|groovy|scala|pwsh"
    r"|powershell|irb|rake|ts-node|tsx|guile|elixir|erl|jshell|emacs|vim|nvim|ex|vi|gdb|sqlite3|psql|mysql|[gmn]?awk)[\d.]*"
)
_MESSAGES: Final = frozenset(("-m", "--message", "-am", "--title", "--body", "-t", "-b"))
"""Options whose values are words for people."""
_ASSIGNED: Final = re.compile(r"[A-Za-z_]\w*=\S*\s")
"""A setting of several words, as `sudo` and `env` take them."""
_NAMES: Final = re.compile(r"[\w./+-]+")


def may_run(command: Command, program: str) -> bool:
    """Whether a command may start a program that one of its words names."""
    return command.does == "runs" and any(_may_run(layer, program) for layer in command.layers)


def _may_run(layer: Layer, program: str) -> bool:
    first, *rest = layer.words or (None,)
    name = _base(first or "")
    words = [word for word in rest if word is not None and program in word]
    if not words or name == program:
        return False
    if name in ("sed", "gsed"):
        return True  # a script of it may begin a command anywhere: `1erm x`
    if _INTERPRETER.fullmatch(name):
        return any(_base(found) == program for word in words for found in _NAMES.findall(word))
    if not _is_known(name) and any(_base(_first(word)) == program for word in words):
        return True
    return any(_is_given(before or "", word or "", program) for before, word in pairwise(layer.words))


def _is_given(before: str, word: str, program: str) -> bool:
    """Whether a word is, or ends in, a text that an option or a setting may have run: `--tree-filter 'rm x'`, `SHELL=rm`."""
    if before in _MESSAGES:
        return False
    parts = [part for part in re.split(r"[=:]+", word)[1:] if part]
    if _ASSIGNED.match(word):
        parts += word.split()
    if before.startswith("-") or (before.isalpha() and len(before) == 1):
        parts.append(word)
    return any(_base(_first(part).strip("'\"")) == program for part in parts)


def _first(word: str) -> str:
    """The program of a text that a shell may be given; the word itself when it is one."""
    return next(iter(word.lstrip(" !").split(maxsplit=1)), "")


def _base(word: str) -> str:
    return word.rpartition("/")[2]


def _is_known(name: str) -> bool:
    from backstay.logic.shell.finder import is_known  # noqa: PLC0415 - the tables are read when the first rule needs them

    return is_known(name)
