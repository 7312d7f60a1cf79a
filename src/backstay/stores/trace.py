"""Write the trace: fragments, raw payloads and timings beside the log, for debugging. It may lose lines.

Two files a session, `<folder>/<session>.jsonl` and the older `<session>.jsonl.old`: no newer file can have the name of another's older
one. A line is `{"after","token","n","at","kind","data"}`: `after` is the last `seq` of the log, `token` the lease that wrote it, `n` the
number of the line since then, so that the key is unique for ever. Lines are encoded when they are written and reach the file at most
50 ms or 64 KiB later, by one thread for all sessions. A crash may cost that tail. A disk that fails costs lines, which are counted, and
nothing else.

No line reaches the file with a secret in it that can be told as one, be it split over several lines; a line that may
hold the beginning of one waits for those that follow. Requests are written as what is new in them.
"""

import contextlib
import json
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread
import msgspec

from backstay.logic.secrets.redact import PLAIN, Redactor
from backstay.ports import Trace
from backstay.stores.trace_lines import (
    Line,
    RequestPacker,
    Scrubber,
    Streams,
    encode_line,
    line_of,
)
from backstay.system.files import check_regular
from backstay.vocab.ids import check_session_id


class TraceLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line. Lines with `n` 0 are the trace's own: `trace_lost` and `trace_cut`."""

    after: int
    token: int
    n: int
    at: int
    """Microseconds since 1970."""
    kind: str
    data: dict[str, object] = {}


def _name_kind(thing: object) -> str:
    return f"<{type(thing).__name__}>"


_encoder: Final = msgspec.json.Encoder(enc_hook=_name_kind)
decoder: Final = msgspec.json.Decoder(TraceLine)


def encode(line: TraceLine) -> bytes:
    """Return one line of JSON. What cannot be written is replaced by the name of its type."""
    try:
        return _encoder.encode(line)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return _encoder.encode(msgspec.structs.replace(line, data=_salvage(line.data)))


def _salvage(content: dict[str, object]) -> dict[str, object]:
    """Save what can be of content that the encoder refuses, such as text with half a character."""
    try:
        text = json.dumps(content, default=_name_kind, skipkeys=True, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as exc:
        return {"unwritable": f"{type(exc).__name__}: {exc}"}
    return {"salvaged": text.encode("utf-8", "replace").decode()}


LOST: Final = "trace_lost"
"""The kind of a line that says how many lines before it could not be written."""
CUT: Final = "trace_cut"
"""The kind of a line that says that the oldest lines were dropped to keep the trace small."""
REQUEST: Final = "provider_request"
"""The kind of a line with a request. Its content is not copied: whoever writes it must not change it afterwards."""

MAX_BYTES: Final = 64 * 1024 * 1024
BEHIND_S: Final = 0.05
BEHIND_BYTES: Final = 64 * 1024
MOST_WAITING: Final = 64 * 1024 * 1024
"""Bytes that wait for a disk that hangs; what comes after them is lost."""


class FileTrace:
    """Write the traces of many sessions into a folder. May be called from any thread; only flush and close wait.

    A session's trace keeps to about `max_bytes`, in two files: when the newer one holds half of it, it replaces the
    older one. `write` takes no lock: a flusher that competes for one with a busy event loop would starve.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        max_bytes: int = MAX_BYTES,
        now: Callable[[], int] | None = None,
        redactor: Redactor = PLAIN,
    ) -> None:
        self._folder = Path(folder)
        self._redactor = redactor
        self._half = max_bytes // 2
        self._now = now or _wall_clock
        self._traces: dict[str, _OpenTrace] = {}
        self._queue: deque[tuple[_OpenTrace, Line | TraceLine, int]] = deque()
        self._holding: set[_OpenTrace] = set()
        self._queued, self._taken = 0, 0
        self._lost = 0
        self._problem = ""
        self._closed = False
        self._losing = threading.Lock()
        self._draining = threading.Lock()
        self._some = threading.Event()
        self._enough = threading.Event()
        self._flusher: threading.Thread | None = None

    @property
    def lost(self) -> int:
        """How many lines did not reach a file."""
        return self._lost

    @property
    def problem(self) -> str:
        """What went wrong the last time that lines were lost; empty when none were."""
        return self._problem

    def position(self, session: str, after: int, token: int) -> None:
        """Say where the log of `session` is; lines from now on are numbered from there."""
        trace = self._trace_of(session)
        trace.move(after, token)
        if trace.scrubber.holds:
            self._wake()

    def write(self, session: str, kind: str, content: Mapping[str, object]) -> None:
        """Buffer one line; never waits, and never raises for what the content or the disk is."""
        trace = self._trace_of(session)
        traced = trace.line(kind, self._now(), content)
        entry: Line | TraceLine = traced
        if kind == REQUEST:  # long, and little of it is new: that is found out later, by the flusher
            size = _size(content)
            trace.streams.end()
        else:
            written = encode(traced)
            size = len(written) + 1
            try:
                entry = line_of(written, traced.after, kind, traced.data, trace.streams)
            except TypeError as exc:
                return self._lose(trace, 1, str(exc))
        waiting = self._queued - self._taken + size
        if self._closed or waiting > MOST_WAITING:
            self._lose(trace, 1, "the trace is closed" if self._closed else "the disk is too slow")
            return
        self._queued += size
        self._queue.append((trace, entry, size))
        if not self._some.is_set():
            self._wake()
        if waiting >= BEHIND_BYTES and not self._enough.is_set():
            self._enough.set()

    async def flush(self) -> None:
        """Bring what is buffered to the files."""
        await anyio.to_thread.run_sync(self._finish, abandon_on_cancel=True)

    async def close(self) -> None:
        """Flush and end the thread. A disk that hangs is given five seconds; what is written afterwards is lost."""
        with anyio.move_on_after(5, shield=True):
            await anyio.to_thread.run_sync(self._stop, abandon_on_cancel=True)

    def _trace_of(self, session: str) -> "_OpenTrace":
        trace = self._traces.get(session)
        if trace is None:
            file = TraceFile(trace_path(self._folder, session))
            trace = self._traces.setdefault(session, _OpenTrace(file, self._redactor))
        return trace

    def _wake(self) -> None:
        self._some.set()
        self._start()

    def _start(self) -> None:
        with self._losing:
            if self._flusher is None and not self._closed:
                flusher = threading.Thread(target=self._flush_for_ever, name="backstay-trace", daemon=True)
                try:
                    flusher.start()
                except RuntimeError as exc:  # no more threads: the lines wait for flush or close
                    self._problem = str(exc)
                else:
                    self._flusher = flusher

    def _flush_for_ever(self) -> None:
        while not self._closed:
            self._some.wait()
            self._enough.wait(BEHIND_S)
            # Cleared before draining: a line that comes later asks for another round.
            self._some.clear()
            self._enough.clear()
            self._drain()

    def _finish(self) -> None:
        self._drain(final=True)

    def _stop(self) -> None:
        with self._losing:
            self._closed = True
        self._enough.set()
        self._some.set()
        if self._flusher is not None:
            self._flusher.join()
        self._finish()

    def _drain(self, *, final: bool = False) -> None:
        # One drain at a time, from taking the lines to writing them: so lines stay in order.
        with self._draining:
            batches: dict[_OpenTrace, list[Line]] = {trace: [] for trace in self._holding}
            for _ in range(len(self._queue)):
                trace, entry, size = self._queue.popleft()
                line = entry if isinstance(entry, Line) else trace.pack_request(entry)
                batches.setdefault(trace, []).append(line)
                self._taken += size
            for trace, fresh in batches.items():
                if lines := self._scrub(trace, fresh, final=final):
                    self._put(trace, lines)
            self._holding = {trace for trace in batches if trace.scrubber.holds}

    def _scrub(self, trace: "_OpenTrace", fresh: list[Line], *, final: bool) -> list[bytes]:
        """Return the lines that may be written now. Lines that cannot be looked through are lost: they must end no thread."""
        try:
            return trace.scrubber.take(fresh, position=trace.after, final=final)
        except (TypeError, ValueError, LookupError, AttributeError, RecursionError) as exc:
            self._lose(trace, len(fresh) + trace.scrubber.drop(), f"{type(exc).__name__}: {exc}")
            return []

    def _put(self, trace: "_OpenTrace", lines: list[bytes]) -> None:
        at, marks, reported, swaps = self._now(), [], trace.lost, trace.file.swaps
        if trace.file.make_room(sum(map(len, lines)), self._half):
            marks.append(encode(trace.mark(CUT, at, {"max_bytes": self._half * 2})))
        if reported:
            marks.append(encode(trace.mark(LOST, at, {"lines": reported})))
        chunk = b"\n".join((*marks, *lines, b""))
        written, problem = trace.file.append(chunk)
        kept = chunk.count(b"\n", 0, written)
        if kept >= len(marks):
            with self._losing:
                trace.lost -= reported
        if problem is not None or trace.file.swaps != swaps:
            trace.packer.forget()
        if problem is not None:
            self._lose(trace, len(lines) - max(0, kept - len(marks)), str(problem))

    def _lose(self, trace: "_OpenTrace", lines: int, problem: str) -> None:
        with self._losing:
            trace.lost += lines
            self._lost += lines
            self._problem = problem


class MemoryTrace:
    """Keep traces in memory, for tests and for sessions without a store."""

    def __init__(self, now: Callable[[], int] | None = None) -> None:
        self._now = now or _wall_clock
        self._traces: dict[str, _TracePosition] = {}
        self._lines: dict[str, list[TraceLine]] = {}

    def position(self, session: str, after: int, token: int) -> None:
        """Say where the log of `session` is."""
        self._traces.setdefault(session, _TracePosition()).move(after, token)

    def write(self, session: str, kind: str, content: Mapping[str, object]) -> None:
        """Keep one line."""
        trace = self._traces.setdefault(session, _TracePosition())
        line = decoder.decode(encode(trace.line(kind, self._now(), content)))
        clean = msgspec.convert(PLAIN.value(line.data), dict[str, object])
        self._lines.setdefault(session, []).append(msgspec.structs.replace(line, data=clean))

    def lines(self, session: str) -> tuple[TraceLine, ...]:
        """Return everything written for `session`, in order."""
        return tuple(self._lines.get(session, ()))

    async def flush(self) -> None:
        """Do nothing: every line is where it belongs."""

    async def close(self) -> None:
        """Do nothing."""


class NoTrace:
    """Keep nothing."""

    def position(self, session: str, after: int, token: int) -> None:
        """Do nothing."""

    def write(self, session: str, kind: str, content: Mapping[str, object]) -> None:
        """Do nothing."""

    async def flush(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""


class _TracePosition:
    """The position in a session's trace: the key of the next line."""

    def __init__(self) -> None:
        self._key = (0, 0, count(1))

    def move(self, after: int, token: int) -> None:
        # The same place again must not start the numbers over: keys stay unique.
        if (after, token) != self._key[:2]:
            self._key = (after, token, count(1))

    @property
    def after(self) -> int:
        return self._key[0]

    def line(self, kind: str, at: int, content: Mapping[str, object]) -> TraceLine:
        after, token, numbers = self._key
        return TraceLine(after=after, token=token, n=next(numbers), at=at, kind=kind, data=dict(content))

    def mark(self, kind: str, at: int, content: dict[str, object]) -> TraceLine:
        after, token, _ = self._key
        return TraceLine(after=after, token=token, n=0, at=at, kind=kind, data=content)


class _OpenTrace(_TracePosition):
    """And the file that it goes to."""

    def __init__(self, file: "TraceFile", redactor: Redactor) -> None:
        super().__init__()
        self.file = file
        self.streams = Streams()
        self.scrubber = Scrubber(redactor)
        self.packer = RequestPacker(redactor.value)
        self.lost = 0
        """Lines that are lost and not yet reported in the file."""

    def pack_request(self, request: TraceLine) -> Line:
        """Return a request as it is written: what is new in it."""
        try:
            line = msgspec.structs.replace(request, data=self.packer.pack(request.data))
            written = encode_line(msgspec.structs.asdict(line))
        except (TypeError, ValueError, OverflowError, RecursionError) as exc:
            self.packer.forget()
            line = msgspec.structs.replace(request, data={"unwritable": f"{type(exc).__name__}: {exc}"})
            written = encode(line)
        return Line(written, after=request.after, ready=True)


def _size(content: Mapping[str, object]) -> int:
    """About how many bytes a request takes while it waits; objects that others hold too cost nothing."""
    return 1024 + sum(len(value) for value in content.values() if isinstance(value, str | bytes))


def _wall_clock() -> int:
    return time.time_ns() // 1_000


# --- files -------------------------------------------------------------------------------------------------------------------------


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


if TYPE_CHECKING:
    _file: Trace = FileTrace("")
    _memory: Trace = MemoryTrace()
    _none: Trace = NoTrace()
