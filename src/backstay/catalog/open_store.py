"""Opens stores with the clock of this machine, and closes them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from backstay.ports import Clock, EventStore
from backstay.session.options import DEFAULT, default_store_url
from backstay.stores import open
from backstay.system.machine import SystemClock


async def open_store(
    url: str, *, clock: Clock | None = None, read_only: bool = False, create: bool = True
) -> EventStore:
    """Open the store that `url` names: `sqlite:///folder/file.db`, `memory:` or `memory:NAME`. Close it in the end."""
    return await open.open_store(url, clock=clock or SystemClock(), read_only=read_only, create=create)


@asynccontextmanager
async def use_store(
    store: EventStore | str | None, *, clock: Clock | None = None, read_only: bool = False, create: bool = True
) -> AsyncIterator[EventStore]:
    """Give the store that the option `store` means, and close it however the block is left. One that was opened before stays open."""
    if store is not None and not isinstance(store, str):
        yield store
        return
    url = "memory:" if store is None else default_store_url() if store == DEFAULT else store
    found = await open_store(url, clock=clock, read_only=read_only, create=create)
    try:
        yield found
    finally:
        with anyio.CancelScope(shield=True):
            await found.close()
