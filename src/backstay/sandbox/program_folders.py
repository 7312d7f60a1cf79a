"""Find the programs of a workspace that a shell would run, and the folders that hold them: an edit there would become code that runs."""

import os
import shutil
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

MOST: Final = 5_000
"""Entries of a folder that are looked at."""
_OF_SYSTEM: Final = ("/bin", "/sbin", "/usr/bin", "/usr/sbin")
_OF_PYTHON: Final = ("bin", "Scripts")


def program_folders(roots: Sequence[str], path: str, cwd: str) -> tuple[str, ...]:
    """List the folders and files below `roots` that programs found by a shell are made of, with and without links followed.

    These are folders named by `path` (the value of PATH), the targets of links in them, and whole virtual environments.
    """
    named = [os.path.normpath(os.path.join(cwd, each)) for each in path.split(os.pathsep)]
    named += [link for folder in dict.fromkeys(named) for link in _links(folder, roots)]
    named += [folder for root in dict.fromkeys((*roots, cwd)) for folder in _environments(root)]
    return tuple(
        spelling
        for folder in dict.fromkeys(named)
        for spelling in dict.fromkeys((folder, os.path.realpath(folder)))
        if _is_in(spelling, roots)
    )


def workspace_programs(roots: Sequence[str], path: str, cwd: str) -> frozenset[str]:
    """Return the names of programs that a shell finds in one of `roots` before any other folder of `path` (the value of PATH).

    Programs elsewhere that are links into one of `roots` are among them.
    """
    found: dict[str, bool] = {}
    folders = [os.path.normpath(os.path.join(cwd, each)) for each in path.split(os.pathsep)]
    inside = [
        any(is_below(each, top) for each in (folder, os.path.realpath(folder)) for top in roots) for folder in folders
    ]
    linked = {
        link
        for folder, here in zip(folders, inside, strict=True)
        if not here
        for link in _links(folder, roots)
        if any(is_below(os.path.realpath(link), top) for top in roots)
    }
    if not any(inside) and not linked:
        return frozenset()
    for folder, here in zip(folders, inside, strict=True):
        for entry in _entries(folder):
            found.setdefault(entry.name, here or os.path.join(folder, entry.name) in linked)
    return frozenset(name for name, here in found.items() if here)


def find_program_outside(name: str, root: Path) -> str | None:
    """Find the program `name` outside of `root`, so that discovery in a workspace runs nothing of it."""
    real = os.path.realpath(root)
    if real == os.path.sep:
        return shutil.which(name)
    kept = [
        each
        for each in os.get_exec_path()
        if os.path.isabs(each)
        and not any(is_below(path, top) for path in (each, os.path.realpath(each)) for top in (str(root), real))
    ]
    found = shutil.which(name, path=os.pathsep.join(kept))
    return None if found is None or is_below(os.path.realpath(found), real) else found


def links_of(roots: Sequence[str]) -> Iterator[str]:
    """Yield the links at the top of folders, and the places of programs that they lead to."""
    for root in dict.fromkeys(roots):
        for entry in _entries(root):
            if entry.is_symlink():
                yield entry.path
                yield from (os.path.join(entry.path, name) for name in _OF_PYTHON)


def _entries(root: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(root) as listing:
            return list(islice(listing, MOST))
    except OSError:  # a folder that cannot be looked into has nothing that could be written by its name
        return []


def _links(folder: str, roots: Sequence[str]) -> Iterator[str]:
    """Yield the links of a folder. Folders of the system are left out: only its owner makes links there."""
    if folder in _OF_SYSTEM and not _is_in(folder, roots):
        return
    yield from (entry.path for entry in _entries(folder) if entry.is_symlink())


def _environments(root: str) -> Iterator[str]:
    """Yield the virtual environments at the top of a folder: their programs load all that is in them."""
    return (entry.path for entry in _entries(root) if os.path.isfile(os.path.join(entry.path, "pyvenv.cfg")))


def _is_in(path: str, tops: Sequence[str]) -> bool:
    """Return whether a path lies below one of `tops` and is none of them."""
    return any(path != top and is_below(path, top) for top in tops)


def is_below(path: str, top: str) -> bool:
    """Return whether a path is `top` or lies below it."""
    return path == top or path.startswith(f"{top.rstrip('/')}/")
