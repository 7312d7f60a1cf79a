"""Keeps the right to write a session while it is open."""

from typing import Final

from backstay.ports import Clock, EventStore
from backstay.vocab.errors import StoreError
from backstay.vocab.specs import Owner

BEAT_S: Final = 3.0


async def beat(store: EventStore, owner: Owner, clock: Clock, ttl_s: float) -> None:
    """Say every few seconds that `owner` lives. A beat that fails is tried again: only a higher token can end the lease."""
    while True:
        await clock.sleep(min(BEAT_S, ttl_s / 4))
        try:
            await store.heartbeat(owner, ttl_s)
        except StoreError:
            continue  # the append that matters will meet the same store and say what is wrong
