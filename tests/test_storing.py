"""A store is closed by whoever opened it."""

from pathlib import Path

import pytest

from backstay.ports import SessionQuery
from backstay.stores.open import open_store, use_store
from backstay.vocab.errors import StoreError


async def test_a_store_that_was_opened_for_a_block_is_closed_with_it(tmp_path: Path) -> None:
    async with use_store(f"sqlite://{tmp_path}/s.db") as store:
        assert await store.list(SessionQuery()) == ()
        async with use_store(store) as same:
            assert same is store
        assert await store.list(SessionQuery()) == ()

    with pytest.raises(StoreError):
        await store.list(SessionQuery())


async def test_no_store_is_one_in_memory() -> None:
    async with use_store(None) as store:
        assert store.url.startswith("memory:")


async def test_a_store_that_is_not_there_is_made_only_where_that_is_meant(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/s.db"
    with pytest.raises(StoreError):
        async with use_store(url, create=False):
            pass

    assert list(tmp_path.iterdir()) == []
    await (await open_store(url)).close()
    async with use_store(url, read_only=True) as store:
        assert await store.list(SessionQuery()) == ()
