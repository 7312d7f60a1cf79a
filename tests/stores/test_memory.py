"""The memory store beyond the contract."""

import threading

import pytest

from backstay.stores.memory import MemoryStore
from backstay.testing.store_contract import StepClock, opening, owner
from backstay.vocab.errors import StoreReadOnly, StoreUnavailable

pytestmark = pytest.mark.anyio


async def test_a_store_without_a_name_belongs_to_its_opener() -> None:
    one, two = await MemoryStore.open(clock=StepClock()), await MemoryStore.open("", clock=StepClock())
    await one.append(await one.lease("s1", owner()), 0, opening("s1"))
    assert len(await one.list()) == 1
    assert await two.list() == ()


async def test_a_store_with_a_name_is_shared_in_the_process_and_stays_when_it_is_closed() -> None:
    clock = StepClock()
    one = await MemoryStore.open("shared-in-this-test", clock=clock)
    await one.append(await one.lease("s1", owner()), 0, opening("s1"))
    await one.close()
    two = await MemoryStore.open("shared-in-this-test", clock=clock, read_only=True)
    assert (two.identity, two.url) == (one.identity, "memory:shared-in-this-test")
    assert (await two.read("s1")).records == opening("s1")
    with pytest.raises(StoreReadOnly):
        await two.lease("s2", owner())
    with pytest.raises(StoreUnavailable):
        await MemoryStore.open("nobody-made-this", clock=clock, create=False)


async def test_what_is_read_was_decoded_and_no_thread_was_used() -> None:
    threads = threading.active_count()
    store = await MemoryStore.open(clock=StepClock())
    records = opening("s1", "x")
    await store.append(await store.lease("s1", owner()), 0, records)
    found = (await store.read("s1")).records
    assert found == records
    assert all(one is not other for one, other in zip(found, records, strict=True))
    assert threading.active_count() == threads
