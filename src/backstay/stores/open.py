"""Open a store by its address, or the default store when none is named."""

import contextlib
import os
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Literal

import anyio

from backstay.ports import Clock, EventStore
from backstay.stores.sqlite.cipher import FORMS as KEY_FORMS
from backstay.stores.sqlite.cipher import is_source
from backstay.system.folders import data_dir
from backstay.system.machine import SystemClock
from backstay.vocab.errors import StoreError, UserError

DEFAULT: Final = "default"
"""The store of a session that names none: SQLite under the data folder."""
STORE_KEY: Final = "BACKSTAY_STORE_KEY"
"""The variable that holds the key of the usual store, or says where it is."""
_FORMS: Final = f"sqlite:///folder/file.db (with ?{KEY_FORMS} encrypted), memory: or memory:NAME"
_OPTIONS: Final = re.compile(r"\?(?=[\w\s%-]*(?:[=&]|$))")
"""Where the options begin; any other question mark is part of a path."""
_STRAY_KEY: Final = re.compile(r"[?&#;,]\s*key\s*=", re.IGNORECASE)


def default_store_url() -> str:
    """Return the URL of the store that is used when none is named."""
    return f"sqlite:///{_usual_file()}"


async def open_store(
    url: str,
    *,
    clock: Clock | None = None,
    read_only: bool = False,
    create: bool = True,
    warn: Callable[[str], None] | None = None,
) -> EventStore:
    """Open the store that `url` names. Close it in the end.

    `sqlite:///folder/file.db` (add `?synchronous=normal` for faster commits that a power cut may undo, or
    `?key=env:NAME`, `?key=file:PATH`, `?key=keyring` for an encrypted one), `memory:` for a new one, `memory:NAME` for one
    that everybody in this process shares. A path without `///` is relative to the working folder. `sqlcipher:` is
    `sqlite:` that must have a key. A store of an older version is upgraded when it is opened for writing; `warn` is told so.
    """
    clock = clock or SystemClock()
    kind, colon, rest = url.partition(":")
    if not colon:
        raise _unknown(url)
    if kind in ("postgresql", "postgres"):
        raise UserError(f"{_safe(url)!r}: PostgreSQL stores are not available yet. Use one of {_FORMS}.")
    if kind == "jsonl":
        raise UserError(_no_json_lines(_safe(url)))
    if kind in ("sqlite", "sqlcipher"):
        return await _open_sqlite(url, clock=clock, read_only=read_only, create=create, warn=warn)
    if _STRAY_KEY.search(url):
        raise UserError(f"{_safe(url)!r} cannot be encrypted. Use one of {_FORMS}.")
    if kind == "memory":
        from backstay.stores.memory import MemoryStore  # a store loads only what it needs

        return await MemoryStore.open(rest, clock=clock, read_only=read_only, create=create)
    raise _unknown(url)


@asynccontextmanager
async def use_store(
    store: EventStore | str | None,
    *,
    clock: Clock | None = None,
    read_only: bool = False,
    create: bool = True,
    warn: Callable[[str], None] | None = None,
) -> AsyncIterator[EventStore]:
    """Give the store that the option `store` means, and close it however the block is left. One that was opened before stays open."""
    if store is not None and not isinstance(store, str):
        yield store
        return
    url = "memory:" if store is None else default_store_url() if store == DEFAULT else store
    found = await open_store(url, clock=clock, read_only=read_only, create=create, warn=warn)
    try:
        yield found
    finally:
        with anyio.CancelScope(shield=True):
            await found.close()


def key_of(url: str) -> str:
    """Return the key of the store that `url` names; empty when it has none, or none can be had. May wait for a person."""
    from backstay.stores.sqlite.cipher import fetch_key  # few stores have a key

    kind, _, rest = url.partition(":")
    if kind not in ("sqlite", "sqlcipher"):
        return ""
    with contextlib.suppress(UserError, StoreError):  # whoever opens the store is told
        before, *after = _OPTIONS.split(rest, maxsplit=1)
        path = _path(url, before)
        if source := (_options(url, after[0]) if after else {}).get("key", "") or _usual_key(path):
            return fetch_key(source, Path(path).expanduser().resolve(), create=False).secret
    return ""


async def _open_sqlite(
    url: str, *, clock: Clock, read_only: bool, create: bool, warn: Callable[[str], None] | None
) -> EventStore:
    from backstay.stores.sqlite.store import SqliteStore  # as above

    kind, _, rest = url.partition(":")
    before, *after = _OPTIONS.split(rest, maxsplit=1)
    path = _path(url, before)
    if _STRAY_KEY.search(path):
        raise UserError(f"{_safe(url)!r} has a `key=` in its path. Options come after one `?` and are joined by `&`.")
    given = _options(url, after[0]) if after else {}
    key = given.get("key", "") or _usual_key(path)
    if kind == "sqlcipher" and not key:
        raise UserError(f"{_safe(url)!r} names no key. Say where it is: {KEY_FORMS}.")
    synchronous: Literal["full", "normal"] = "normal" if given.get("synchronous") == "normal" else "full"
    return await SqliteStore.open(
        path, clock=clock, read_only=read_only, create=create, synchronous=synchronous, key=key, warn=warn
    )


def _options(url: str, text: str) -> Mapping[str, str]:
    """Return the options of a SQLite store. One that is not understood is an error: it may have been meant as a key."""
    found: dict[str, str] = {}
    for option in text.split("&"):
        name, _, value = option.partition("=")
        if name in found or name not in ("key", "synchronous") or not value:
            raise UserError(f"{_safe(url)!r} has an option that is unknown, empty or doubled. Use one of {_FORMS}.")
        found[name] = value
    if found.get("synchronous", "full") not in ("full", "normal"):
        raise UserError(f"{_safe(url)!r} has another `synchronous` than full or normal.")
    return found


def _usual_key(path: str) -> str:
    """Return where the key of the usual store is, when `path` is that store and it has one.

    A variable that is set but empty counts: a key was wanted, and saying so later is better than plain text now.
    """
    value = os.environ.get(STORE_KEY)
    if value is None or Path(path).expanduser().resolve() != _usual_file().resolve():
        return ""
    return value if is_source(value) else f"env:{STORE_KEY}"


def _usual_file() -> Path:
    """Return the file of the store that is used when none is named."""
    return data_dir() / "sessions.db"


def _path(url: str, rest: str) -> str:
    """Return the path after `kind:`; `///` begins an absolute one, as in every URL without a host."""
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host or not path.strip("/"):
            raise UserError(f"{_safe(url)!r} names no file on this machine. Use one of {_FORMS}.")
        return slash + path.lstrip("/")
    if not rest:
        raise UserError(f"{_safe(url)!r} has no path. Use one of {_FORMS}.")
    return rest


def _no_json_lines(url: str) -> str:
    return (
        f"{url!r}: JSON lines are a format now, and no store. Use one of {_FORMS}. A session that 0.2.0 kept "
        "in such a folder comes over with `backstay log import FOLDER/sessions/ID`; `backstay log export ID --format events` "
        "writes one as lines."
    )


def _unknown(url: str) -> UserError:
    return UserError(f"{_safe(url)!r} is not a store. Use one of {_FORMS}.")


def _safe(url: str) -> str:
    """Return `url` without a password and without what may be meant as a key."""
    shown = re.split(r"[?&#;,]\s*\w*\s*=|\?", url, maxsplit=1)[0]
    scheme, separator, rest = shown.partition("://")
    account, at, host = rest.rpartition("@")
    return f"{scheme}{separator}{account.partition(':')[0]}{at}{host}"
