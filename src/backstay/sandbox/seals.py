"""The seals of a sandbox: files and folders inside the working folders that a program in it can neither change nor rename.

They keep the name and the content of files that other programs obey when they open a folder.
"""

import contextlib
import glob
import itertools
import os
import stat
import weakref
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from backstay.permissions.sensitive_paths import read_places
from backstay.sandbox.plan import Access, SandboxPlan, inside
from backstay.system.folders import project_root

_STRICTLY: Final = (".git/config",)
"""Names that are sealed in `sandboxed` besides; in `project`, people add remotes and follow branches."""
_OPEN: Final = (".claude/worktrees", ".git/worktrees")
_OWN: Final = (".backstay", ".claude")
"""Folders whose settings Backstay itself obeys: an empty one holds the place, so that none can be made from inside."""
_HOOKS: Final = ".git/hooks"
"""A folder that not every repository has. An empty one holds the place likewise."""
_GITS: Final = (".git/config.worktree", ".git/info/attributes")
"""Files that steer git beside its configuration: where that is sealed, an empty read-only one holds the place."""
_LEVELS, _FOLDERS, _MOST = 3, 2000, 300
"""The depth below a working folder, the folders, and the sealed places at most: each is a mount at each command."""


@cache
def places_to_seal(where: Literal["folder", "home"]) -> tuple[str, ...]:
    """Name what other programs obey when they open a folder, and a person's own programs in the home: it may be read and not changed."""
    return tuple(
        name
        for group in read_places("protected").places
        if group.sealed == where
        for name in (*group.names, *group.home)
    )


class Seal(Struct, frozen=True):
    """A file or folder inside a working folder that keeps its name, and when `access` is `read` its content too."""

    path: str
    access: Access
    identity: tuple[int, int]

    @property
    def whole(self) -> bool:
        """Return whether it is still what it was when the session began: a folder that was swapped is not built on.

        A file may be a new one. Commands cannot replace it, and the person's programs write by replacing.
        """
        found = _identity(self.path)
        return found == self.identity or (found is not None and os.path.isfile(self.path) and self.access == "read")


class Seals:
    """The seals of a session, made when it began. Files that a command makes later are the session's own."""

    def __init__(self, plan: SandboxPlan) -> None:
        self._plan = plan
        self._held: set[str] = set()
        self._end = weakref.finalize(self, _remove_held, self._held)
        self._held.update(_hold_places(plan))
        self._all = {seal.path: seal for seal in _seals(plan)}

    @property
    def whole(self) -> tuple[Seal, ...]:
        """Those that still stand, parents first."""
        for path in _hold_places(self._plan):  # another session may have taken one away when it ended
            self._held.add(path)
            self._all[path] = Seal(path, "read", _identity(path) or (0, 0))
        return tuple(seal for seal in self._all.values() if seal.whole)

    def close(self) -> None:
        """Remove the empty folders and files that held a place."""
        self._end()


def _seals(plan: SandboxPlan) -> Iterator[Seal]:
    """Yield the sealed places and each folder on the way, so that no folder above one can be renamed."""
    found: dict[str, Access] = {}
    closed = [place.path for place in plan.places() if place.access == "closed"]
    names = places_to_seal("folder") + (() if plan.network else _STRICTLY)
    for root in (*plan.roots, *plan.caches):
        inner = list(itertools.islice(_find_sealed(root, names), _MOST)) if root in plan.roots else []
        if root in plan.roots and (plan.home == root or inside(plan.home, root)):
            inner += [os.path.join(plan.home, name) for name in places_to_seal("home")]
        inner = [path for path in inner if _plain(root, path)]
        hidden = [path for path in closed if inside(path, root)]
        for path in (*inner, *hidden):
            found |= {
                str(each): "write" for each in Path(path).parents if inside(str(each), root) and str(each) not in found
            }
        found |= dict.fromkeys(inner, "read")
        found |= {
            path: "write" for name in _OPEN if _plain(root, path := os.path.join(root, name)) and os.path.isdir(path)
        }
    for path in sorted(found, key=lambda each: (each.count("/"), each)):
        identity = _identity(path)
        if identity is not None:
            yield Seal(path, found[path], identity)


def _find_sealed(root: str, names: Iterable[str]) -> Iterator[str]:
    for folder, entries in _folders(root):
        whole = folder == root or ".git" in entries
        for name in names:
            if name.partition("/")[0] in entries and (whole or "/" not in name):
                yield from glob.iglob(os.path.join(glob.escape(folder), name))
        if ".git" in entries and os.path.isfile(
            os.path.join(folder, ".git")
        ):  # a worktree: the file says where git looks
            yield os.path.join(folder, ".git")


def _folders(root: str) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield a folder and those not far below, the nearest first, with the names in each."""
    level, left = [root], _FOLDERS
    passed = {".git", "node_modules", *(name for name in places_to_seal("folder") if "/" not in name)}
    for _ in range(_LEVELS + 1):
        below: list[str] = []
        for folder in level[:left]:
            with contextlib.suppress(OSError), os.scandir(folder) as found:
                entries = list(found)
                below += [
                    each.path for each in entries if each.name not in passed and each.is_dir(follow_symlinks=False)
                ]
                yield folder, frozenset(each.name for each in entries)
        left = max(0, left - len(level))
        level = sorted(below)


def _plain(root: str, path: str) -> bool:
    """Return whether nothing between a root and a path is a link: what is behind one lies elsewhere."""
    return os.path.lexists(path) and os.path.realpath(path) == path and inside(path, root)


def _hold_places(plan: SandboxPlan) -> Iterator[str]:
    """Make the empty folders and files; those that a session left behind which was killed are taken over."""
    for root in plan.roots:
        own = _OWN if str(project_root(Path(root))) == root else ()
        for name in (*own, _HOOKS) if os.path.isdir(os.path.join(root, ".git")) else own:
            path = os.path.join(root, name)
            with contextlib.suppress(OSError):  # it cannot be made, or it is no folder
                try:
                    os.mkdir(path, 0o700)
                except FileExistsError:
                    if stat.S_IMODE(os.lstat(path).st_mode) != 0o700 or os.listdir(path):
                        continue
                yield path
        for name in _GITS if not plan.network and os.path.isdir(os.path.join(root, ".git")) else ():
            with contextlib.suppress(OSError):
                yield from _hold_file(os.path.join(root, name))


def _hold_file(path: str) -> Iterator[str]:
    folder = os.path.dirname(path)
    if os.path.realpath(folder) != folder:
        return
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o444))
    if _holds(path):
        yield path


def _holds(path: str) -> bool:
    found = os.lstat(path)
    return stat.S_ISREG(found.st_mode) and not found.st_size and not found.st_mode & 0o222


def _remove_held(made: Iterable[str]) -> None:
    for path in made:
        with contextlib.suppress(OSError):  # no longer empty: the person uses it
            if os.path.isdir(path):
                os.rmdir(path)
            elif _holds(path):
                os.unlink(path)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return None if stat.S_ISLNK(found.st_mode) else (found.st_dev, found.st_ino)
