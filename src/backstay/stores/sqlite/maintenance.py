"""Checking, mending and deleting whole sessions of the SQLite store."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from backstay.logic.state.content import find_cited_blobs
from backstay.logic.state.conversation import SeenIds
from backstay.logic.state.outline import project
from backstay.stores.sqlite import search
from backstay.stores.sqlite.connection import Db, Row
from backstay.stores.sqlite.files import BlobFiles, forget_aside, set_aside
from backstay.stores.sqlite.log import (
    META,
    decode_lines,
    is_cited,
    lines_after,
    meta_of,
    number_of,
    put_meta,
    read_blob,
)
from backstay.stores.sqlite.schema import set_value, value
from backstay.vocab.errors import BlobMissing, NeedsUpgrade
from backstay.vocab.specs import SessionMeta

PAGE: Final = 1024
"""Events that are looked at at a time, where all of a session is read."""
SWEEP: Final = 512
"""Events of a deleted session that one transaction removes."""


def verify(db: Db, session: str, files: BlobFiles) -> tuple[str, ...]:
    """Read everything of a session back, as it is at one moment, and name what is wrong."""
    db.execute("BEGIN")
    try:
        return _verified(db, session, files)
    finally:
        db.rollback()


def _verified(db: Db, session: str, files: BlobFiles) -> tuple[str, ...]:
    num, last = number_of(db, session)
    stored = meta_of(db.execute(f"SELECT {META} FROM sessions WHERE num = ?", (num,))[0])
    wrong: list[str] = []
    meta, seen, cited, at = SessionMeta(id=session), SeenIds(), set[str](), 0
    for rows in _pages(db, num, last):
        found = decode_lines(rows, at)
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
    for rows in _pages(db, num, last):
        found = decode_lines(rows, at)
        meta = project(meta, found.records)
        at += len(found.records)
        if found.trouble is not None and found.trouble.kind == "newer":
            raise NeedsUpgrade(f"Session {session!r} is not damaged: {found.trouble.detail}")
        if found.trouble is not None:
            break
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
    """Whether something of a deleted session is left."""
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
        "SELECT sha FROM refs r WHERE session = ?1 "
        "AND NOT EXISTS (SELECT 1 FROM refs o WHERE o.sha = r.sha AND o.session <> ?1)",
        (num,),
    )
    db.execute("DELETE FROM refs WHERE session = ?", (num,))
    for (sha,) in only_here:
        db.execute("DELETE FROM blobs WHERE sha = ?", (sha,))
        # under the write lock: an append that cites the blob again looks for the file under it too
        files.remove(sha.hex())


def _pages(db: Db, num: int, last: int) -> Iterator[list[Row]]:
    """The lines up to seq `last`, some at a time; what was appended meanwhile is left out."""
    after = 0
    while after < last:
        rows = lines_after(db, num, after, min(PAGE, last - after))
        rows = [row for row in rows if row[0] <= last]
        if not rows:
            return
        yield rows
        after = rows[-1][0]


def _blob_troubles(db: Db, cited: set[str], files: BlobFiles) -> Iterator[str]:
    for sha in sorted(cited):
        try:
            read_blob(db, sha, files)
        except BlobMissing as exc:
            yield str(exc)
