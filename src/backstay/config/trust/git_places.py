"""Find where a repository leads out of the workspace: what git reads there it shows, in commands that nobody is asked about."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from backstay.config.json_document import LARGEST
from backstay.config.trust.git_config import TooMany, read_name
from backstay.sandbox.git_files import Unclear, git_keys
from backstay.system.files import read_regular

MOST_ENTRIES: Final = 100_000
"""Entries of git folders that are looked at."""
_MOST_ALTERNATES: Final = 20
_NOT_READ: Final = frozenset(("hooks", "lfs", "annex", "modules"))
"""Folders of a git folder that commands which only read do not open, or that are looked at by themselves."""
_LOOSE: Final = re.compile(r"[0-9a-f]{2}")
"""A folder of objects, each named by its content."""


class GitPlaces:
    """The folders that the repository of a workspace may lie in: its root, and git folders elsewhere that know it as their work tree."""

    def __init__(self, root: Path) -> None:
        self._own = [os.path.realpath(root)]
        self._left = MOST_ENTRIES

    def accept(self, *folders: Path) -> None:
        """Take folders as places of the workspace's own."""
        self._own += map(os.path.realpath, folders)

    def admit(self, folder: Path) -> bool:
        """Return whether a git folder and its common folder are the workspace's own; elsewhere they count then as places of it.

        That of a linked work tree has a file that names the `.git` there. That of a submodule has a setting that names the work tree.
        """
        git = os.path.realpath(folder)
        shared = os.path.realpath(next(read_name(folder / "commondir"), folder))
        if not self.holds(git):
            linked = os.path.dirname(git) == os.path.join(shared, "worktrees")
            if not (self._leads_back(Path(git)) if linked else git == shared and self._sets_tree(Path(git))):
                return False
            self._own += (git, shared)
        return self.holds(shared)

    def holds(self, path: str) -> bool:
        """Return whether a path, absolute and without links, lies in one of the places."""
        return any(f"{path}{os.sep}".startswith(f"{own.rstrip(os.sep)}{os.sep}") for own in self._own)

    def _leads_back(self, git: Path) -> bool:
        tree = next((named.parent for named in read_name(git / "gitdir") if named.name == ".git"), None)
        return tree is not None and self.holds(os.path.realpath(tree))

    def _sets_tree(self, git: Path) -> bool:
        try:
            config = read_regular(git / "config", LARGEST)[0].decode("utf-8", "surrogateescape")
            tree = dict(git_keys(config)).get("core.worktree")
        except (OSError, Unclear):
            return False
        return tree is not None and self.holds(os.path.realpath(git / tree))

    def find_ways_out(self, folder: Path) -> Iterator[tuple[Path, str]]:
        """Yield each link and each file of alternates in a git folder that leads elsewhere, and where to. Raise `TooMany`."""
        top = os.path.realpath(folder)
        waiting, objects, known = [top], [folder / "objects"], set[str]()
        for each in objects:
            for named in _read_alternates(each):
                path = os.path.normpath(os.path.join(os.path.realpath(each), named))
                if named.startswith('"') or not self.holds(os.path.realpath(path)):
                    yield each / "info/alternates", named
                elif len(objects) > _MOST_ALTERNATES:
                    raise TooMany("there are too many alternates of git to look at")
                else:
                    objects.append(Path(path))
                    waiting.append(os.path.realpath(path))
        while waiting:
            here = waiting.pop()
            if here in known:
                continue
            known.add(here)
            for entry in self._list(here):
                if here == top and entry.name in _NOT_READ:
                    continue
                if entry.is_symlink():
                    target = os.path.realpath(entry.path)
                    if not self.holds(target):
                        yield Path(entry.path), target
                    elif os.path.isdir(target):
                        waiting.append(target)
                elif entry.is_dir(follow_symlinks=False) and not (
                    _LOOSE.fullmatch(entry.name) and os.path.basename(here) == "objects"
                ):
                    waiting.append(entry.path)

    def _list(self, folder: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as listing:
                entries = list(listing)
        except OSError:  # git cannot look into it either
            return []
        self._left -= len(entries)
        if self._left < 0:
            raise TooMany("a folder of git has too many entries to look at")
        return entries


def _read_alternates(objects: Path) -> Iterator[str]:
    try:
        content, _ = read_regular(objects / "info/alternates", LARGEST)
    except OSError:
        return
    yield from (os.fsdecode(line) for line in content.split(b"\n") if line and not line.startswith(b"#"))
