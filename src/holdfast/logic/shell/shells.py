"""Shells that a command starts: the text that they are given, a script's file, or their input."""

import re
from collections.abc import Sequence
from typing import Final

from holdfast.logic.shell.scope import Field, Scope
from holdfast.logic.shell.steps import Source, Step, joined

SHELLS: Final = frozenset(("sh", "bash", "dash", "zsh", "ksh", "ksh93", "mksh", "ash", "rbash", "yash"))
OTHER_SHELLS: Final = frozenset(("fish", "csh", "tcsh", "xonsh", "nu", "elvish", "pwsh", "powershell", "rc", "es"))
_TAME_FLAGS: Final = re.compile(r"-[ceuxfv]+|-[eux]*o")


def read_shell(name: str, fields: Sequence[Field], scope: Scope, source: Source) -> Step:
    """Read a shell's own arguments: `-c text`, a script's file, or its input."""
    step = Step(tame=name in SHELLS)
    at, given, from_input, tame = 1, False, False, True
    while at < len(fields):
        value = fields[at].value
        if value is None or fields[at].glob or value in ("-", "--") or value[:1] not in ("-", "+"):
            at += 1 if value in ("-", "--") else 0
            break
        tame = tame and _TAME_FLAGS.fullmatch(value) is not None
        at += 1
        if value.startswith("--"):
            at += 1 if value in ("--rcfile", "--init-file") else 0
            continue
        given = given or "c" in value
        from_input = from_input or "s" in value
        at += sum(letter in "oO" for letter in value[1:])
    step.tame = step.tame and tame
    operand = fields[at] if at < len(fields) else None
    if operand is not None and given:
        step.effect.scripts.append(operand)
        if name in OTHER_SHELLS:
            step.effect.hide(f"{name} reads commands in its own way")
    elif operand is not None and not from_input:
        step.effect.run("it runs a script")
        step.effect.touch("read", operand, scope)
        if operand.pipe or operand.value is None or operand.value.startswith(("/dev/", "/proc/")):
            step.effect.hide("it runs a script that is not known")
            step.effect.scripts += (
                [Field(None, operand.text, hint=operand.hint)] if operand.pipe and operand.hint else []
            )
    elif source.text is not None:
        step.effect.scripts.append(source.text)
    else:
        step.effect.hide("it runs what its input says")
    return step


def read_cmd(fields: Sequence[Field], _scope: Scope, _source: Source) -> Step:
    """Read `cmd /c text`, which has options of its own kind."""
    step = Step()
    step.effect.hide("cmd reads commands in its own way")
    at = next((at for at, field in enumerate(fields) if (field.value or "").lower()[:2] in ("/c", "/k", "/r")), None)
    if at is not None:
        glued = [Field(rest, rest)] if (rest := (fields[at].value or "")[2:]) else []
        step.effect.scripts.append(joined([*glued, *fields[at + 1 :]]))
    return step
