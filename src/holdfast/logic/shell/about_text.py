"""What programs do whose operands are not just files: searching, dates, processes, interpreters."""

import re
from collections.abc import Sequence
from typing import Final

from holdfast.logic.shell.about_find import filled_in
from holdfast.logic.shell.effects import HERE, Effect, base_name, by_table, from_line, goes_deep, guessed, mentioned
from holdfast.logic.shell.options import may_be_option, take_apart
from holdfast.logic.shell.scope import Field, Scope
from holdfast.logic.shell.table import Program

_ALL_PROCESSES: Final = re.compile(r"-[efFlyHLjcAMZ]+")
_RUNS_EACH: Final = re.compile(r"-[A-Za-z0-9]*[xX]|--exec(?:-batch)?")
_PROCESS_OPTION: Final = re.compile(r"-[A-DF-Za-df-z]+|--[a-z-]+(?:=.*)?|[A-DF-Za-df-z]+|[0-9]+(?:,[0-9]+)*")
_PROCESS_VALUED: Final = re.compile(
    r"-[A-Za-z]*[oOpuUgGtsCqk]|[A-Za-z]*[oOpUtk]|--(?:format|pid|ppid|user|User|group|Group|tty|sid|sort|cols|rows|columns|lines|width)"
)
_FORMATTED: Final = re.compile(r"-[efFlyHLjcAMZ]+o")
_EDITOR_RUNS: Final = re.compile(r"!(.*)|system|py|lua|perl|ruby|source|exe|term|make", re.DOTALL)
_IN_PLACE: Final = frozenset(("perl", "ruby"))
_CHANGES: Final = re.compile(r"-[alnpsw0]*i.*")
_ENVIRONMENT: Final = re.compile(
    r"\benv\b|\$ENV\b|\$__prog|\binput_filename\b|\bimport\b|\binclude\b|\bget_search_list\b"
)


def about_grep(fields: Sequence[Field], program: Program, scope: Scope) -> Effect:
    """Say what `grep` does: without a file, a recursive one reads the folder."""
    line = take_apart(fields[1:], program.options, number=program.number)
    effect = from_line(line, program, scope)
    patterns = 0 if line.has(*program.given) else 1
    actions = [field.value for field in line.values("-d", "--directories")]
    deep = goes_deep(line, program) or any(value is None or "recurse".startswith(value) for value in actions)
    if deep and len(line.operands) <= patterns:
        effect.touch("read", HERE, scope)
    if deep:
        effect.deepen()
    return effect


def about_fd(fields: Sequence[Field], program: Program, scope: Scope) -> Effect:
    """Say what `fd` does, and what it runs for each file that it finds."""
    at = next((at for at, field in enumerate(fields) if _RUNS_EACH.fullmatch(field.value or "")), len(fields))
    effect = by_table(fields[: at + 1], program, scope)
    inner = [filled_in(field, "{}") for field in fields[at + 1 :] if field.value != ";"]
    if inner:
        effect.exact = True
        effect.inner.append([*inner, Field(None, "", many=True)])
    return effect


def about_date(fields: Sequence[Field], program: Program, scope: Scope) -> Effect:
    """Say what `date` does: an operand that is no format sets the clock."""
    line = take_apart(fields[1:], program.options)
    effect = from_line(line, program, scope)
    effect.accesses = [access for access in effect.accesses if access.kind != "read"]
    for field in line.values("-f", "--file"):
        effect.touch("read", field, scope)
    for field in line.operands:
        if not (field.value or field.start).startswith("+"):
            effect.run(f"{field.text} may set the clock")
    return effect


def about_ps(fields: Sequence[Field], _program: Program, _scope: Scope) -> Effect:
    """Say what `ps` does: it may show the environment of processes, and with it secrets."""
    effect, at = Effect(), 1
    while at < len(fields):
        value = fields[at].value
        at += 1
        if value is None or fields[at - 1].glob:
            effect.run("its options are not known")
        elif _ALL_PROCESSES.fullmatch(value):
            continue
        elif not (_FORMATTED.fullmatch(value) or _PROCESS_OPTION.fullmatch(value)):
            effect.run(f"{value} may show the environment of processes")
        elif _PROCESS_VALUED.fullmatch(value) and at < len(fields) and not may_be_option(fields[at]):
            if "env" in (fields[at].value or ""):
                effect.run("it shows the environment of processes")
            at += 1
    return effect


def about_strings(fields: Sequence[Field], program: Program, scope: Scope) -> Effect:
    """Say what `strings` does: like other programs of its family it takes options from a file, and shows what it does not know of it."""
    effect = by_table(fields, program, scope)
    if any((field.value or field.start).startswith("@") for field in fields[1:]):
        effect.run("it takes its options from a file")
    return effect


def about_jq(fields: Sequence[Field], program: Program, scope: Scope) -> Effect:
    """Say what `jq` does: its programs run nothing, but they can read the environment and other files."""
    line = take_apart(fields[1:], program.options)
    effect = from_line(line, program, scope)
    for field in (*line.values("--slurpfile", "--rawfile", "--argfile"),):
        effect.touch("read", field, scope)
    filters = [] if line.has("-f", "--from-file") else line.operands[:1]
    if line.has("-f", "--from-file"):
        effect.run("its program is in a file")
    for field in filters:
        if field.value is None or field.glob or _ENVIRONMENT.search(field.value):
            effect.run("its program may read the environment or other files")
    return effect


def about_interpreter(fields: Sequence[Field], program: Program, scope: Scope) -> Effect:
    """Say what an interpreter does: anything; it hides what it does when its program is not in view."""
    effect = Effect("runs", "it runs a program of its own")
    line = take_apart(fields[1:], program.options, stop=True)
    codes = line.values("-c", "-e", "-E", "-p", "--eval", "--print")
    for field in codes:
        mentioned(field.value or field.hint, effect, scope)
    if any(field.value is None for field in codes) or line.unsure:
        effect.hide("its program is not known before it runs")
    if not codes and not line.has("-m") and (not line.operands or line.operands[0].value in ("-", "/dev/stdin")):
        effect.from_input = True
    if line.operands and line.operands[0].pipe:
        effect.hide("its program comes from elsewhere")
    guessed(line.operands, effect, scope)
    if base_name(fields[0].value or "", scope.ground.os) in _IN_PLACE and _changes_files(fields):
        for field in line.operands:
            effect.touch("write", field, scope)
    if not codes and not line.has("-m") and line.operands:
        effect.touch("read", line.operands[0], scope)
    return effect


def _changes_files(fields: Sequence[Field]) -> bool:
    """Whether `-i` is among the options: the program goes through the files that it is given, and writes what it prints back."""
    return any(_CHANGES.fullmatch(field.value or "") for field in fields[1:])


def about_hidden_text(fields: Sequence[Field], _program: Program, scope: Scope) -> Effect:
    """Say what a program does that runs text from its arguments or its input."""
    effect = Effect()
    effect.hide("it runs commands that are not in view")
    effect.scripts += [field for field in fields[1:] if field.value is not None and " " in field.value]
    guessed(fields[1:], effect, scope)
    return effect


def about_editor(fields: Sequence[Field], program: Program, scope: Scope) -> Effect:
    """Say what editors and pagers do: `+command` and `-c command` may run programs."""
    line = take_apart(fields[1:], program.options, number=program.number)
    effect = from_line(line, program, scope)
    given = [field for field in line.operands if (field.value or "").startswith("+")]
    for field in (*given, *line.values("-c", "--cmd")):
        found = _EDITOR_RUNS.search(field.value or field.hint)
        if found:
            effect.hide("a command of the editor may run programs")
            effect.scripts += [Field(found[1], field.text)] if found[1] else []
    return effect


def about_make(fields: Sequence[Field], program: Program, scope: Scope) -> Effect:
    """Say what `make` does: anything; it hides what when its rules are not in a file."""
    line = take_apart(fields[1:], program.options)
    effect = from_line(line, program, scope)
    files = line.values("-f", "--file", "--makefile")
    if line.has("--eval", "-E") or any(field.pipe or field.value in (None, "-", "/dev/stdin") for field in files):
        effect.hide("its rules are not in a file that can be looked at")
    return effect
