"""Open encrypted databases: the connection of SQLCipher under one key.

Pages of the database, of its write-ahead log and of its journal are encrypted; the index of the write-ahead log
(`-shm`) holds page numbers only. Temporary tables stay in memory.
"""

import functools
import hashlib
import importlib
import os
import re
import secrets
import sqlite3
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from backstay.stores.sqlite.connection import Access, Db, DbError, StdlibDb, connect_with
from backstay.stores.sqlite.files import lock
from backstay.stores.sqlite.schema import PAGE_SIZE
from backstay.system.files import make_folder
from backstay.system.installation import hint_extra, hint_package
from backstay.vocab.errors import StoreUnavailable, UserError

SERVICE: Final = "backstay"
"""The name in the keyring under which keys are kept, one for each store's path."""
FORMS: Final = "key=env:NAME, key=file:PATH or key=keyring"
_RAW: Final = re.compile(r"[0-9A-Fa-f]{64}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST: Final = 4096
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True)
class StoreKey:
    """The key of a store, and where it came from."""

    source: str
    """As a store's URL says it; never the key."""
    secret: str = field(repr=False)

    @property
    def raw(self) -> str | None:
        """The key as 64 hexadecimal digits; None when it is a passphrase."""
        return self.secret.lower() if is_raw(self.secret) else None


def is_raw(text: str) -> bool:
    """Return whether a text is a raw 256-bit key, and no passphrase."""
    return bool(_RAW.fullmatch(text))


def is_source(text: str) -> bool:
    """Return whether a text says where a key is, and is not a key itself."""
    return text == "keyring" or text.startswith(("env:", "file:"))


def fetch_key(source: str, store: Path, *, create: bool) -> StoreKey:
    """Get the key of the store at `store` from where `source` says.

    Only a keyring that has none makes one, when `create` says so and nothing is stored there yet. May wait for a person.
    """
    if source == "keyring":
        return StoreKey(source, _from_keyring(store, create=create))
    kind, _, name = source.partition(":")
    if kind == "env":
        return StoreKey(source, _from_environment(name))
    if kind == "file":
        path = Path(name).expanduser().absolute()
        return StoreKey(f"file:{path}", _from_file(path, name))
    raise UserError(f"The `key` of a store says where the key is, it is never the key: {FORMS}.")


def _from_environment(name: str) -> str:
    if not _VARIABLE.fullmatch(name) or is_raw(name):
        raise UserError(
            "`key=env:` is followed by the name of an environment variable, never by the key: key=env:NAME."
        )
    # whatever the locale takes the bytes for: the same ones make the same key
    key = os.fsencode(os.environ.get(name, "")).decode("utf-8", "surrogateescape").rstrip("\r\n")
    if not key.strip():
        state = "is empty" if name in os.environ else "is not set"
        raise UserError(
            f"The environment variable {name!r}, which should hold the key of the store, {state}. "
            "Put the key into it: 64 hexadecimal digits, or a passphrase."
        )
    return key


def _from_file(path: Path, name: str) -> str:
    if not name:
        raise UserError("`key=file:` is followed by the path of a file that holds the key: key=file:/folder/file.")
    try:
        # without O_NONBLOCK a pipe of that name would wait for a writer for ever
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as exc:
        raise UserError(f"The key file {str(path)!r} cannot be read: {exc.strerror}. Check its path.") from exc
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise UserError(f"The key file {str(path)!r} is not a file. Put the key into a file of its own.")
        if found.st_mode & _OTHERS:
            raise UserError(
                f"The key file {str(path)!r} has the mode {stat.S_IMODE(found.st_mode):04o}: others than its owner may "
                f"use it. Type: chmod 600 {path}"
            )
        return _one_line(os.read(handle, _LONGEST + 1), path)
    finally:
        os.close(handle)


def _one_line(content: bytes, path: Path) -> str:
    try:
        key = content.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise UserError(
            f"The key file {str(path)!r} holds no text. Write the key as 64 hexadecimal digits, or a passphrase."
        ) from None  # the cause would carry the bytes
    if len(content) > _LONGEST or not key.strip() or any(character in key for character in "\r\n\0"):
        raise UserError(
            f"The key file {str(path)!r} does not hold one line of text. Write the key into it and nothing else: "
            "64 hexadecimal digits, or a passphrase."
        )
    return key


def _from_keyring(store: Path, *, create: bool) -> str:
    ring = _keyring()
    found = _ask(ring, lambda: ring.get_password(SERVICE, str(store)))
    if found is not None:
        return _sound(found, store)
    if _has_content(store) or not create:
        raise UserError(
            f"The keyring holds no key for {str(store)!r} (service {SERVICE!r}), and one made now would not open it. If "
            f"the store was moved, copy its key: `keyring get {SERVICE} OLD_PATH`, then `keyring set {SERVICE} {store}`."
        )
    make_folder(store.parent)
    with lock(store):  # two processes that make a key at once would leave one with a store that no key opens
        kept = _ask(ring, lambda: ring.get_password(SERVICE, str(store)))
        if kept is None and not _has_content(store):
            made = secrets.token_hex(32)
            _ask(ring, lambda: ring.set_password(SERVICE, str(store), made))
            kept = _ask(ring, lambda: ring.get_password(SERVICE, str(store)))
            if kept != made:
                raise StoreUnavailable(
                    f"The keyring ({_backend(ring)}) did not keep the key that was made for {str(store)!r}, so no store "
                    f"was made. Set up a keyring that keeps what it is given, or use another of {FORMS}."
                )
    return _sound(kept, store)


def _sound(key: object, store: Path) -> str:
    if not isinstance(key, str) or not key.strip():
        raise UserError(f"The key of {str(store)!r} in the keyring (service {SERVICE!r}) is empty. Put it back there.")
    return key


def _ask(ring: Any, ask: Callable[[], object]) -> object:  # Any: `keyring` is not always there to be typed
    try:
        return ask()
    except (ring.errors.KeyringError, RuntimeError, OSError) as exc:
        raise StoreUnavailable(
            f"The keyring ({_backend(ring)}) does not answer: {type(exc).__name__}. Unlock it or set one up, "
            f"or use another of {FORMS}."
        ) from exc


def _backend(ring: Any) -> str:  # Any: as above
    return type(ring.get_keyring()).__module__


def _keyring() -> Any:  # Any: as above
    try:
        importlib.import_module("keyring.errors")
        return importlib.import_module("keyring")
    except ModuleNotFoundError as exc:
        raise UserError(
            f"`key=keyring` needs the package `keyring`. Use another of {FORMS}, or type: {hint_extra('keyring')}"
        ) from exc


def _has_content(store: Path) -> bool:
    try:
        return store.stat().st_size > 0
    except OSError:
        return False


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
        return self._open(path, access, self._key.raw or self._derive_key(path))

    def is_plain(self, path: str) -> bool:
        """Return whether the file at `path` is a database that is not encrypted."""
        db = connect_with(self._library, "sqlcipher3", path, "immutable")
        try:
            db.execute("PRAGMA cipher_log_level=NONE")
            db.execute("PRAGMA schema_version")
        except DbError:
            return False
        finally:
            db.close()
        return True

    def _open(self, path: str, access: Access, digits: str) -> StdlibDb:
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

    def _derive_key(self, path: str) -> str:
        """Return the key that the passphrase gives, and the salt of the file: SQLCipher would derive it for each connection."""
        salt = self._salt_of(path)
        return _derive(self._key.secret.encode("utf-8", "surrogateescape"), salt) + salt.hex()

    def _salt_of(self, path: str) -> bytes:
        try:
            size = os.stat(path).st_size
        except OSError as exc:
            raise DbError(sqlite3.SQLITE_CANTOPEN, f"unable to open database file: {exc}") from exc
        if not size:
            return self._salt
        db = self._open(path, "immutable", _NO_KEY)  # never a handle of our own: see `sqlite_library`
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
            f"An encrypted store needs the package `sqlcipher3`, so nothing was stored. Type: {hint_extra('sqlcipher')}"
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
        f"Install a wheel of it: {hint_package('--force-reinstall --only-binary :all: sqlcipher3')}"
    )


def wrong_key(path: Path, cipher: Cipher) -> StoreUnavailable:
    """Return the error for a file that the key does not open."""
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
    """Return the error for a file that seems to be encrypted; None when it is something else.

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
