"""Whether arithmetic may run commands: the shell evaluates the text that variables hold, subscripts and all."""

import re
from collections.abc import Iterable
from typing import Final

from holdfast.logic.shell.scope import Field, Scope
from holdfast.logic.shell.syntax import Arithmetic, Array, Literal, Parameter, Part, Substitution

_NAME: Final = re.compile(r"(?<![\w$])[A-Za-z_]\w*")
_SET: Final = re.compile(r"([A-Za-z_]\w*)\s*(?:[-+*/%&|^]?=(?!=)|\+\+|--)")
_NUMBER: Final = re.compile(r"\s*[-+]?(?:\d+|0[xX][0-9A-Fa-f]+)\s*")


def is_risky(text: str, parts: Iterable[Part], scope: Scope) -> bool:
    """Whether evaluating an expression may run a command that is not in view."""
    if any(not _tame_part(part, scope) for part in parts):
        return True
    return any(name in scope.values and not is_number(scope.values[name]) for name in _NAME.findall(text))


def is_number(held: Field | None) -> bool:
    """Whether a value is a number for certain."""
    if held is None:
        return False
    return held.number or (held.value is not None and _NUMBER.fullmatch(held.value) is not None)


def counted(text: str) -> list[str]:
    """Give the variables that an expression sets."""
    return _SET.findall(text)


def _tame_part(part: Part, scope: Scope) -> bool:
    match part:
        case Literal() | Arithmetic():
            return True
        case Parameter(name):
            if part.number:
                return True
            # A variable that the script did not set comes from the person's environment.
            return is_number(scope.values[name]) if name in scope.values else name[0].isalpha() or name[0] == "_"
        case Substitution() | Array():
            return False
