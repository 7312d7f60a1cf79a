"""The folders in which git would find its configuration: the project's own, and those of its submodules."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from backstay.config.json_text import LARGEST, is_missing, read_regular
from backstay.workspaces.git_index import submodule_paths

_OF_GIT: Final = ("HEAD", "config", "config.worktree")
_WITHOUT_MODULES: Final = frozenset(("objects", "refs", "logs", "hooks", "info", "lfs", "branches", "rr-cache"))
"""Folders of a git folder in which no submodule is kept."""


class TooMany(Exception):
    """There are more folders than may be looked at."""


class Submodules(Struct, frozen=True):
    """What was found of the submodules of a project."""

    folders: tuple[Path, ...]
    """Their git folders, each once."""
    unread: tuple[tuple[Path, str], ...]
    """The indexes that cannot be read, and why: they may name more."""


def own_folders(root: Path, cwd: Path) -> Iterator[Path]:
    """Where git would find its configuration: the project's own folder, and a bare repository that lies around the working folder."""
    yield from _git_of(root)
    for folder in (cwd, *cwd.parents):
        if (folder / "HEAD").is_file() and (folder / "objects").is_dir() and (folder / "refs").is_dir():
            yield folder
        if folder == root:
            return


def submodules(own: Iterable[Path], root: Path, most: int) -> Submodules:
    """Find the git folders of submodules and of those in them: what lies in `modules` of `own` folders, and what their indexes name.

    Raise `TooMany` when more than `most` folders must be looked at, `OSError` when one cannot be.
    """
    own = tuple(own)
    found = {os.path.realpath(folder): folder for git in own for folder in _kept(git / "modules", most)}
    unread = list[tuple[Path, str]]()
    waiting, known = [(git, root) for git in own], set[tuple[str, str]]()
    while waiting:
        git, tree = waiting.pop()
        if (real := (os.path.realpath(git), os.path.realpath(tree))) in known:
            continue
        known.add(real)
        _check(len(known), most)
        try:
            names = submodule_paths(git)
        except (OSError, ValueError) as exc:
            unread.append((git / "index", getattr(exc, "strerror", None) or str(exc)))
            continue
        _check(len(names), most)
        inner = [(folder, tree / name) for name in names for folder in _git_of(tree / name)]
        found |= {os.path.realpath(folder): folder for folder, _ in inner}
        waiting += inner
    for folder in own:
        found.pop(os.path.realpath(folder), None)
    return Submodules(tuple(found.values()), tuple(unread))


def _kept(modules: Path, most: int) -> Iterator[Path]:
    """The git folders below `modules`, where git keeps those of submodules."""
    waiting, known = [modules], set[str]()
    while waiting:
        folder = waiting.pop()
        if not folder.is_dir() or (real := os.path.realpath(folder)) in known:
            continue
        known.add(real)
        _check(len(known) + len(waiting), most)
        with os.scandir(folder) as listing:
            entries = list(listing)
        is_git = any(entry.name in _OF_GIT for entry in entries)
        if is_git:
            yield folder
        waiting += (
            Path(entry.path) for entry in entries if entry.is_dir() and not (is_git and entry.name in _WITHOUT_MODULES)
        )


def _check(count: int, most: int) -> None:
    if count > most:
        raise TooMany("there are too many folders of git to look at")


def _git_of(tree: Path) -> Iterator[Path]:
    """The git folders of a work tree."""
    own = tree / ".git"
    if own.is_dir():
        yield own
    elif not is_missing(own):
        yield from _pointed_to(own)


def _pointed_to(file: Path) -> Iterator[Path]:
    """The folders of a worktree or a submodule, whose `.git` is a file that names them."""
    try:
        content, _ = read_regular(file, LARGEST)
        folder = file.parent / os.fsdecode(content.replace(b"\0", b"")).removeprefix("gitdir:").strip()
        yield folder
        shared, _ = read_regular(folder / "commondir", LARGEST)
    except OSError:
        return
    yield folder / os.fsdecode(shared.replace(b"\0", b"")).strip()
