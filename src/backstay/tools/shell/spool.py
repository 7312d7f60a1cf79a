"""Keep the output of a program as bytes: in memory while it is short, then in a file without a name, never beyond a limit."""

import os
import tempfile
import threading
from typing import BinaryIO, Final, cast

HALF: Final = 15 * 1024 * 1024
"""Bytes kept of the beginning, and as many of the end."""
IN_MEMORY: Final = 64 * 1024
"""Bytes that are kept without a file."""


class Spool:
    """Take bytes without end and keep the beginning and the end of them. Threads may share it.

    A disk that refuses loses what comes after, and `trouble` says so; nothing is raised, since the program's work matters more.
    """

    def __init__(self, folder: str | None = None, *, half: int = HALF, in_memory: int = IN_MEMORY) -> None:
        self.trouble = ""
        self._folder = folder
        self._half = half
        self._in_memory = in_memory
        self._size = 0
        self._memory = bytearray()
        self._file: BinaryIO | None = None
        self._lock = threading.Lock()

    @property
    def size(self) -> int:
        """Bytes that came, kept or not."""
        return self._size

    def add(self, piece: bytes) -> None:
        """Take the next bytes."""
        with self._lock:
            if self.trouble or not piece:
                return
            try:
                self._put(piece)
            except OSError as exc:
                self.trouble = exc.strerror or str(exc)

    def read(self, start: int = 0) -> tuple[bytes, int]:
        """Return what is kept of the bytes from `start` on, with a note where some are left out, and where they end."""
        with self._lock:
            size = self._size
            gap_end = max(self._half, size - self._half)
            head = self._get(min(start, self._half), min(size, self._half))
            tail = self._get(max(start, gap_end), size)
            left_out = gap_end - max(start, self._half)
        note = f"\n[{left_out} bytes are left out here]\n".encode() if left_out > 0 else b""
        lost = f"\n[the rest could not be kept: {self.trouble}]\n".encode() if self.trouble else b""
        return head + note + tail + lost, size

    def whole(self) -> bytes:
        """Return everything that is kept."""
        return self.read()[0]

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self.trouble = self.trouble or "closed"
            self._memory.clear()
            if self._file is not None:
                self._file.close()
                self._file = None
            self._size = 0

    def _put(self, piece: bytes) -> None:
        if self._file is None and self._size + len(piece) <= self._in_memory:
            self._memory += piece
            self._size += len(piece)
            return
        if self._file is None:
            file = cast("BinaryIO", tempfile.TemporaryFile(dir=self._folder, buffering=0))  # noqa: SIM115  # `close` does
            self._file, moved, self._size = file, bytes(self._memory), 0
            self._memory.clear()
            self._store(moved)
        self._store(piece)

    def _store(self, piece: bytes) -> None:
        """Write into the file: the beginning straight on, the rest round and round."""
        assert self._file is not None
        rest = memoryview(piece)
        while rest:
            room = self._half - (self._size if self._size < self._half else self._size % self._half)
            written = os.pwrite(self._file.fileno(), rest[:room], self._file_position(self._size))
            self._size += written
            rest = rest[written:]

    def _get(self, start: int, end: int) -> bytes:
        """Return the kept bytes between two positions on one side of the gap."""
        if start >= end:
            return b""
        if self._file is None:
            return bytes(self._memory[start:end])
        found = bytearray()
        while start < end:
            room = self._half - start % self._half
            piece = os.pread(self._file.fileno(), min(room, end - start), self._file_position(start))
            if not piece:
                break
            found += piece
            start += len(piece)
        return bytes(found)

    def _file_position(self, position: int) -> int:
        """Return where a position is in the file. The second half is a ring."""
        return position if position < self._half else self._half + position % self._half
