"""Encrypted databases: the connection of SQLCipher under one key.

Pages of the database, of its write-ahead log and of its journal are encrypted; the index of the write-ahead log
(`-shm`) holds page numbers only. Temporary tables stay in memory.
"""

import functools
import hashlib
import importlib
import os
import secrets
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from backstay.stores.sqlite_db import Access, Db, DbError, StdlibDb, connect_with
from backstay.stores.sqlite_key import StoreKey
from backstay.stores.sqlite_schema import PAGE_SIZE
from backstay.vocab.errors import StoreUnavailable, UserError

ROUNDS: Final = 256_000
"""How often SQLCipher 4 hashes a passphrase: anybody's SQLCipher 4 opens the file with the same passphrase."""
_SALT: Final = 16
_NO_KEY: Final = "0" * 64


class Cipher:
    """Opens databases that are encrypted under one key."""

    def __init__(self, fetch: Callable[[], StoreKey]) -> None:
        self._library = _library()  # first: without it a key would be made for nothing
        self._key = fetch()
        self._salt = secrets.token_bytes(_SALT)
        """For a file that is made now."""

    @property
    def source(self) -> str:
        """Where the key came from."""
        return self._key.source

    def connect(self, path: str, access: Access) -> Db:
        """Open the database at `path`, which exists; whether the key fits shows when it is first read."""
        return self._opened(path, access, self._key.raw or self._derived(path))

    def is_plain(self, path: str) -> bool:
        """Whether the file at `path` is a database that is not encrypted."""
        db = connect_with(self._library, "sqlcipher3", path, "immutable")
        try:
            db.execute("PRAGMA cipher_log_level=NONE")
            db.execute("PRAGMA schema_version")
        except DbError:
            return False
        finally:
            db.close()
        return True

    def _opened(self, path: str, access: Access, digits: str) -> StdlibDb:
        db = connect_with(self._library, "sqlcipher3", path, access)
        try:
            db.execute("PRAGMA cipher_log_level=NONE")  # it writes to the terminal otherwise
            db.execute(f"PRAGMA key=\"x'{digits}'\"")
            if db.execute("PRAGMA cipher_status") != [("1",)]:
                raise _no_cipher()
            db.execute("PRAGMA cipher_compatibility=4")  # whatever a later SQLCipher takes for usual
            db.execute(f"PRAGMA cipher_page_size={PAGE_SIZE}")
            db.execute("PRAGMA temp_store=MEMORY")
        except (DbError, StoreUnavailable):
            db.close()
            raise
        return db

    def _derived(self, path: str) -> str:
        """The key that the passphrase gives, and the salt of the file: SQLCipher would derive it for each connection."""
        salt = self._salt_of(path)
        return _derive(self._key.secret.encode("utf-8", "surrogateescape"), salt) + salt.hex()

    def _salt_of(self, path: str) -> bytes:
        try:
            size = os.stat(path).st_size
        except OSError as exc:
            raise DbError(sqlite3.SQLITE_CANTOPEN, f"unable to open database file: {exc}") from exc
        if not size:
            return self._salt
        db = self._opened(path, "immutable", _NO_KEY)  # never a handle of our own: see `sqlite_library`
        try:
            return bytes.fromhex(db.execute("PRAGMA cipher_salt")[0][0])
        finally:
            db.close()


@functools.lru_cache(maxsize=16)
def _derive(passphrase: bytes, salt: bytes) -> str:
    return hashlib.pbkdf2_hmac("sha512", passphrase, salt, ROUNDS, 32).hex()


def _library() -> Any:  # Any: it has the surface of `sqlite3`, but no types
    try:
        library = importlib.import_module("sqlcipher3.dbapi2")
    except ImportError as exc:
        raise UserError(
            "An encrypted store needs the package `sqlcipher3`: pip install 'backstay[sqlcipher]'. Nothing was stored."
        ) from exc
    database = library.connect(":memory:")
    try:
        version = database.execute("PRAGMA cipher_version").fetchone()
    finally:
        database.close()
    if version is None or int(str(version[0]).partition(".")[0]) < 4:
        raise _no_cipher()
    return library


def _no_cipher() -> StoreUnavailable:
    return StoreUnavailable(
        "The installed `sqlcipher3` was built without SQLCipher 4 and would write plain text, so it is not used. "
        "Install a wheel of it: pip install --force-reinstall --only-binary :all: 'backstay[sqlcipher]'."
    )


def wrong_key(path: Path, cipher: Cipher) -> StoreUnavailable:
    """The error for a file that the key does not open."""
    if cipher.is_plain(str(path)):
        return StoreUnavailable(
            f"{str(path)!r} is not encrypted, but a key was named for it ({cipher.source}). Open it without one; to encrypt "
            "its sessions, move them into a new store: `backstay sessions move SESSION 'sqlite:///NEW.db?key=...'`."
        )
    return StoreUnavailable(
        f"The key from {cipher.source!r} does not open {str(path)!r}: the file has another key, is no store, or is damaged. "
        "Name the key that it was made with. Nothing was changed."
    )


def needs_key(path: Path) -> StoreUnavailable | None:
    """The error for a file that seems to be encrypted; None when it is something else.

    Call it only for a file that SQLite has refused: see `sqlite_library`.
    """
    with open(path, "rb") as file:
        head = file.read(PAGE_SIZE)
    if len(head) < PAGE_SIZE or path.stat().st_size % PAGE_SIZE or len(set(head[: PAGE_SIZE // 4])) < 200:
        return None
    return StoreUnavailable(
        f"{str(path)!r} is encrypted (or damaged from its first byte on), and no key was named. Say where the key is: "
        f"'sqlite://{path}?key=env:NAME', or key=file:PATH or key=keyring; for the usual store set BACKSTAY_STORE_KEY."
    )
