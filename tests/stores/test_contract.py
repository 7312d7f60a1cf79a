"""Every store passes the public suite; what it proves of the contracts is said here."""

from pathlib import Path
from typing import Unpack

import pytest

from backstay.ports import EventStore
from backstay.stores.memory import MemoryStore
from backstay.testing.builders import START
from backstay.testing.store_contract import StepClock, StoreContract, StoreOptions, opening, owner, say
from backstay.vocab.errors import NoSession, SeqConflict


class TestMemory(StoreContract):
    async def open_store(self, where: Path, **options: Unpack[StoreOptions]) -> EventStore:
        return await MemoryStore.open(str(where), **options)


class TestSqlite(StoreContract):
    async def open_store(self, where: Path, **options: Unpack[StoreOptions]) -> EventStore:
        sqlite = pytest.importorskip("backstay.stores.sqlite.store")
        store: EventStore = await sqlite.SqliteStore.open(where / "store.db", **options)
        return store


every_store = pytest.mark.parametrize("suite", [TestMemory(), TestSqlite()], ids=["memory", "sqlite"])


@every_store
@pytest.mark.anyio
@pytest.mark.contract("RB-27")
async def test_sessions_are_saved_in_any_folder_loaded_listed_newest_first_and_deleted(
    suite: StoreContract, tmp_path: Path
) -> None:
    store = await suite.open_store(tmp_path / "a" / "folder of my own", clock=StepClock())
    try:
        with pytest.raises(NoSession):
            await store.read("older")
        for age, session in enumerate(("older", "newer")):
            await store.append(await store.lease(session, owner()), 0, opening(session, "hello", at=START + age))
        assert (await store.read("older")).records == opening("older", "hello")
        assert [meta.id for meta in await store.list()] == ["newer", "older"]
        for _ in range(2):
            await store.delete("newer")
            assert [meta.id for meta in await store.list()] == ["older"]
    finally:
        await store.close()


@every_store
@pytest.mark.anyio
@pytest.mark.contract("RV-23")
async def test_what_was_appended_is_never_edited_and_never_removed(suite: StoreContract, tmp_path: Path) -> None:
    store = await suite.open_store(tmp_path, clock=StepClock())
    try:
        lease = await store.lease("s1", owner())
        records = opening("s1", *"abcd")
        for record in records:
            await store.append(lease, record.seq - 1, (record,))
            for rewritten in range(record.seq):
                with pytest.raises(SeqConflict):
                    await store.append(lease, rewritten, (say("another", rewritten + 1),))
            assert (await store.read("s1")).records == records[: record.seq]
    finally:
        await store.close()
