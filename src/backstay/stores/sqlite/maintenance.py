"""Check, repair, delete and rewrite whole sessions of the SQLite store.

A rewrite is one transaction: events, blobs, references, metadata and the snapshot of a session change together or not at all. The
search index knows words of old events that it cannot forget one by one (it merges its pieces when it likes), so it is dropped, and the
idle writer makes it anew. `scour` then writes the whole file again without its free pages and empties the write-ahead log; until it has
done so the store says that it is not clean.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from backstay.logic.secrets.rewrite import Change, as_text, change_bytes
from backstay.logic.state.conversation import SeenIds
from backstay.logic.state.outline import project
from backstay.logic.stored_content import find_cited_blobs
from backstay.ports import ChangedPast, LogSlice
from backstay.stores.disk_errors import explain_os
from backstay.stores.sqlite import search
from backstay.stores.sqlite.connection import Db
from backstay.stores.sqlite.files import BlobFiles, aside_files, forget_aside, set_aside
from backstay.stores.sqlite.log import (
    META,
    check_writer,
    decode_lines,
    is_cited,
    key,
    lines_after,
    meta_of,
    number_of,
    put_meta,
    read_blob,
    refer,
)
from backstay.stores.sqlite.open import DatabaseFile
from backstay.stores.sqlite.schema import remove_copies, set_value, value
from backstay.system.files import change_files
from backstay.vocab.errors import BlobMissing, LogDamaged, NeedsUpgrade, StoreUnavailable
from backstay.vocab.specs import Lease, SessionMeta
from backstay.wire import codec

PAGE: Final = 1024
"""Events that are looked at at a time, where all of a session is read."""
SWEEP: Final = 512
"""Events of a deleted session that one transaction removes."""
UNCLEAN: Final = "unclean"
"""The store's own number that is 1 between a rewrite and the end of the scouring."""


def verify(db: Db, session: str, files: BlobFiles) -> tuple[str, ...]:
    """Read everything of a session back, as it is at one moment, and name what is wrong."""
    db.execute("BEGIN")
    try:
        return _find_troubles(db, session, files)
    finally:
        db.rollback()


def _find_troubles(db: Db, session: str, files: BlobFiles) -> tuple[str, ...]:
    num, last = number_of(db, session)
    stored = meta_of(db.execute(f"SELECT {META} FROM sessions WHERE num = ?", (num,))[0])
    wrong: list[str] = []
    meta, seen, cited, at = SessionMeta(id=session), SeenIds(), set[str](), 0
    for found in _slices(db, num, last):
        meta = project(meta, found.records)
        for record in found.records:
            if not seen.add(record.id):
                wrong.append(f"Event {record.seq} has the id {record.id!r} of an earlier one.")
            cited |= find_cited_blobs(record.event)
        at += len(found.records)
        if found.trouble is not None:
            return (*wrong, f"Event {at + 1} cannot be read: {found.trouble.detail}", *_blob_troubles(db, cited, files))
    if at != last:
        wrong.append(f"The log ends at {at}, but {last} events were acknowledged.")
    elif meta != stored:
        wrong.append(f"The stored metadata is not what the log says: {stored!r}, but {meta!r}.")
    return (*wrong, *_blob_troubles(db, cited, files))


def repair(db: Db, session: str, path: Path | None) -> str:
    """Keep what can be read of a log and put the rest aside. A process that still holds the session loses it.

    What is put aside is plain text in a file beside `path`; without one it goes into a table.
    """
    num, last = number_of(db, session)
    stored = db.execute(f"SELECT {META} FROM sessions WHERE num = ?", (num,))[0]
    meta, at = SessionMeta(id=session), 0
    for found in _slices(db, num, last):
        meta = project(meta, found.records)
        at += len(found.records)
        if found.trouble is not None and found.trouble.kind == "newer":
            raise NeedsUpgrade(f"Session {session!r} is not damaged: {found.trouble.detail}")
    if at == last and meta == meta_of(stored):
        return f"Session {session!r} needs no repair: all its {last} events can be read."
    put_meta(db, num, meta)
    db.execute("UPDATE sessions SET token = token + 1, owner = NULL WHERE num = ?", (num,))
    if at == last:
        return f"The metadata of session {session!r} was rebuilt from its {last} events."
    damaged = db.execute("SELECT row, line FROM events WHERE session = ? AND seq > ? ORDER BY seq", (num, at))
    where = _put_aside(db, path, session, at + 1, [bytes(line) for _, line in damaged]) if damaged else ""
    search.forget(db, damaged)
    db.execute("DELETE FROM events WHERE session = ? AND seq > ?", (num, at))
    db.execute("DELETE FROM snapshots WHERE session = ?", (num,))
    search.lower_watermark(db)
    rest = f"{len(damaged)} lines were put aside in {where}" if where else "the rest is missing"
    return f"Session {session!r} now ends at event {at} of {last}; {rest}."


def bury(db: Db, session: str, path: Path | None) -> int | None:
    """Forget a session at once; its events wait to be swept up. Return its row number, None when it is missing.

    What a repair put aside is forgotten with it, beside `path` or in the table.
    """
    rows = db.execute("SELECT num, token FROM sessions WHERE id = ?", (session,))
    if not rows:
        return None
    num, token = rows[0]
    set_value(db, "floor", max(token, value(db, "floor")))
    db.execute(
        "UPDATE sessions SET id = NULL, owner = NULL, seq = 0, name = '', meta = NULL WHERE num = ?",
        (num,),
    )
    db.execute("DELETE FROM snapshots WHERE session = ?", (num,))
    if path is not None:
        forget_aside(path, session)
    else:
        db.execute("DELETE FROM damaged WHERE session = ?", (session,))
    return int(num)


def is_buried(db: Db, num: int) -> bool:
    """Return whether something of a deleted session is left."""
    return bool(db.execute("SELECT 1 FROM sessions WHERE num = ? AND id IS NULL", (num,)))


def sweep(db: Db, files: BlobFiles) -> bool:
    """Remove a piece of what deleted sessions left behind; True when there may be more."""
    graves = db.execute("SELECT num FROM sessions WHERE id IS NULL LIMIT 1")
    if not graves:
        return False
    num = graves[0][0]
    rows = db.execute("SELECT row, line FROM events WHERE session = ? ORDER BY seq DESC LIMIT ?", (num, SWEEP))
    search.forget(db, rows)
    db.executemany("DELETE FROM events WHERE row = ?", [(row,) for row, _ in rows])
    search.lower_watermark(db)
    if len(rows) < SWEEP:
        _sweep_blobs(db, num, files)
        db.execute("DELETE FROM sessions WHERE num = ?", (num,))
    return True


def _put_aside(db: Db, path: Path | None, session: str, seq: int, lines: list[bytes]) -> str:
    if path is not None:
        return repr(str(set_aside(path, session, seq, lines)))
    db.executemany("INSERT INTO damaged VALUES (?, ?, ?)", [(session, seq + n, line) for n, line in enumerate(lines)])
    return "the table 'damaged' of the store"


def drop_uncited(db: Db, blobs: Iterable[str], files: BlobFiles) -> None:
    """Remove the files of blobs that no session cites: they were written for an append that was refused."""
    for sha in blobs:
        if not is_cited(db, sha):
            files.remove(sha)


def _sweep_blobs(db: Db, num: int, files: BlobFiles) -> None:
    only_here = db.execute(
        "SELECT sha FROM refs r WHERE session = ? "
        "AND NOT EXISTS (SELECT 1 FROM refs o WHERE o.sha = r.sha AND o.session <> r.session)",
        (num,),
    )
    db.execute("DELETE FROM refs WHERE session = ?", (num,))
    for (sha,) in only_here:
        db.execute("DELETE FROM blobs WHERE sha = ?", (sha,))
        # under the write lock: an append that cites the blob again looks for the file under it too
        files.remove(sha.hex())


def _slices(db: Db, num: int, last: int) -> Iterator[LogSlice]:
    """Yield the events up to seq `last`, some at a time, up to the first that cannot be read. Leave out what was appended meanwhile."""
    after, trouble = 0, False
    while after < last and not trouble:
        rows = lines_after(db, num, after, min(PAGE, last - after))
        found = decode_lines([row for row in rows if row[0] <= last], after)
        if not found.records and found.trouble is None:
            return
        yield found
        after, trouble = after + len(found.records), found.trouble is not None


def _blob_troubles(db: Db, cited: set[str], files: BlobFiles) -> Iterator[str]:
    for sha in sorted(cited):
        try:
            read_blob(db, sha, files)
        except BlobMissing as exc:
            yield str(exc)


class Rewrite:
    """One rewrite, to be applied in a transaction of the writer."""

    def __init__(self, lease: Lease, past: ChangedPast, files: BlobFiles) -> None:
        self._lease = lease
        self._past = past
        self._files = files

    def apply(self, db: Db) -> None:
        """Check that the writer may write, then put everything in its place."""
        db.execute("PRAGMA secure_delete=ON")
        num = check_writer(db, self._lease, self._past.added.seq - 1)
        for record in self._past.changed:
            db.execute(
                "UPDATE events SET line = ? WHERE session = ? AND seq = ?", (codec.encode(record), num, record.seq)
            )
        db.execute(
            "INSERT INTO events (session, seq, line) VALUES (?, ?, ?)",
            (num, self._past.added.seq, codec.encode(self._past.added)),
        )
        self._replace_blobs(db, num)
        put_meta(db, num, _meta_of_log(db, num, self._lease.session, self._past.added.seq))
        db.execute("DELETE FROM snapshots WHERE session = ?", (num,))
        _drop_index(db)
        set_value(db, UNCLEAN, 1)

    def has_landed(self, db: Db, _: None) -> bool:
        """Return whether the rewrite is in the database."""
        rows = db.execute(
            "SELECT line FROM events WHERE session = (SELECT num FROM sessions WHERE id = ?) AND seq = ?",
            (self._lease.session, self._past.added.seq),
        )
        return rows == [(codec.encode(self._past.added),)]

    def _replace_blobs(self, db: Db, num: int) -> None:
        self._files.write(self._past.blobs, again=True)
        for sha, content in self._past.blobs.items():
            if not self._files.takes(content):
                db.execute("INSERT OR IGNORE INTO blobs (sha, content) VALUES (?, ?)", (key(sha), content))
        refer(db, num, (), self._past.blobs)
        for sha in self._past.gone:
            db.execute("DELETE FROM refs WHERE sha = ? AND session = ?", (key(sha), num))
            if not is_cited(db, sha):
                db.execute("DELETE FROM blobs WHERE sha = ?", (key(sha),))


def aside(db: Db, database: DatabaseFile, session: str) -> tuple[str, ...]:
    """Return what repairs put aside of a session."""
    found = [path.read_bytes() for path in aside_files(database.path, session)]
    if _has_table(db):
        found += (bytes(line) for (line,) in db.execute("SELECT line FROM damaged WHERE session = ?", (session,)))
    return tuple(map(as_text, found))


def change_aside(db: Db, database: DatabaseFile, session: str, change: Change) -> int:
    """Change what repairs put aside of a session, in files or in the table `damaged`."""
    count = change_files(aside_files(database.path, session), change)
    if not _has_table(db):
        return count
    db.execute("PRAGMA secure_delete=ON")
    for row, line in db.execute("SELECT rowid, line FROM damaged WHERE session = ?", (session,)):
        if (after := change_bytes(bytes(line), change)) != line:
            db.execute("UPDATE damaged SET line = ? WHERE rowid = ?", (after, row))
            set_value(db, UNCLEAN, 1)
            count += 1
    return count


def is_clean(db: Db) -> bool:
    """Return whether nothing is left of what was replaced."""
    return not value(db, UNCLEAN)


def drop_strays(db: Db, files: BlobFiles) -> None:
    """Remove the search index, which has words of deleted events too, and the files of blobs that no session cites.

    Under the write lock: an append that cites a blob looks for its file under it too.
    """
    db.execute("PRAGMA secure_delete=ON")
    _drop_index(db)
    for sha in files.names():
        if not is_cited(db, sha):
            files.remove(sha)


def write_anew(database: DatabaseFile) -> None:
    """Write the whole database again without free pages, empty the write-ahead log, and remove the copies that upgrades kept."""
    try:
        remove_copies(database.path)
    except OSError as exc:
        raise explain_os(exc, database.path) from exc
    db = database.open_to_write()
    try:
        db.execute("PRAGMA secure_delete=ON")
        db.execute("VACUUM")
        [(blocked, *_)] = db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        db.close()
    if blocked:
        raise StoreUnavailable(
            f"{str(database.path)!r} is being read by somebody, so its write-ahead log keeps what was erased. Run it again."
        )


def mark_clean(db: Db) -> None:
    """Say that nothing is left."""
    set_value(db, UNCLEAN, 0)


def _drop_index(db: Db) -> None:
    db.execute("DROP TABLE IF EXISTS words")
    set_value(db, "words", 0)
    set_value(db, "indexed", 0)


def _meta_of_log(db: Db, num: int, session: str, last: int) -> SessionMeta:
    meta = SessionMeta(id=session)
    for found in _slices(db, num, last):
        if found.trouble is not None:
            raise LogDamaged(f"The log of session {session!r} cannot be read to its end: {found.trouble.detail}")
        meta = project(meta, found.records)
    return meta


def _has_table(db: Db) -> bool:
    return bool(db.execute("SELECT 1 FROM sqlite_master WHERE name = 'damaged'"))
