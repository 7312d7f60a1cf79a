"""The two files of a session's trace: appended to, swapped when full, read while they are written.

The newer one is `<session>.jsonl`, the older one `<session>.jsonl.old`. No session's newer file can have the name of
another's older one, since every newer one ends in `.jsonl`.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from backstay.system.files import check_regular, read_whole
from backstay.vocab.errors import StoreUnavailable
from backstay.vocab.ids import check_session_id


def trace_folder(store_url: str) -> Path | None:
    """Return the folder for the traces of a store's sessions; None for a store without files."""
    kind, _, path = store_url.partition("?")[0].partition("://")
    return Path(f"{path}.trace") if kind == "sqlite" else None


def trace_path(folder: str | os.PathLike[str], session: str) -> Path:
    """Return the newer file of a session's trace."""
    return Path(folder) / f"{check_session_id(session)}.jsonl"


def older_path(path: Path) -> Path:
    """Return the older file of the trace whose newer one is at `path`."""
    return path.with_name(f"{path.name}.old")


class TraceFile:
    """Append to the newer file of one trace.

    The file is opened for each batch, since ten thousand sessions must not hold ten thousand files; what is known of it
    is remembered, since every system call of a background thread may cost it a turn behind a busy event loop.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size: int | None = None
        """None when the file has to be looked at: at first, and after a failure."""
        self.swaps = 0
        """How often the newer file took the older one's place."""

    def make_room(self, size: int, half: int) -> bool:
        """Let the newer file take the older one's place if `size` bytes more would be over `half`.

        Return whether that dropped lines. A file that cannot be moved grows; the append will say what is wrong.
        """
        if not self._size or self._size + size <= half:
            return False
        try:
            dropped = older_path(self._path).exists()
            self._path.replace(older_path(self._path))
        except OSError:
            return False
        self._size = 0
        self.swaps += 1
        return dropped

    def append(self, chunk: bytes) -> tuple[int, OSError | None]:
        """Append `chunk`; return how many of its bytes went in and what stopped the others."""
        written = 0
        try:
            with _open_private(self._path) as file:
                held = self._size if self._size is not None else _mend(file)
                while written < len(chunk):
                    written += os.write(file, memoryview(chunk)[written:])
        except OSError as exc:
            self._size = None
            return written, exc
        self._size = held + written
        return written, None


def segments(path: Path) -> tuple[bytes, bytes]:
    """Both files, the older one first, as they were at one moment."""
    while True:
        before = _identity(path)
        found = _content(older_path(path)), _content(path)
        if _identity(path) == before:
            return found


def delete_trace(folder: str | os.PathLike[str], session: str) -> None:
    """Forget a session's trace. Nothing happens when there is none."""
    path = trace_path(folder, session)
    path.unlink(missing_ok=True)
    older_path(path).unlink(missing_ok=True)


@contextlib.contextmanager
def _open_private(path: Path) -> Iterator[int]:
    flags = os.O_NONBLOCK | os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    try:
        file = os.open(path, flags, 0o600)
    except FileNotFoundError:
        _make_private(path.parent)
        file = os.open(path, flags, 0o600)
    try:
        check_regular(file, path)
        yield file
    finally:
        os.close(file)


def _make_private(folder: Path) -> None:
    if not folder.parent.exists():
        _make_private(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)


def _mend(file: int) -> int:
    """End a torn last line, so that it stays alone instead of spoiling the next; return the file's size."""
    size = os.fstat(file).st_size
    if size == 0 or os.pread(file, 1, size - 1) == b"\n":
        return size
    return size + os.write(file, b"\n")


def _identity(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None


def _content(path: Path) -> bytes:
    try:
        return read_whole(path)
    except FileNotFoundError:
        return b""
    except OSError as exc:
        raise StoreUnavailable(f"Cannot read the trace {str(path)!r}: {exc}. Check who may read it.") from exc
