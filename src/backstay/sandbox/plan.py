"""The plan of a sandbox: what a program in it may touch.

The plan is a list of places, and the deepest place above a path decides about it. The folders that may be written come from the caller
that opened the session and are resolved once: nothing that a model says or makes ever adds one. Inside those folders, `seals.py` keeps
what other programs obey.
"""

import contextlib
import errno
import glob
import os
import shutil
import stat
import sys
import tempfile
import weakref
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final, Literal

from msgspec import Struct

from backstay.permissions.sensitive_paths import read_places
from backstay.vocab.errors import UserError
from backstay.vocab.specs import FsScope

Access = Literal["closed", "read", "write"]
FRESH: Final = "fresh"


class Mount(Struct, frozen=True):
    """A file or folder without links on the way, and what a program may do with it and all below."""

    path: str
    access: Access
    source: str = ""
    """The folder that stands there instead of the real one; `FRESH` for an empty one that lasts as long as the command."""


class SandboxPlan(Struct, frozen=True, kw_only=True):
    """The plan of one session."""

    scope: FsScope
    roots: tuple[str, ...]
    home: str
    private: tuple[str, ...] = ()
    """Folders that no program in the sandbox may see, besides the usual ones."""
    shown: tuple[str, ...] = ()
    """Paths that may be read although they lie in a closed place or in a temporary folder."""
    caches: tuple[str, ...] = ()
    """Folders besides the roots that may be written."""
    scratch: "Scratch"
    temporary: tuple[str, ...] = ("/tmp", "/var/tmp")
    """The machine's temporary folders, which the session's own stands in for where that can be done."""

    @property
    def network(self) -> bool:
        """Return whether a program may talk to other machines."""
        return self.scope != "sandboxed"

    def places(self) -> tuple[Mount, ...]:
        """List the places, parents first, as they are now: a key may have appeared since the last command.

        Raise `OSError` when a working folder is no longer where it was.
        """
        for root in self.roots:
            if os.path.realpath(root) != root or not os.path.isdir(root):
                raise FileNotFoundError(errno.ENOENT, "The working folder is no longer where it was", root)
        closed = {*_find_closed(self.home), *filter(None, map(_real, self.private))}
        writable = (*self.roots, *self.caches, self.scratch.path)
        found = {"/": Mount("/", "read")}
        found |= {path: Mount(path, "write", self._stand_in(path)) for path in self.temporary if _real(path) == path}
        found |= {path: Mount(path, "write") for path in writable}
        found |= {path: Mount(path, "closed") for path in closed - {"/"}}
        for path in filter(None, (_real(self.home), *self._shown)):
            over = above(found.values(), path)
            hidden = over.source and over.path != path and path in self._shown
            if path not in closed and (hidden or over.access == "closed"):
                found[path] = Mount(path, "read")
        return tuple(
            sorted(found.values(), key=lambda place: (0 if place.path == "/" else place.path.count("/"), place.path))
        )

    def _stand_in(self, folder: str) -> str:
        """Return what stands in for a temporary folder.

        The session's own, but nothing is mounted inside a folder that commands can change.
        """
        kept = (*self.roots, *self.caches, *self._shown)
        return FRESH if any(inside(path, folder) for path in kept) else self.scratch.path

    @property
    def _shown(self) -> tuple[str, ...]:
        return tuple(filter(None, map(_real, (*self.shown, *_SHOWN))))

    def words(self, more: str = "") -> str:
        """Describe in one line what is kept from a program, for the model that started it."""
        network = "it has no network" if not self.network else "the network is open to it"
        caches = " and the caches of package managers" if self.scope == "project" else ""
        where = ", ".join(self.roots)
        return (
            f"This command ran in a sandbox ({self.scope}): {network}; it can write only in {where}, in $TMPDIR{caches}; "
            f"keys, credentials, histories and other people's folders are closed to it.{more}"
        )


def plan_sandbox(
    scope: FsScope,
    roots: Sequence[str],
    *,
    home: str,
    private: Sequence[str] = (),
    shown: Sequence[str] = (),
    temporary: Sequence[str] = ("/tmp", "/var/tmp"),
    scratch: "Scratch | None" = None,
) -> SandboxPlan:
    """Draw the plan of a session. Raise `UserError` when a root is no folder."""
    resolved = sorted({_folder(root) for root in roots})
    private = tuple(private)
    closed = {*_find_closed(home), *filter(None, map(_real, private))}
    outermost = tuple(
        root
        for root in resolved
        if not any(inside(root, other) and not _between(closed, other, root) for other in resolved)
    )
    return SandboxPlan(
        scope=scope,
        roots=outermost,
        home=home,
        private=private,
        shown=tuple(shown),
        caches=_caches(home, outermost) if scope == "project" else (),
        scratch=scratch or Scratch(),
        temporary=tuple(each for each in temporary if each not in outermost),
    )


def inside(path: str, folder: str) -> bool:
    """Return whether `path` is somewhere below `folder`, and not the folder itself."""
    return path != folder and path.startswith("/" if folder == "/" else folder + "/")


def above(places: Iterable[Mount], path: str) -> Mount:
    """Return the place that decides about `path`: the deepest one above it, or at it."""
    over = [place for place in places if place.path == path or inside(path, place.path)]
    return max(over, key=lambda place: len(place.path))


class Scratch:
    """A folder of the session's own for temporary files. It goes when the session does."""

    def __init__(self, parent: str | None = None) -> None:
        self._outer = os.path.realpath(tempfile.mkdtemp(prefix="backstay-", dir=parent))
        self.path = os.path.join(self._outer, "tmp")
        self.beside = os.path.join(self._outer, "kept")
        """A folder beside it, which is not shown to programs in the sandbox."""
        self.ready()
        self._end = weakref.finalize(self, shutil.rmtree, self._outer, ignore_errors=True)

    def ready(self) -> None:
        """See that it is there and ours: a long session outlives what cleans temporary folders. Raise `OSError` when it is not."""
        for path in (self._outer, self.path, self.beside):
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o700)
            found = os.lstat(path)
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
                raise PermissionError(errno.EPERM, "The session's temporary folder is not ours any more", path)

    def close(self) -> None:
        """Remove it now."""
        self._end()


# --- where people keep what is theirs --------------------------------------------------------------------------------------------


CACHES: Final = """
.cache .npm .cargo/registry .cargo/git go/pkg .local/share/pnpm .pnpm-store .yarn/berry/cache .m2/repository .gradle/caches
.gradle/wrapper .nuget/packages .bun/install/cache .bundle/cache .ivy2/cache
""".split()
"""Places below a person's home that package managers write; open in the scope `project`."""
_SHOWN: Final = ("/home/linuxbrew", sys.prefix, sys.base_prefix)
"""Programs that live among people's homes or in temporary folders, the interpreter that runs this one first of all."""
_PRIVATE_MOST: Final = 200
"""Files of a private folder that are looked at for other names."""
_HOMES: Final = ("/home", "/root", "/Users", "/var/home")


@cache
def private_places() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Name what no program in the sandbox reads: below a person's home, and from the root. It is what the policy calls sensitive.

    Names with a wildcard may be anywhere in the home, which is not gone through. The memory of programs is kept apart otherwise.
    """
    groups = read_places("sensitive").places
    at_home = (name for group in groups for name in (*group.names, *group.home))
    fixed = (path for group in groups for path in group.absolute)
    return (
        tuple(name for name in at_home if "*" not in name and not name.startswith(".git/")),
        tuple(path for path in fixed if not path.startswith(("/proc/", "/dev/"))),
    )


def private_files() -> dict[tuple[int, int], str]:
    """Name the private files that there are, by device and inode: those at a listed place, and directly in a listed folder."""
    at_home, fixed = private_places()
    home = os.path.expanduser("~")
    found: dict[tuple[int, int], str] = {}
    for place in (*(os.path.join(home, name) for name in at_home), *(path for path in fixed if "*" not in path)):
        with contextlib.suppress(OSError):  # most are not there, and some may not be looked into
            paths = [entry.path for entry in os.scandir(place)] if os.path.isdir(place) else [place]
            for path in paths[:_PRIVATE_MOST]:
                facts = os.lstat(path)
                if stat.S_ISREG(facts.st_mode):
                    found[facts.st_dev, facts.st_ino] = path
    return found


def _find_closed(home: str) -> set[str]:
    """Return the closed places that exist and that the person could read."""
    own = _real(home)
    at_home, fixed = private_places()
    found = [os.path.join(home, name) for name in at_home]
    found += [path for each in fixed for path in (glob.glob(each) if "*" in each else (each,))]
    found += [each for each in _HOMES if _real(each) != own]
    return {real for path in found if (real := _real(path)) and real != "/" and _reachable(real)}


def _reachable(path: str) -> bool:
    return os.access(path, os.R_OK) or (os.path.isdir(path) and os.access(path, os.X_OK))


def _caches(home: str, roots: Sequence[str]) -> tuple[str, ...]:
    found = {real for name in CACHES if (real := _real(os.path.join(home, name))) and os.path.isdir(real)}
    return tuple(sorted(each for each in found if not any(each == root or inside(each, root) for root in roots)))


def _real(path: str) -> str:
    """Return where a path leads; empty when nothing is there."""
    return os.path.realpath(path) if path and os.path.lexists(path) and os.path.exists(path) else ""


def _folder(root: str) -> str:
    real = os.path.realpath(root)
    if not os.path.isdir(real):
        raise UserError(f"{root!r} is no folder that a session can work in.")
    return real


def _between(closed: Iterable[str], outer: str, inner: str) -> bool:
    return any(inside(each, outer) and (each == inner or inside(inner, each)) for each in closed)
