"""Reading a shell command: every program that it would start, the files it touches, and what is doubtful about it."""

from holdfast.logic.acts import Ground, Script
from holdfast.logic.shell.commands import Finder
from holdfast.logic.shell.doubts import doubts_about
from holdfast.logic.shell.scope import Scope
from holdfast.logic.shell.walk import Around
from holdfast.logic.shell.witness import read_twice
from holdfast.logic.shell.words import Unreadable


def read_command(text: str, ground: Ground) -> Script:
    """Find every simple command that a shell would start for a text.

    What is not certain is said: in `problem` for the text as a whole, in `opaque` for a command. It never raises.
    """
    finder = Finder()
    finder.doubts += doubts_about(text, ground)
    try:
        _read(text, ground, finder)
    except RecursionError:  # the caller's own stack may be nearly used up
        finder.doubts.append("it cannot be read: there is no room left")
    problem = "; ".join(dict.fromkeys(finder.doubts)) if finder.doubts else ""
    return Script(commands=tuple(finder.commands), problem=problem)


def _read(text: str, ground: Ground, finder: Finder) -> None:
    scope = Scope(ground)
    try:
        tree, doubts = read_twice(text)
    except Unreadable as problem:
        finder.doubts.append(f"it cannot be read: {problem}")
        finder.coarse(text, scope, Around())
        return
    finder.doubts += doubts
    finder.walk(tree, scope, Around())
