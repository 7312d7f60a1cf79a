"""Where a store is, as one line of text."""

from typing import Final, Literal

from holdfast.ports import Clock, EventStore
from holdfast.vocab.errors import UserError

_FORMS: Final = "sqlite:///folder/file.db, jsonl:///folder, memory: or memory:NAME"
_NORMAL: Final = "?synchronous=normal"


async def open_store(url: str, *, clock: Clock, read_only: bool = False, create: bool = True) -> EventStore:
    """Open the store that `url` names.

    `sqlite:///folder/file.db` (add `?synchronous=normal` for faster commits that a power cut may undo),
    `jsonl:///folder`, `memory:` for a new one, `memory:NAME` for one that everybody in this process shares. A path
    without `///` is relative to the working folder.
    """
    kind, colon, rest = url.partition(":")
    if not colon:
        raise _unknown(url)
    if kind == "memory":
        from holdfast.stores.memory import MemoryStore  # a store loads only what it needs

        return await MemoryStore.open(rest, clock=clock, read_only=read_only, create=create)
    if kind in ("postgresql", "postgres"):
        raise UserError(f"{_safe(url)!r}: PostgreSQL stores are not available yet. Use one of {_FORMS}.")
    if kind == "sqlite":
        from holdfast.stores.sqlite import SqliteStore  # as above

        path = _path(url, rest.removesuffix(_NORMAL))
        synchronous: Literal["full", "normal"] = "normal" if rest.endswith(_NORMAL) else "full"
        return await SqliteStore.open(path, clock=clock, read_only=read_only, create=create, synchronous=synchronous)
    if kind == "jsonl":
        from holdfast.stores.jsonl import JsonlStore  # as above

        return await JsonlStore.open(_path(url, rest), clock=clock, read_only=read_only, create=create)
    raise _unknown(url)


def _path(url: str, rest: str) -> str:
    """The path after `kind:`; `///` begins an absolute one, as in every URL without a host."""
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host or not path.strip("/"):
            raise UserError(f"{url!r} names no file on this machine. Use one of {_FORMS}.")
        return slash + path.lstrip("/")
    if not rest:
        raise UserError(f"{url!r} has no path. Use one of {_FORMS}.")
    return rest


def _unknown(url: str) -> UserError:
    return UserError(f"{_safe(url)!r} is not a store. Use one of {_FORMS}.")


def _safe(url: str) -> str:
    """`url` without a password."""
    scheme, separator, rest = url.partition("://")
    account, at, host = rest.rpartition("@")
    return f"{scheme}{separator}{account.partition(':')[0]}{at}{host}"
