"""Notes of folders that a session only goes to: they are shown with the first result from there, once."""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import anyio.to_thread

from backstay.instructions.base_prompt import STRANGERS, SUBFOLDER
from backstay.instructions.inputs import KIB, InstructionInputs
from backstay.instructions.notes import agent_notes, project_notes
from backstay.instructions.parts import fit_files
from backstay.instructions.safe_reader import FileReading, TextFile
from backstay.logic.state.content import digest
from backstay.logic.state.session_state import State
from backstay.vocab.events.instructions import NotesShown

LIMIT: Final = 16 * KIB
"""Bytes of notes that one result brings along."""
DEEPEST: Final = 16
"""Folders between the project's root and a file whose notes are looked for."""
FOREIGN: Final = frozenset(
    (".git", "node_modules", "bower_components", "site-packages", ".venv", "venv", "vendor", "third_party")
)
"""Folders of what others wrote: their notes are not the project's."""


class SubfolderNotes:
    """What the folders of files tell whoever works there, as far as the conversation does not have it."""

    def __init__(self, place: Callable[[], InstructionInputs], state: State, complain: Callable[[str], None]) -> None:
        """`complain` takes what was left out, with file and line."""
        self._complain = complain
        self._place = place
        self._state = state
        self._telling: dict[str, tuple[str, str]] = {}
        """By file: what is being told, and by which call. Calls that run together do not tell it twice."""
        self._unread: frozenset[str] = frozenset()
        """Folders of files whose notes are being read, or took too long."""

    async def find(self, paths: Sequence[str], call: str) -> tuple[str, tuple[NotesShown, ...]]:
        """The notes of the folders of `paths` that are news, framed, and the events that say so."""
        place = self._place()
        if place.bare or place.system_prompt is not None:
            return "", ()
        news = [each for each in await self._read(place, paths) if self._is_news(each, call)]
        if not news:
            return "", ()
        ahead = SUBFOLDER if place.trusted else STRANGERS
        fitted = fit_files(news, LIMIT, strangers=not place.trusted, ahead=ahead)
        had_room = [each for each in news if str(each.path) in fitted.sources]
        shown = tuple(NotesShown(path=each.shown, sha256=_digest(each), call=call) for each in had_room)
        self._telling |= {each.path: (each.sha256, call) for each in shown}
        return f"\n\n{fitted.text}", shown

    async def _read(self, place: InstructionInputs, paths: Sequence[str]) -> list[TextFile]:
        """The notes; none of folders that are being read, or whose reading took too long."""
        folders = frozenset(map(os.path.dirname, paths)) - self._unread
        self._unread |= folders
        done = False
        try:
            wanted = [path for path in paths if os.path.dirname(path) in folders]
            found, problems = await anyio.to_thread.run_sync(partial(read_notes, place, wanted), abandon_on_cancel=True)
            done = True
        finally:
            if not done:
                self._complain(f"The notes for {', '.join(sorted(folders))} take too long to read and are left out.")
        self._unread -= folders
        for words in problems:
            self._complain(words)
        return found

    def _is_news(self, file: TextFile, call: str) -> bool:
        told = _digest(file)
        if self._state.notes.get(file.shown) == told:
            return False
        telling, by = self._telling.get(file.shown, ("", ""))
        return telling != told or by == call or all(by != each.id for each in self._state.progress.calls)


def read_notes(place: InstructionInputs, paths: Sequence[str]) -> tuple[list[TextFile], list[str]]:
    """The notes of the folders of `paths` that the instructions do not have, outermost first, and what was left out. Blocks on files."""
    folders = sorted({folder for path in paths for folder in _folders(place, path)}, key=lambda each: each.parts)
    if not folders:
        return [], []
    reading = FileReading(place)
    found = [
        file
        for folder in folders
        for notes in (agent_notes(reading, (folder,)), project_notes(reading, (folder,)))
        for file in notes.files
    ]
    own = set(paths)
    return [each for each in found if each.text.strip() and os.path.realpath(each.path) not in own], reading.problems


def _folders(place: InstructionInputs, path: str) -> Iterator[Path]:
    """The folders from below the root down to that of `path`, which has no links; none of those whose notes hold from the start."""
    root = os.path.realpath(place.paths.root)
    if not path.startswith(f"{root.rstrip('/')}/"):
        return
    names = Path(path[len(root) :].lstrip("/")).parent.parts
    if FOREIGN.intersection(names):
        return
    told = set(map(os.path.realpath, place.walk))
    for depth in range(1, min(len(names), DEEPEST) + 1):
        folder = place.paths.root.joinpath(*names[:depth])
        if os.path.lexists(folder / ".git"):  # another repository begins here, perhaps a stranger's
            return
        if os.path.realpath(folder) not in told:
            yield folder


def _digest(file: TextFile) -> str:
    return digest(file.text.encode())
