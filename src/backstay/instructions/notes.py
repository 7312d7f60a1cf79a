"""The notes of a project and of a person: which files they are, in which order, and what of them is said when."""

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from backstay.instructions.markdown import front, with_imports
from backstay.instructions.safe_reader import FileReading, TextFile

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
    """What notes came to."""

    files: tuple[TextFile, ...]
    scoped: tuple[tuple[str, str], ...] = ()
    """Rules that hold for some files only: each rule's file and the patterns of those files."""


def person_notes(reading: FileReading) -> Notes:
    """What the person tells every session. It may name files of the person's own configuration."""
    place = reading.place
    roots = (place.paths.config, place.paths.claude)
    files = list(_taken(reading, (place.paths.config / AGENTS, place.paths.claude / CLAUDE), None, roots))
    rules = _rules(reading, place.paths.claude / "rules", None, roots)
    return Notes(files=(*files, *rules.files), scoped=rules.scoped)


def agent_notes(reading: FileReading, folders: Sequence[Path] | None = None) -> Notes:
    """What the project tells every agent, the root's first; or what `folders` do."""
    found: list[TextFile] = []
    for folder in reading.place.walk if folders is None else folders:
        roots = _roots(reading, folder)
        override = tuple(_taken(reading, (folder / OVERRIDE,), roots, roots))
        reading.look(folder / AGENTS)
        found += override if any(each.text for each in override) else _taken(reading, (folder / AGENTS,), roots, roots)
    return Notes(files=tuple(found))


def project_notes(reading: FileReading, folders: Sequence[Path] | None = None) -> Notes:
    """The project's notes and rules, the root's first; or those of `folders`."""
    found: list[TextFile] = []
    scoped: list[tuple[str, str]] = []
    for folder in reading.place.walk if folders is None else folders:
        roots = _roots(reading, folder)
        found += _taken(reading, (folder / CLAUDE, folder / ".claude" / CLAUDE), roots, roots)
        rules = _rules(reading, folder / RULES, roots, roots)
        found += rules.files
        scoped += rules.scoped
        found += _taken(reading, (folder / LOCAL,), roots, roots)
    return Notes(files=tuple(found), scoped=tuple(scoped))


def _taken(
    reading: FileReading, paths: Sequence[Path], into: Sequence[Path] | None, roots: Sequence[Path]
) -> Iterator[TextFile]:
    """The files that are there, each followed by what it names. A file may be a link `into` some folders; what it names lies in `roots`."""
    for path in paths:
        file = reading.read(path, into)
        if file is not None:
            yield from with_imports(reading, file, roots)


def _roots(reading: FileReading, folder: Path) -> tuple[Path, ...]:
    """Where the notes of a folder may lead: the project, or the folder alone where there is none; and what was added, if it is trusted."""
    place = reading.place
    return (place.paths.repository or folder, *(place.folders if place.trusted else ()))


def _rules(reading: FileReading, folder: Path, into: Sequence[Path] | None, roots: Sequence[Path]) -> Notes:
    """The rules of a folder: those for all files as text, the others by their patterns."""
    if into is not None and not reading.inside(os.path.realpath(folder), into):
        reading.complain(f"{reading.place.shown(folder)}: It leads outside of the project and is left out.")
        return Notes(files=())
    found: list[TextFile] = []
    scoped: list[tuple[str, str]] = []
    for path in islice(_rule_paths(reading, folder, _DEEPEST_RULES), MOST_RULES):
        rule = reading.read(path, into)
        if rule is None:
            continue
        keys, text, closed = front(rule.text)
        if not closed:
            reading.complain(f"{rule.shown}:1: The lines after '---' are not closed by another; all of it is text.")
        patterns = ", ".join((*keys.get("paths", ()), *keys.get("globs", ())))
        if patterns:
            scoped.append((rule.shown, " ".join(patterns.split())[:_LONGEST_PATTERNS]))
        else:
            skipped = rule.text.count("\n") - text.count("\n")
            found += with_imports(reading, replace(rule, text=text, skipped=skipped), roots)
    return Notes(files=tuple(found), scoped=tuple(scoped))


def _rule_paths(reading: FileReading, folder: Path, deeper: int) -> Iterator[Path]:
    for entry in reading.listed(folder, MOST_RULES):
        if entry.is_dir(follow_symlinks=False):
            if deeper > 1:
                yield from _rule_paths(reading, folder / entry.name, deeper - 1)
        elif entry.name.endswith(".md"):
            yield folder / entry.name
