"""Sessions on their way to another store: there is always exactly one place where each can be opened."""

from collections.abc import Mapping, Sequence

import anyio
import pytest

from backstay import SessionBusy, UserError, open_session, open_store
from backstay.catalog import sessions
from backstay.logic.stored_content import digest
from backstay.ports import EventStore, LogSlice
from backstay.stores.memory import MemoryStore
from backstay.stores.owners import this_process
from backstay.system.machine import SystemClock
from backstay.vocab.errors import BlobMissing, NoSession, StoreFull, StoreMismatch, StoreUnavailable
from backstay.vocab.event import Recorded
from backstay.vocab.specs import Lease, Owner
from tests.contracts.kit import scripted

CLOCK = SystemClock()
LONG = "an attachment " * 4_000
REPLIES = ("one", "two", "three")


class Faulty(MemoryStore):
    """A store that fails when it is told to."""

    full = False
    stuck = False
    gone: frozenset[str] = frozenset()

    async def append(
        self, lease: Lease, expected_seq: int, records: Sequence[Recorded], blobs: Mapping[str, bytes] = {}
    ) -> None:
        if self.full:
            raise StoreFull("There is no space left.")
        await super().append(lease, expected_seq, records, blobs)

    async def delete(self, session: str) -> None:
        if self.stuck:
            raise StoreUnavailable("It is stuck.")
        await super().delete(session)

    async def blob(self, sha256: str) -> bytes:
        if sha256 in self.gone:
            raise BlobMissing(f"The blob {sha256!r} is gone.")
        return await super().blob(sha256)


async def faulty() -> Faulty:
    """A store without faults yet."""
    store = await Faulty.open(clock=CLOCK)
    assert isinstance(store, Faulty)
    return store


async def talked(store: EventStore, prompt: str = "hello") -> None:
    async with open_session(model=scripted(*REPLIES), store=store, session_id="s") as session:
        await session.run(prompt)


async def wakes(store: EventStore) -> str:
    async with open_session(model=scripted(*REPLIES), store=store, resume="s") as session:
        return await session.run("and now?")


@pytest.mark.parametrize("stuck", [False, True])
async def test_a_move_that_fails_leaves_the_session_at_home_and_can_be_tried_again(*, stuck: bool) -> None:
    source, target = await faulty(), await faulty()
    await talked(source)
    target.full, target.stuck = True, stuck
    with pytest.raises(StoreFull):
        await sessions.move(source, target, "s", clock=CLOCK)
    assert await wakes(source) == "two"
    target.full = target.stuck = False
    await sessions.move(source, target, "s", clock=CLOCK)
    assert await sessions.verify(target, "s") == ()
    assert await wakes(target) == "three"


async def test_a_session_that_is_held_in_the_target_is_not_touched_here() -> None:
    source, target = await faulty(), await faulty()
    await talked(source)
    before = (await source.read("s")).records
    await target.lease("s", this_process("somebody"))
    with pytest.raises(SessionBusy):
        await sessions.move(source, target, "s", clock=CLOCK)
    assert (await source.read("s")).records == before


async def test_a_blob_that_is_gone_is_reported_and_holds_nothing_up() -> None:
    source, target = await faulty(), await faulty()
    await talked(source, LONG)
    source.gone = frozenset((digest(LONG.encode()),))
    assert await sessions.move(source, target, "s", clock=CLOCK) == (digest(LONG.encode()),)
    assert any("is not in this store" in words for words in await sessions.verify(target, "s"))
    assert (await target.meta("s")).turns == 1


async def test_a_session_that_left_for_one_store_does_not_go_to_another() -> None:
    source, first, second = await faulty(), await faulty(), await faulty()
    await talked(source)
    source.stuck = True  # the move is cut off just before the session is deleted here
    with pytest.raises(StoreUnavailable):
        await sessions.move(source, first, "s", clock=CLOCK)
    source.stuck = False
    with pytest.raises(StoreMismatch, match=first.identity):
        await sessions.move(source, second, "s", clock=CLOCK)
    assert not await sessions.exists(second, "s")
    with pytest.raises(StoreMismatch):
        await wakes(source)
    with pytest.raises(StoreMismatch):  # nothing is added to what is left here, so that the move can be finished
        await sessions.rename(source, "s", "other", clock=CLOCK)
    assert await wakes(first) == "two"


async def test_a_move_that_was_cut_off_is_finished_by_moving_again_even_after_the_session_went_on() -> None:
    source, target = await faulty(), await faulty()
    await talked(source)
    source.stuck = True
    with pytest.raises(StoreUnavailable):
        await sessions.move(source, target, "s", clock=CLOCK)
    assert await wakes(target) == "two"
    source.stuck = False
    await sessions.move(source, target, "s", clock=CLOCK)
    assert not await sessions.exists(source, "s")
    assert await wakes(target) == "three"


async def test_a_move_that_is_cancelled_leaves_the_session_in_one_place() -> None:
    for steps in range(40):
        source, target = await open_store("memory:", clock=CLOCK), await open_store("memory:", clock=CLOCK)
        await talked(source)
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: sessions.move(source, target, "s", clock=CLOCK))  # noqa: B023  # it ends in this round
                for _ in range(steps):
                    await anyio.lowlevel.checkpoint()
                scope.cancel()
        homes = [store for store in (source, target) if await sessions.exists(store, "s")]
        assert len(homes) == 1
        assert await wakes(homes[0]) == "two"


class Mortal(MemoryStore):
    """A store that works `Mortal.life` more times, and then answers nothing: its process is dead."""

    life = 10_000

    async def append(
        self, lease: Lease, expected_seq: int, records: Sequence[Recorded], blobs: Mapping[str, bytes] = {}
    ) -> None:
        self._live()
        await super().append(lease, expected_seq, records, blobs)

    async def delete(self, session: str) -> None:
        self._live()
        await super().delete(session)

    async def read(self, session: str, after: int = 0, limit: int | None = None) -> LogSlice:
        self._live()
        return await super().read(session, after, limit)

    async def lease(self, session: str, owner: Owner, ttl_s: float = 15.0) -> Lease:
        self._live()
        return await super().lease(session, owner, ttl_s)

    async def release(self, lease: Lease) -> None:
        self._live()
        await super().release(lease)

    def _live(self) -> None:
        Mortal.life -= 1
        if Mortal.life < 0:
            raise StoreUnavailable("The process is dead.")


async def test_whenever_a_move_dies_the_session_has_one_home_at_most_and_moving_again_finishes_it() -> None:
    done, moment = False, 0
    while not done:
        Mortal.life = 10_000
        source, target = [await Mortal.open(clock=CLOCK, is_dead=lambda _: True) for _ in range(2)]
        await talked(source)
        Mortal.life, done = moment, True
        try:
            await sessions.move(source, target, "s", clock=CLOCK)
        except StoreUnavailable:
            done = False
        Mortal.life, moment = 10_000, moment + 1
        assert len([store for store in (source, target) if await at_home(store)]) <= 1
        if await sessions.exists(source, "s"):
            await sessions.move(source, target, "s", clock=CLOCK)
        assert not await sessions.exists(source, "s")
        assert await wakes(target) == "two"
    assert moment > 8


async def at_home(store: EventStore) -> bool:
    try:
        await sessions.check_store(store, "s")
    except (StoreMismatch, NoSession):
        return False
    return True


async def test_a_session_is_not_moved_to_where_it_is() -> None:
    store = await faulty()
    await talked(store)
    with pytest.raises(UserError, match="already"):
        await sessions.move(store, store, "s", clock=CLOCK)
