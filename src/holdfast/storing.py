"""Opens a store by its URL, with the clock of this machine."""

from holdfast.ports import Clock, EventStore
from holdfast.runtime.clock import SystemClock
from holdfast.stores import urls


async def open_store(
    url: str, *, clock: Clock | None = None, read_only: bool = False, create: bool = True
) -> EventStore:
    """Open the store that `url` names: `sqlite:///folder/file.db`, `memory:` or `memory:NAME`. Close it in the end."""
    return await urls.open_store(url, clock=clock or SystemClock(), read_only=read_only, create=create)
