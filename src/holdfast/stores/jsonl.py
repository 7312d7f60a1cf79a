"""The JSONL store: a folder of plain files, one line an event, that anybody can read, grep and copy.

    store.json                      format and identity
    sessions/<id>/<token>.jsonl     a segment: what the lease with that token wrote
    sessions/<id>/<token>.blobs/    links to the blobs that it cites
    sessions/<id>/damaged/          what repairs put aside
    blobs/ab/<sha256>               long texts and media
    owners/<id>.json                heartbeats
    unclean                         secrets were erased, and what was replaced is not removed yet
    cache/                          may be deleted at any time

**Why an acknowledged event is never lost, and a lost lease never writes.** Every lease writes a segment of its own. To
take a session over, a process (1) makes the next token durable by creating its file, (2) measures how many bytes of the
old segment are whole batches, and (3) writes that number into its own. From then on bytes behind that length are
ignored and reported. A writer (a) writes a batch and syncs it, (b) looks whether the next token exists, and only if it
does not (c) acknowledges. If it acknowledges, it looked before (1), so its bytes were there at (2) and count. If its
bytes come after (2), it looks after (1) and raises `LeaseLost`. A batch that lands between (1) and (2) may count
although its writer is told `LeaseLost`: as after a crash between commit and acknowledgement, nothing was done on the
strength of it, and the new holder reads it before anything else. Nobody waits for anybody: there is no lock that a
stopped process could hold (`jsonl_claims.py` says how a token is taken).

Nothing is ever overwritten or destroyed but by `delete`. A short write is cut off at once: it is half a batch, which
nobody can have counted. Where that fails, and where a sync fails, of which nobody can say what it did, the lease takes
no more writes: the next one begins with what is there. Half a batch at the end of a segment (a crash) is left there and
does not count. Damage in the middle leaves the events before it readable and everything in place; `repair` goes on
after them.
"""

import functools
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

import anyio
import anyio.to_thread
import msgspec
from msgspec.structs import replace

from holdfast.logic.rewriting import Change
from holdfast.ports import Clock, EventStore, FoldSnapshot, LogSlice, SearchHit, SessionQuery, Trouble
from holdfast.stores import owners
from holdfast.stores.blobs import BlobFolder
from holdfast.stores.disk import explain_os, read_regular
from holdfast.stores.jsonl_append import Pen
from holdfast.stores.jsonl_claims import Claims, IsDead, Owners
from holdfast.stores.jsonl_erase import Eraser
from holdfast.stores.jsonl_files import create_file, make_folder, replace_file
from holdfast.stores.jsonl_known import Knowledge, Known, Look
from holdfast.stores.jsonl_lines import FORMAT
from holdfast.stores.jsonl_search import search
from holdfast.stores.jsonl_upkeep import Upkeep, ignored, is_aside, torn
from holdfast.stores.memory import NO_BLOBS, no_session, select
from holdfast.stores.rewritable import ChangedPast, Rewritable
from holdfast.vocab.errors import NeedsUpgrade, StoreReadOnly, StoreUnavailable
from holdfast.vocab.event import Recorded
from holdfast.vocab.ids import check_session_id
from holdfast.vocab.specs import Lease, Owner, SessionMeta

P = ParamSpec("P")
T = TypeVar("T")

THREADS: Final = 16
"""Files that one store works on at the same time."""
_FORGET_OWNERS_US: Final = 24 * 3600 * 1_000_000


class JsonlStore:
    """Sessions as files. All file work happens in threads; the appends of a session happen in order."""

    def __init__(self, root: Path, identity: str, clock: Clock, is_dead: IsDead, *, read_only: bool) -> None:
        self._root = root
        self._identity = identity
        self._clock = clock
        self._read_only = read_only
        self._limiter = anyio.CapacityLimiter(THREADS)
        self._locks: dict[str, anyio.Lock] = {}
        self._blobs = BlobFolder(root / "blobs", keepers="sessions/*/*.blobs")
        self._knowledge = Knowledge(root / "sessions", root / "cache")
        self._claims = Claims(Owners(root / "owners"), is_dead, clock.now)
        self._pen = Pen(self._knowledge, self._claims, self._blobs)
        self._upkeep = Upkeep(self._knowledge, self._claims, self._blobs)
        self._eraser = Eraser(self._knowledge, self._blobs, root / "unclean")

    @classmethod
    async def open(
        cls,
        path: str | os.PathLike[str],
        *,
        clock: Clock,
        is_dead: IsDead = owners.is_dead,
        read_only: bool = False,
        create: bool = True,
    ) -> "JsonlStore":
        """Open the store in the folder `path`, making it when it is missing and `create` says so."""
        identity = f"jsonl-{clock.nonce()}{clock.nonce()}" if create and not read_only else ""
        root, found = await anyio.to_thread.run_sync(_identified, Path(path), identity)
        store = cls(root, found, clock, is_dead, read_only=read_only)
        await store._run(store._settle_in)
        return store

    @property
    def identity(self) -> str:
        """A name that stays with this store for ever, wherever its files are."""
        return self._identity

    @property
    def url(self) -> str:
        """How to open this store again."""
        return f"jsonl://{self._root}"

    async def append(
        self, lease: Lease, expected_seq: int, records: Sequence[Recorded], blobs: Mapping[str, bytes] = NO_BLOBS
    ) -> None:
        """Make `records` and `blobs` durable, or raise and change nothing. Once begun it is not cancelled."""
        self._check_writable()
        lease = replace(lease, session=check_session_id(lease.session))
        lock = self._locks.setdefault(lease.session, anyio.Lock())
        with anyio.CancelScope(shield=True):
            async with lock:
                await self._run(self._pen.append, lease, expected_seq, tuple(records), dict(blobs))

    async def read(self, session: str, after: int = 0, limit: int | None = None) -> LogSlice:
        """The events after seq `after`. Raise `NoSession` when there is no such session."""
        return await self._run(self._read, check_session_id(session), after, limit)

    async def lease(self, session: str, owner: Owner, ttl_s: float = 15.0) -> Lease:
        """Take the right to write a session, new or old. Raise `SessionBusy` when a living owner holds it."""
        self._check_writable()
        return await self._run(self._pen.take, check_session_id(session), owner, owners.check_terms(owner, ttl_s))

    async def heartbeat(self, owner: Owner, ttl_s: float = 15.0) -> None:
        """Say that `owner` lives."""
        self._check_writable()
        await self._run(self._claims.owners.beat, owner, owners.check_terms(owner, ttl_s), self._clock.now())

    async def release(self, lease: Lease) -> None:
        """Give the right back; nothing happens when it is lost already."""
        await self._run(self._pen.give_back, lease)

    async def holder(self, session: str) -> Lease | None:
        """Who may write the session now, if a living owner does."""
        return await self._run(self._claims.holder, self._knowledge.folder(session))

    async def meta(self, session: str) -> SessionMeta:
        """The metadata of one session; `NoSession` when there is none."""
        return (await self._run(self._existing, check_session_id(session))).meta

    async def list(self, query: SessionQuery = SessionQuery()) -> tuple[SessionMeta, ...]:  # noqa: B008  # frozen
        """Sessions, newest first. A damaged one shows what can be read of it."""
        return await self._run(self._list, query)

    async def search(self, text: str, limit: int = 20) -> tuple[SearchHit, ...]:
        """Where every word of `text` was said or shown, newest first. Reads the logs themselves."""
        return await self._run(search, self._knowledge, text, limit)

    async def delete(self, session: str) -> None:
        """Forget a session and the blobs only it cites.

        Its name stays as a folder, so that its tokens are never given again.
        """
        self._check_writable()
        await self._run(self._delete, check_session_id(session))

    async def blob(self, sha256: str) -> bytes:
        """The bytes of a blob, checked against its hash. Raise `BlobMissing`."""
        return await self._run(self._blobs.get, sha256)

    async def snapshot(self, session: str, digest: str) -> FoldSnapshot | None:
        """The newest cached fold state made by the code `digest`."""
        kept = await self._run(_read_snapshot, self._snapshot_file(session))
        return kept if kept is not None and kept.digest == digest else None

    async def keep_snapshot(self, session: str, snapshot: FoldSnapshot) -> None:
        """Cache a fold state, replacing the one before. Nothing happens where nothing may be written."""
        if not self._read_only:
            await self._run(_write_snapshot, self._snapshot_file(session), snapshot)

    async def verify(self, session: str) -> tuple[str, ...]:
        """Read everything of a session back and name what is wrong; empty when nothing is."""
        session = check_session_id(session)
        await self._run(self._existing, session)
        return await self._run(self._upkeep.verify, session)

    async def repair(self, session: str) -> str:
        """Make a damaged log writable again: go on after what can be read, keep everything aside, say where."""
        self._check_writable()
        session = check_session_id(session)
        await self._run(self._existing, session)
        return await self._run(self._upkeep.repair, session)

    async def rewrite(self, lease: Lease, past: ChangedPast) -> None:
        """Put `past` in the place of what a session's log says."""
        self._check_writable()
        lease = replace(lease, session=check_session_id(lease.session))
        with anyio.CancelScope(shield=True):
            async with self._locks.setdefault(lease.session, anyio.Lock()):
                await self._run(_remove, self._snapshot_file(lease.session))
                await self._run(self._eraser.rewrite, lease, past)

    async def aside(self, session: str) -> tuple[str, ...]:
        """What repairs put aside of a session."""
        return await self._run(self._eraser.aside, check_session_id(session))

    async def change_aside(self, session: str, change: Change) -> int:
        """Change what repairs put aside of a session; return how many pieces of it are different now."""
        return await self._run(self._eraser.change_aside, check_session_id(session), change)

    async def is_clean(self) -> bool:
        """Whether nothing is left of what was replaced."""
        return await self._run(self._eraser.is_clean)

    async def scour(self) -> None:
        """Remove from the files whatever is not part of a log any more."""
        self._check_writable()
        await self._run(self._eraser.scour)

    async def close(self) -> None:
        """Finish what was accepted and keep what was learnt."""
        with anyio.CancelScope(shield=True):
            for lock in tuple(self._locks.values()):
                async with lock:
                    pass
            if not self._read_only:
                await self._run(self._knowledge.save)

    async def _run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do file work in a thread."""
        call = functools.partial(_explained, self._root, functools.partial(work, *args, **kwargs))
        return await anyio.to_thread.run_sync(call, limiter=self._limiter)

    def _check_writable(self) -> None:
        if self._read_only:
            raise StoreReadOnly(f"The store {self.url!r} was opened for reading only.")

    def _snapshot_file(self, session: str) -> Path:
        return self._root / "cache" / "snapshots" / check_session_id(session)

    def _settle_in(self) -> None:
        self._knowledge.load()
        if not self._read_only:
            with suppress(OSError):
                self._claims.owners.prune(self._clock.now() - _FORGET_OWNERS_US)

    def _existing(self, session: str) -> Known:
        known = self._knowledge.current(session)
        if not known.is_session:
            raise no_session(session)
        return known

    def _read(self, session: str, after: int, limit: int | None) -> LogSlice:
        look = self._knowledge.look(session, after, limit)
        over = limit is None or look.reading.flaw is not None or len(look.reading.records) < limit
        if over and (after == 0 or limit is not None):
            look = self._knowledge.whole(session, look)
        trouble = self._trouble(session, look)
        if look.reading.end.seq == 0 and trouble is None:
            raise no_session(session)
        notes = self._upkeep.leftovers(session, look) if over and (after == 0 or limit is not None) else ()
        return LogSlice(records=look.reading.records[:limit], trouble=trouble, notes=tuple(notes))

    def _trouble(self, session: str, look: Look) -> Trouble | None:
        reading, folder = look.reading, self._knowledge.folder(session)
        seq = reading.end.seq
        if reading.flaw is not None:
            return Trouble(kind=reading.flaw.kind, detail=reading.flaw.detail, seq=seq)
        if reading.rest and not self._claims.holder(folder):
            return Trouble(kind="torn", detail=torn(reading.end.segment, reading.rest), seq=seq)
        before = reading.chain[-2] if len(reading.chain) > 1 else 0
        if before in reading.ignored and not is_aside(folder, before):
            return Trouble(kind="torn", detail=ignored(before, reading.ignored[before]), seq=seq)
        return None

    def _list(self, query: SessionQuery) -> tuple[SessionMeta, ...]:
        found = select((known.meta for known in self._knowledge.everything()), query)
        if not self._read_only:
            self._knowledge.save()
        return found

    def _delete(self, session: str) -> None:
        self._upkeep.delete(session)
        _remove(self._snapshot_file(session))


class _StoreFile(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    identity: str


def _explained(root: Path, work: Callable[[], T]) -> T:
    try:
        return work()
    except OSError as exc:
        named = Path(exc.filename or root)
        shown = named.parent if named.suffix == ".tmp" else named  # nobody knows a name that was there for a moment
        raise explain_os(exc, shown, root) from exc


def _identified(folder: Path, identity: str) -> tuple[Path, str]:
    """The whole path and the identity of a store; with a new `identity`, make a store where there is none."""
    root = folder.expanduser().absolute()
    path = root / "store.json"
    try:
        if identity and not path.exists():
            make_folder(root)
            create_file(path, msgspec.json.encode(_StoreFile(format=FORMAT, identity=identity)) + b"\n")
        found = msgspec.json.decode(read_regular(path), type=_StoreFile)
    except FileNotFoundError as exc:
        raise StoreUnavailable(f"There is no store in {str(root)!r}. Check the path, or let it be created.") from exc
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise StoreUnavailable(f"{str(path)!r} is damaged: {exc}. Bring it back from a backup.") from exc
    except OSError as exc:
        raise explain_os(exc, path, root) from exc
    if found.format > FORMAT:
        raise NeedsUpgrade(
            f"{str(root)!r} has the format {found.format}, this Holdfast knows {FORMAT}. Upgrade to open it."
        )
    return root, found.identity


def _read_snapshot(path: Path) -> FoldSnapshot | None:
    try:
        content = read_regular(path)
        if zlib.crc32(content[4:]).to_bytes(4) != content[:4]:
            return None
        return msgspec.msgpack.decode(content[4:], type=FoldSnapshot)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def _write_snapshot(path: Path, snapshot: FoldSnapshot) -> None:
    make_folder(path.parent)
    content = msgspec.msgpack.encode(snapshot)
    replace_file(path, zlib.crc32(content).to_bytes(4) + content, durably=False)


if TYPE_CHECKING:

    def _conforms(store: JsonlStore) -> tuple[EventStore, Rewritable]:
        return store, store
