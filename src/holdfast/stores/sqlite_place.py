"""Finding, making and opening the file of a SQLite store."""

import errno
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holdfast.stores.sqlite_db import Access, Connect, Db, DbError, Synchronous, explain, open_writer, patiently
from holdfast.stores.sqlite_files import beside, check_local, explain_os, locked, make_file
from holdfast.stores.sqlite_schema import SCHEMA, is_empty, newer, not_ours, schema_of, set_up
from holdfast.vocab.errors import StoreError, StoreReadOnly, StoreUnavailable

_FORBIDDEN: Final = (errno.EROFS, errno.EACCES, errno.EPERM)


@dataclass(frozen=True, kw_only=True)
class Place:
    """A store's file that was found sound, and how it may be opened."""

    path: Path
    identity: str
    connect: Connect
    synchronous: Synchronous = "full"
    reading: Access = "read"
    refusal: StoreError | None = None
    """Why it cannot be written, when it cannot."""

    def open_to_write(self) -> Db:
        """A connection for the writer."""
        return open_writer(self.connect, str(self.path), self.synchronous)

    def open_to_read(self) -> Db:
        """A connection for a reader."""
        return self.connect(str(self.path), self.reading)


def prepare(path: Path, *, new: str, read_only: bool, synchronous: Synchronous, connect: Connect) -> Place:
    """Check the store at `path`, making it when it is missing and there is a name for a `new` one.

    One that cannot be written for its permissions or its newer schema is opened for reading.
    """
    path = path.expanduser().resolve()  # two names of one file must share its lock and its blobs
    check_local(path)
    if not path.exists() and (read_only or not new):
        raise StoreUnavailable(f"There is no store at {str(path)!r}. Check the path, or let it be created.")
    if read_only:
        return _for_reading(path, connect, StoreReadOnly(f"The store {str(path)!r} was opened for reading only."))
    try:
        make_file(path)
        with locked(path):
            return patiently(lambda: _for_writing(path, connect, synchronous, new))
    except OSError as exc:
        refusal = explain_os(exc, path)
        if exc.errno in _FORBIDDEN and path.is_file():
            return _for_reading(path, connect, refusal)
        raise refusal from exc
    except DbError as exc:
        refusal = explain(exc, str(path))
        if isinstance(refusal, StoreReadOnly):
            return _for_reading(path, connect, refusal)
        raise refusal from exc


def _for_writing(path: Path, connect: Connect, synchronous: Synchronous, new: str) -> Place:
    db = open_writer(connect, str(path), synchronous)
    try:
        found = schema_of(db)
        if found > SCHEMA:
            return _for_reading(path, connect, newer(str(path), found))
        if not found and not is_empty(db):
            raise not_ours(str(path))
        if not found:
            set_up(db, new)
        return Place(path=path, identity=_identity(db), connect=connect, synchronous=synchronous)
    finally:
        db.close()


def _for_reading(path: Path, connect: Connect, refusal: StoreError) -> Place:
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


def _reading(path: Path, connect: Connect, access: Access, refusal: StoreError) -> Place:
    db = connect(str(path), access)
    try:
        found = schema_of(db)
        return Place(path=path, identity=_identity(db), connect=connect, reading=access, refusal=refusal)
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
