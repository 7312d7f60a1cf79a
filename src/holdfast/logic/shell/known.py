"""Looking a program up: who says what it does."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from holdfast.logic.shell.about_awk import about_awk
from holdfast.logic.shell.about_builtins import (
    about_folder,
    about_printenv,
    about_printf,
    about_shell_options,
    about_test,
    about_variables,
)
from holdfast.logic.shell.about_files import (
    about_assigned_files,
    about_copy,
    about_curl,
    about_diff,
    about_move,
    about_patch,
    about_tar,
    about_unzip,
)
from holdfast.logic.shell.about_find import about_find
from holdfast.logic.shell.about_git import about_git
from holdfast.logic.shell.about_sed import about_sed
from holdfast.logic.shell.about_text import (
    about_date,
    about_editor,
    about_fd,
    about_grep,
    about_hidden_text,
    about_interpreter,
    about_jq,
    about_make,
    about_ps,
    about_strings,
)
from holdfast.logic.shell.effects import (
    Effect,
    base_name,
    by_table,
    from_line,
    guessed,
    is_system,
    see,
    shows_secret,
    unknown_program,
)
from holdfast.logic.shell.options import take_apart
from holdfast.logic.shell.scope import Field, Scope
from holdfast.logic.shell.table import Program, programs, rewriters, words

Reader: TypeAlias = Callable[[Sequence[Field], Program, Scope], Effect]

_READERS: Final[Mapping[str, Reader]] = {
    "": by_table,
    "assigned_files": about_assigned_files,
    "awk": about_awk,
    "copy": about_copy,
    "curl": about_curl,
    "date": about_date,
    "diff": about_diff,
    "editor": about_editor,
    "fd": about_fd,
    "find": about_find,
    "folder": about_folder,
    "git": about_git,
    "grep": about_grep,
    "hidden_text": about_hidden_text,
    "interpreter": about_interpreter,
    "jq": about_jq,
    "make": about_make,
    "move": about_move,
    "patch": about_patch,
    "printenv": about_printenv,
    "printf": about_printf,
    "ps": about_ps,
    "sed": about_sed,
    "shell_options": about_shell_options,
    "strings": about_strings,
    "tar": about_tar,
    "test": about_test,
    "unzip": about_unzip,
    "variables": about_variables,
}

_QUESTIONS: Final = frozenset(("--version", "-version", "-V", "-v", "--help"))
_OWN: Final = frozenset(("folder", "shell_options", "variables"))
"""Commands of the shell itself: a program of that name in a folder is another one."""


def effect_of(fields: Sequence[Field], scope: Scope) -> Effect:
    """Say what a command does whose program is known by its first word."""
    head = fields[0].value or ""
    name = base_name(head, scope.ground.os)
    if head in scope.functions:
        effect = unknown_program(fields, scope)
        effect.why = ""
        effect.hide("it calls a function whose body is not certain")
        return effect
    if _asks_version(name, fields) and is_system(head):
        return Effect()
    program = programs().get("mkfs" if name.startswith("mkfs.") else name)
    if program is None or (program.by in _OWN and head != name):
        effect = unknown_program(fields, scope)
    else:
        read = _with_subcommand if program.sub and not program.by else _READERS[program.by]
        effect = read(fields, program, scope)
    _rewritten(name, fields, effect, scope)
    if not is_system(head):
        effect.run("a program that is not the system's")
    elif effect.does == "reads" and shows_secret(fields[1:], scope):
        effect.run("it shows a secret")
    return effect


def _rewritten(name: str, fields: Sequence[Field], effect: Effect, scope: Scope) -> None:
    """Take in the files that a program puts something else in the place of, although it is not known as one that edits."""
    given = list(fields[1:])
    module = (
        next((at for at, field in enumerate(given) if field.value == "-m"), -1) if name.startswith("python") else -1
    )
    if 0 <= module < len(given) - 1 and not any(field.value == "-c" for field in given[:module]):
        name, given = given[module + 1].value or "", given[module + 2 :]
    rewriter = rewriters().get(name[:1] + name[1:].partition("@")[0])
    if rewriter is None or not rewriter.changes([field.value or "" for field in given]):
        return
    valued = False
    for field in given:
        if field.value and not field.value.startswith("-") and not valued:
            effect.touch("read", field, scope, rewrites="file")
        valued = field.value in words("rewriters", "values")


def _asks_version(name: str, fields: Sequence[Field]) -> bool:
    if len(fields) != 2 or fields[1].value is None:
        return False
    flag = fields[1].value
    return flag in _QUESTIONS and name in words("versions", flag)


def _with_subcommand(fields: Sequence[Field], program: Program, scope: Scope) -> Effect:
    """Say what a tool with subcommands does; one that is not in its table runs."""
    line = take_apart(fields[1:], program.options, stop=True)
    effect = Effect()
    for seen in line.seen:
        see(seen, effect, scope)
    if line.unknown or line.unsure:
        effect.run(f"{line.unsure or line.unknown[0]} is not a known option")
    rest, sub = line.operands, program
    while rest and sub.sub:
        found = sub.sub.get(rest[0].value or "") if not rest[0].glob else None
        if found is None:
            break
        sub, rest = found, rest[1:]
    effect.network = sub.network or program.network
    if sub is program or sub.sub or sub.does == "runs":
        effect.run("not known to be harmless")
        guessed(fields[1:], effect, scope)
        return effect
    inner = from_line(take_apart(rest, sub.options, number=sub.number), sub, scope)
    effect.accesses += inner.accesses
    if inner.does != "reads":
        effect.run(inner.why)
    return effect
