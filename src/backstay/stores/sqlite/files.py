"""The files beside the database: its folder, its lock, large blobs, and damaged lines put aside."""

import errno
import fcntl
import hashlib
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from backstay.stores.disk_errors import explain_os, is_read_only
from backstay.system.files import make_folder, open_regular, read_whole, replace_file, sync_folder
from backstay.vocab.errors import StoreError, StoreUnavailable

BLOB_IN_TABLE: Final = 1024 * 1024
"""A blob of more bytes than this is a file of its own."""
MOST_IN_TABLE: Final = 900_000_000
"""What SQLite surely takes as one value."""
_NETWORK: Final = re.compile(
    r"nfs\d*|cifs|smb\d*|smbfs|afs|ncpfs|davfs|ceph|lustre|glusterfs|fuse\.(sshfs|glusterfs|s3fs|rclone|smbnetfs)"
)
_MOUNTS: Final = Path("/proc/mounts")


def check_local(path: Path, mounts: str | None = None) -> None:
    """Refuse a path on a network file system, where the locks and shared memory of SQLite cannot be trusted.

    `mounts` is the text of `/proc/mounts`; where the system has none, every path passes.
    """
    if mounts is None:
        try:
            mounts = _MOUNTS.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return
    where, kind = Path("/"), ""
    for line in mounts.splitlines():
        _, mount, found, *_ = (*line.split(" "), "", "")
        point = Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), mount))
        if path.is_relative_to(point) and len(point.parts) >= len(where.parts):
            where, kind = point, found
    if _NETWORK.fullmatch(kind):
        raise StoreUnavailable(
            f"{str(path)!r} is on a network file system ({kind} at {str(where)!r}), where SQLite can lose data. "
            "Put the store on a local disk (BACKSTAY_DATA_DIR), and bring sessions over as lines: `backstay log export ID "
            "--format events -o FILE`, then `backstay log import FILE`."
        )


def make_file(path: Path) -> None:
    """Make an empty file that only this user may read, and the folders above it; an existing one stays as it is.

    An existing one is not opened either: closing it would take away the locks of every connection that this process
    has to it, and another process could then empty the write-ahead log under them.
    """
    make_folder(path.parent)
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path)) from None
        if not os.access(path, os.R_OK | os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            number = errno.EROFS if is_read_only(path) else errno.EACCES
            raise OSError(number, os.strerror(number), str(path)) from None


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold the lock file of the database at `path`: one process at a time creates or upgrades it."""
    handle = os.open(beside(path, ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def beside(path: Path, suffix: str) -> Path:
    """Return the path of the database with `suffix` after its whole name."""
    return path.with_name(path.name + suffix)


class BlobFiles:
    """Blobs too large for the database, one file each, named by their hash.

    An encrypted store has no such files, whatever the size: they would lie there in plain text.
    """

    def __init__(self, path: Path, *, encrypted: bool = False) -> None:
        self._folder = beside(path, ".blobs")
        self._encrypted = encrypted

    def takes(self, content: bytes) -> bool:
        """Return whether a blob is kept as a file."""
        return len(content) > BLOB_IN_TABLE and not self._encrypted

    def write(self, blobs: Mapping[str, bytes], *, again: bool = False) -> None:
        """Make the large ones among `blobs` durable, unless they are there already.

        `again` a moment later only those are written that are gone: reading large files takes time.
        """
        for sha, content in blobs.items():
            if self._encrypted and len(content) > MOST_IN_TABLE:
                raise StoreError(
                    f"The blob {sha!r} has {len(content):,} bytes; encrypted stores take {MOST_IN_TABLE:,}."
                )
            if self.takes(content) and not (self._is_there(sha, len(content)) if again else self._is_sound(sha)):
                self._write(sha, content)

    def read(self, sha: str) -> bytes | None:
        """Return the bytes of a blob; None when there is no file of it."""
        try:
            return read_whole(self._path(sha))
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise StoreUnavailable(f"Cannot read {str(self._path(sha))!r}: {exc}.") from exc

    def names(self) -> tuple[str, ...]:
        """Return the blobs that there are files of."""
        found = self._folder.glob("??/*") if self._folder.is_dir() else ()
        return tuple(sorted(path.name for path in found if not path.name.startswith(".")))

    def remove(self, sha: str) -> None:
        """Forget a blob; nothing happens when there is no file of it."""
        try:
            self._path(sha).unlink(missing_ok=True)
        except OSError as exc:
            raise explain_os(exc, self._path(sha)) from exc

    def _path(self, sha: str) -> Path:
        return self._folder / sha[:2] / sha

    def _is_there(self, sha: str, size: int) -> bool:
        try:
            return self._path(sha).stat().st_size == size
        except OSError:
            return False

    def _is_sound(self, sha: str) -> bool:
        """Return whether the file of a blob is there and holds what its name says."""
        try:
            with open_regular(self._path(sha)) as file:
                return hashlib.file_digest(file, "sha256").hexdigest() == sha
        except OSError:
            return False

    def _write(self, sha: str, content: bytes) -> None:
        path = self._path(sha)
        try:
            make_folder(path.parent)
            replace_file(path, content)
            for folder in (self._folder, self._folder.parent):
                sync_folder(folder)
        except OSError as exc:
            raise explain_os(exc, path) from exc


def write_durably(path: Path, content: bytes) -> None:
    """Add `content` to a file that only this user may read, and wait for the disk."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    with open(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def set_aside(path: Path, session: str, seq: int, lines: list[bytes]) -> Path:
    """Keep damaged lines of a session beside the database, and say where."""
    folder = beside(path, ".damaged")
    target = folder / f"{session}-{seq}.jsonl"
    try:
        make_folder(folder)
        write_durably(target, b"".join(line + b"\n" for line in lines))
        sync_folder(folder)
        sync_folder(folder.parent)
    except OSError as exc:
        raise explain_os(exc, target) from exc
    return target


def aside_files(path: Path, session: str) -> tuple[Path, ...]:
    """Return the files with what was put aside for a session."""
    folder = beside(path, ".damaged")
    name = re.compile(re.escape(session) + r"-\d+\.jsonl")
    try:
        return tuple(each for each in folder.iterdir() if name.fullmatch(each.name)) if folder.is_dir() else ()
    except OSError as exc:
        raise explain_os(exc, folder) from exc


def forget_aside(path: Path, session: str) -> None:
    """Remove what was put aside for a session."""
    for each in aside_files(path, session):
        try:
            each.unlink(missing_ok=True)
        except OSError as exc:
            raise explain_os(exc, each) from exc


Library = Literal["sqlite3", "sqlcipher3"]
_Inode = tuple[int, int]

_lock: Final = threading.Lock()
_open: Final = dict[_Inode, list[Library]]()
"""The libraries of the connections to each file, all the same one."""


def claim(path: str, library: Library) -> Callable[[], None] | None:
    """Note that `library` opens the file at `path`; call what is returned once it is closed.

    None while another library has it open. Raise `OSError` when there is no such file.
    """
    inode = _inode(path)
    with _lock:
        holders = _open.setdefault(inode, [])
        if holders and holders[0] != library:
            return None
        holders.append(library)

    def release() -> None:
        with _lock:
            holders.pop()
            if not holders:
                _open.pop(inode, None)

    return release


def is_held_by_other(path: str, library: Library) -> bool:
    """Return whether another library than `library` has the file at `path` open in this process."""
    with _lock:
        holders = _open.get(_inode(path), [])
        return bool(holders) and holders[0] != library


def _inode(path: str) -> _Inode:
    found = os.stat(path)
    return found.st_dev, found.st_ino
