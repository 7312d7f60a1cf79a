"""Read a shell command for the judge: by the small grammar whose meaning is certain, else as far as can be seen."""

import posixpath
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from msgspec.structs import replace

from backstay.permissions.call_site import Access, CallSite, Command, Layer, Script
from backstay.permissions.shell.expand import Field, Site
from backstay.permissions.shell.finder import CommandFinder
from backstay.permissions.shell.plain_grammar import check_encoding, read_plain
from backstay.permissions.shell.tree import Seen, read_tree
from backstay.permissions.unasked import Outside, Place, Step, Touch, Word, prove


def read_command(text: str, call_site: CallSite) -> Script:
    """Find every simple command that a shell would start for a text.

    A text in the small grammar has commands whose words are certain, and those that its tables know are `proved`. For any other text
    `outside` says why, and what is seen in it may deny and explain, never allow by itself. It never raises.
    """
    script = _read_script(text, call_site)
    adds = [number for number, command in enumerate(script.commands) if _adds_files(command)]
    if not adds or len(script.commands) < 2:
        return script
    first = -1 if script.outside else adds[0]  # what stands first may run last there
    commands = (replace(each, after_adding=number > first) for number, each in enumerate(script.commands))
    return replace(script, commands=tuple(commands))


def _adds_files(command: Command) -> bool:
    """Return whether a command adds files to those that git tracks."""
    for layer in command.layers:
        program, *words = layer.words or ("",)
        if posixpath.basename(program or "") == "git":
            named = (word for before, word in pairwise(("", *words)) if (word or "-")[0] != "-" and before not in _LED)
            return next(named, None) in _ADDERS
    return False


_ADDERS: Final = ("add", "stage", "update-index", None)
_LED: Final = ("-C", "-c", "--git-dir", "--work-tree", "--namespace")
"""Options of git before a subcommand that take the next word."""


def _read_script(text: str, call_site: CallSite) -> Script:
    place = Place(
        cwd=call_site.cwd,
        home=call_site.home,
        shell=call_site.shell,
        os=call_site.os,
        trusted=call_site.trusted,
        trust_given=call_site.trusted and call_site.trust_given,
    )
    try:
        check_encoding(text)
        proof = prove(text, place)
    except Outside as outside:
        return _look_through(text, call_site, str(outside))
    commands, given, whole = list[Command](), list[Field](), CommandFinder(call_site)
    problems = list[str]()
    for step in proof.steps:
        given = given if step.fed else []
        finder = CommandFinder(call_site, whole.limit)
        commands += _commands_of(step, finder, given)
        given += [Field(word.value) for word in step.words if word.value and " " in word.value]
        problems += finder.problems
        whole.handed += finder.handed
        whole.listens = whole.listens or finder.listens
        whole.is_cut = whole.is_cut or finder.is_cut
    if whole.listens or ("=" in text and any(step.does == "runs" for step in proof.steps)):
        whole.hand_over(_read(text, call_site), Site(call_site, proof.steps[-1].folders))
    handed = whole.possible()
    problem = "; ".join(dict.fromkeys([*problems, *whole.problems]))
    return Script(commands=tuple(commands), handed=tuple(handed), problem=problem, is_cut=whole.is_cut)


def _read(text: str, call_site: CallSite) -> Sequence[Seen]:
    try:
        return read_plain(text, call_site)
    except Outside:
        return read_tree(text, call_site.home)


def _look_through(text: str, call_site: CallSite, outside: str) -> Script:
    finder = CommandFinder(call_site)
    finder.text(text, Site(call_site, (call_site.cwd,)))
    handed = finder.possible()
    problems = "; ".join(dict.fromkeys(finder.problems))
    return Script(
        commands=tuple(finder.commands), handed=tuple(handed), problem=problems, outside=outside, is_cut=finder.is_cut
    )


def _commands_of(step: Step, finder: CommandFinder, given: list[Field]) -> Sequence[Command]:
    """Give a proved command as it is; look into one that the tables do not know."""
    accesses = tuple(map(_access, step.touches))
    around = tuple(_layer(words, transparent=True) for words in step.runners)
    if step.does != "runs":
        return (Command(layers=(*around, _layer(step.words)), does=step.does, accesses=accesses, proved=True),)
    lines = [] if step.lines is None else [Field(step.lines)]
    fields = [Field(word.value, word.text, word.glob) for word in step.words]
    seen = Seen(fields, [], [*given, *lines], fed=step.fed)
    finder.command(seen, Site(finder.call_site, step.folders), around, step.sets)
    first, *others = finder.commands
    first = replace(first, accesses=(*first.accesses, *accesses), why=step.why or first.why)
    return (first, *others)


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
