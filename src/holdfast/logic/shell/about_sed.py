"""What a `sed` script does: print and replace, or also write files and run programs."""

import re
from collections.abc import Sequence
from typing import Final

from holdfast.logic.shell.effects import Effect
from holdfast.logic.shell.options import Options, take_apart
from holdfast.logic.shell.scope import Field, Scope
from holdfast.logic.shell.table import Program

_OPTIONS: Final = Options(
    "-e: --expression: -f!: --file!: -i? --in-place? -n --quiet --silent -E -r --regexp-extended -s --separate -u "
    "--unbuffered -z --null-data -l: --line-length: --posix --debug --follow-symlinks --sandbox -b --binary -a --help --version"
)
_ADDRESS: Final = (
    r"(?:[0-9]+(?:~[0-9]+)?|\$|/(?:[^/\\\n\[]|\\[^\n]|\[\^?[^\]/\n\\]+\])*/[IM]*"
    r"|\\([,|#@%])(?:(?!\{n})[^\\\n\[]|\\[^\n])*\{n}[IM]*)"
)
_ADDRESSES: Final = re.compile(
    rf"{_ADDRESS.replace('{n}', '1')}(?:\s*,\s*(?:[+~]?[0-9]+|{_ADDRESS.replace('{n}', '2')}))?\s*(?:!\s*)*"
)
_PLAIN: Final = re.compile(r"[pPdDqQ=gGhHxnNlzF][0-9]*")
_LABEL: Final = re.compile(r"[btT:]\s*[A-Za-z0-9_.-]*")
_TEXT: Final = re.compile(r"[aic](?:\\\n|[ \t]*\\?)(?:[^\n\\]|\\.)*", re.DOTALL)
_FLAGS: Final = re.compile(r"[gpiImM0-9]*")
_FILES: Final = re.compile(r"([rRwW])[ \t]*([^\s;}][^\n;}]*)")
_RUN: Final = re.compile(r"(?<![A-Za-z\\])e[ \t]+([^\n]+)")
_RUN_RESULT: Final = re.compile(
    r"(?=s([^\\\n])(?:\\.|(?!\1)[^\\])*+\1((?:\\.|(?!\1)[^\\])*+)\1[gpiImM0-9\s]*e)", re.DOTALL
)
"""A substitution whose result is run, wherever it may begin."""
_CLASS: Final = re.compile(r"\[\^?\]?[^\]\n]*\]")
_LONG: Final = 1_000
"""How much of a script is looked through for what it runs."""
_GAP: Final = re.compile(r"(?:[\s;{}]|#[^\n]*)*")


def about_sed(fields: Sequence[Field], _program: Program, scope: Scope) -> Effect:
    """Say what a `sed` does."""
    effect = Effect()
    line = take_apart(fields[1:], _OPTIONS)
    scripts, files = line.values("-e", "--expression"), line.operands
    if not line.has("-e", "--expression", "-f", "--file"):
        # BSD's -i takes a suffix of its own, often empty: then the script is the word after it.
        taken = 2 if files and files[0].value == "" and line.has("-i", "--in-place") else 1
        scripts, files = files[:taken], files[taken:]
    if line.unknown or line.unsure:
        effect.run(f"{line.unsure or line.unknown[0]} may be an option that is not known")
    if line.has("-f", "--file"):
        effect.run("its script is in a file")
        for field in line.values("-f", "--file"):
            effect.touch("read", field, scope)
    for script in scripts:
        if script.value is None or script.glob or not is_harmless(script.value):
            effect.run("its script may write files or run programs")
            _run(script.value or script.hint, effect)
            for letter, name in _FILES.findall(script.value or ""):
                effect.touch("read" if letter in "rR" else "write", Field(name, name), scope)
    changes = line.has("-i", "--in-place")
    if changes and effect.does == "reads":
        effect.does = "edits"
    for field in files:
        effect.touch("read", field, scope)
        if changes:
            effect.touch("write", field, scope)
    for field in line.values("-i", "--in-place"):
        for file in files:
            backup = (
                None if file.value is None or field.value is None or "*" in field.value else file.value + field.value
            )
            effect.touch("write", Field(backup, file.text, file.glob), scope)
    return effect


def _run(script: str, effect: Effect) -> None:
    """Take in what a script runs: commands that it spells out, and lines that pass through it."""
    seen = script[:_LONG]
    effect.scripts += [Field(text, text) for text in _RUN.findall(script)]
    results = [found[2] for text in (seen, _CLASS.sub("x", seen)) for found in _RUN_RESULT.finditer(text)]
    effect.scripts += [Field(text, text) for text in dict.fromkeys(results) if text]
    lines, at = list[str](), 0
    while (at := _first_harmful(script, at)) >= 0:
        end = script.find("\n", at)
        end = len(script) if end < 0 else end
        lines += [script[at + 1 : end].strip()] if script[at : at + 1] == "e" else []
        at = max(end, at + 1)
    effect.scripts += [Field(line, line) for line in lines if line]
    if results or "" in lines or len(script) > _LONG:
        effect.hide("its script may run the lines that pass through it")


def is_harmless(script: str) -> bool:
    """Whether a script is made of commands that only print and change what passes through."""
    return _first_harmful(script) < 0


def _first_harmful(script: str, at: int = 0) -> int:
    """Give the place of the first command from here on that is not known to be harmless, or -1."""
    while True:
        gap = _GAP.match(script, at)
        at = gap.end() if gap else at
        if at >= len(script):
            return -1
        address = _ADDRESSES.match(script, at)
        at = address.end() if address else at
        if script[at : at + 1] == "{":
            continue
        after = _command(script, at)
        if after < 0 or script[after : after + 1] not in ("", ";", "\n", "}", " ", "#"):
            return at
        at = after


def _command(script: str, at: int) -> int:
    """Give the place after one command, or -1 when it is not known to be harmless."""
    letter = script[at : at + 1]
    if letter in ("s", "y"):
        return _substitution(script, at, flags=letter == "s")
    for pattern in (_PLAIN, _TEXT, _LABEL):
        found = pattern.match(script, at)
        if found:
            return found.end()
    return -1


def _substitution(script: str, at: int, *, flags: bool) -> int:
    mark = script[at + 1 : at + 2]
    if not mark or mark in "\\\n":
        return -1
    at += 2
    for _ in range(2):
        while at < len(script) and script[at] != mark:
            if script[at] == "[" and mark != "[":
                return _bracketed(script, at, mark, flags=flags)
            at += 2 if script[at] == "\\" else 1
        at += 1
    if at > len(script):
        return -1
    return _after_flags(script, at) if flags else at


def _bracketed(script: str, at: int, mark: str, *, flags: bool) -> int:
    """Take a substitution with brackets only where the mark is not inside of any: whether it ends there is not plain."""
    end = script.rfind(mark)
    if script.count(mark) != 3 or end < at:
        return -1
    return _after_flags(script, end + 1) if flags else end + 1


def _after_flags(script: str, at: int) -> int:
    found = _FLAGS.match(script, at)
    return found.end() if found else at
