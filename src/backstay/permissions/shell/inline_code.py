"""Tell what programs do that run code from their arguments: interpreters, editors, `make`, `sed`, `awk`."""

import re
from typing import Final

from backstay.permissions.shell.effects import Asked, Effect, guess, is_stream, mention, read_operands
from backstay.permissions.shell.expand import Field
from backstay.permissions.unasked import is_awk_program, is_sed_script

_SED_ADDRESS: Final = r"(?:[0-9~+]+|\$|/(?:\\.|[^/\\\n])*/[IM]*)"
_SED_RUNS: Final = re.compile(
    rf"(?:^|[\n;{{}}!])[ \t]*(?:{_SED_ADDRESS}[ \t]*(?:,[ \t]*{_SED_ADDRESS}[ \t]*)?!?[ \t]*)?e"
    r"|(?:^|[\n;{}!0-9$/,])[ \t]*e(?:[\s;}]|$)|[^\w\s][gpiImM0-9]*e[gpiImMw0-9]*\s*(?:[;}\n#]|$)"
)
"""In a sed script, what may be a command or a flag that runs a program."""
_SED_FILES: Final = re.compile(r"([rRwW])[ \t]*([^\s;}][^\n;}]*)")
_AWK_RUNS: Final = re.compile(r"system|getline|(?<!\|)\|(?!\|)|@(?:load|include)|/inet/")
_AWK_WRITES: Final = re.compile(r">\s*\"([^\"\\\n]+)\"")
_PLACED: Final = re.compile(r"[/.~=]")
"""In a word of `make`: a file, or a value that may name one. Any other is a target."""
_MAKE_RUNS: Final = re.compile(
    r"(?:MAKEFLAGS|MFLAGS|MAKEFILES|SHELL|\.SHELLFLAGS|\.DEFAULT_GOAL)[:+?!]*=|.*(?:\$[({]|`)", re.DOTALL
)
"""What says among the operands of `make` what runs: some assignments, and what it expands."""
_CHANGES_IN_PLACE: Final = re.compile(r"-[alnpsw0]*i.*")


def read_interpreter(asked: Asked, effect: Effect) -> None:
    """Say what an interpreter may do: anything; it hides what when its program is not in view."""
    line = asked.line
    codes = [value for _, kind, value in line.given if kind == "code"]
    for code in (*codes, *asked.given):
        mention(code.value or "", effect, asked.site)
    if any(code.value is None for code in codes):
        effect.hide("its program is not known before it runs")
    script = None if codes or "-m" in line.names else (line.operands[0] if line.operands else Field("-"))
    from_input = script is not None and (script.value in (None, "-") or is_stream(script.value))
    effect.given = effect.given or from_input
    if from_input and not asked.given:
        effect.hide("its program comes from elsewhere")
    guess(line.operands, effect, asked.site)
    if script is not None and not from_input:
        effect.touch("read", script, asked.site)
    in_place = asked.name in ("perl", "ruby") and any(
        _CHANGES_IN_PLACE.fullmatch(word.value or "") for word in asked.words
    )
    for field in line.operands if in_place else ():
        effect.touch("write", field, asked.site)


def read_editor(asked: Asked, effect: Effect) -> None:
    read_operands(asked, effect)
    for field in asked.line.operands:  # it shows what it changes
        effect.touch("read", field, asked.site)
    if any(kind == "code" for _, kind, _ in asked.line.given) or any(
        (field.value or "").startswith("+") for field in asked.line.operands
    ):
        effect.hide("a command of the editor may run programs")


def read_make(asked: Asked, effect: Effect) -> None:
    guess((field for field in asked.line.operands if _PLACED.search(field.value or "")), effect, asked.site)
    files = asked.line.values("-f", "--file", "--makefile")
    if (
        any(kind == "code" for _, kind, _ in asked.line.given)
        or any(field.value in (None, "-") or is_stream(field.value) for field in files)
        or any(field.value is None or _MAKE_RUNS.match(field.value) for field in asked.line.operands)
    ):
        effect.exact = True
        effect.hide("its rules are not in a file that can be looked at")


def read_sed(asked: Asked, effect: Effect) -> None:
    line, files = asked.line, asked.line.operands
    scripts = [value for _, kind, value in line.given if kind == "code"]
    in_place = line.has("-i", "--in-place")
    effect.exact = line.has("-f", "--file")
    if not scripts and not effect.exact:
        # BSD's -i takes a suffix of its own, often empty: then the script is the word after it.
        taken = 2 if files and files[0].value == "" and in_place else 1
        scripts, files = files[:taken], files[taken:]
    for script in scripts:
        proved = script.value is not None and is_sed_script(script.value)
        effect.exact = effect.exact or not proved
        if script.value is None or (not proved and _SED_RUNS.search(script.value)):
            effect.hide("its script may run programs")
        for letter, name in _SED_FILES.findall(script.value or ""):
            effect.touch("read" if letter in "rR" else "write", Field(name, name), asked.site)
    endings = [value.value or "" for value in line.values("-i", "--in-place")]
    for field in files:
        effect.touch("read", field, asked.site)
        for ending in ["", *endings] if in_place else []:
            value = None if field.value is None or "*" in ending else field.value + ending
            effect.touch("write", Field(value, field.text, field.glob), asked.site)


def read_awk(asked: Asked, effect: Effect) -> None:
    line, files = asked.line, asked.line.operands
    programs = [value for _, kind, value in line.given if kind == "code"]
    in_file = line.has("-f", "--file", "-E", "--exec")
    effect.exact = line.has("-f", "--file", "-E", "--exec", "-i", "--include", "-l", "--load")
    in_place = any(value.value in (None, "inplace") for value in line.values("-i", "--include"))
    if not programs and not in_file:
        programs, files = files[:1], files[1:]
    for program in programs:
        effect.exact = effect.exact or program.value is None or not is_awk_program(program.value)
        if program.value is None or (effect.exact and _AWK_RUNS.search(program.value)):
            effect.hide("its program may run others")
        mention(program.value or "", effect, asked.site)
        for name in _AWK_WRITES.findall(program.value or ""):
            effect.touch("write", Field(name, name), asked.site)
    for field in files:
        effect.touch("read", field, asked.site)
        if in_place:
            effect.touch("write", field, asked.site)
