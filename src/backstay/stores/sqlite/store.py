"""The SQLite store: one file a user, a write-ahead log, every acknowledged event on the disk.

`synchronous="full"` (the default) waits for the disk at every commit. `"normal"` is sound too and survives a killed
process, but a power cut may take the newest acknowledged events with it.
"""

import contextlib
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import anyio.to_thread
import msgspec

from backstay.logic.secrets.rewrite import Change
from backstay.ports import (
    NO_BLOBS,
    ChangedPast,
    Clock,
    EventStore,
    FoldSnapshot,
    LogSlice,
    Rewritable,
    SearchHit,
    SessionQuery,
)
from backstay.stores import owners
from backstay.stores.owners import describe_holder
from backstay.stores.sqlite import log, maintenance
from backstay.stores.sqlite import search as sqlite_search
from backstay.stores.sqlite.connection import (
    Connect,
    Db,
    DbError,
    Readers,
    Synchronous,
    connect_stdlib,
    explain,
    patiently,
)
from backstay.stores.sqlite.files import BlobFiles
from backstay.stores.sqlite.open import DatabaseFile, prepare
from backstay.stores.sqlite.schema import value
from backstay.stores.sqlite.writer import InlineWriter, ThreadWriter, WriteJob, Writer, WriterConnection
from backstay.vocab.errors import BackstayError, LogDamaged, SessionBusy
from backstay.vocab.event import Recorded
from backstay.vocab.ids import check_session_id
from backstay.vocab.specs import Lease, Owner, SessionMeta

T = TypeVar("T")
IsDead = Callable[[Owner], bool]
"""Whether an owner certainly lives no more."""
_owner_decoder: Final = msgspec.json.Decoder(Owner)


class SqliteStore:
    """Sessions in one SQLite file. Make one with `open`."""

    def __init__(self, database: DatabaseFile, writer: Writer, clock: Clock, is_dead: IsDead) -> None:
        self._database = database
        self._writer = writer
        self._clock = clock
        self._is_dead = is_dead
        self._files = BlobFiles(database.path, encrypted=bool(database.key))
        self._doubtful: set[str] = set()

    @classmethod
    async def open(
        cls,
        path: str | os.PathLike[str],
        *,
        clock: Clock,
        is_dead: IsDead = owners.is_dead,
        read_only: bool = False,
        create: bool = True,
        synchronous: Synchronous = "full",
        connect: Connect = connect_stdlib,
        inline: bool = False,
        key: str = "",
        warn: Callable[[str], None] | None = None,
    ) -> "SqliteStore":
        """Open the store at `path`, making it when it is missing and `create` says so.

        A store that cannot be written (a read-only folder, a newer schema) opens for reading; a write then says why
        not. `inline` does all the work in place on the event loop: for simulations, never for programs. `key` says where
        the key of an encrypted store is: `env:NAME`, `file:PATH` or `keyring`. `warn` takes a sentence when the store was
        upgraded.
        """
        new = f"sqlite-{clock.nonce()}{clock.nonce()}" if create else ""
        ready = functools.partial(
            prepare, Path(path), new=new, read_only=read_only, synchronous=synchronous, connect=connect, key=key
        )
        database = ready() if inline else await anyio.to_thread.run_sync(ready)
        if database.copy is not None and warn is not None:
            warn(f"{path!s} was made by an older Backstay and was upgraded. As it was, it is kept in {database.copy}.")
        return cls(database, _writer(database, inline=inline), clock, is_dead)

    @property
    def identity(self) -> str:
        """A name that stays with this store for ever, wherever its files are."""
        return self._database.identity

    @property
    def url(self) -> str:
        """How to open this store again. Where the key is may stand there, the key never."""
        database = self._database
        options = [f"key={database.key}"] if database.key else []
        options += [] if database.synchronous == "full" else [f"synchronous={database.synchronous}"]
        # another kind, so that no code that knows `sqlite:` puts plain text beside the file
        return (
            f"{'sqlcipher' if database.key else 'sqlite'}://{database.path}{'?' if options else ''}{'&'.join(options)}"
        )

    async def append(
        self, lease: Lease, expected_seq: int, records: Sequence[Recorded], blobs: Mapping[str, bytes] = NO_BLOBS
    ) -> None:
        """Make `records` and `blobs` durable, or raise and change nothing."""
        self._check_writable()
        check_session_id(lease.session)
        large = [sha for sha, content in blobs.items() if self._files.takes(content)]
        if large:
            await self._writer.aside(functools.partial(self._files.write, blobs))
        append = log.Append(lease, expected_seq, records, blobs, self._files, self._doubtful)
        try:
            await self._writer.write(WriteJob(append.apply, append.has_landed, append.doubt))
        except BackstayError:
            await self._take_back(large)
            raise

    async def _take_back(self, blobs: Sequence[str]) -> None:
        """Remove files that were written for an append that is refused. Where that fails the refusal counts: no event cites them."""
        if blobs:
            with contextlib.suppress(BackstayError):
                await self._writer.write(WriteJob(lambda db: maintenance.drop_uncited(db, blobs, self._files)))

    async def read(self, session: str, after: int = 0, limit: int | None = None) -> LogSlice:
        """Return the events after seq `after`. Raise `NoSession` when there is no such session."""
        check_session_id(session)
        records: list[Recorded] = []
        while True:
            want = log.CHUNK if limit is None else min(log.CHUNK, limit - len(records))
            chunk = await self._read(log.read_chunk, session, after + len(records), want)
            records += chunk.records
            if chunk.trouble is not None or len(chunk.records) < want or len(records) == limit:
                return LogSlice(records=tuple(records), trouble=chunk.trouble)

    async def lease(self, session: str, owner: Owner, ttl_s: float = 15.0) -> Lease:
        """Take the right to write a session, new or old. Raise `SessionBusy` when a living owner holds it."""
        session, ttl = check_session_id(session), owners.check_terms(owner, ttl_s)

        def take(db: Db) -> Lease:
            return _take_lease(db, session, owner, ttl, self._clock.now(), self._is_dead)

        return await self._write(take, has_landed=_is_newest)

    async def heartbeat(self, owner: Owner, ttl_s: float = 15.0) -> None:
        """Renew the leases of `owner`."""
        ttl = owners.check_terms(owner, ttl_s)
        await self._write(lambda db: _beat(db, owner, ttl, self._clock.now()))

    async def release(self, lease: Lease) -> None:
        """Give the lease back; nothing happens when it is lost already."""
        await self._write(lambda db: _release(db, lease))

    async def holder(self, session: str) -> Lease | None:
        """Return who may write the session now, if a living owner does."""
        return await self._read(_find_holder, check_session_id(session), self._clock.now(), self._is_dead)

    async def meta(self, session: str) -> SessionMeta:
        """Return the metadata of one session; `NoSession` when there is none."""
        return await self._read(log.one_meta, check_session_id(session))

    async def list(self, query: SessionQuery = SessionQuery()) -> tuple[SessionMeta, ...]:  # noqa: B008 - frozen
        """Sessions, newest first. A damaged one never hides the others."""
        return await self._read(log.list_metas, query)

    async def search(self, text: str, limit: int = 20) -> tuple[SearchHit, ...]:
        """Return where a word beginning with each word of `text` was said or shown, newest first."""
        more = self._database.refusal is None and await self._read(sqlite_search.behind)
        while more:
            more = await self._write(sqlite_search.index_some)
        return await self._read(sqlite_search.find, text, limit)

    async def delete(self, session: str) -> None:
        """Forget a session and the blobs only it cites. Nothing happens when it is missing."""
        check_session_id(session)
        num = await self._write(lambda db: maintenance.bury(db, session, self._database.aside))
        while num is not None and await self._read(maintenance.is_buried, num):
            await self._write(lambda db: maintenance.sweep(db, self._files))

    async def blob(self, sha256: str) -> bytes:
        """Return the bytes of a blob, checked against its hash. Raise `BlobMissing`."""
        return await self._read(log.read_blob, sha256, self._files)

    async def snapshot(self, session: str, digest: str) -> FoldSnapshot | None:
        """Return the newest cached fold state made by the code `digest`."""
        return await self._read(log.read_snapshot, check_session_id(session), digest)

    async def keep_snapshot(self, session: str, snapshot: FoldSnapshot) -> None:
        """Cache a fold state, replacing the one before, after everything else that waits to be written.

        Nothing happens where nothing may be written.
        """
        check_session_id(session)
        if self._database.refusal is None:
            await self._writer.write(WriteJob(lambda db: log.put_snapshot(db, session, snapshot)), later=True)

    async def verify(self, session: str) -> tuple[str, ...]:
        """Read everything of a session back and name what is wrong; empty when nothing is."""
        try:
            return await self._read(maintenance.verify, check_session_id(session), self._files)
        except LogDamaged as exc:
            return (str(exc),)

    async def repair(self, session: str) -> str:
        """Make a damaged log writable again: keep its readable prefix, put the damaged lines aside, say where."""
        check_session_id(session)
        return await self._write(lambda db: maintenance.repair(db, session, self._database.aside))

    async def rewrite(self, lease: Lease, past: ChangedPast) -> None:
        """Put `past` in the place of what a session's log says."""
        self._check_writable()
        await self._writer.aside(functools.partial(self._files.write, past.blobs))
        rewrite = maintenance.Rewrite(lease, past, self._files)
        await self._writer.write(WriteJob(rewrite.apply, rewrite.has_landed))

    async def aside(self, session: str) -> tuple[str, ...]:
        """Return what repairs put aside of a session."""
        return await self._read(maintenance.aside, self._database, check_session_id(session))

    async def change_aside(self, session: str, change: Change) -> int:
        """Change what repairs put aside of a session; return how many pieces of it are different now."""
        check_session_id(session)
        return await self._write(lambda db: maintenance.change_aside(db, self._database, session, change))

    async def is_clean(self) -> bool:
        """Return whether nothing is left of what was replaced."""
        return await self._read(maintenance.is_clean)

    async def scour(self) -> None:
        """Remove from the files what is not part of a log any more: deleted sessions, blobs that no event cites, free pages, copies."""
        while await self._write(lambda db: maintenance.sweep(db, self._files)):
            pass
        await self._write(lambda db: maintenance.drop_strays(db, self._files))
        try:
            await self._writer.aside(lambda: patiently(functools.partial(maintenance.write_anew, self._database)))
        except DbError as exc:
            raise explain(exc, str(self._database.path)) from exc
        await self._write(maintenance.mark_clean)

    async def close(self) -> None:
        """Finish what was accepted and close the files."""
        await self._writer.close()

    async def _write(self, apply: Callable[[Db], T], has_landed: Callable[[Db, T], bool] | None = None) -> T:
        self._check_writable()
        return await self._writer.write(WriteJob(apply) if has_landed is None else WriteJob(apply, has_landed))

    async def _read(self, look: Callable[..., T], *args: object) -> T:
        return await self._writer.read(lambda db: look(db, *args))

    def _check_writable(self) -> None:
        if self._database.refusal is not None:
            raise self._database.refusal


def _writer(database: DatabaseFile, *, inline: bool) -> Writer:
    path = str(database.path)
    if inline:
        return InlineWriter(
            WriterConnection(database.open_to_read if database.refusal else database.open_to_write, path), path
        )
    files = BlobFiles(database.path, encrypted=bool(database.key))

    def tidy(db: Db) -> bool:
        return maintenance.sweep(db, files) or sqlite_search.index_some(db)

    connection = WriterConnection(database.open_to_write, path) if database.refusal is None else None
    return ThreadWriter(connection, Readers(database.open_to_read), path, tidy)


if TYPE_CHECKING:

    def _plays(store: SqliteStore) -> tuple[EventStore, Rewritable]:
        return store, store


# --- leases: a row for each owner, and a token for each session that only rises -------------------------------------------------------


def _take_lease(db: Db, session: str, owner: Owner, ttl: int, now: int, is_dead: IsDead) -> Lease:
    """Give `owner` the session under a new token, unless a living owner holds it."""
    rows = db.execute("SELECT token, owner FROM sessions WHERE id = ?", (session,))
    if not rows:
        # the tokens of a deleted session are not above the floor: its last holder cannot write into a new one
        db.execute("INSERT INTO sessions (id, token) VALUES (?, ?)", (session, value(db, "floor")))
        rows = db.execute("SELECT token, owner FROM sessions WHERE id = ?", (session,))
    living = _find_holder(db, session, now, is_dead)
    if living is not None:
        raise SessionBusy(describe_holder(living))
    token, previous = rows[0]
    db.execute("UPDATE sessions SET token = ?, owner = ?, since = ? WHERE id = ?", (token + 1, owner.id, now, session))
    if previous is not None and previous != owner.id:
        _forget_idle(db, previous)
    _beat(db, owner, ttl, now)
    return Lease(session=session, token=token + 1, owner=owner, since=now)


def _is_newest(db: Db, lease: Lease) -> bool:
    """Return whether `lease` is the newest one of its session."""
    wanted = (lease.session, lease.token, lease.owner.id)
    return bool(db.execute("SELECT 1 FROM sessions WHERE id = ? AND token = ? AND owner = ?", wanted))


def _find_holder(db: Db, session: str, now: int, is_dead: IsDead) -> Lease | None:
    """Return who may write the session, if a living owner does."""
    rows = db.execute(
        "SELECT token, since, o.owner, heartbeat, ttl FROM sessions s JOIN owners o ON o.id = s.owner WHERE s.id = ?",
        (session,),
    )
    if not rows:
        return None
    token, since, content, heartbeat, ttl = rows[0]
    owner = _owner_decoder.decode(content)
    if heartbeat + ttl <= now or is_dead(owner):
        return None
    return Lease(session=session, token=token, owner=owner, since=since)


def _beat(db: Db, owner: Owner, ttl: int, now: int) -> None:
    """Say that `owner` lives."""
    db.execute(
        "INSERT OR REPLACE INTO owners VALUES (?, ?, ?, ?)",
        (owner.id, msgspec.json.encode(owner), now, ttl),
    )


def _release(db: Db, lease: Lease) -> None:
    """Give the session back, if the lease is still the newest."""
    db.execute("UPDATE sessions SET owner = NULL WHERE id = ? AND token = ?", (lease.session, lease.token))
    _forget_idle(db, lease.owner.id)


def _forget_idle(db: Db, owner: str) -> None:
    db.execute(
        "DELETE FROM owners WHERE id = ? AND NOT EXISTS (SELECT 1 FROM sessions WHERE owner = owners.id)", (owner,)
    )
