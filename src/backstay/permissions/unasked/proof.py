"""Prove what a text does: every command that it runs, what each does, every file that it opens."""

import posixpath
import re
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from backstay.permissions.unasked.options import Unlisted
from backstay.permissions.unasked.programs import Around, Effect, Place, Touch, effect_of, files_printed_by
from backstay.permissions.unasked.shell_grammar import Outside, Piece, Reader, Redirect, Simple, Word, check_characters
from backstay.permissions.unasked.table import programs, word_list

MOST_COMMANDS: Final = 60
_MOST_FOLDERS: Final = 4
_PARTS_OF_GIT: Final = frozenset((".git", "HEAD", "config", "objects", "refs", "hooks", "commondir", "gitdir"))
_MOST_RUNNERS: Final = 8
_SHELLS: Final = ("bash", "sh", "dash")
_ANY_SHELL: Final = re.compile(r"(?:[A-Za-z0-9_./@%,:+-]+(?:[ ]+|$)|&&[ ]+|\|\|?[ ]+)+")
"""What the shells of the table read alike."""
_PARTED: Final = re.compile(r"[\s'\"\\]")
_PLAIN_VALUE: Final = re.compile(r"(?![/:])(?!.*\.\.)[A-Za-z0-9_.,:=@/+-]*")
"""A value that leads nowhere: neither from the root nor to a folder above."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One command of a text that is in the grammar."""

    words: tuple[Word, ...]
    """Behind what runs it unchanged, such as `timeout 5`."""
    runners: tuple[tuple[Word, ...], ...] = ()
    """Those: each with its own words and all that follow, outermost first."""
    does: Literal["reads", "edits", "runs"]
    """`reads` and `edits` are proved: `touches` is all that it does. `runs`: the tables do not know it."""
    why: str = ""
    """For `runs`: what the tables do not know."""
    touches: tuple[Touch, ...] = ()
    """With those of its redirects."""
    sets: tuple[str, ...] = ()
    """Variables that are set for it and are not known to be harmless."""
    folders: tuple[str, ...] = ()
    """The folders that it may run in."""
    fed: bool = False
    """Whether it reads what the command before it prints."""
    lines: str | None = None
    """The lines of its here-document."""


class Proof(msgspec.Struct, frozen=True):
    """A text that is in the grammar: its commands in the order of writing, those inside of `$(...)` first."""

    steps: tuple[Step, ...]


def prove(text: str, place: Place) -> Proof:
    """Say what a text does; raise `Outside` when it is not in the grammar."""
    check_characters(text)
    shell = posixpath.basename(place.shell)
    if shell not in _SHELLS and not (shell in word_list("shells") and _ANY_SHELL.fullmatch(text)):
        raise Outside(f"{shell} reads such a text by rules of its own")
    known: dict[str, str | None] = dict.fromkeys((*word_list("shown"), "?", "#"))
    known["HOME"] = place.home
    known["PWD"] = place.cwd if not re.search(r"\bcd\b", re.sub(r"[\"'\\]", "", text)) else None
    try:
        pieces = Reader(text, known, bash=shell == "bash", old_bash=place.os == "darwin").whole()
    except RecursionError:  # the caller's own stack may be nearly used up
        raise Outside("there is no room left to read it") from None
    if not pieces:
        raise Outside("it has no command")
    prover = _Prover(place)
    prover.pieces(pieces, (place.cwd,))
    return Proof(tuple(prover.steps))


class _Prover:
    """Goes through the commands of a text, in order."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.steps: list[Step] = []
        self.made: set[str] = set()
        """Names of files and folders that the text makes."""
        self.parts = False
        """Whether it makes a name that `xargs` would take for several."""

    def pieces(self, pieces: Sequence[Piece], start: tuple[str, ...]) -> None:
        """Go through a list. After `&&` the folder is where the last `cd` went; after `;` and `||` that `cd` may have failed."""
        now = ever = start
        for piece in pieces:
            if piece.joined != "&&":
                now = ever
            for inner in piece.inner:
                self.pieces(inner, now)
            moved = self.pipeline(piece.commands, now)
            if moved:
                if len(piece.commands) > 1:
                    raise Outside("cd stands in a pipe")
                now = moved if piece.joined != "||" else tuple(dict.fromkeys((*now, *moved)))
                ever = tuple(dict.fromkeys((*ever, *moved)))
                if len(ever) > _MOST_FOLDERS:
                    raise Outside("it may be in too many folders")

    def pipeline(self, commands: Sequence[Simple], folders: tuple[str, ...]) -> tuple[str, ...]:
        feeder: tuple[Touch, ...] | None = None
        moved: tuple[str, ...] = ()
        for at, command in enumerate(commands):
            if self.parts or any(redirect.kind in ("read", "text") for redirect in command.redirects):
                feeder = None
            around = Around(folders, self.place, feeder)
            moved = self.simple(command, around, fed=at > 0) or moved
            mixed = any(redirect.kind == "copy" for redirect in command.redirects)  # complaints among the names
            known = command.words and self.steps[-1].does == "reads" and not mixed
            feeder = files_printed_by(command.words, around) if known else None
        return moved

    def simple(self, command: Simple, around: Around, *, fed: bool) -> tuple[str, ...]:
        """Prove one command, and say where it goes if it is `cd`."""
        if len(self.steps) >= MOST_COMMANDS:
            raise Outside(f"it has more than {MOST_COMMANDS} commands")
        opened = [touch for redirect in command.redirects for touch in _files_of_redirect(redirect, around)]
        if not command.words:
            if command.redirects:  # where one fails, some shells do not set the variable
                raise Outside("a redirect stands without a command")
            return ()
        sets = tuple(name for name, word in command.assignments if not _is_harmless(name, word))
        led = [word for name, word in command.assignments if name in sets and word.value]
        opened += [touch for word in led for touch in around.touch("read", word)]
        lines = next((redirect.word.value for redirect in command.redirects if redirect.kind == "text"), None)
        words, runners = command.words, list[tuple[Word, ...]]()
        effect, why = self._effect(words, around)
        while effect.runs:
            if len(runners) >= _MOST_RUNNERS:
                raise Outside("too many programs run each other")
            runners.append(words)
            words = words[effect.runs :]
            effect, why = self._effect(words, around)
        if not why and posixpath.basename(words[0].value or "") == "git" and self.made & _PARTS_OF_GIT:
            effect, why = Effect(), "the command itself makes what may be a repository"
        if effect.moves_to and (runners or sets):
            raise Outside("cd stands behind another program")
        if why and self.place.trusted and words[0].value in word_list("pythons"):
            sets = tuple(name for name in sets if not _is_inside(name, dict(command.assignments)[name]))
        elif sets:
            why = f"{', '.join(sets)} may change what the program does"
        made = {touch.path for touch in (*effect.touches, *opened) if touch.kind == "write"}
        self.made |= set(map(posixpath.basename, made))
        below = [path.removeprefix(self.place.cwd) for path in made]
        self.parts = self.parts or any(map(_PARTED.search, below))
        if any("/-" in path for path in below):
            raise Outside("a wildcard behind it may stand for the name that it makes, which looks like a flag")
        self.steps.append(
            Step(
                words=words,
                runners=tuple(runners),
                does="runs" if why else "edits" if effect.edits else "reads",
                why=why,
                touches=(*effect.touches, *opened),
                sets=sets,
                folders=around.folders,
                fed=fed,
                lines=lines,
            )
        )
        return effect.moves_to

    def _effect(self, words: tuple[Word, ...], around: Around) -> tuple[Effect, str]:
        """Say what a command does, or why the tables do not tell. Then its words must be known: a rule allows what it can see."""
        head = words[0]
        own = head.value in word_list("words")
        if head.value is None or head.glob or not head.value or "$" in head.text:
            raise Outside("which program runs is not known before it runs")
        if own and head.value not in programs():
            raise Outside(f"{head.value} is a word of the shell whose effect is not in the tables")
        try:
            return effect_of(words, around), ""
        except Unlisted as unlisted:
            if own:
                raise Outside(f"{head.value}: {unlisted}") from None
            for word in words:
                if word.value is None:
                    raise Outside(f"{word.text} is not known before it runs") from None
            return Effect(), str(unlisted)


def _is_harmless(name: str, word: Word) -> bool:
    if f"{name}={word.value}" in word_list("quiet"):
        return True
    return name in word_list("harmless") and word.value is not None and _PLAIN_VALUE.fullmatch(word.value) is not None


def _is_inside(name: str, word: Word) -> bool:
    """Return whether a variable leads to folders of the workspace alone: `PYTHONPATH=src`."""
    return (
        name == "PYTHONPATH" and re.fullmatch(r"(?:\./)?[A-Za-z0-9_-][A-Za-z0-9_/-]*|\.", word.value or "") is not None
    )


def _files_of_redirect(redirect: Redirect, around: Around) -> list[Touch]:
    if redirect.kind == "text":
        return []
    if re.search(r"/dev/(?:tcp|udp)", redirect.word.value or ""):
        raise Outside("bash opens a connection for such a file")
    found = around.touch("read" if redirect.kind == "read" else "write", redirect.word)
    return [msgspec.structs.replace(touch, redirect=True) for touch in found if touch.path != "/dev/null"]
