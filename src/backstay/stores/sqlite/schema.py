"""The tables of the SQLite store, the number of their schema, and the upgrades from older ones.

An upgrade is one transaction, made by the first program that opens an older store for writing while no other program has it open. Before
it, a copy of the whole database is put beside it under a name that says what it is. A process that dies on the way leaves the old store
or the new one: what it had copied so far is thrown away by the next upgrade.
"""

import os
import re
import sqlite3
from pathlib import Path
from typing import Final

from backstay.stores.disk_errors import free_space
from backstay.stores.sqlite.connection import Connect, Db, DbError, Value, open_writer
from backstay.stores.sqlite.files import beside, make_file
from backstay.system.files import sync_folder
from backstay.system.installation import hint_upgrade
from backstay.version import VERSION
from backstay.vocab.errors import NeedsUpgrade, StoreFull, StoreUnavailable

SCHEMA: Final = 2
"""Raised with every change of shape, that of `SessionMeta` included, and a step in `_UPGRADES`; stored as `user_version`."""
PAGE_SIZE: Final = 16384
"""Measured with events of 1 KB: 1.1 times the payload, against 1.4 and more with small pages."""
WRITTEN_BY: Final = "written_by"
"""The key in `store` of the version that made the tables or upgraded them. A program that is older than the schema names it."""
COPIES: Final = ".before-upgrade-to-"
"""What the name of a copy has between the name of the database and the version that upgraded it."""
MARGIN: Final = 16 * 1024 * 1024
"""Bytes that stay free on the disk when an upgrade begins, beside the copy."""
_VERSION: Final = re.compile(r"\d[\w.+!-]{0,40}", re.ASCII)
_DAMAGED: Final = "CREATE TABLE IF NOT EXISTS damaged (session TEXT NOT NULL, seq INTEGER NOT NULL, line BLOB NOT NULL)"

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
    _DAMAGED,
)
"""A session without an `id` was deleted and waits to be swept up; in one whose `seq` is 0 nothing was written yet."""
_UPGRADES: Final = {
    1: (_DAMAGED,),  # encrypted stores made it when they first needed it; `written_by` is new too
}
"""For each older schema the statements that make the next one of it. A step that loses nothing can run on every store of its number."""


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
    start = (("identity", identity), ("indexed", 0), ("words", 0), ("floor", 0), ("settled", 0), (WRITTEN_BY, VERSION))
    db.executemany("INSERT INTO store VALUES (?, ?)", start)
    db.execute(f"PRAGMA user_version={SCHEMA}")
    db.commit()


def upgrade(path: Path, connect: Connect) -> Path:
    """Upgrade the store at `path`, whose schema is older; keep a copy of it and return its path. The caller holds the lock file.

    Raise `StoreUnavailable` while another program has the store open, `StoreFull` when there is no room for the copy; then
    nothing was touched.
    """
    db = open_writer(connect, str(path), "full")
    try:
        _exclude_others(db, path)
        found = schema_of(db)
        _check_space(db, path)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        _keep_copy(db, path, connect)
        db.begin()
        for schema in range(found, SCHEMA):
            for statement in _UPGRADES[schema]:
                db.execute(statement)
        set_value(db, WRITTEN_BY, VERSION)
        db.execute(f"PRAGMA user_version={SCHEMA}")
        db.commit()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        db.close()
    return beside(path, COPIES + VERSION)


def remove_copies(path: Path) -> None:
    """Remove the copies that upgrades kept of the store at `path`."""
    for each in path.parent.iterdir():
        if each.name.startswith(path.name + COPIES):
            each.unlink(missing_ok=True)
    sync_folder(path.parent)


def _exclude_others(db: Db, path: Path) -> None:
    """Take the whole database for this connection: an older program that has it open would go on writing the old shape."""
    db.execute("PRAGMA locking_mode=EXCLUSIVE")
    try:
        db.begin()
    except DbError as exc:
        if not exc.busy:
            raise
        raise StoreUnavailable(
            f"{str(path)!r} was made by an older Backstay and is upgraded once, but another program has it open. Until then it can be "
            "read, not written. Close the other sessions, and open it again."
        ) from exc
    db.rollback()  # the lock stays until the connection is closed


def _check_space(db: Db, path: Path) -> None:
    pages, log = int(db.execute("PRAGMA page_count")[0][0]), beside(path, "-wal")
    needed = pages * PAGE_SIZE + (log.stat().st_size if log.exists() else 0) + MARGIN
    free = free_space(path)
    if free < needed:
        raise StoreFull(
            f"{str(path)!r} was made by an older Backstay and is upgraded once, with a copy kept beside it. That needs "
            f"{needed / 1e6:,.0f} MB on its disk, where {free / 1e6:,.0f} MB are free. Free some space outside of the store, and open it "
            "again. Nothing was changed; until then it can be read, not written."
        )


def _keep_copy(db: Db, path: Path, connect: Connect) -> None:
    """Copy the database through SQLite: closing a handle of our own would drop the locks of this process."""
    partial = beside(path, ".upgrade-copy")
    _remove(partial)
    make_file(partial)
    try:
        target = open_writer(connect, str(partial), "full")
        try:
            db.backup(target)
        finally:
            target.close()
        os.replace(partial, beside(path, COPIES + VERSION))
        sync_folder(path.parent)
    finally:
        _remove(partial)


def _remove(partial: Path) -> None:
    for each in ("-journal", "-wal", "-shm", ""):
        beside(partial, each).unlink(missing_ok=True)


def schema_of(db: Db) -> int:
    """Return the number of the stored shape; 0 for an empty database."""
    return int(db.execute("PRAGMA user_version")[0][0])


def is_empty(db: Db) -> bool:
    """Return whether the database has no table."""
    return not db.execute("SELECT 1 FROM sqlite_master LIMIT 1")


def has_foreign_parts(db: Db) -> bool:
    """Return whether a database has views or triggers. A store has none: they could run for ever, or change what is written."""
    return bool(db.execute("SELECT 1 FROM sqlite_master WHERE type IN ('view', 'trigger') LIMIT 1"))


def not_ours(path: str) -> StoreUnavailable:
    """Return the error for a database of another program; nothing in it was touched."""
    return StoreUnavailable(f"{path!r} is a database, but not a Backstay store. Choose another path.")


def newer(path: str, found: int, version: str = "") -> NeedsUpgrade:
    """Return the error for a store that a newer Backstay made; `version` is what it says of itself, when it says anything."""
    maker = f"Backstay {version}" if version else "a newer Backstay"
    return NeedsUpgrade(
        f"{path!r} has the store schema {found}, made by {maker}; this is Backstay {VERSION}, which knows {SCHEMA}. It can be read, "
        f"not written. To write it, type: {hint_upgrade(version)}"
    )


def read_version(db: Db) -> str:
    """Return the version that made or upgraded the tables; empty when the store does not say so in the form of a version."""
    try:
        rows = db.execute("SELECT value FROM store WHERE key = ?", (WRITTEN_BY,))
    except DbError as exc:
        if exc.kind != sqlite3.SQLITE_ERROR:
            raise
        rows = []  # a newer shape may have no such table
    found = str(rows[0][0]) if rows else ""
    return found if _VERSION.fullmatch(found) else ""


def value(db: Db, key: str) -> int:
    """Return one of the store's own numbers."""
    rows = db.execute("SELECT value FROM store WHERE key = ?", (key,))
    return int(rows[0][0]) if rows else 0


def set_value(db: Db, key: str, content: Value) -> None:
    """Change one of the store's own values."""
    db.execute("INSERT INTO store VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", (key, content))
