"""A store's address: which forms there are, and what is said of the others."""

from pathlib import Path

import pytest

from backstay.stores.open import open_store
from backstay.vocab.errors import UserError
from tests.stores.sqlite_kit import Clock

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("options", ["", "?synchronous=normal"])
async def test_a_sqlite_address_opens_the_same_file_again(tmp_path: Path, options: str) -> None:
    store = await open_store(f"sqlite://{tmp_path}/a/store.db{options}", clock=Clock())
    await store.close()
    again = await open_store(store.url, clock=Clock(), create=False)
    await again.close()

    assert store.url == again.url == f"sqlite://{tmp_path}/a/store.db{options}"
    assert again.identity == store.identity


async def test_a_path_without_slashes_is_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    store = await open_store("sqlite:here.db", clock=Clock())
    await store.close()

    assert store.url == f"sqlite://{tmp_path}/here.db"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://me:secret@db/x", "not available yet"),
        ("mysql://me:secret@db/x", "is not a store"),
        ("/some/path.db", "is not a store"),
        ("", "is not a store"),
        ("sqlite:", "has no path"),
        ("sqlite://", "names no file"),
        ("sqlite:///", "names no file"),
        ("sqlite://host/path.db", "names no file"),
        ("jsonl:///some/folder", "JSON lines are a format now"),
        ("jsonl://me:secret@host/x", "JSON lines are a format now"),
    ],
)
async def test_any_other_address_is_an_error_that_lists_the_forms(url: str, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        await open_store(url, clock=Clock())

    assert "memory:NAME" in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_the_other_kinds_of_store_open_by_their_address_too(tmp_path: Path) -> None:
    clock = Clock()
    shared, same = await open_store("memory:shared", clock=clock), await open_store("memory:shared", clock=clock)
    alone = await open_store("memory:", clock=clock)
    for store in (shared, same, alone):
        await store.close()

    assert shared.identity == same.identity != alone.identity
