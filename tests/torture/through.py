"""A store with somebody standing in the door."""

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from backstay.ports import EventStore
from backstay.vocab.event import Recorded
from backstay.vocab.specs import Lease

Look = Callable[[str, Sequence[Recorded]], None]
"""Told of a session and events."""


def through(store: EventStore, *, before: Look | None = None, after: Look | None = None) -> EventStore:
    """`store`, with a look at each append before it is tried and after it was acknowledged."""
    return cast(EventStore, _Through(store, before, after))


class _Through:
    def __init__(self, store: EventStore, before: Look | None, after: Look | None) -> None:
        self._store = store
        self._before = before
        self._after = after

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def append(
        self, lease: Lease, expected_seq: int, records: Sequence[Recorded], blobs: Mapping[str, bytes] | None = None
    ) -> None:
        if self._before is not None:
            self._before(lease.session, records)
        await self._store.append(lease, expected_seq, records, blobs or {})
        if self._after is not None:
            self._after(lease.session, records)
