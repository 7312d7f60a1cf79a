"""The part of the store contract that says what a store must not take, and how its tests open one."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar, Unpack

import pytest
from msgspec.structs import replace

from backstay.ports import Clock, EventStore
from backstay.testing.store_examples import Options, StepClock, opening, owner
from backstay.vocab.errors import UserError
from backstay.vocab.event import Recorded
from backstay.vocab.specs import Lease


class StoreRefusals:
    """What every store refuses."""

    pytestmark = pytest.mark.anyio
    persistent: ClassVar[bool] = True
    """Whether a store that was closed can be opened again with everything in it."""

    async def open_store(self, where: Path, **options: Unpack[Options]) -> EventStore:
        """Open a store at `where`, an existing folder; the same place twice is the same store."""
        raise NotImplementedError

    @asynccontextmanager
    async def opened(
        self, where: Path, clock: Clock | None = None, dead: Sequence[str] = ()
    ) -> AsyncIterator[EventStore]:
        """A store that is closed in the end. Owners whose ids are in `dead` are dead."""
        store = await self.open_store(where, clock=clock or StepClock(), is_dead=lambda owner: owner.id in dead)
        try:
            yield store
        finally:
            await store.close()

    async def filled(self, store: EventStore, session: str, records: Sequence[Recorded]) -> Lease:
        """Write a new session."""
        lease = await store.lease(session, owner(f"writer-of-{session}"))
        await store.append(lease, 0, records)
        return lease

    # --- leases ---

    async def test_a_lease_lasts_a_time_that_can_pass(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            for ttl_s in (float("inf"), float("nan"), 1e15, 0, -1.0):
                with pytest.raises(UserError, match="lasts"):
                    await store.lease("s1", owner(), ttl_s)
                with pytest.raises(UserError, match="lasts"):
                    await store.heartbeat(owner(), ttl_s)
            await self.filled(store, "s1", opening("s1"))

    async def test_an_owner_that_cannot_be_written_down_is_refused(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            with pytest.raises(UserError, match="owner"):
                await store.lease("s1", replace(owner(), label="caf\udce9"))
            with pytest.raises(UserError, match="owner"):
                await store.heartbeat(replace(owner(), label="caf\udce9"))
            await self.filled(store, "s1", opening("s1"))
