"""Read the notes of a project and of a person, and those of subfolders when a session first works there."""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from backstay.instructions.base_prompt import STRANGERS, SUBFOLDER
from backstay.instructions.imports import with_imports
from backstay.instructions.inputs import KIB, InstructionInputs
from backstay.instructions.markdown import front_matter
from backstay.instructions.parts import fit_files
from backstay.instructions.safe_reader import FileReading, TextFile
from backstay.logic.state.session_state import State
from backstay.logic.stored_content import digest
from backstay.vocab import events

AGENTS: Final = "AGENTS.md"
OVERRIDE: Final = "AGENTS.override.md"
CLAUDE: Final = "CLAUDE.md"
LOCAL: Final = "CLAUDE.local.md"
RULES: Final = ".claude/rules"
MOST_RULES: Final = 100
"""Rules of one folder."""
_DEEPEST_RULES: Final = 3
_LONGEST_PATTERNS: Final = 300


class Notes(Struct, frozen=True, kw_only=True):
    """The notes that were read."""

    files: tuple[TextFile, ...]
    scoped: tuple[tuple[str, str], ...] = ()
    """Rules for some files only: each rule's file and the patterns of those files."""


def person_notes(reading: FileReading) -> Notes:
    """Return the person's notes for every session. They may name files of the person's own configuration."""
    inputs = reading.inputs
    roots = (inputs.paths.config, inputs.paths.claude)
    files = list(_read_files(reading, (inputs.paths.config / AGENTS, inputs.paths.claude / CLAUDE), None, roots))
    rules = _rules(reading, inputs.paths.claude / "rules", None, roots)
    return Notes(files=(*files, *rules.files), scoped=rules.scoped)


def agent_notes(reading: FileReading, folders: Sequence[Path] | None = None) -> Notes:
    """Return the project's notes for every agent, the root's first; or those of `folders`."""
    found: list[TextFile] = []
    for folder in reading.inputs.walk if folders is None else folders:
        roots = _roots(reading, folder)
        override = tuple(_read_files(reading, (folder / OVERRIDE,), roots, roots))
        reading.stat(folder / AGENTS)
        found += (
            override if any(each.text for each in override) else _read_files(reading, (folder / AGENTS,), roots, roots)
        )
    return Notes(files=tuple(found))


def project_notes(reading: FileReading, folders: Sequence[Path] | None = None) -> Notes:
    """Return the project's notes and rules, the root's first; or those of `folders`."""
    found: list[TextFile] = []
    scoped: list[tuple[str, str]] = []
    for folder in reading.inputs.walk if folders is None else folders:
        roots = _roots(reading, folder)
        found += _read_files(reading, (folder / CLAUDE, folder / ".claude" / CLAUDE), roots, roots)
        rules = _rules(reading, folder / RULES, roots, roots)
        found += rules.files
        scoped += rules.scoped
        found += _read_files(reading, (folder / LOCAL,), roots, roots)
    return Notes(files=tuple(found), scoped=tuple(scoped))


def _read_files(
    reading: FileReading, paths: Sequence[Path], into: Sequence[Path] | None, roots: Sequence[Path]
) -> Iterator[TextFile]:
    """Yield the files that exist, each followed by its imports. A file may be a link `into` some folders; imports lie in `roots`."""
    for path in paths:
        file = reading.read(path, into)
        if file is not None:
            yield from with_imports(reading, file, roots)


def _roots(reading: FileReading, folder: Path) -> tuple[Path, ...]:
    """Return the folders that notes may lead to: the project, or the folder alone without one; and added folders, if trusted."""
    inputs = reading.inputs
    return (inputs.paths.repository or folder, *(inputs.folders if inputs.trusted else ()))


def _rules(reading: FileReading, folder: Path, into: Sequence[Path] | None, roots: Sequence[Path]) -> Notes:
    """Return the rules of a folder: those for all files as text, the others by their patterns."""
    if into is not None and not reading.is_inside(os.path.realpath(folder), into):
        reading.add_problem(f"{reading.inputs.display(folder)}: It leads outside of the project and is left out.")
        return Notes(files=())
    found: list[TextFile] = []
    scoped: list[tuple[str, str]] = []
    for path in islice(_rule_paths(reading, folder, _DEEPEST_RULES), MOST_RULES):
        rule = reading.read(path, into)
        if rule is None:
            continue
        keys, text, closed = front_matter(rule.text)
        if not closed:
            reading.add_problem(f"{rule.shown}:1: The lines after '---' are not closed by another; all of it is text.")
        patterns = ", ".join((*keys.get("paths", ()), *keys.get("globs", ())))
        if patterns:
            scoped.append((rule.shown, " ".join(patterns.split())[:_LONGEST_PATTERNS]))
        else:
            skipped = rule.text.count("\n") - text.count("\n")
            found += with_imports(reading, replace(rule, text=text, skipped=skipped), roots)
    return Notes(files=tuple(found), scoped=tuple(scoped))


def _rule_paths(reading: FileReading, folder: Path, deeper: int) -> Iterator[Path]:
    for entry in reading.list_entries(folder, MOST_RULES):
        if entry.is_dir(follow_symlinks=False):
            if deeper > 1:
                yield from _rule_paths(reading, folder / entry.name, deeper - 1)
        elif entry.name.endswith(".md"):
            yield folder / entry.name


LIMIT: Final = 16 * KIB
"""Bytes of notes that one result brings."""
DEEPEST: Final = 16
"""Folders between the project's root and a file whose notes are looked for."""
FOREIGN: Final = frozenset(
    (".git", "node_modules", "bower_components", "site-packages", ".venv", "venv", "vendor", "third_party")
)
"""Folders of foreign code: their notes are not the project's."""


class SubfolderNotes:
    """Notes of subfolders that the conversation does not have yet."""

    def __init__(self, inputs: Callable[[], InstructionInputs], state: State, report: Callable[[str], None]) -> None:
        """`report` takes what was left out, with file and line."""
        self._report = report
        self._inputs = inputs
        self._state = state
        self._being_told: dict[str, tuple[str, str]] = {}
        """By file: the notes that are being shown, and by which call. Calls that run together do not show them twice."""
        self._unread: frozenset[str] = frozenset()
        """Folders of files whose notes are being read, or took too long."""

    async def find(self, paths: Sequence[str], call: str) -> tuple[str, tuple[events.NotesShown, ...]]:
        """Return the new notes of the folders of `paths`, framed, and their events."""
        inputs = self._inputs()
        if inputs.bare or inputs.system_prompt is not None:
            return "", ()
        news = [each for each in await self._read(inputs, paths) if self._is_news(each, call)]
        if not news:
            return "", ()
        ahead = SUBFOLDER if inputs.trusted else STRANGERS
        fitted = fit_files(news, LIMIT, untrusted=not inputs.trusted, ahead=ahead)
        had_room = [each for each in news if str(each.path) in fitted.sources]
        shown = tuple(events.NotesShown(path=each.shown, sha256=_digest(each), call=call) for each in had_room)
        self._being_told |= {each.path: (each.sha256, call) for each in shown}
        return f"\n\n{fitted.text}", shown

    async def _read(self, inputs: InstructionInputs, paths: Sequence[str]) -> list[TextFile]:
        """Return the notes; none of folders that are being read, or whose reading took too long."""
        folders = frozenset(map(os.path.dirname, paths)) - self._unread
        self._unread |= folders
        done = False
        try:
            wanted = [path for path in paths if os.path.dirname(path) in folders]
            found, problems = await anyio.to_thread.run_sync(
                partial(read_notes, inputs, wanted), abandon_on_cancel=True
            )
            done = True
        finally:
            if not done:
                self._report(f"The notes for {', '.join(sorted(folders))} take too long to read and are left out.")
        self._unread -= folders
        for words in problems:
            self._report(words)
        return found

    def _is_news(self, file: TextFile, call: str) -> bool:
        known = _digest(file)
        if self._state.notes.get(file.shown) == known:
            return False
        telling, by = self._being_told.get(file.shown, ("", ""))
        return telling != known or by == call or all(by != each.id for each in self._state.progress.calls)


def read_notes(inputs: InstructionInputs, paths: Sequence[str]) -> tuple[list[TextFile], list[str]]:
    """Return the notes of the folders of `paths` that the instructions lack, outermost first, and problems. Blocks on files."""
    folders = sorted({folder for path in paths for folder in _folders(inputs, path)}, key=lambda each: each.parts)
    if not folders:
        return [], []
    reading = FileReading(inputs)
    found = [
        file
        for folder in folders
        for notes in (agent_notes(reading, (folder,)), project_notes(reading, (folder,)))
        for file in notes.files
    ]
    own = set(paths)
    return [each for each in found if each.text.strip() and os.path.realpath(each.path) not in own], reading.problems


def _folders(inputs: InstructionInputs, path: str) -> Iterator[Path]:
    """Yield the folders from below the root down to that of `path`, which has no links, but for those read at the start."""
    root = os.path.realpath(inputs.paths.root)
    if not path.startswith(f"{root.rstrip('/')}/"):
        return
    names = Path(path[len(root) :].lstrip("/")).parent.parts
    if FOREIGN.intersection(names):
        return
    known = set(map(os.path.realpath, inputs.walk))
    for depth in range(1, min(len(names), DEEPEST) + 1):
        folder = inputs.paths.root.joinpath(*names[:depth])
        if os.path.lexists(folder / ".git"):  # another repository begins here, perhaps an untrusted one
            return
        if os.path.realpath(folder) not in known:
            yield folder


def _digest(file: TextFile) -> str:
    return digest(file.text.encode())
