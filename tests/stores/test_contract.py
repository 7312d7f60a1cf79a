"""Every store passes the public suite; what it proves of the contracts is said here."""

from pathlib import Path
from typing import Unpack

import pytest

from holdfast.ports import EventStore
from holdfast.stores.jsonl import JsonlStore
from holdfast.stores.memory import MemoryStore
from holdfast.testing.store_contract import Options, StoreContract


class TestMemory(StoreContract):
    async def open_store(self, where: Path, **options: Unpack[Options]) -> EventStore:
        return await MemoryStore.open(str(where), **options)


class TestJsonl(StoreContract):
    async def open_store(self, where: Path, **options: Unpack[Options]) -> EventStore:
        return await JsonlStore.open(where / "store", **options)


class TestSqlite(StoreContract):
    async def open_store(self, where: Path, **options: Unpack[Options]) -> EventStore:
        sqlite = pytest.importorskip("holdfast.stores.sqlite")
        store: EventStore = await sqlite.SqliteStore.open(where / "store.db", **options)
        return store
