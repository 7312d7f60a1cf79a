"""Changing the past of the SQLite store, and leaving nothing of it in the file.

A rewrite is one transaction: events, blobs, references, metadata and the snapshot of a session change together or not at all. The
search index knows words of old events that it cannot forget one by one (it merges its pieces when it likes), so it is dropped, and the
idle writer makes it anew. `scour` then writes the whole file again without its free pages and empties the write-ahead log; until it has
done so the store says that it is not clean.
"""

from typing import Final

from backstay.logic.secrets.rewrite import Change, as_text, change_bytes
from backstay.logic.state.outline import project
from backstay.stores.disk_errors import explain_os
from backstay.stores.rewritable import ChangedPast
from backstay.stores.sqlite.connection import Db
from backstay.stores.sqlite.files import BlobFiles, aside_files
from backstay.stores.sqlite.log import CHUNK, check_writer, decode_lines, is_cited, key, lines_after, put_meta, refer
from backstay.stores.sqlite.open import DatabaseFile
from backstay.stores.sqlite.schema import remove_copies, set_value, value
from backstay.system.files import change_files
from backstay.vocab.errors import LogDamaged, StoreUnavailable
from backstay.vocab.specs import Lease, SessionMeta
from backstay.wire import codec

UNCLEAN: Final = "unclean"
"""The store's own number that is 1 between a rewrite and the end of the scouring."""


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
        put_meta(db, num, _meta_of_log(db, num, self._lease.session))
        db.execute("DELETE FROM snapshots WHERE session = ?", (num,))
        _drop_index(db)
        set_value(db, UNCLEAN, 1)

    def landed(self, db: Db, _: None) -> bool:
        """Whether the rewrite is in the database."""
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


def aside(db: Db, place: DatabaseFile, session: str) -> tuple[str, ...]:
    """What repairs put aside of a session."""
    found = [path.read_bytes() for path in aside_files(place.path, session)]
    if _has_table(db):
        found += (bytes(line) for (line,) in db.execute("SELECT line FROM damaged WHERE session = ?", (session,)))
    return tuple(map(as_text, found))


def change_aside(db: Db, place: DatabaseFile, session: str, change: Change) -> int:
    """Change what repairs put aside of a session, in files or in the table `damaged`."""
    count = change_files(aside_files(place.path, session), change)
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
    """Whether nothing is left of what was replaced."""
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


def write_anew(place: DatabaseFile) -> None:
    """Write the whole database again without free pages, empty the write-ahead log, and remove the copies that upgrades kept."""
    try:
        remove_copies(place.path)
    except OSError as exc:
        raise explain_os(exc, place.path) from exc
    db = place.open_to_write()
    try:
        db.execute("PRAGMA secure_delete=ON")
        db.execute("VACUUM")
        [(blocked, *_)] = db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        db.close()
    if blocked:
        raise StoreUnavailable(
            f"{str(place.path)!r} is being read by somebody, so its write-ahead log keeps what was erased. Run it again."
        )


def mark_clean(db: Db) -> None:
    """Say that nothing is left."""
    set_value(db, UNCLEAN, 0)


def _drop_index(db: Db) -> None:
    db.execute("DROP TABLE IF EXISTS words")
    set_value(db, "words", 0)
    set_value(db, "indexed", 0)


def _meta_of_log(db: Db, num: int, session: str) -> SessionMeta:
    meta, after = SessionMeta(id=session), 0
    while rows := lines_after(db, num, after, CHUNK):
        found = decode_lines(rows, after)
        if found.trouble is not None:
            raise LogDamaged(f"The log of session {session!r} cannot be read to its end: {found.trouble.detail}")
        meta = project(meta, found.records)
        after = rows[-1][0]
    return meta


def _has_table(db: Db) -> bool:
    return bool(db.execute("SELECT 1 FROM sqlite_master WHERE name = 'damaged'"))
