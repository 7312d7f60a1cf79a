"""Writing a session of the JSONL store: beginning a segment, and adding batches to it."""

import fcntl
import functools
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct, field

from holdfast.logic.outline import project
from holdfast.logic.parts import cited_blobs
from holdfast.stores.blobs import BlobFolder
from holdfast.stores.jsonl_claims import Claims, holds, mark_released, names_in, release, unmark
from holdfast.stores.jsonl_files import make_folder, sync_bytes
from holdfast.stores.jsonl_known import FileSegments, Knowledge, Known, Stamp
from holdfast.stores.jsonl_lines import Beginning, Claim, seal_batch, seal_struct
from holdfast.stores.jsonl_log import Place, name_of, read_log
from holdfast.vocab.errors import Bug, LeaseLost, LogDamaged, NeedsUpgrade, SeqConflict, StoreFull, StoreUnavailable
from holdfast.vocab.event import Recorded
from holdfast.vocab.specs import Lease, Owner


class Pen(Struct, frozen=True):
    """Writes sessions. Every method blocks."""

    knowledge: Knowledge
    claims: Claims
    blobs: BlobFolder
    sync: Callable[[int], None] = sync_bytes
    spoilt: set[tuple[str, int]] = field(default_factory=set)
    """Session and token of segments whose last bytes nobody can vouch for."""

    def take(self, session: str, owner: Owner, ttl: int) -> Lease:
        """Take the lease of a session and begin its segment."""
        folder = self.knowledge.folder(session)
        make_folder(folder)
        while True:
            claim = self.claims.take(folder, owner, ttl)
            try:
                begin(folder, claim, known=self.knowledge.recall(session))
            except FileNotFoundError:
                continue  # somebody deleted the session meanwhile
            except (OSError, StoreFull):
                with suppress(OSError):
                    mark_released(folder, claim.segment)
                raise
            return Lease(session=session, token=claim.segment, owner=owner, since=claim.since)

    def append(self, lease: Lease, expected: int, records: Sequence[Recorded], blobs: Mapping[str, bytes]) -> None:
        """Write one batch, wait for the disk, and look whether the lease still holds before saying so."""
        folder = self.knowledge.folder(lease.session)
        lines = _encoded(lease.session, expected, records)
        self._check_lease(folder, lease)
        with _opened(folder / name_of(lease.token), lease) as handle:
            known = self._writable(lease, expected)
            self._keep_blobs(folder / f"{lease.token:08}.blobs", records, blobs)
            if lines:
                self._write(handle, lease, known.end.offset, lines)
            self._check_lease(folder, lease)
            found = os.fstat(handle)
        stamp = Stamp(newest=lease.token, size=found.st_size, time=found.st_mtime_ns)
        end = Place(segment=lease.token, offset=known.end.offset + len(lines), seq=expected + len(records))
        self.knowledge.keep(lease.session, Known(stamp=stamp, end=end, meta=project(known.meta, records)))

    def give_back(self, lease: Lease) -> None:
        """Release a lease and say how much of its segment counts, so that bytes that go missing later are missed."""
        known = self.knowledge.recall(lease.session)
        sure = known is not None and known.end.segment == lease.token
        sure = sure and (lease.session, lease.token) not in self.spoilt
        release(self.knowledge.folder(lease.session), lease, known.end.offset if known and sure else 0)

    def _check_lease(self, folder: Path, lease: Lease) -> None:
        if not holds(folder, lease):
            newest = names_in(folder).newest
            raise LeaseLost(
                f"Session {lease.session!r} was taken over or deleted (lease {lease.token}, the newest is {newest}). "
                "Open it again to go on."
            )

    def _writable(self, lease: Lease, expected: int) -> Known:
        """The session as it is, if a batch may follow event `expected`."""
        session = lease.session
        known = self.knowledge.current(session)
        if known.trouble is not None and known.trouble.kind == "newer":
            raise NeedsUpgrade(f"Session {session!r} can only be read here: {known.trouble.detail}")
        if known.trouble is not None:
            raise LogDamaged(
                f"Session {session!r} is damaged after event {known.meta.seq}: {known.trouble.detail}. "
                f"`holdfast log repair {session}` keeps what can be read and puts the rest aside."
            )
        self._check_lease(self.knowledge.folder(session), lease)
        if (session, lease.token) in self.spoilt or known.rest or known.end.segment != lease.token:
            raise StoreUnavailable(
                f"A failed write of session {session!r} could not be taken back. Open it again to go on."
            )
        if known.meta.seq != expected:
            raise SeqConflict(
                f"The log of session {session!r} ends at {known.meta.seq}, not at {expected}. "
                "Read what was added, then append."
            )
        return known

    def _keep_blobs(self, keeper: Path, records: Sequence[Recorded], blobs: Mapping[str, bytes]) -> None:
        for sha256, content in blobs.items():
            self.blobs.put(sha256, content, keeper)
        self.blobs.keep({sha for record in records for sha in cited_blobs(record.event)}, keeper)

    def _write(self, handle: int, lease: Lease, length: int, lines: bytes) -> None:
        """Write with one call and sync once. Half a batch is cut off; a failed sync spoils the segment."""
        try:
            if os.write(handle, lines) < len(lines):
                raise StoreFull(
                    f"No space for session {lease.session!r}. Free some space; what was acknowledged is safe."
                )
        except (OSError, StoreFull):
            self._or_spoil(lease, functools.partial(os.ftruncate, handle, length))
            raise
        self._or_spoil(lease, functools.partial(self.sync, handle))

    def _or_spoil(self, lease: Lease, work: Callable[[], None]) -> None:
        try:
            work()
        except OSError:
            self.spoilt.add((lease.session, lease.token))
            raise


def begin(folder: Path, claim: Claim, *, at: Place | None = None, known: Known | None = None) -> None:
    """Write the second line of a claimed segment: the log goes on from its end, or from `at`.

    Where the log is damaged all its bytes count, so that the damage stays in sight until somebody repairs it.
    """
    names = names_in(folder)
    sound = True
    if at is None:
        files = FileSegments(folder, [token for token in names.segments if token < claim.segment])
        reading = read_log(files, after=sys.maxsize, place=known.end if known and known.end.segment else None)
        at, sound = reading.end, reading.flaw is None
        if not sound:
            newest = files.tokens[-1]
            at = Place(segment=newest, offset=max(files.size(newest), files.accepted(newest)), seq=at.seq)
    line = seal_struct(Beginning(prev=at.segment, length=at.offset, after=at.seq, sound=sound))
    handle = os.open(folder / name_of(claim.segment), os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if os.write(handle, line) < len(line):
            raise StoreFull(f"No space for session {claim.session!r}. Free some space; what was acknowledged is safe.")
        sync_bytes(handle)
    finally:
        os.close(handle)
    unmark(folder, names, claim.segment)


@contextmanager
def _opened(path: Path, lease: Lease) -> Iterator[int]:
    """The segment, open for appending by one thread at a time.

    Never waits: the lock belongs to holders of this very lease.
    """
    try:
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as exc:
        raise LeaseLost(
            f"Session {lease.session!r} was deleted while it was open here. Nothing more is written."
        ) from exc
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield handle
    except BlockingIOError as exc:
        raise SeqConflict(
            f"Somebody else appends to session {lease.session!r} with the same lease. Append again."
        ) from exc
    finally:
        os.close(handle)


def _encoded(session: str, expected: int, records: Sequence[Recorded]) -> bytes:
    if [record.seq for record in records] != list(range(expected + 1, expected + 1 + len(records))):
        raise SeqConflict(f"Events for session {session!r} must be numbered from {expected + 1} without a gap.")
    try:
        return seal_batch(records)
    except (msgspec.MsgspecError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as exc:
        raise Bug(f"An event of session {session!r} cannot be written down: {exc}. Please report it.") from exc
