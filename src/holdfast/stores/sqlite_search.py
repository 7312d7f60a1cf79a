"""Full-text search: an index that the idle writer brings up to a watermark, and a scan of whatever lies beyond it.

The index holds no text (`content=''`, `detail=none`: 8 MB for 78 MB of it), so a row leaves it only with the text that
went in; each hit is checked against its event, which is read for the snippet anyway.
"""

import re
import sqlite3
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from holdfast.logic.parts import spoken
from holdfast.ports import SearchHit
from holdfast.stores.sqlite_db import Db, DbError, Row, Value
from holdfast.stores.sqlite_log import META, meta_of
from holdfast.stores.sqlite_schema import set_value, value
from holdfast.vocab.errors import LogDamaged, NeedsUpgrade
from holdfast.wire import codec

WORDS: Final = 1
"""Raise it when `spoken` or the tokenizer changes: an index of another number is built anew."""
BATCH: Final = 256
"""Events that one transaction indexes."""
AROUND: Final = 80
"""Characters of a snippet on either side of the hit."""
_SCAN: Final = 1000
_TOKEN: Final = re.compile(r"[^\W_]+")
_JOINED: Final = ", ".join(f"s.{column}" for column in META.split(", "))


def behind(db: Db) -> bool:
    """Whether there are events that the index does not know."""
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
    """The newest events that hold a word beginning with each word of `text`."""
    words = tuple(_TOKEN.findall(_fold(text)))
    if not words or limit <= 0:
        return ()
    patterns = [re.compile(rf"(?<![^\W_]){re.escape(word)}") for word in words]
    hits: list[SearchHit] = []
    for row in _candidates(db, words, limit):
        hit = _hit(row, patterns)
        if hit is not None:
            hits.append(hit)
        if len(hits) == limit:
            break
    return tuple(hits)


def _candidates(db: Db, words: Sequence[str], limit: int) -> Iterator[Row]:
    indexed = value(db, "indexed") if value(db, "words") == WORDS else 0
    try:
        quoted = " AND ".join(f'"{word}"*' for word in words)
        known = db.execute(
            f"SELECT e.seq, e.line, {_JOINED} FROM words w "
            "JOIN events e ON e.row = w.rowid JOIN sessions s ON s.num = e.session "
            "WHERE words MATCH ? AND e.row <= ? AND s.id IS NOT NULL ORDER BY w.rowid DESC LIMIT ?",
            (quoted, indexed, 2 * limit + 10),
        )
    except DbError as exc:
        if exc.kind != sqlite3.SQLITE_ERROR:
            raise
        indexed, known = 0, []  # no index, no FTS5, or a word that its tokenizer would cut: read the events themselves
    yield from _scanned(db, words, indexed)
    yield from known


def _scanned(db: Db, words: Sequence[str], after: int) -> Iterator[Row]:
    likes = [f"%{word}%" for word in words if word.isascii()]
    where = "".join(" AND CAST(e.line AS TEXT) LIKE ?" for _ in likes)
    (last,) = db.execute("SELECT max(row) FROM events")[0]
    upper = (last or 0) + 1
    while upper > after + 1:
        lower = max(after, upper - 1 - _SCAN)
        args: list[Value] = [lower, upper, *likes]
        yield from db.execute(
            f"SELECT e.seq, e.line, {_JOINED} FROM events e JOIN sessions s ON s.num = e.session "
            f"WHERE e.row > ? AND e.row < ? AND s.id IS NOT NULL{where} ORDER BY e.row DESC",
            args,
        )
        upper = lower + 1


def _hit(row: Row, patterns: Sequence[re.Pattern[str]]) -> SearchHit | None:
    seq, line, *meta = row
    text = _text(line)
    folded = _fold(text)
    places = [found.start() for pattern in patterns if (found := pattern.search(folded))]
    if len(places) < len(patterns):
        return None
    known = meta_of(tuple(meta))
    snippet = _snippet(text, places[0] * len(text) // len(folded))
    return SearchHit(session=known.id, seq=seq, snippet=snippet, meta=known)


def _snippet(text: str, place: int) -> str:
    start, end = max(0, place - AROUND), place + AROUND
    flat = " ".join(text[start:end].split())
    return f"{'…' if start else ''}{flat}{'…' if end < len(text) else ''}"


def _fold(text: str) -> str:
    """`text` as the tokenizer sees it: small letters, no accents."""
    if text.isascii():
        return text.lower()
    return "".join(char for char in unicodedata.normalize("NFD", text.casefold()) if unicodedata.category(char) != "Mn")


def _text(line: bytes) -> str:
    try:
        return spoken(codec.decode(line).event)
    except (LogDamaged, NeedsUpgrade):
        return ""


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
