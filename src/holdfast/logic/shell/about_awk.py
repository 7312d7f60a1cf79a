"""What an `awk` program does: print what passes through, or also write files, run programs and read the environment."""

import re
from collections.abc import Sequence
from typing import Final

from holdfast.logic.shell.effects import Effect, mentioned
from holdfast.logic.shell.options import Options, take_apart
from holdfast.logic.shell.scope import Field, Scope
from holdfast.logic.shell.table import Program

_OPTIONS: Final = Options("-F: --field-separator: -v: --assign: -f!: --file!: --version --help -V")
_TOKEN: Final = re.compile(
    r"""(?P<string>"(?:[^"\\\n]|\\.)*")|(?P<comment>\#[^\n]*)|(?P<word>[A-Za-z_]\w*)|(?P<other>.)""",
    re.DOTALL | re.VERBOSE,
)
_REGEX: Final = re.compile(r"/(?:[^/\\\n\[]|\\.|\[\^?\]?(?:\[:[a-z]+:\]|\\[^\n/\]]|[^\]\n/\\\[])*\])*/")
_BEFORE_REGEX: Final = frozenset(("", "{", "}", ";", "(", ",", "!", "~", "&", "|", "\n"))
_BEFORE_DIVISION: Final = frozenset("0123456789]")
_TELLING: Final = re.compile(r"[|>@]|system|getline|ENVIRON|ARG|PROCINFO|SYMTAB|FUNCTAB")
"""What a program without any doubt about its slashes must have to do harm, wherever it stands."""
_FORBIDDEN: Final = frozenset(
    ("system", "getline", "ENVIRON", "ARGV", "ARGC", "ARGIND", "PROCINFO", "SYMTAB", "FUNCTAB")
)
_SYSTEM: Final = re.compile(r"system\s*\(\s*\"([^\"\\]+)\"")
_WRITTEN: Final = re.compile(r">\s*\"([^\"\\\n]+)\"")
_ASSIGNED: Final = re.compile(r"[A-Za-z_]\w*=")


def about_awk(fields: Sequence[Field], _program: Program, scope: Scope) -> Effect:
    """Say what an `awk` does."""
    effect = Effect()
    line = take_apart(fields[1:], _OPTIONS, stop=True)
    for field in line.values("-f", "--file"):
        effect.touch("read", field, scope)
    if line.seen and line.has("-f", "--file"):
        effect.run("its program is in a file")
        files = line.operands
    else:
        files = line.operands[1:]
        program = line.operands[0] if line.operands else Field("", "")
        if program.value is None or program.glob:
            effect.hide("its program is not known")
        elif not is_harmless(program.value):
            effect.run("its program may write files or run programs")
            mentioned(program.value, effect, scope)
            for name in _WRITTEN.findall(program.value):
                effect.touch("write", Field(name, name), scope)
            effect.scripts += [Field(text, text) for text in _SYSTEM.findall(program.value)]
    if line.unknown or line.unsure:
        effect.run(f"{line.unsure or line.unknown[0]} may be an option that is not known")
    for field in files:
        if field.value is None or not _ASSIGNED.match(field.value):
            effect.touch("read", field, scope)
    return effect


def is_harmless(program: str) -> bool:
    """Whether a program only computes and prints to its own output."""
    at, braces, parentheses, before = 0, 0, 0, ""
    while at < len(program):
        if program[at] == "/" and before in _BEFORE_REGEX:
            regex = _REGEX.match(program, at)
            if not regex:
                return False
            at, before = regex.end(), "/"
            continue
        if program[at] == "/" and before not in _BEFORE_DIVISION and _TELLING.search(program):
            return False
        found = _TOKEN.match(program, at)
        if not found:
            return False
        at, token = found.end(), found[0]
        if found["word"] in _FORBIDDEN or token in ("@", '"', "\\"):
            return False
        if token == "|":
            if program[at : at + 1] != "|":
                return False
            at += 1
        braces += (token == "{") - (token == "}")
        parentheses += (token == "(") - (token == ")")
        if token == ">" and braces and not parentheses:
            return False
        if not token.isspace() or token == "\n":
            before = token[-1] if found["other"] else "x"
    return True
