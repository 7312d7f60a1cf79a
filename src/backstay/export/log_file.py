"""Write a session to a file of lines, and make a session from such a file: each the inverse of the other.

The log is never in memory as a whole. An import reads the file twice: it checks and folds all of it, then writes it in one append,
which a crash leaves undone. The events keep their ids; `Started` names the new session and its store, and behind the last event
stands what `logic/state/log_copies.py` adds.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, overload

import anyio.to_thread
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from backstay.catalog.hold import hold_session, refuse_writing
from backstay.catalog.paged_log import PagedLog
from backstay.logic.decide.step import settle
from backstay.logic.state.log_copies import disarm, is_quiet
from backstay.logic.state.progress import Progress, fold, fold_all
from backstay.logic.stored_content import digest, find_cited_blobs
from backstay.ports import Clock, EventStore
from backstay.system.files import read_whole
from backstay.tools.shell.processes import is_left_running
from backstay.vocab import events
from backstay.vocab.errors import BlobMissing, LogDamaged, NeedsUpgrade
from backstay.vocab.event import Draft, Recorded
from backstay.vocab.ids import make_opening, make_session_id
from backstay.wire.codec import decode
from backstay.wire.json_lines import (
    LONGEST_HEADER,
    Blob,
    blob_line,
    check_seal,
    event_line,
    header_line,
    read_header,
    read_line,
)

NOT_IMPORTED: Final = "cannot be imported, so nothing was"
PAGE: Final = 1_024
"""Events between two offsets of the file that are kept."""


def log_lines(log: PagedLog, events: int) -> Iterator[bytes]:
    """Yield the first `events` events of a session as lines, with the blobs that they cite. Raise when fewer can be read."""
    yield header_line(log.session, events)
    written: set[str] = set()
    seq = 0
    for record in log:
        for sha256 in sorted(find_cited_blobs(record.event) - written):
            written.add(sha256)
            yield blob_line(sha256, _blob(log, sha256))
        yield event_line(log.session, record)
        seq = record.seq
    if seq < events and log.trouble is not None:
        refuse_writing(log.session, log.trouble)


def _blob(log: PagedLog, sha256: str) -> bytes | None:
    try:
        return log.blob(sha256)
    except BlobMissing:
        return None


class Imported(Struct, frozen=True, kw_only=True):
    """The session that a file became."""

    session: str
    events: int
    """The number of events of the file."""
    added: tuple[Recorded, ...]
    """The events that were written behind them."""
    children: tuple[str, ...]
    """The subagents of the session, which are not in the file."""


async def import_log(store: EventStore, file: BinaryIO, *, name: str = "", clock: Clock) -> Imported:
    """Make a session from the lines of `file`, which is read twice. Raise `LogDamaged` or `NeedsUpgrade`, with the number of the line,
    when it is not a whole log; then nothing is written.
    """
    session = make_session_id(clock.now(), clock.nonce())
    log = _LogFile(file, session, store.identity)
    await anyio.to_thread.run_sync(log.check)
    async with hold_session(store, session, "import") as lease:
        await anyio.to_thread.run_sync(
            partial(log.end, name, nonce=make_opening(lease.token, clock.nonce()), now=clock.now())
        )
        await store.append(lease, 0, log, log.blobs)
    return Imported(session=session, events=log.events, added=log.added, children=tuple(log.children))


def read_log(file: BinaryIO) -> Iterator[Recorded]:
    """Yield the events in the lines of `file`, after all lines were checked. Raise as `import_log` does."""
    log = _LogFile(file, "", "")
    log.check("is wrong")
    return iter(log)


class _LogFile(Sequence[Recorded]):
    """The events of a file and those written behind them; those of the file are read each time."""

    def __init__(self, file: BinaryIO, session: str, store: str) -> None:
        self.events = 0
        self.added: tuple[Recorded, ...] = ()
        self.children: dict[str, None] = {}
        self._line = 0
        self._file = file
        self._session, self._store = session, store
        self._source = ""
        """The session that the file was written from."""
        self._pages: list[int] = []
        """The offset of the first event of each page."""
        self._blobs: dict[str, int | None] = {}
        """The offset of the line of each blob; None for one that is gone."""
        self._progress = Progress()
        self._home = store
        """The store of the session, as the log says."""

    @property
    def blobs(self) -> Mapping[str, bytes]:
        """The blobs of the file."""
        return _Blobs(self._file, {sha256: at for sha256, at in self._blobs.items() if at is not None})

    def check(self, outcome: str = NOT_IMPORTED) -> None:
        """Read every line. Raise with its number and the outcome when one is wrong."""
        with self._with_line_number(outcome):
            self._file.seek(0)
            self._line, at = 1, 0
            content = self._file.readline(LONGEST_HEADER)
            header = read_header(content)
            self._source = header.session
            while True:
                at += len(content)
                content = self._file.readline()
                self._line += 1
                if not content:
                    break
                if header.is_sealed:
                    check_seal(content)
                self._take(content, at)
            if not self.events or header.events not in (None, self.events):
                raise LogDamaged(f"the file ends before it, with {self.events} of {header.events or 1} events")

    def end(self, name: str, *, nonce: str, now: int) -> None:
        """Decide which events are written behind those of the file. Raise when something stays open that no event can close."""
        running = any(is_left_running(p.group, p.boot, p.started, p.call) for p in self._progress.left)
        added = [*disarm(self._progress, running=running, nonce=nonce, now=now)]
        progress = fold_all(added, self._progress)
        with self._with_line_number():
            if not is_quiet(progress):
                raise LogDamaged("the events before it leave things open that no session leaves open")
        more = [Draft(event=events.Renamed(name=name), by="user")] if name else []
        if self._home != self._store:  # it was moved once, and the newest event counts
            more.append(Draft(event=events.StoreChanged(store=self._store, came_from=self._home), by="user"))
        self.added = (*added, *settle(progress, more, None, nonce=nonce, now=now).records)

    @contextmanager
    def _with_line_number(self, outcome: str = NOT_IMPORTED) -> Iterator[None]:
        """Add the number of the line, and the outcome for it, to an error."""
        try:
            yield
        except (LogDamaged, NeedsUpgrade) as exc:
            words = f"Line {self._line} {outcome}: {str(exc).rstrip('.')}."
            if isinstance(exc, NeedsUpgrade):
                raise NeedsUpgrade(words) from exc
            raise LogDamaged(f"{words} Export the session again: `backstay log export ID --format events`.") from exc

    def _take(self, content: bytes, at: int) -> None:
        found = read_line(content, self._source)
        if isinstance(found, Blob):
            self._blobs[found.sha256] = None if found.content is None else at
            return
        if found.seq != self.events + 1:
            raise LogDamaged(f"event {found.seq} stands where event {self.events + 1} belongs")
        if missing := find_cited_blobs(found.event) - self._blobs.keys():
            raise LogDamaged(f"it cites the blob {min(missing)!r}, which does not stand before it")
        if self.events % PAGE == 0:
            self._pages.append(at)
        record = self._rebind(found)
        if isinstance(record.event, events.ChildStarted):
            self.children[record.event.child] = None
        self._progress = fold(self._progress, record)
        if isinstance(record.event, events.StoreChanged):
            self._home = record.event.store
        self.events += 1

    def _rebind(self, record: Recorded) -> Recorded:
        """Return `record` for the new session."""
        if (record.seq == 1) != isinstance(record.event, events.Started):
            raise LogDamaged("a log begins with the start of its session, and with no other")
        if not isinstance(record.event, events.Started):
            return record
        return replace(record, event=replace(record.event, session=self._session, store=self._store, parent=""))

    def __len__(self) -> int:
        return self.events + len(self.added)

    def __iter__(self) -> Iterator[Recorded]:
        return self._from(0)

    @overload
    def __getitem__(self, place: int) -> Recorded: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Recorded]: ...
    def __getitem__(self, place: int | slice) -> Recorded | Sequence[Recorded]:
        if isinstance(place, slice):
            start, stop, step = place.indices(len(self))
            return tuple(itertools.islice(self._from(start), 0, max(0, stop - start), step))
        return next(self._from(range(len(self))[place]))

    def _from(self, start: int) -> Iterator[Recorded]:
        page = start // PAGE
        if page < len(self._pages):
            at, count = self._pages[page], page * PAGE
            while count < self.events:
                self._file.seek(at)  # each time: a blob may be read in between
                content = self._file.readline()
                at += len(content)
                found = read_line(content, self._source)
                if isinstance(found, Recorded):
                    count += 1
                    if count > start:
                        yield self._rebind(found)
        yield from self.added[max(0, start - self.events) :]


class _Blobs(Mapping[str, bytes]):
    """Blobs, each read from its line when it is needed."""

    def __init__(self, file: BinaryIO, places: Mapping[str, int]) -> None:
        self._file = file
        self._places = places

    def __getitem__(self, sha256: str) -> bytes:
        self._file.seek(self._places[sha256])
        found = read_line(self._file.readline(), "")
        if not isinstance(found, Blob) or found.content is None:
            raise LogDamaged(f"The file was changed while it was read: the blob {sha256!r} is gone. Import it again.")
        return found.content

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class _SegmentLine(msgspec.Struct):
    """Any line of a segment, with the fields that say which lines are in force."""

    gone: bool = False
    prev: int = 0
    length: int = 0
    left: int = 0


def folder_lines(folder: Path) -> Iterator[bytes]:
    """Yield the session in `folder`, which is named by its id, as lines. Raise `LogDamaged` or `NeedsUpgrade` for an unreadable part."""
    records = [record for path, end in _segments(folder) for record in _records(path, end)]
    if not records:
        raise LogDamaged(f"{str(folder)!r} holds no session. Give the folder of one: STORE/sessions/ID.")
    yield header_line(folder.name, len(records))
    written: set[str] = set()
    for record in records:
        for sha256 in sorted(find_cited_blobs(record.event) - written):
            written.add(sha256)
            yield blob_line(sha256, _old_blob(folder, sha256))
        yield event_line(folder.name, record)


def _segments(folder: Path) -> list[tuple[Path, int | None]]:
    """Return the segments in force, oldest first, and how many bytes of each; None for all."""
    paths = {int(path.stem): path for path in folder.glob("*.jsonl") if path.stem.isdigit()}
    found: list[tuple[Path, int | None]] = []
    token, end = max(paths, default=0), None
    while token:
        if token not in paths:
            raise _damage(folder / f"{token:08}.jsonl", 0, "it is missing")
        first, *rest = _lines(paths[token], end)
        if first[1].gone:
            break
        if not rest and not found:  # the process that took the session got no further
            token = max((each for each in paths if each < token), default=0)
            continue
        if not rest:
            raise _damage(paths[token], 2, "it is missing")
        found.append((paths[token], end))
        token, end = rest[0][1].prev, rest[0][1].length
    return found[::-1]


def _records(path: Path, end: int | None) -> Iterator[Recorded]:
    batch: list[Recorded] = []
    for number, (line, said) in enumerate(_lines(path, end)[2:], start=3):
        try:
            batch.append(decode(line))
        except (LogDamaged, NeedsUpgrade) as exc:
            raise type(exc)(f"{str(path)!r}, line {number}: {exc}") from exc
        if not said.left:
            yield from batch
            batch.clear()


def _lines(path: Path, end: int | None) -> list[tuple[bytes, _SegmentLine]]:
    """Return the whole lines of a segment, with their checksums checked."""
    found: list[tuple[bytes, _SegmentLine]] = []
    for number, line in enumerate(read_whole(path)[:end].split(b"\n")[:-1], start=1):
        try:
            check_seal(line + b"\n")
            found.append((line, msgspec.json.decode(line, type=_SegmentLine)))
        except (LogDamaged, msgspec.DecodeError) as exc:
            raise _damage(path, number, str(exc)) from exc
    if not found:
        raise _damage(path, 1, "it is torn off")
    return found


def _damage(path: Path, number: int, reason: str) -> LogDamaged:
    where = f"{str(path)!r}, line {number}" if number else repr(str(path))
    return LogDamaged(f"{where}: {reason}. Mend the session with the version that wrote it: `backstay log repair`.")


def _old_blob(folder: Path, sha256: str) -> bytes | None:
    """Return a blob, from the store or from the folder of the session; None when it is gone or altered."""
    for path in (folder.parents[1] / "blobs" / sha256[:2] / sha256, *folder.glob(f"*.blobs/{sha256}")):
        if path.is_file() and digest(content := read_whole(path)) == sha256:
            return content
    return None
