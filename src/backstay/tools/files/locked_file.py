"""Hold a file for writing: no other tool call changes it until it is released.

A new content replaces the old one in one step, on the handle of the folder: a reader sees the one or the other, also after a power loss.
What is known of the file beside its content stays: mode, owner, extended attributes. A file with several names (hard links) is refused:
replacing it would part the names, and writing into it would change files that were not judged.
"""

import errno
import fcntl
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Final, TypeVar
from weakref import WeakValueDictionary

import anyio.from_thread
from msgspec import Struct

from backstay.system.files import version_of
from backstay.tools.files.target import LARGEST, FileTarget, OpenedPath, Refused, explain_os_error, reach

T = TypeVar("T")
PATIENCE: Final = 15.0
"""Seconds that a call waits for the others that write the same file."""
TRIES: Final = 5
"""How often a change is made again on the new content when a program that takes no lock was faster."""
_UNSUPPORTED: Final = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EBADF)
"""Errors of file systems without locks. The lock within the process remains."""


class _Turn:
    """A lock that vanishes when no thread holds or awaits it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


_turns: "WeakValueDictionary[str, _Turn]" = WeakValueDictionary()
_turns_guard: Final = threading.Lock()


@contextmanager
def turn(target: FileTarget) -> Iterator[None]:
    """Be the only thread of this process that writes `target`."""
    with _turns_guard:
        mine = _turns.setdefault(target.real_path, _Turn())
    _wait(target, lambda: mine.lock.acquire(timeout=0.02))
    try:
        yield
    finally:
        mine.lock.release()


def open_locked(opened: OpenedPath) -> int | None:
    """Open an existing file for reading, locked against other processes; None when there is no file."""
    handles: list[int] = []

    def attempt() -> bool:
        if opened.facts() is None:
            return True
        handle = opened.open()
        try:
            if take(handle) and _still(opened, handle):
                handles.append(handle)
                return True
        finally:
            if handle not in handles:
                os.close(handle)
        return False

    try:
        _wait(opened.target, attempt)
    except FileNotFoundError:
        return None
    return handles[0] if handles else None


def take(handle: int) -> bool:
    """Lock a file without waiting; return whether that went well. Where the file system has no locks, it always does."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as exc:
        if exc.errno not in _UNSUPPORTED:
            raise
    return True


def _still(opened: OpenedPath, handle: int) -> bool:
    """Return whether the name still means the file behind `handle`."""
    now = opened.facts()
    mine = os.fstat(handle)
    return now is not None and (now.st_dev, now.st_ino) == (mine.st_dev, mine.st_ino)


def _wait(target: FileTarget, attempt: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    pause = 0.0005
    while not attempt():
        if time.monotonic() > until:
            raise Refused(
                "locked",
                f"{target.shown!r} is locked by another program for {PATIENCE:g} seconds now. Try again later.",
            )
        _stop_when_cancelled()
        time.sleep(pause)
        pause = min(pause * 2, 0.02)


def _stop_when_cancelled() -> None:
    """Raise when the call was cancelled; outside a worker thread there is nothing to ask."""
    try:
        anyio.from_thread.check_cancelled()
    except RuntimeError:
        return


_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EINVAL)
"""Errors of file systems without hard links."""


class ChangedMeanwhile(Refused):
    """A program that takes no lock changed the file meanwhile; nothing was done."""

    def __init__(self, target: FileTarget) -> None:
        super().__init__("changed", f"{target.shown!r} was changed by another program meanwhile. Read it again.")


class FileAttributes(Struct, frozen=True):
    """Attributes that a new file takes over from another: mode and owner, and the extended ones behind a handle."""

    facts: os.stat_result
    handle: int


class LockedFile:
    """A file, or a name that no file has yet, that no other tool call can change until `close`."""

    def __init__(self, opened: OpenedPath) -> None:
        self._opened = opened
        self._handle = open_locked(opened)
        self._removed: int | None = None
        self.facts = None if self._handle is None else os.fstat(self._handle)
        """The facts of the file; None when there is none."""

    @property
    def target(self) -> FileTarget:
        """Which file it is."""
        return self._opened.target

    @property
    def version(self) -> str:
        """The version of the file; empty when there is none."""
        return "" if self.facts is None else version_of(self.facts)

    @property
    def attributes(self) -> FileAttributes | None:
        """What another file may take over from this one; None when there is none. It lasts until this one is replaced or let go."""
        return None if self._handle is None or self.facts is None else FileAttributes(self.facts, self._handle)

    def read(self) -> bytes:
        """Return the whole content. Raise when there is no file, or one too large."""
        if self._handle is None or self.facts is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        content = bytearray()
        if self.facts.st_size <= LARGEST:
            while len(content) <= LARGEST and (piece := os.pread(self._handle, 1024 * 1024, len(content))):
                content += piece
        if max(len(content), self.facts.st_size) > LARGEST:
            raise Refused(
                "too_large", f"{self.target.shown!r} has more than {LARGEST} bytes. Use a program, such as `sed`."
            )
        return bytes(content)

    def refuse_read_only(self) -> None:
        """Refuse a file that is not to be changed."""
        if self.facts is not None and (not self.facts.st_mode & 0o222 or not self._may_write()):
            raise Refused(
                "no_permission",
                f"{self.target.shown!r} is read-only. Change that first (`chmod u+w`), if it is meant.",
            )

    def refuse_unwritable(self) -> None:
        """Refuse a file that is not to be replaced."""
        self.refuse_read_only()
        if self.facts is not None and self.facts.st_nlink > 1:
            raise Refused(
                "hard_links",
                f"{self.target.shown!r} is a file with {self.facts.st_nlink} names (hard links); the others would change "
                "too, or part. Make it a file of its own first: `cp -p FILE FILE.new && mv FILE.new FILE`.",
            )

    def replace(self, content: bytes, like: FileAttributes | None = None) -> None:
        """Replace the content in one step; a new file takes its attributes from `like`. Raise `ChangedMeanwhile` if it was changed."""
        self.refuse_unwritable()
        temporary = f".backstay-{os.urandom(8).hex()}.tmp"
        model = self.attributes or like
        folder = self._opened.folder
        handle = os.open(temporary, _NEW, 0o666 if model is None else 0o600, dir_fd=folder)
        try:
            take(handle)  # from its first moment under its name the new file is ours, until it is let go
            _write(handle, content)
            if model is not None:
                _take_over(handle, model)  # after the content: writing takes away special bits
            os.fsync(handle)
            self._name(temporary)
        except BaseException:
            os.close(handle)
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)
            raise
        if self._handle is not None:
            os.close(self._handle)
        self._handle, self.facts = handle, os.fstat(handle)
        self._opened.sync()

    def remove(self) -> FileAttributes:
        """Remove the file and return its attributes, for a `replace` that puts it back while it is held."""
        attributes = self.attributes
        self._require_same()
        if attributes is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        os.unlink(self._opened.name, dir_fd=self._opened.folder)
        self._removed, self._handle, self.facts = self._handle, None, None
        self._opened.sync()
        return attributes

    def close(self) -> None:
        """Release the file."""
        for handle in (self._handle, self._removed):
            if handle is not None:
                os.close(handle)

    def _name(self, temporary: str) -> None:
        folder, name = self._opened.folder, self._opened.name
        if self.facts is None:
            try:
                os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
            except FileExistsError as exc:
                raise ChangedMeanwhile(self.target) from exc
            except OSError as exc:
                if exc.errno not in _NO_LINKS:
                    raise
            else:
                os.unlink(temporary, dir_fd=folder)
                return
        self._require_same()
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)

    def _require_same(self) -> None:
        now = self._opened.facts()
        if _identity(now) != _identity(self.facts):
            raise ChangedMeanwhile(self.target)

    def _may_write(self) -> bool:
        name, folder = self._opened.name, self._opened.folder
        try:
            allowed = os.access(name, os.W_OK, dir_fd=folder, effective_ids=True)
        except NotImplementedError:
            return True  # the attempt will tell
        return allowed or self._opened.facts() is None


@contextmanager
def hold(target: FileTarget, *, make: bool = False) -> Iterator[LockedFile]:
    """Hold the file `target`, which need not exist; with `make`, create its missing folders."""
    with turn(target), reach(target, make=make) as opened, closing(LockedFile(opened)) as held:
        yield held


def change_file(target: FileTarget, change: Callable[[LockedFile], T], *, make: bool = False) -> T:
    """Hold the file `target` and call `change`; try again when a program that takes no lock changed it meanwhile. Raise `Refused`."""
    for left in reversed(range(TRIES)):
        try:
            with hold(target, make=make) as held:
                return change(held)
        except ChangedMeanwhile:
            if not left:
                raise
        except OSError as exc:
            raise explain_os_error(target.shown, exc) from exc
    raise AssertionError


def _identity(facts: os.stat_result | None) -> tuple[int, ...]:
    if facts is None:
        return ()
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def _write(handle: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(handle, left) :]


def _take_over(handle: int, model: FileAttributes) -> None:
    """Give a new file the owner, the mode and the extended attributes of another, as far as we may."""
    mode = stat.S_IMODE(model.facts.st_mode)
    if not _give_owner(handle, model.facts.st_uid, model.facts.st_gid):
        mode &= ~(stat.S_ISUID | stat.S_ISGID)  # a program must not gain the rights of another user
    os.fchmod(handle, mode)
    if not hasattr(os, "listxattr"):
        return
    with suppress(OSError):  # attributes that may not be read or set, or that the file system does not have
        for name in os.listxattr(model.handle):
            with suppress(OSError):
                os.setxattr(handle, name, os.getxattr(model.handle, name))


def _give_owner(handle: int, owner: int, group: int) -> bool:
    mine = os.fstat(handle)
    if (mine.st_uid, mine.st_gid) == (owner, group):
        return True
    try:
        os.fchown(handle, owner, group)
    except PermissionError:
        with suppress(PermissionError):  # only root may give files away; the content matters more
            os.fchown(handle, -1, group)
        return False
    return True
