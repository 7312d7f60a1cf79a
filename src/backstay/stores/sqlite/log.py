"""Events, their metadata and their blobs in the tables of the SQLite store."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from backstay.logic.state.outline import project
from backstay.logic.stored_content import digest, find_cited_blobs
from backstay.ports import FoldSnapshot, LogSlice, SessionQuery
from backstay.stores.lookup import no_session
from backstay.stores.sqlite.connection import Db, Row, Value
from backstay.stores.sqlite.files import BlobFiles
from backstay.vocab.errors import BlobMissing, LeaseLost, LogDamaged, SeqConflict, UserError
from backstay.vocab.event import Recorded
from backstay.vocab.specs import Lease, SessionMeta
from backstay.wire import codec

CHUNK: Final = 8192
"""Events that one read transaction fetches at most."""
PAGE: Final = 1024
"""Events that an append encodes at once."""
META: Final = "id, seq, updated, name, project, parent, meta"
"""The columns that `meta_of` reads."""
_meta_decoder: Final = msgspec.json.Decoder(SessionMeta)


class Append:
    """One append, to be applied in a transaction of the writer."""

    def __init__(
        self,
        lease: Lease,
        expected_seq: int,
        records: Sequence[Recorded],
        blobs: Mapping[str, bytes],
        files: BlobFiles,
        doubtful: set[str],
    ) -> None:
        self._lease = lease
        self._expected = expected_seq
        self._records = records
        self._blobs = blobs
        self._files = files
        self._doubtful = doubtful
        """Ids of events whose commit failed, and of which it is not known whether they are in the log."""

    def apply(self, db: Db) -> None:
        """Check that the writer may write and is where it thinks it is, then write."""
        session = self._lease.session
        rows = db.execute(f"SELECT num, token, {META} FROM sessions WHERE id = ?", (session,))
        if not rows or rows[0][1] != self._lease.token:
            raise _lease_lost(self._lease, rows)
        num, _, _, seq, *_ = rows[0]
        if seq != self._expected:
            if not self._doubtful.isdisjoint(record.id for record in self._records) and self.has_landed(db, None):
                return
            raise SeqConflict(
                f"The log of session {session!r} ends at {seq}, not at {self._expected}. Read what was added first."
            )
        self._keep_blobs(db, num)
        meta = _sound_meta(rows[0][2:])
        for page, lines in self._pages():
            db.executemany(
                "INSERT INTO events (session, seq, line) VALUES (?, ?, ?)",
                [(num, record.seq, line) for record, line in zip(page, lines, strict=True)],
            )
            refer(db, num, page)
            meta = project(meta, page)
        put_meta(db, num, meta)

    def has_landed(self, db: Db, _: None) -> bool:
        """Return whether exactly these events stand in the log."""
        for page, lines in self._pages():
            rows = db.execute(
                "SELECT line FROM events WHERE session = (SELECT num FROM sessions WHERE id = ?) "
                "AND seq BETWEEN ? AND ? ORDER BY seq",
                (self._lease.session, page[0].seq, page[-1].seq),
            )
            if [line for (line,) in rows] != lines:
                return False
        return True

    def _pages(self) -> Iterator[tuple[Sequence[Recorded], list[bytes]]]:
        """Yield the events, some at a time, and their lines: an append may be a whole log that is read from a file."""
        for start in range(0, len(self._records), PAGE):
            page = self._records[start : start + PAGE]
            yield page, codec.encode_batch(self._lease.session, self._expected + start, page)

    def doubt(self) -> None:
        """Remember that it is not known whether this is in the log, so that the same append may be tried again."""
        self._doubtful.update(record.id for record in self._records)

    def _keep_blobs(self, db: Db, num: int) -> None:
        for sha, content in self._blobs.items():
            if digest(content) != sha:
                raise UserError(f"{sha!r} is not the SHA-256 of the blob given under that name.")
        # again, under the write lock: a delete of another process may have swept the file up since it was written
        self._files.write(self._blobs, again=True)
        for sha, content in self._blobs.items():
            if not self._files.takes(content):
                db.execute(
                    "INSERT INTO blobs (sha, content) VALUES (?, ?) "
                    "ON CONFLICT (sha) DO UPDATE SET content = excluded.content WHERE content <> excluded.content",
                    (bytes.fromhex(sha), content),
                )
        refer(db, num, (), self._blobs)


def check_writer(db: Db, lease: Lease, expected: int) -> int:
    """Return the row number of a session whose log ends at `expected` and that `lease` may write; raise when it is otherwise."""
    rows = db.execute("SELECT num, token, seq FROM sessions WHERE id = ?", (lease.session,))
    if not rows or rows[0][1] != lease.token:
        raise _lease_lost(lease, rows)
    if rows[0][2] != expected:
        raise SeqConflict(f"The log of session {lease.session!r} ends at {rows[0][2]}, not at {expected}.")
    return int(rows[0][0])


def refer(db: Db, num: int, records: Iterable[Recorded], more: Iterable[str] = ()) -> None:
    """Count the blobs that `records` cite as used by a session."""
    cited = set(more).union(*(find_cited_blobs(record.event) for record in records))
    if cited:
        db.executemany("INSERT OR IGNORE INTO refs VALUES (?, ?)", sorted((key(sha), num) for sha in cited))


def key(sha: str) -> bytes:
    """Return a hash as the tables hold it; a text that is no hash stays what it is, and names nothing."""
    try:
        return bytes.fromhex(sha)
    except ValueError:
        return sha.encode("utf-8", "replace")


def number_of(db: Db, session: str) -> tuple[int, int]:
    """Return the row number of a session and its last seq; `NoSession` when nothing was ever written in it."""
    rows = db.execute("SELECT num, seq FROM sessions WHERE id = ? AND seq > 0", (session,))
    if not rows:
        raise no_session(session)
    return rows[0][0], rows[0][1]


def lines_after(db: Db, num: int, after: int, limit: int) -> list[tuple[int, bytes]]:
    """Seq and line of the events after `after`."""
    return db.execute(
        "SELECT seq, line FROM events WHERE session = ? AND seq > ? ORDER BY seq LIMIT ?", (num, after, limit)
    )


def read_chunk(db: Db, session: str, after: int, limit: int) -> LogSlice:
    """Return the events after `after`, as far as they can be read, `limit` at most."""
    num, _ = number_of(db, session)
    return decode_lines(lines_after(db, num, after, limit), after)


def decode_lines(rows: Iterable[tuple[int, bytes]], after: int) -> LogSlice:
    """Return the events of `rows`, which should follow `after` without a gap, up to the first that does not."""
    records, trouble = codec.decode_batch(rows, after)
    return LogSlice(records=records, trouble=trouble)


def put_meta(db: Db, num: int, meta: SessionMeta) -> None:
    """Replace the metadata of a session."""
    db.execute(
        "UPDATE sessions SET seq = ?, updated = ?, name = ?, project = ?, parent = ?, empty = ?, meta = ? "
        "WHERE num = ?",
        (meta.seq, meta.updated, meta.name, meta.project, meta.parent, meta.empty, msgspec.json.encode(meta), num),
    )


def meta_of(row: Row) -> SessionMeta:
    """Return the metadata in the columns `META`; what a damaged row still says, when it is damaged."""
    try:
        return _sound_meta(row)
    except LogDamaged:
        session, seq, updated, name, project_, parent, _ = row
        words = "(its metadata cannot be read)"  # without any it would count as empty
        return SessionMeta(
            id=session, seq=seq, updated=updated, name=name, project=project_, parent=parent, prompt=words
        )


def one_meta(db: Db, session: str) -> SessionMeta:
    """Return the metadata of one session."""
    num, _ = number_of(db, session)
    return meta_of(db.execute(f"SELECT {META} FROM sessions WHERE num = ?", (num,))[0])


def list_metas(db: Db, query: SessionQuery) -> tuple[SessionMeta, ...]:
    """Sessions, newest first."""
    where, args = ["seq > 0", "id IS NOT NULL"], list[Value]()
    for column, wanted in (("project", query.project), ("name", query.name)):
        if wanted is not None:
            where.append(f"{column} = ?")
            args.append(wanted)
    if not query.include_empty:
        where.append("empty = 0")
    if not query.include_children:
        where.append("parent = ''")
    args.append(-1 if query.limit is None else query.limit)
    rows = db.execute(
        f"SELECT {META} FROM sessions WHERE {' AND '.join(where)} ORDER BY updated DESC, num DESC LIMIT ?",
        args,
    )
    return tuple(map(meta_of, rows))


def is_cited(db: Db, sha: str) -> bool:
    """Return whether any session uses a blob."""
    return bool(db.execute("SELECT 1 FROM refs WHERE sha = ? LIMIT 1", (key(sha),)))


def read_blob(db: Db, sha: str, files: BlobFiles) -> bytes:
    """Return the bytes of a blob, checked."""
    rows = db.execute("SELECT content FROM blobs WHERE sha = ?", (key(sha),))
    content = rows[0][0] if rows else files.read(sha) if _is_hash(sha) and is_cited(db, sha) else None
    if content is None:
        raise BlobMissing(f"The blob {sha!r} is not in this store. Restore the store's files from a copy.")
    if digest(content) != sha:
        raise BlobMissing(f"The blob {sha!r} was altered: its bytes have another hash. Restore it from a copy.")
    return bytes(content)


def read_snapshot(db: Db, session: str, code: str) -> FoldSnapshot | None:
    """Return the snapshot of a session, if the code `code` made it."""
    rows = db.execute(
        "SELECT s.tip, s.seq, s.digest, s.content FROM snapshots s JOIN sessions ON num = session "
        "WHERE id = ? AND digest = ?",
        (session, code),
    )
    return FoldSnapshot(tip=rows[0][0], seq=rows[0][1], digest=rows[0][2], content=rows[0][3]) if rows else None


def put_snapshot(db: Db, session: str, snapshot: FoldSnapshot) -> None:
    """Keep a snapshot, unless the session is gone."""
    # first: replacing in one statement writes the new pages before the old ones are free, and the file keeps both
    db.execute("DELETE FROM snapshots WHERE session = (SELECT num FROM sessions WHERE id = ?)", (session,))
    db.execute(
        "INSERT INTO snapshots SELECT num, ?, ?, ?, ? FROM sessions WHERE id = ?",
        (snapshot.tip, snapshot.seq, snapshot.digest, snapshot.content, session),
    )


def _sound_meta(row: Row) -> SessionMeta:
    session, meta = row[0], row[-1]
    if meta is None:
        return SessionMeta(id=session)
    try:
        return _meta_decoder.decode(meta)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise LogDamaged(
            f"The metadata of session {session!r} is damaged: {exc}. `backstay log repair {session}` rebuilds it."
        ) from exc


def _lease_lost(lease: Lease, rows: list[Row]) -> LeaseLost:
    if not rows:
        return LeaseLost(f"Session {lease.session!r} was deleted while it was open here. Nothing more is written.")
    return LeaseLost(
        f"Session {lease.session!r} was taken over (lease {lease.token}, the newest is {rows[0][1]}). "
        "Open it again to go on."
    )


def _is_hash(sha: str) -> bool:
    return len(sha) == 64 and all(digit in "0123456789abcdef" for digit in sha)
