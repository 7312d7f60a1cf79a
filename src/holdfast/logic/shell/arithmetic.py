"""Whether arithmetic may run commands: the shell evaluates the text that variables hold, subscripts and all."""

import re
from collections.abc import Iterable
from typing import Final

from holdfast.logic.shell.scope import Scope, is_number
from holdfast.logic.shell.syntax import Arithmetic, Array, Literal, Parameter, Part, Substitution, Word

_NAME: Final = re.compile(r"(?<![\w$])[A-Za-z_]\w*")
_SET: Final = re.compile(r"(?<=\+\+|--)[A-Za-z_]\w*|[A-Za-z_]\w*(?=\s*(?:(?:<<|>>|[-+*/%&|^])?=(?!=)|\+\+|--))")
_SUBSCRIPT: Final = re.compile(r"[0-9]+|[A-Za-z_][A-Za-z0-9_]*")
_ELEMENT: Final = re.compile(r"\[(.*?)\]\+?=", re.DOTALL)
_SHELL_SETS: Final = frozenset(
    (
        *("_", "COPROC", "BASH_EXECUTION_STRING", "BASH_COMMAND", "BASH_SOURCE", "BASH_ARGV", "BASH_ARGV0", "FUNCNAME"),
        *("PWD", "OLDPWD", "DIRSTACK", "REPLY", "MAPFILE", "BASH_REMATCH", "OPTARG", "COMP_LINE", "READLINE_LINE"),
    )
)
"""Variables that the shell fills with text of the script's making, without an assignment to be seen."""


def is_risky(text: str, parts: Iterable[Part], scope: Scope) -> bool:
    """Whether evaluating an expression may run a command that is not in view."""
    if any(not _tame_part(part, scope) for part in parts):
        return True
    return any(_holds_text(name, scope) for name in _NAME.findall(text))


def is_risky_subscript(subscript: str, scope: Scope) -> bool:
    """Whether a subscript that is assigned to may run a command when it is evaluated."""
    if not _SUBSCRIPT.fullmatch(subscript):
        return True
    return not subscript[0].isdigit() and not is_number(scope.values.get(subscript))


def is_risky_element(word: Word, scope: Scope) -> bool:
    """Whether a word between the parentheses of an array has a subscript that may run a command."""
    found = _ELEMENT.match(word.text)
    return found is not None and is_risky_subscript(found[1], scope)


def _holds_text(name: str, scope: Scope) -> bool:
    # A variable that the script did not set comes from the person's environment.
    return not is_number(scope.values[name]) if name in scope.values else name in _SHELL_SETS


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
            return (name[0].isalpha() or name[0] == "_") and not _holds_text(name, scope)
        case Substitution() | Array():
            return False
