"""The memory store: sessions that live as long as the process.

No threads, no waiting: a simulation stays deterministic.
It keeps the encoded lines, so that what is read was really decoded.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from backstay.logic.state.outline import project
from backstay.logic.stored_content import digest, find_cited_blobs
from backstay.ports import NO_BLOBS, Clock, EventStore, FoldSnapshot, LogSlice, SearchHit, SessionQuery
from backstay.stores import owners
from backstay.stores.lookup import find, newest, no_session, select, words_of
from backstay.vocab.errors import (
    BlobMissing,
    LeaseLost,
    SeqConflict,
    SessionBusy,
    StoreReadOnly,
    StoreUnavailable,
    UserError,
)
from backstay.vocab.event import Recorded
from backstay.vocab.ids import check_session_id
from backstay.vocab.specs import Lease, Owner, SessionMeta
from backstay.wire.codec import decode_batch, encode_batch


class MemoryStore:
    """Sessions in memory. An empty name opens a store of one's own, any other the one of that name in this process."""

    def __init__(
        self, contents: "_Contents", clock: Clock, is_dead: Callable[[Owner], bool], *, read_only: bool
    ) -> None:
        self._contents = contents
        self._clock = clock
        self._is_dead = is_dead
        self._read_only = read_only

    @classmethod
    async def open(
        cls,
        name: str = "",
        *,
        clock: Clock,
        is_dead: Callable[[Owner], bool] = owners.is_dead,
        read_only: bool = False,
        create: bool = True,
    ) -> "MemoryStore":
        """Open the store called `name`, making it when it is missing and `create` says so."""
        contents = _SHARED.get(name) if name else None
        if contents is None:
            if name and (read_only or not create):
                raise StoreUnavailable(f"There is no memory store {name!r} in this process. Open it for writing first.")
            contents = _Contents(identity=f"memory-{clock.nonce()}{clock.nonce()}", name=name)
            if name:
                _SHARED[name] = contents
        return cls(contents, clock, is_dead, read_only=read_only)

    @property
    def identity(self) -> str:
        """A name that stays with this store for ever."""
        return self._contents.identity

    @property
    def url(self) -> str:
        """How to open this store again, in this process."""
        return f"memory:{self._contents.name}"

    async def append(
        self, lease: Lease, expected_seq: int, records: Sequence[Recorded], blobs: Mapping[str, bytes] = NO_BLOBS
    ) -> None:
        """Keep `records` and `blobs`, or raise and change nothing."""
        self._check_writable()
        log = self._contents.logs.get(check_session_id(lease.session))
        if log is None or log.token != lease.token:
            raise LeaseLost(f"Session {lease.session!r} was taken over or deleted. Open it again to go on.")
        if log.meta.seq != expected_seq:
            raise SeqConflict(
                f"The log of session {lease.session!r} ends at {log.meta.seq}, not at {expected_seq}. "
                "Read what was added, then append."
            )
        for sha256, content in blobs.items():
            if digest(content) != sha256:
                raise UserError(f"{sha256!r} is not the SHA-256 of the blob given under that name.")
        log.lines += encode_batch(lease.session, expected_seq, records)
        log.meta = project(log.meta, records)
        log.cited.update(blobs, *(find_cited_blobs(record.event) for record in records))
        self._contents.blobs.update(blobs)

    async def read(self, session: str, after: int = 0, limit: int | None = None) -> LogSlice:
        """Return the events after seq `after`. Raise `NoSession` when there is no such session."""
        end = None if limit is None else after + limit
        return _slice_of(self._log(session).lines[after:end], after)

    async def lease(self, session: str, owner: Owner, ttl_s: float = 15.0) -> Lease:
        """Take the right to write a session, new or old. Raise `SessionBusy` when a living owner holds it."""
        self._check_writable()
        session, _ = check_session_id(session), owners.check_terms(owner, ttl_s)
        living = await self.holder(session)
        if living is not None:
            raise SessionBusy(owners.describe_holder(living))
        await self.heartbeat(owner, ttl_s)
        log = self._contents.logs.setdefault(session, _Log(meta=SessionMeta(id=session), token=self._contents.floor))
        log.token += 1
        log.holder = Lease(session=session, token=log.token, owner=owner, since=self._clock.now())
        return log.holder

    async def heartbeat(self, owner: Owner, ttl_s: float = 15.0) -> None:
        """Say that `owner` lives."""
        self._check_writable()
        self._contents.until[owner.id] = self._clock.now() + owners.check_terms(owner, ttl_s)

    async def release(self, lease: Lease) -> None:
        """Give the right back; nothing happens when it is lost already."""
        log = self._contents.logs.get(check_session_id(lease.session))
        if log is not None and log.token == lease.token:
            log.holder = None

    async def holder(self, session: str) -> Lease | None:
        """Return who may write the session now, if a living owner does."""
        log = self._contents.logs.get(check_session_id(session))
        if log is None or log.holder is None:
            return None
        owner = log.holder.owner
        return None if self._is_dead(owner) or self._contents.until[owner.id] <= self._clock.now() else log.holder

    async def meta(self, session: str) -> SessionMeta:
        """Return the metadata of one session; `NoSession` when there is none."""
        return self._log(session).meta

    async def list(self, query: SessionQuery = SessionQuery()) -> tuple[SessionMeta, ...]:  # noqa: B008  # frozen
        """Sessions, newest first."""
        return select((log.meta for log in self._contents.logs.values() if log.lines), query)

    async def search(self, text: str, limit: int = 20) -> tuple[SearchHit, ...]:
        """Return where every word of `text` was said or shown, newest first."""
        words, logs = words_of(text), self._contents.logs.values()
        return newest((hit for log in logs for hit in find(log.meta, _slice_of(log.lines).records, words)), limit)

    async def delete(self, session: str) -> None:
        """Forget a session and the blobs only it cites. Nothing happens when it is missing."""
        self._check_writable()
        log = self._contents.logs.pop(check_session_id(session), None)
        if log is not None:
            # new sessions begin above the tokens of deleted ones, so that their last holders can write nowhere
            self._contents.floor = max(self._contents.floor, log.token)
            for sha256 in log.cited.difference(*(other.cited for other in self._contents.logs.values())):
                self._contents.blobs.pop(sha256, None)

    async def blob(self, sha256: str) -> bytes:
        """Return the bytes of a blob. Raise `BlobMissing`."""
        try:
            return self._contents.blobs[sha256]
        except KeyError as exc:
            raise BlobMissing(f"The blob {sha256!r} is not in this store.") from exc

    async def snapshot(self, session: str, digest: str) -> FoldSnapshot | None:
        """Return the newest cached fold state made by the code `digest`."""
        log = self._contents.logs.get(check_session_id(session))
        kept = log.snapshot if log is not None else None
        return kept if kept is not None and kept.digest == digest else None

    async def keep_snapshot(self, session: str, snapshot: FoldSnapshot) -> None:
        """Cache a fold state, replacing the one before."""
        log = self._contents.logs.get(check_session_id(session))
        if log is not None and not self._read_only:
            log.snapshot = snapshot

    async def verify(self, session: str) -> tuple[str, ...]:
        """Read everything of a session back and name what is wrong; empty when nothing is."""
        log = self._log(session)
        found = _slice_of(log.lines)
        wrong = [found.trouble.detail] if found.trouble else []
        cited = {sha for record in found.records for sha in find_cited_blobs(record.event)}
        return (
            *wrong,
            *(f"The blob {sha!r} is not in this store." for sha in sorted(cited - self._contents.blobs.keys())),
        )

    async def repair(self, session: str) -> str:
        """Say that memory needs no repair."""
        self._log(session)
        return f"Session {session!r} needs no repair: it is in memory."

    async def close(self) -> None:
        """Let go; a store with a name stays."""

    def _log(self, session: str) -> "_Log":
        log = self._contents.logs.get(check_session_id(session))
        if log is None or not log.lines:
            raise no_session(session)
        return log

    def _check_writable(self) -> None:
        if self._read_only:
            raise StoreReadOnly(f"The store {self.url!r} was opened for reading only.")


class _Log(Struct, eq=False):
    meta: SessionMeta
    token: int
    lines: list[bytes] = field(default_factory=list)
    holder: Lease | None = None
    cited: set[str] = field(default_factory=set)
    snapshot: FoldSnapshot | None = None


class _Contents(Struct, eq=False):
    identity: str
    name: str
    logs: dict[str, _Log] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    until: dict[str, int] = field(default_factory=dict)
    """When the leases of each owner run out."""
    floor: int = 0
    """The highest token of any deleted session."""


_SHARED: Final[dict[str, _Contents]] = {}


def _slice_of(lines: Sequence[bytes], after: int = 0) -> LogSlice:
    records, trouble = decode_batch(enumerate(lines, after + 1), after)
    return LogSlice(records=records, trouble=trouble)


if TYPE_CHECKING:

    def _conforms(store: MemoryStore) -> EventStore:
        return store
