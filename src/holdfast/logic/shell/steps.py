"""What is found inside of a program that runs another one."""

from collections.abc import Sequence

import msgspec

from holdfast.logic.shell.effects import Effect
from holdfast.logic.shell.scope import Field


class Source(msgspec.Struct, frozen=True):
    """Where a command's input comes from."""

    piped: bool = False
    text: Field | None = None
    """What the input is, when the script says it."""


class Step(msgspec.Struct):
    """What was found inside of one wrapper."""

    inner: list[Field] = []
    """The program that it runs, with its arguments; empty when there is none."""
    transparent: bool = False
    tame: bool = False
    """Whether what it runs stays as harmless as it is."""
    here: bool = False
    """Whether what it runs happens in this very shell."""
    steers: list[str] = []
    also: list[list[Field]] = []
    """Commands that may turn out to be the program, when that is not certain."""
    effect: Effect = msgspec.field(default_factory=Effect)
    folders: tuple[str | None, ...] = ()
    """Where it runs inside, when that is not here; None for anywhere."""


def joined(fields: Sequence[Field]) -> Field:
    """Join words by blanks, as `eval` does."""
    text = " ".join(field.text for field in fields)
    if any(field.value is None or field.glob for field in fields):
        return Field(None, text, hint=" ".join(field.value or field.hint or "$__" for field in fields))
    return Field(" ".join(field.value or "" for field in fields), text)
