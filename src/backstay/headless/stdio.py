"""Read standard input and write standard output without blocking the event loop."""

import contextlib
import fcntl
import io
import os
import termios
from array import array
from collections.abc import AsyncIterator, Iterable
from typing import IO, Any, BinaryIO, Final

import anyio
import anyio.to_thread

from backstay.logic.text import show_invisible
from backstay.vocab.errors import UserError

WAITING: Final = 1024 * 1024
"""Bytes that may wait for a slow reader; with more, the writer waits too."""
LONGEST_LINE: Final = 64 * 1024 * 1024


class OutputWriter:
    """Lines for a reader that may be slow or gone. A terminal gets no control characters, a pipe every byte."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._terminal = file.isatty()
        self._waiting: list[bytes] = []
        self._size = 0
        self._busy = False
        self._some = anyio.Event()
        self._empty = anyio.Event()
        self.gone = anyio.Event()
        """Set when the reader is gone; what is written then is dropped."""
        self.problem = ""
        """Why the output could not be written although its reader is there, such as a full disk."""

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._some.wait()
            self._some = anyio.Event()
            content, self._waiting, self._size = b"".join(self._waiting), [], 0
            self._busy = True
            if not (self.gone.is_set() or self.problem):
                await anyio.to_thread.run_sync(self._write, content)
            self._busy = False
            self._empty.set()
            self._empty = anyio.Event()

    async def put(self, lines: Iterable[bytes]) -> None:
        """Queue lines; wait only when more than `WAITING` bytes are queued."""
        for each in lines:
            line = show_invisible(each.decode("utf-8", "replace")).encode() if self._terminal else each
            self._waiting.append(line + b"\n")
            self._size += len(line) + 1
        if self._waiting:
            self._some.set()
        while self._size > WAITING:
            await self._empty.wait()

    async def flush(self) -> None:
        """Return when everything is written."""
        while self._waiting or self._busy:
            await self._empty.wait()

    def _write(self, content: bytes) -> None:
        try:
            self._file.write(content)
            self._file.flush()
        except BrokenPipeError:
            forget(self._file)
            anyio.from_thread.run_sync(self.gone.set)
        except OSError as exc:  # the session goes on all the same
            forget(self._file)
            self.problem = exc.strerror or str(exc)


def forget(file: IO[Any]) -> None:  # Any: of texts or of bytes
    """Drop what is written to `file` from now on, and what is in its buffer."""
    with contextlib.suppress(io.UnsupportedOperation):  # it is only in memory
        os.dup2(os.open(os.devnull, os.O_WRONLY), file.fileno())


class InputLines:
    """The lines of a pipe, a terminal or a file, each with the byte offset at which it begins."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._read = 0

    def count_written(self) -> int:
        """Count the bytes written so far, read or not: a line that begins before this offset was written before now."""
        waiting = array("i", [0])
        with contextlib.suppress(OSError):  # it cannot say: then what was read counts
            fcntl.ioctl(self._descriptor, termios.FIONREAD, waiting)
        return self._read + max(0, waiting[0])

    async def read(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield each line without its end, and where it begins, until the input ends."""
        rest, start = b"", 0
        while piece := await _piece(self._descriptor):
            self._read += len(piece)
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                yield start, line
                start += len(line) + 1
            if len(rest) > LONGEST_LINE:
                raise UserError(f"A line of the input has more than {LONGEST_LINE} bytes. Send it in pieces.")
        if rest:
            yield start, rest


async def _piece(descriptor: int) -> bytes:
    with contextlib.suppress(PermissionError):  # a regular file: reading it never waits
        await anyio.wait_readable(descriptor)
    return os.read(descriptor, 65_536)
