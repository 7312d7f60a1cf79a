"""Full-text search: an index that the idle writer brings up to a watermark, and a scan of whatever lies beyond it.

The index holds no text (`content=''`, `detail=none`: 8 MB for 78 MB of it), so a row leaves it only with the text that
went in; each hit is checked against its event, which is read for the snippet anyway. It holds words as `words_of` folds and
cuts them, spelt in ASCII: SQLite's own rules for letters are others, and older.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from backstay.logic.stored_content import searchable_text
from backstay.ports import SearchHit
from backstay.stores.lookup import find as hits_in
from backstay.stores.lookup import newest, words_of
from backstay.stores.sqlite.connection import Db, DbError, Row, Value
from backstay.stores.sqlite.log import META, meta_of
from backstay.stores.sqlite.schema import set_value, value
from backstay.vocab.errors import LogDamaged, NeedsUpgrade
from backstay.wire import codec

WORDS: Final = 2
"""Raise it when `searchable_text` or the tokenizer changes: an index of another number is built anew."""
BATCH: Final = 512
"""Events that one transaction indexes."""
MOST_WORDS: Final = 32
"""Words of a query that count: a page pasted into a search is no reason to fail."""
_SCAN: Final = 1000
_JOINED: Final = ", ".join(f"s.{column}" for column in META.split(", "))


def behind(db: Db) -> bool:
    """Return whether there are events that the index does not know."""
    (last,) = db.execute("SELECT max(row) FROM events")[0]
    return bool(last) and (value(db, "indexed") < last or value(db, "words") != WORDS)


def index_some(db: Db) -> bool:
    """Index a batch of events after the watermark; True when there are more. Does nothing where SQLite has no FTS5."""
    if not behind(db) or not _ready(db):
        return False
    rows = db.execute("SELECT row, line FROM events WHERE row > ? ORDER BY row LIMIT ?", (value(db, "indexed"), BATCH))
    said = [(row, text) for row, line in rows if (text := _text(line))]
    db.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", said)
    set_value(db, "indexed", rows[-1][0])
    return len(rows) == BATCH


def forget(db: Db, rows: Iterable[Row]) -> None:
    """Take events (row and line) out of the index. Call it before they are deleted."""
    if not _exists(db) or value(db, "words") != WORDS:
        return
    indexed = value(db, "indexed")
    # in order: FTS5 writes its buffer out whenever a row number goes back, which made this 20 times slower
    said = sorted((row, text) for row, line in rows if row <= indexed and (text := _text(line)))
    db.executemany("INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)", said)


def lower_watermark(db: Db) -> None:
    """Let the watermark follow deleted events down, since SQLite gives their row numbers to new ones."""
    (last,) = db.execute("SELECT max(row) FROM events")[0]
    if value(db, "indexed") > (last or 0):
        set_value(db, "indexed", last or 0)


def find(db: Db, text: str, limit: int) -> tuple[SearchHit, ...]:
    """Return the newest events that hold a word beginning with each word of `text`."""
    words = words_of(text)[:MOST_WORDS]
    hits: list[tuple[int, SearchHit]] = []
    for row in _candidates(db, words, limit) if words and limit > 0 else ():
        hits += _hits(row, words)
        if len(hits) == _enough(limit):
            break
    return newest(hits, limit)


def _candidates(db: Db, words: Sequence[str], limit: int) -> Iterator[Row]:
    indexed = value(db, "indexed") if value(db, "words") == WORDS else 0
    try:
        quoted = " AND ".join(f'"{_spelt(word)}"*' for word in words)
        known = db.execute(
            f"SELECT e.line, {_JOINED} FROM words w "
            "JOIN events e ON e.row = w.rowid JOIN sessions s ON s.num = e.session "
            "WHERE words MATCH ? AND e.row <= ? AND s.id IS NOT NULL ORDER BY w.rowid DESC LIMIT ?",
            (quoted, indexed, _enough(limit)),
        )
    except DbError as exc:
        if exc.kind != sqlite3.SQLITE_ERROR:
            raise
        indexed, known = 0, []  # no index, or no FTS5: read the events themselves
    yield from _scan(db, words, indexed)
    yield from known


def _scan(db: Db, words: Sequence[str], after: int) -> Iterator[Row]:
    likes = [f"%{word}%" for word in words if word.isascii()]
    # LIKE knows nothing of accents: a line with more bytes than characters is looked at in any case
    where = " AND ".join(("1", *("CAST(e.line AS TEXT) LIKE ?" for _ in likes)))
    (last,) = db.execute("SELECT max(row) FROM events")[0]
    upper = (last or 0) + 1
    while upper > after + 1:
        lower = max(after, upper - 1 - _SCAN)
        args: list[Value] = [lower, upper, *likes]
        yield from db.execute(
            f"SELECT e.line, {_JOINED} FROM events e JOIN sessions s ON s.num = e.session "
            "WHERE e.row > ? AND e.row < ? AND s.id IS NOT NULL "
            f"AND (length(e.line) <> length(CAST(e.line AS TEXT)) OR {where}) ORDER BY e.row DESC",
            args,
        )
        upper = lower + 1


def _hits(row: Row, words: Sequence[str]) -> Iterator[tuple[int, SearchHit]]:
    line, *meta = row
    try:
        yield from hits_in(meta_of(tuple(meta)), (codec.decode(line),), words)
    except (LogDamaged, NeedsUpgrade):
        return  # reading the session says so


def _enough(limit: int) -> int:
    """More than were asked for: row numbers follow the commits, while hits are ordered by the time of their events."""
    return 2 * limit + 10


def _text(line: bytes) -> str:
    """Return what the index holds of an event."""
    try:
        text = searchable_text(codec.decode(line).event)
    except (LogDamaged, NeedsUpgrade):
        return ""
    return text if text.isascii() else " ".join(map(_spelt, words_of(text)))


def _spelt(word: str) -> str:
    """Return a folded word in letters that no tokenizer cuts or folds; what a word begins with, its spelling begins with."""
    return word if word.isascii() else "".join(char if char.isascii() else f"{ord(char):06x}" for char in word)


def _ready(db: Db) -> bool:
    """Make the index when it is missing or of another number; False where SQLite has no FTS5."""
    if value(db, "words") == WORDS:
        return _exists(db)
    try:
        db.execute("DROP TABLE IF EXISTS words")
        db.execute(
            "CREATE VIRTUAL TABLE words USING fts5(text, content='', detail=none, columnsize=0, tokenize='unicode61')"
        )
    except DbError as exc:
        if exc.kind != sqlite3.SQLITE_ERROR:
            raise
        return False
    set_value(db, "words", WORDS)
    set_value(db, "indexed", 0)
    return True


def _exists(db: Db) -> bool:
    try:
        db.execute("SELECT rowid FROM words LIMIT 0")
    except DbError as exc:
        if exc.kind != sqlite3.SQLITE_ERROR:
            raise
        return False
    return True
