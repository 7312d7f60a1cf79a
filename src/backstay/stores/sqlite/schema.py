"""The tables of the SQLite store, and the number of their shape."""

from typing import Final

from backstay.stores.sqlite.connection import Db
from backstay.vocab.errors import NeedsUpgrade, StoreUnavailable

SCHEMA: Final = 1
"""Raised with every change of shape, that of `SessionMeta` included; stored as the database's `user_version`."""
PAGE_SIZE: Final = 16384
"""Measured with events of 1 KB: 1.1 times the payload, against 1.4 and more with small pages."""

_TABLES: Final = (
    "CREATE TABLE store (key TEXT PRIMARY KEY, value) WITHOUT ROWID",
    """CREATE TABLE sessions (
        num INTEGER PRIMARY KEY,
        id TEXT UNIQUE,
        seq INTEGER NOT NULL DEFAULT 0,
        token INTEGER NOT NULL DEFAULT 0,
        owner TEXT,
        since INTEGER NOT NULL DEFAULT 0,
        updated INTEGER NOT NULL DEFAULT 0,
        name TEXT NOT NULL DEFAULT '',
        project TEXT NOT NULL DEFAULT '',
        parent TEXT NOT NULL DEFAULT '',
        empty INTEGER NOT NULL DEFAULT 1,
        meta BLOB)""",
    "CREATE INDEX sessions_by_update ON sessions (updated) WHERE seq > 0",
    "CREATE INDEX sessions_by_owner ON sessions (owner) WHERE owner IS NOT NULL",
    """CREATE TABLE owners (
        id TEXT PRIMARY KEY,
        owner BLOB NOT NULL,
        heartbeat INTEGER NOT NULL,
        ttl INTEGER NOT NULL) WITHOUT ROWID""",
    "CREATE TABLE events (row INTEGER PRIMARY KEY, session INTEGER NOT NULL, seq INTEGER NOT NULL, line BLOB NOT NULL)",
    "CREATE UNIQUE INDEX events_by_seq ON events (session, seq)",
    "CREATE TABLE blobs (row INTEGER PRIMARY KEY, sha BLOB NOT NULL UNIQUE, content BLOB NOT NULL)",
    "CREATE TABLE refs (sha BLOB NOT NULL, session INTEGER NOT NULL, PRIMARY KEY (sha, session)) WITHOUT ROWID",
    "CREATE INDEX refs_by_session ON refs (session)",
    """CREATE TABLE snapshots (
        session INTEGER PRIMARY KEY,
        tip TEXT NOT NULL,
        seq INTEGER NOT NULL,
        digest TEXT NOT NULL,
        content BLOB NOT NULL)""",
)
"""A session without an `id` was deleted and waits to be swept up; in one whose `seq` is 0 nothing was written yet."""


def set_up(db: Db, identity: str) -> None:
    """Make the tables in an empty database. The caller holds the lock file."""
    db.execute(f"PRAGMA page_size={PAGE_SIZE}")
    (mode,) = db.execute("PRAGMA journal_mode=WAL")[0]
    if mode != "wal":
        raise StoreUnavailable(
            f"The disk does not let SQLite keep a write-ahead log (it offers {mode!r}). Put the store on a local disk."
        )
    db.begin()
    for table in _TABLES:
        db.execute(table)
    start = (("identity", identity), ("indexed", 0), ("words", 0), ("floor", 0), ("settled", 0))
    db.executemany("INSERT INTO store VALUES (?, ?)", start)
    db.execute(f"PRAGMA user_version={SCHEMA}")
    db.commit()


def schema_of(db: Db) -> int:
    """The number of the stored shape; 0 for an empty database."""
    return int(db.execute("PRAGMA user_version")[0][0])


def is_empty(db: Db) -> bool:
    """Whether nobody has made a table in the database."""
    return not db.execute("SELECT 1 FROM sqlite_master LIMIT 1")


def not_ours(path: str) -> StoreUnavailable:
    """The error for a database that somebody else made; nothing in it was touched."""
    return StoreUnavailable(f"{path!r} is a database, but not a Backstay store. Choose another path.")


def newer(path: str, found: int) -> NeedsUpgrade:
    """The error for a store that a newer Backstay made."""
    return NeedsUpgrade(
        f"{path!r} has the store schema {found}, this Backstay knows {SCHEMA}. Upgrade Backstay to write it."
    )


def value(db: Db, key: str) -> int:
    """One of the store's own numbers."""
    rows = db.execute("SELECT value FROM store WHERE key = ?", (key,))
    return int(rows[0][0]) if rows else 0


def set_value(db: Db, key: str, number: int) -> None:
    """Change one of the store's own numbers."""
    db.execute("INSERT INTO store VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", (key, number))
