"""Reading a shell command for the judge: by the small grammar whose meaning is certain, else by the wide reader."""

from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.logic.acts import Access, Command, Ground, Layer, Script
from holdfast.logic.shell.commands import Finder, Task
from holdfast.logic.shell.doubts import doubts_about
from holdfast.logic.shell.scope import Field, Scope
from holdfast.logic.shell.steps import Source
from holdfast.logic.shell.walk import Around
from holdfast.logic.shell.witness import read_twice
from holdfast.logic.shell.words import Unreadable
from holdfast.logic.unasked import Outside, Place, Step, Touch, Word, prove


def read_command(text: str, ground: Ground) -> Script:
    """Find every simple command that a shell would start for a text.

    A text in the small grammar has commands whose words are certain, and those that its tables know are `proved`. For any other text
    `outside` says why, and the wide reader tells what it sees in it. It never raises.
    """
    place = Place(cwd=ground.cwd, home=ground.home, shell=ground.shell, os=ground.os, trusted=ground.trusted)
    try:
        proof = prove(text, place)
    except Outside as outside:
        return replace(_find(text, ground), outside=str(outside))
    return Script(commands=tuple(command for step in proof.steps for command in _commands_of(step, ground)))


def _commands_of(step: Step, ground: Ground) -> Sequence[Command]:
    """Give a proved command as it is; look into one that the tables do not know."""
    accesses = tuple(map(_access, step.touches))
    if step.does != "runs":
        layers = (*(_layer(words, transparent=True) for words in step.runners), _layer(step.words))
        return (Command(layers=layers, does=step.does, accesses=accesses, proved=True),)
    finder, scope = Finder(), Scope(ground)
    scope.folders = scope.failed = step.folders
    lines = None if step.lines is None else Field(step.lines, "")
    task = Task(scope, Around(), Source(step.fed, lines), steers=step.sets)
    words = step.runners[0] if step.runners else step.words
    finder.command([Field(word.value, word.text, word.glob) for word in words], task)
    return [
        replace(command, accesses=(*command.accesses, *accesses), why=command.why or step.why)
        for command in finder.commands
    ]


def _layer(words: Sequence[Word], *, transparent: bool = False) -> Layer:
    return Layer(
        words=tuple(word.value for word in words), text=" ".join(word.text for word in words), transparent=transparent
    )


def _access(touch: Touch) -> Access:
    return Access(
        kind=touch.kind,
        path=touch.path,
        written=touch.written,
        glob=touch.glob,
        redirect=touch.redirect,
        deep=touch.deep,
        split=touch.split,
    )


def _find(text: str, ground: Ground) -> Script:
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
