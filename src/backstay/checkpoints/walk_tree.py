"""Record a folder: every name below it, and the contents that are not stored yet.

The way goes by handles and through no link, so nothing outside the folder is ever read. A file that looks as it did last time is not read
again. Owners, times, extended attributes and hard links are not kept.
"""

import hashlib
import os
import stat
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import Final

from msgspec import Struct, field

from backstay.checkpoints.tree import Facts, Tree, TreeEntry
from backstay.sandbox.git import run_git
from backstay.system.handles import FOLDER, enter, open_regular, walk_to
from backstay.vocab.errors import UserError

NEVER_ENTERED: Final = frozenset((b".git", b".backstay"))
"""Names of what is never looked into: repositories' own data and ours."""
SANDBOX_PLACEHOLDERS: Final = frozenset((b".claude", b".backstay"))
"""Folders that the sandbox makes where there are none: one that is empty, as a process that was killed left it, does not count."""
RACY_NS: Final = 2_000_000_000
"""A file that changed so shortly before it was taken down may change again without looking any different."""
MOST_NAMES: Final = 1_000_000
"""Names of one folder, ignored ones among them: they are in memory together."""
PORTION: Final = 16 * 1024 * 1024
"""Bytes of contents that are handed over together."""
FILE_MODE: Final = 0o777
FOLDER_MODE: Final = 0o3777
"""The bits of modes that are kept: a restore gives no program the rights of another user."""


class WalkLimits(Struct, frozen=True):
    """Limits of what is kept of a folder."""

    files: int = 50_000
    size: int = 500 * 1024 * 1024
    depth: int = 200
    seconds: float = 60.0


class TreeRefused(Exception):
    """A folder cannot be kept; the message says why."""


class TreeWalk(Struct):
    """One look at a folder. `portions` must be used up before `tree` is there; each step of it may run in another thread."""

    root: bytes
    left_out: Collection[bytes] = ()
    """Paths from the root on that are not looked at."""
    before: Tree | None = None
    """The tree of the last time."""
    stored: Collection[str] = ()
    """Hashes of contents that need not be handed over."""
    limits: WalkLimits = WalkLimits()
    tree: Tree | None = None
    size: int = 0
    files: int = 0
    _entries: list[TreeEntry] = field(default_factory=list)
    _skipped: list[bytes] = field(default_factory=list)
    _fresh: dict[str, bytes] = field(default_factory=dict)
    _waiting: int = 0
    _reads: bool = True
    _until: float = 0.0
    _known: Mapping[bytes, TreeEntry] = {}
    _device: int = 0

    def portions(self) -> Iterator[Mapping[str, bytes]]:
        """Contents by hash that are not stored yet, some at a time. Raise `TreeRefused` when a limit is passed."""
        taken = time.time_ns()
        self._until = time.monotonic() + self.limits.seconds
        self._known = _files_safe_to_reuse(self.before) if self.before is not None else {}
        try:
            handle = os.open(self.root, FOLDER)
        except OSError as exc:
            raise TreeRefused(f"{os.fsdecode(self.root)!r} cannot be listed: {exc.strerror}") from exc
        with _closing(handle):
            self._device = os.fstat(handle).st_dev
            if self.before is None:
                self._survey(handle)
            yield from self._folder(handle, b"", 0)
        if self._fresh:
            yield self._hand_over()
        self.tree = Tree(self.root, taken, tuple(self._entries), tuple(self._skipped))

    def _survey(self, handle: int) -> None:
        """Pass every limit before anything is read: a folder that is too large costs a look, and no space."""
        self._reads = False
        for _ in self._folder(handle, b"", 0):
            pass
        self._reads = True
        self.files = self.size = 0
        self._entries.clear()
        self._skipped.clear()

    def _folder(self, handle: int, path: bytes, depth: int) -> Iterator[Mapping[str, bytes]]:
        if depth > self.limits.depth:
            raise TreeRefused(f"its folders are nested more than {self.limits.depth} deep")
        with os.scandir(handle) as listing:
            names = sorted(os.fsencode(each.name) for each in islice(listing, MOST_NAMES + 1))
        if len(names) > MOST_NAMES:
            raise TreeRefused(f"one of its folders has more than {MOST_NAMES} names")
        for name in names:
            below = path + b"/" + name if path else name
            if name in SANDBOX_PLACEHOLDERS and (not path or b".git" in names) and _is_empty(handle, name):
                continue
            if name in NEVER_ENTERED or below in self.left_out:
                self._skipped.append(below)
                continue
            try:
                found = os.stat(name, dir_fd=handle, follow_symlinks=False)
                yield from self._visit(handle, name, below, found, depth)
            except FileNotFoundError:
                continue  # it is gone meanwhile
            except OSError:
                self._skipped.append(below)  # it may not be read, or became something else meanwhile

    def _visit(
        self, handle: int, name: bytes, path: bytes, found: os.stat_result, depth: int
    ) -> Iterator[Mapping[str, bytes]]:
        self._count(found)
        if stat.S_ISDIR(found.st_mode) and found.st_dev == self._device:
            with _closing(enter(handle, name)) as below:
                self._entries.append(TreeEntry(path, "folder", found.st_mode & FOLDER_MODE))
                yield from self._folder(below, path, depth + 1)
        elif stat.S_ISLNK(found.st_mode):
            self._entries.append(TreeEntry(path, "link", target=os.readlink(name, dir_fd=handle)))
        elif stat.S_ISREG(found.st_mode):
            self._entries.append(self._file(handle, name, path, found))
            if self._waiting >= PORTION:
                yield self._hand_over()
        else:
            self._skipped.append(path)

    def _count(self, found: os.stat_result) -> None:
        self.files += 1
        self.size += found.st_size if stat.S_ISREG(found.st_mode) else 0
        if self.files > self.limits.files:
            raise TreeRefused(f"it has more than {self.limits.files} files")
        if self.size > self.limits.size:
            raise TreeRefused(f"its files have more than {self.limits.size} bytes")
        if time.monotonic() > self._until:
            raise TreeRefused(f"looking at its files takes more than {self.limits.seconds:g} seconds")

    def _file(self, handle: int, name: bytes, path: bytes, found: os.stat_result) -> TreeEntry:
        known = self._known.get(path)
        mode = found.st_mode & FILE_MODE
        if not self._reads:
            return TreeEntry(path, "file")
        if known is not None and known.facts == _facts(found) and known.sha256.hex() in self.stored:
            return TreeEntry(path, "file", mode, known.sha256, b"", *known.facts)
        content, facts = _read(handle, name, self.limits.size)
        self.size += len(content) - found.st_size
        sha = hashlib.sha256(content)
        if sha.hexdigest() not in self.stored and sha.hexdigest() not in self._fresh:
            self._fresh[sha.hexdigest()] = content
            self._waiting += len(content)
        return TreeEntry(path, "file", mode, sha.digest(), b"", *facts)

    def _hand_over(self) -> Mapping[str, bytes]:
        fresh, self._fresh, self._waiting = self._fresh, {}, 0
        self.stored = {*self.stored, *fresh}
        return fresh


def read_entry(root: bytes, path: bytes, *, most: int) -> tuple[TreeEntry, bytes | None]:
    """Read what is at `path` below `root`, and a file's content; None when it has more than `most` bytes or may not be read.

    Raise `OSError` when a folder on the way is a link, or what is there cannot be kept at all.
    """
    *folders, name = path[len(root) + 1 :].split(b"/")
    with ExitStack() as held:
        try:
            folder = held.enter_context(walk_to(root, folders))
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return TreeEntry(path, "absent"), None
        if stat.S_ISLNK(found.st_mode):
            return TreeEntry(path, "link", target=os.readlink(name, dir_fd=folder)), None
        if stat.S_ISDIR(found.st_mode):
            return TreeEntry(path, "folder", found.st_mode & FOLDER_MODE), None
        if not stat.S_ISREG(found.st_mode):
            raise OSError("it is a device, a pipe or a socket")
        mode = found.st_mode & FILE_MODE
        try:
            content, facts = _read(folder, name, most)
        except (TreeRefused, PermissionError):
            return TreeEntry(path, "file", mode), None
        return TreeEntry(path, "file", mode, hashlib.sha256(content).digest(), b"", *facts), content


@contextmanager
def _closing(handle: int) -> Iterator[int]:
    try:
        yield handle
    finally:
        os.close(handle)


def _is_empty(folder: int, name: bytes) -> bool:
    """Return whether there is a folder of that name with nothing in it."""
    try:
        with _closing(enter(folder, name)) as handle, os.scandir(handle) as listing:
            return next(listing, None) is None
    except OSError:
        return False


def _files_safe_to_reuse(tree: Tree) -> dict[bytes, TreeEntry]:
    return {each.path: each for each in tree.entries if each.kind == "file" and each.ctime < tree.taken - RACY_NS}


def _facts(found: os.stat_result) -> Facts:
    return Facts(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


def _read(folder: int, name: bytes, most: int) -> tuple[bytes, Facts]:
    """Read a regular file; return its content, and its facts afterwards."""
    with open_regular(folder, name) as handle:
        content = bytearray()
        while piece := os.read(handle, 1024 * 1024):
            content += piece
            if len(content) > most:
                raise TreeRefused(f"a file has more than {most} bytes")
        return bytes(content), _facts(os.fstat(handle))


DEADLINE_S: Final = 10.0
"""Seconds that git may take."""


async def list_ignored(folder: str) -> frozenset[bytes]:
    """List the paths below `folder`, from it on, that git ignores; a folder stands for everything in it.

    Files that git tracks are not ignored, even where a pattern matches. Where there is no repository, no git or no answer, nothing is. The
    repository's own programs do not run (`run_git`), and a repository inside another one is asked nothing.
    """
    args = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory", "--", ".")
    try:
        found = await run_git(args, folder, deadline_s=DEADLINE_S)
    except UserError:
        return frozenset()
    if found.code:
        return frozenset()
    names = found.out.split(b"\0")[:-1]  # what follows the last NUL is nothing, or a name that was cut off
    return frozenset(_drop_partly_ignored(names))


def _drop_partly_ignored(names: list[bytes]) -> list[bytes]:
    """Return `names` without folders of which only some files are ignored: git lists those right after the folder itself."""
    folders = {name for name in names if name.endswith(b"/")}
    partly = {above for name in names for above in _above(name) if above in folders}
    return [os.path.normpath(name) for name in names if name not in partly]


def _above(name: bytes) -> list[bytes]:
    parts = name.rstrip(b"/").split(b"/")[:-1]
    return [b"/".join(parts[:length]) + b"/" for length in range(1, len(parts) + 1)]
