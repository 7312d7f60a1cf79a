"""Markdown files in folders: which there are, and what a command in a folder of folders is called."""

import os
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Final

from backstay.skills.frontmatter import good_name
from backstay.skills.problems import SkillProblem, Unusable

DEEPEST: Final = 6
ENDING: Final = ".md"
_NOT_COMMANDS: Final = frozenset(("readme.md",))


def command_name(file: Path, top: Path) -> str:
    """What the command in `file` is called: `name`, or `folder:name` when it is in a folder below `top`. Raise `Unusable`."""
    parts = (*file.relative_to(top).parts[:-1], file.name.removesuffix(ENDING))
    bad = next((part for part in parts if not good_name(part)), None)
    if bad is not None:
        raise Unusable(str(file), 1, f"{bad[:80]!r} cannot be part of a command's name. Use letters, digits, - and _.")
    return ":".join(parts)


def markdown_files(
    top: Path, *, most: int, visit: Callable[[str], os.stat_result | None]
) -> tuple[list[Path], list[SkillProblem]]:
    """The Markdown files of a folder, those of its folders after them, and what was left out. Links to folders are not followed.

    `visit` hears of every folder and file. Raise `OSError` when the folder itself cannot be looked into.
    """
    found: list[Path] = []
    problems: list[SkillProblem] = []
    waiting = [(top, 1)]
    while waiting:
        folder, depth = waiting.pop(0)
        below: list[tuple[Path, int]] = []
        for entry in _entries(folder, top, most, problems):
            path = folder / entry.name
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                below.append((path, depth + 1))
            elif entry.name.endswith(ENDING) and entry.name.lower() not in _NOT_COMMANDS:
                found.append(path)
                visit(str(path))
        if len(found) > most or len(waiting) > most:
            problems.append(_warning(folder, f"There are more than {most:,} files. The rest is left out."))
            return found[:most], problems
        if below and depth == DEEPEST:
            problems.append(_warning(folder, f"Folders more than {DEEPEST} deep are not looked into."))
        else:
            waiting += below
            for each, _ in below:
                visit(str(each))
    return found, problems


def _entries(folder: Path, top: Path, most: int, problems: list[SkillProblem]) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(folder) as listing:
            return sorted(islice(listing, most + 1), key=lambda entry: entry.name)
    except OSError as exc:
        if folder == top:
            raise
        problems.append(_warning(folder, f"It cannot be looked into: {exc.strerror}."))
        return []


def _warning(folder: Path, message: str) -> SkillProblem:
    return SkillProblem(file=str(folder), line=1, message=message, severity="warning")
