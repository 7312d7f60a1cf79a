"""Find, create, check and open the file of a SQLite store, and choose between writing and reading alone."""

import sqlite3
import time
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from backstay.stores.disk_errors import FORBIDDEN, explain_os
from backstay.stores.sqlite.cipher import Cipher, fetch_key, needs_key, wrong_key
from backstay.stores.sqlite.connection import Access, Connect, Db, DbError, Synchronous, explain, open_writer, patiently
from backstay.stores.sqlite.files import beside, check_local, is_held_by_other, lock, make_file
from backstay.stores.sqlite.schema import (
    SCHEMA,
    has_foreign_parts,
    is_empty,
    newer,
    not_ours,
    read_version,
    schema_of,
    set_up,
    upgrade,
)
from backstay.vocab.errors import StoreError, StoreFull, StoreReadOnly, StoreUnavailable

_LOOKS: Final = 4
"""How often a first page is read before it is believed to be wrong: another process may just be writing it."""


class DatabaseFile(Struct, frozen=True, kw_only=True):
    """A store's file that passed the checks, and how it may be opened."""

    path: Path
    identity: str
    connect: Connect
    synchronous: Synchronous = "full"
    reading: Access = "read"
    refusal: StoreError | None = None
    """Why it cannot be written, when it cannot."""
    key: str = ""
    """Where the key is, when the file is encrypted."""
    copy: Path | None = None
    """The copy of the store as it was, when this opening upgraded it."""

    @property
    def aside(self) -> Path | None:
        """The file beside which unencrypted files may be put; None for an encrypted store, which must have none."""
        return None if self.key else self.path

    def open_to_write(self) -> Db:
        """Return a connection for the writer."""
        return open_writer(self.connect, str(self.path), self.synchronous)

    def open_to_read(self) -> Db:
        """Return a connection for a reader."""
        return self.connect(str(self.path), self.reading)


def prepare(
    path: Path, *, new: str, read_only: bool, synchronous: Synchronous, connect: Connect, key: str = ""
) -> DatabaseFile:
    """Check the store at `path`; create it when it is missing and `new` has the identity for a new one.

    A store is opened for reading alone when its permissions or a newer schema forbid writing, or when it is older and cannot be upgraded
    now. `key` says where the key of an encrypted store is; then SQLCipher opens it, and `connect` is not used.
    """
    path = path.expanduser().resolve()  # two names of one file must share its lock and its blobs
    check_local(path)
    if not path.exists() and (read_only or not new):
        raise StoreUnavailable(f"There is no store at {str(path)!r}. Check the path, or let it be created.")
    if path.exists() and not path.is_file() and not path.is_dir():  # SQLite says what is wrong with a folder
        raise StoreUnavailable(
            f"{str(path)!r} is not a regular file, so it is no store. Move it away, or name another one."
        )
    cipher = Cipher(lambda: fetch_key(key, path, create=bool(new) and not read_only)) if key else None
    connect = cipher.connect if cipher else connect
    check_fits(path, connect, cipher)
    database = _open(path, connect, synchronous, new, read_only=read_only)
    return replace(database, key=cipher.source) if cipher else database


def check_fits(path: Path, connect: Connect, cipher: Cipher | None) -> None:
    """Raise when the file at `path` and the key, or its absence, do not belong together. Nothing is changed by looking.

    A connection of another kind would change things: it may make files, and empty a write-ahead log that a crash left.
    """
    if not path.is_file() or not path.stat().st_size:
        return
    if is_held_by_other(str(path), "sqlcipher3" if cipher else "sqlite3"):
        how = "without a key" if cipher else "with a key"
        raise StoreUnavailable(f"{str(path)!r} is open in this process {how}. Open it the same way, or close it first.")
    if beside(path, "-journal").exists():
        return  # its making was cut off; the first page may be half there until the journal is played back
    if not all(_unreadable(path, connect, pause) for pause in range(_LOOKS)):
        return
    error = wrong_key(path, cipher) if cipher else needs_key(path)
    if error is not None:
        raise error


def _unreadable(path: Path, connect: Connect, pause: int) -> bool:
    """Return whether the first page of a file is not one of a database, or not under this key."""
    time.sleep(pause / 100)
    try:
        db = connect(str(path), "immutable")
    except DbError:
        return False  # whoever opens it for use says what is wrong
    try:
        db.execute("PRAGMA schema_version")
    except DbError as exc:
        return exc.kind == sqlite3.SQLITE_NOTADB
    finally:
        db.close()
    return False


def _open(path: Path, connect: Connect, synchronous: Synchronous, new: str, *, read_only: bool) -> DatabaseFile:
    if read_only:
        return _for_reading(path, connect, StoreReadOnly(f"The store {str(path)!r} was opened for reading only."))
    try:
        make_file(path)
        with lock(path):
            return patiently(lambda: _for_writing(path, connect, synchronous, new))
    except OSError as exc:
        refusal = explain_os(exc, path)
        if exc.errno in FORBIDDEN and path.is_file():
            return _for_reading(path, connect, refusal)
        raise refusal from exc
    except DbError as exc:
        refusal = explain(exc, str(path))
        if isinstance(refusal, StoreReadOnly):
            return _for_reading(path, connect, refusal)
        raise refusal from exc


def _for_writing(path: Path, connect: Connect, synchronous: Synchronous, new: str) -> DatabaseFile:
    db = open_writer(connect, str(path), synchronous)
    try:
        found = schema_of(db)
        if found > SCHEMA:
            return _for_reading(path, connect, newer(str(path), found, read_version(db)))
        if (not found and not is_empty(db)) or has_foreign_parts(db):
            raise not_ours(str(path))
        if not found:
            set_up(db, new)
        identity = _identity(db)
    finally:
        db.close()
    copy = None
    if 0 < found < SCHEMA:
        try:
            copy = upgrade(path, connect)
        except (StoreFull, StoreUnavailable) as refusal:
            return _for_reading(path, connect, refusal)
    return DatabaseFile(path=path, identity=identity, connect=connect, synchronous=synchronous, copy=copy)


def _for_reading(path: Path, connect: Connect, refusal: StoreError) -> DatabaseFile:
    try:
        return patiently(lambda: _reading(path, connect, "read", refusal))
    except DbError as exc:
        if exc.kind not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise explain(exc, str(path)) from exc
    log = beside(path, "-wal")
    if log.exists() and log.stat().st_size:
        raise StoreUnavailable(
            f"{str(path)!r} cannot be read where it is: {str(log)!r} holds its newest changes, and reading them "
            "needs a folder that can be written. Copy both files into one."
        )
    try:
        return _reading(path, connect, "immutable", refusal)
    except DbError as exc:
        raise explain(exc, str(path)) from exc


def _reading(path: Path, connect: Connect, access: Access, refusal: StoreError) -> DatabaseFile:
    db = connect(str(path), access)
    try:
        found = schema_of(db)
        if has_foreign_parts(db):
            raise not_ours(str(path))
        return DatabaseFile(path=path, identity=_identity(db), connect=connect, reading=access, refusal=refusal)
    except DbError as exc:
        if exc.kind != sqlite3.SQLITE_ERROR:
            raise
        if found > SCHEMA:
            raise newer(str(path), found) from exc
        raise not_ours(str(path)) from exc
    finally:
        db.close()


def _identity(db: Db) -> str:
    return str(db.execute("SELECT value FROM store WHERE key = 'identity'")[0][0])
