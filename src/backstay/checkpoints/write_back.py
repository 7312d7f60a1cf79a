"""Put files back: single changes of a plan, each of which can be done again without changing anything more.

Every path is checked when it is changed, as the log alone is not relied on: it must lie in one of the session's folders, and no folder
on the way to it may be a link. A file gets its new content in one step; its temporary name follows from the plan, so that a second run
takes up what the first one left.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final, TypeVar

from msgspec import Struct

from backstay.checkpoints.tree import TreeEntry, inside
from backstay.checkpoints.walk_tree import FILE_MODE, FOLDER_MODE
from backstay.system.files import version_of
from backstay.system.handles import NEW, enter, make_folder, open_regular, walk_to

T = TypeVar("T")
OUTSIDE: Final = "it lies outside the folders of this session"
CHANGED: Final = "it was changed after its content was kept; put the files back again to have it kept and replaced"


class NotPutBack(Exception):
    """A path stays as it is; the message says why."""


class HeldName(Struct, frozen=True):
    """A name in a folder whose handle is held."""

    folder: int
    name: bytes

    def facts(self) -> os.stat_result | None:
        """Return what is there; None when nothing is."""
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None


def put_back(
    want: TreeEntry,
    content: bytes,
    roots: Sequence[bytes],
    mark: str,
    *,
    now: TreeEntry | None = None,
    sync: bool = True,
) -> bool:
    """Make the path of `want` hold what it says; return whether anything had to be done. Raise `NotPutBack`, and nothing is done.

    `content` is a file's, and `mark` names the plan. A folder is made; its mode is given by `set_mode` once its files are in
    it. A folder is removed only when nothing is in it. Without `sync` it is durable only after `os.sync`. With `now`, what the path held
    when the plan was made, nothing else is replaced: between the plan and its end lies a crash, and perhaps a day's work of a person.
    """
    root = next((each for each in roots if inside(want.path, each)), None)
    if root is None:
        raise NotPutBack(OUTSIDE)
    if want.kind == "file" and hashlib.sha256(content).digest() != want.sha256:
        raise NotPutBack("what it held was not kept")
    try:
        with _reach(root, want.path, make=want.kind != "absent") as held:
            temporary = _temporary(mark, want.path)
            done = _writable(held.folder, lambda: _change(held, want, content, temporary, now, sync=sync))
            if done and sync:
                _sync(held.folder)
            return done
    except (FileNotFoundError, NotADirectoryError) as exc:
        if want.kind == "absent":
            return False
        raise NotPutBack(_explain(exc)) from exc
    except OSError as exc:
        raise NotPutBack(_explain(exc)) from exc


def set_mode(want: TreeEntry, roots: Sequence[bytes]) -> None:
    """Give a folder its mode, once everything in it is in its place."""
    root = next((each for each in roots if inside(want.path, each)), None)
    if root is None:
        raise NotPutBack(OUTSIDE)
    try:
        with _reach(root, want.path, make=False) as held:
            handle = enter(held.folder, held.name)
            try:
                if os.fstat(handle).st_mode & FOLDER_MODE != want.mode:
                    os.fchmod(handle, want.mode & FOLDER_MODE)
            finally:
                os.close(handle)
    except OSError as exc:
        raise NotPutBack(_explain(exc)) from exc


def version_at(path: bytes) -> str:
    """Return the version of the file at `path`, as `FileSeen` has it; empty when there is none."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return ""
    return version_of(found) if stat.S_ISREG(found.st_mode) else ""


def _change(
    held: HeldName, want: TreeEntry, content: bytes, temporary: bytes, now: TreeEntry | None, *, sync: bool
) -> bool:
    with suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=held.folder)  # a run that was cut off left it
    found = held.facts()
    if found is not None and not any(test(found.st_mode) for test in (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK)):
        raise NotPutBack("there is a device, a pipe or a socket now")
    if _is(held, want, found):
        return False
    if found is not None and now is not None and not (_is_untouched(now, found) or _is(held, now, found)):
        raise NotPutBack(CHANGED)
    match want.kind:
        case "absent":
            _remove(held, found)
        case "folder":
            if found is not None:
                _remove(held, found)
            os.mkdir(held.name, 0o700, dir_fd=held.folder)
        case "link":
            os.symlink(want.target, temporary, dir_fd=held.folder)
            _name(held, temporary, found)
        case "file":
            _write(held, temporary, content, want.mode & FILE_MODE, sync=sync)
            _name(held, temporary, found)
    return True


def _is(held: HeldName, want: TreeEntry, found: os.stat_result | None) -> bool:
    """Return whether the path holds already what it should."""
    if found is None:
        return want.kind == "absent"
    match want.kind:
        case "absent":
            return False
        case "folder":
            return stat.S_ISDIR(found.st_mode)
        case "link":
            return stat.S_ISLNK(found.st_mode) and os.readlink(held.name, dir_fd=held.folder) == want.target
        case "file":
            return (
                stat.S_ISREG(found.st_mode)
                and found.st_mode & FILE_MODE == want.mode
                and _hash(held, found) == want.sha256
            )


def _is_untouched(now: TreeEntry, found: os.stat_result) -> bool:
    """Return whether a file looks as it did when it was kept: then it need not be read."""
    facts = (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
    return now.kind == "file" and stat.S_ISREG(found.st_mode) and now.ctime > 0 and now.facts == facts


def _hash(held: HeldName, found: os.stat_result) -> bytes:
    sha = hashlib.sha256()
    try:
        with open_regular(held.folder, held.name) as handle:
            left = found.st_size + 1
            while left > 0 and (piece := os.read(handle, min(left, 1024 * 1024))):
                sha.update(piece)
                left -= len(piece)
    except OSError:
        return b""  # it may not be read: it is replaced
    return sha.digest()


def _write(held: HeldName, temporary: bytes, content: bytes, mode: int, *, sync: bool) -> None:
    handle = os.open(temporary, NEW, 0o600, dir_fd=held.folder)
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(handle, left) :]
        os.fchmod(handle, mode)
        if sync:
            os.fsync(handle)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=held.folder)
        raise
    finally:
        os.close(handle)


def _name(held: HeldName, temporary: bytes, found: os.stat_result | None) -> None:
    try:
        if found is not None and stat.S_ISDIR(found.st_mode):
            _remove(held, found)
        os.rename(temporary, held.name, src_dir_fd=held.folder, dst_dir_fd=held.folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=held.folder)
        raise


def _remove(held: HeldName, found: os.stat_result | None) -> None:
    if found is not None and stat.S_ISDIR(found.st_mode):
        os.rmdir(held.name, dir_fd=held.folder)
    else:
        os.unlink(held.name, dir_fd=held.folder)


def _writable(folder: int, change: Callable[[], T]) -> T:
    """Do a change in a folder of our own that is not to be written in, and leave its mode as it was."""
    try:
        return change()
    except PermissionError:
        facts = os.fstat(folder)
        if facts.st_uid != os.geteuid() or facts.st_mode & 0o300 == 0o300:
            raise
        os.fchmod(folder, stat.S_IMODE(facts.st_mode) | 0o700)
        try:
            return change()
        finally:
            os.fchmod(folder, stat.S_IMODE(facts.st_mode))


def _sync(folder: int) -> None:
    with suppress(OSError):  # some file systems cannot sync folders
        os.fsync(folder)


@contextmanager
def _reach(root: bytes, path: bytes, *, make: bool) -> Iterator[HeldName]:
    """Go to the folder of `path` by handles, through no link; with `make`, missing folders are made."""
    *folders, name = path[len(root) + 1 :].split(b"/")
    with walk_to(root, folders, partial(_enter, make=make)) as folder:
        yield HeldName(folder, name)


def _enter(folder: int, name: bytes, *, make: bool) -> int:
    try:
        return enter(folder, name)
    except FileNotFoundError:
        if not make:
            raise
    _writable(folder, lambda: make_folder(folder, name))
    return enter(folder, name)


def _temporary(mark: str, path: bytes) -> bytes:
    return b".backstay-" + hashlib.sha256(mark.encode() + path).hexdigest()[:16].encode() + b".tmp"


def _explain(exc: OSError) -> str:
    match exc.errno:
        case errno.ELOOP | errno.ENOTDIR:
            return "a folder on the way to it is a link or no folder now"
        case errno.ENOTEMPTY | errno.EEXIST:
            return "the folder is not empty: there is something in it that was not kept"
        case _:
            return (exc.strerror or str(exc)).lower()
