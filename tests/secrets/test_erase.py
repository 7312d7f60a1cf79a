"""Secrets that were written down: counted where they stand, erased from every byte that is kept, and the session goes on."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from backstay import open_session, open_store
from backstay.catalog import sessions
from backstay.catalog.load import load
from backstay.cli.log_validate import problems
from backstay.logic.secrets.erase import Eraser
from backstay.ports import EventStore
from backstay.secrets.erase import erase, is_clean, scour
from backstay.secrets.scan import scan
from backstay.system.machine import SystemClock
from backstay.vocab.errors import SessionBusy, UserError
from backstay.vocab.events import SecretsErased
from tests.secrets.planted import FOLDED, PLACES, SECRETS, SESSION, left_in, plant, talk_on, token

KEY = b"k" * 32
RAW = "0f" * 32


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


async def _erased(store: EventStore) -> None:
    meta = await store.meta(SESSION)
    await erase(store, meta, Eraser(KEY), reason="a test", clock=SystemClock())
    await scour(store)


async def test_what_was_planted_is_in_no_byte_of_any_file(tmp_path: Path, work: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    store = await open_store(f"sqlite:///{folder}/s.db")
    await plant(store, work)
    assert ("s.db", FOLDED) in left_in(folder) or ("s.db-wal", FOLDED) in left_in(folder)
    before = problems((await store.read(SESSION)).records)
    assert len({secret for _, secret in left_in(folder)}) >= len(PLACES)
    assert not (await store.verify(SESSION))

    await _erased(store)

    assert left_in(folder) == []  # while the store is open, its write-ahead log beside it
    assert await is_clean(store)
    assert await store.snapshot(SESSION, "d") is None
    assert await sessions.verify(store, SESSION) == ()
    records = (await store.read(SESSION)).records
    assert problems(records) == before
    assert isinstance(records[-1].event, SecretsErased)
    assert records[-1].event.reason == "a test"
    assert (await scan(store, await store.meta(SESSION), Eraser(KEY))).spots == ()
    answer, _ = await talk_on(store, work)
    assert answer == "Still here."
    assert [hit.session for hit in await store.search("please")] == [SESSION]
    await store.close()
    assert left_in(folder) == []


async def test_what_was_planted_is_in_no_page_of_an_encrypted_store(
    tmp_path: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cipher = pytest.importorskip("sqlcipher3.dbapi2")
    monkeypatch.setenv("RAW", RAW)
    folder = tmp_path / "store"
    folder.mkdir()
    store = await open_store(f"sqlite:///{folder}/s.db?key=env:RAW")
    await plant(store, work)
    await _erased(store)
    assert await sessions.verify(store, SESSION) == ()
    answer, _ = await talk_on(store, work)
    assert answer == "Still here."
    await store.close()
    assert left_in(folder) == []
    plain = tmp_path / "plain"
    plain.mkdir()
    with closing(cipher.connect(f"{folder}/s.db")) as database:
        database.execute(f"PRAGMA key = \"x'{RAW}'\"")
        database.execute("PRAGMA cipher_page_size = 16384")
        assert database.execute("PRAGMA freelist_count").fetchone() == (0,)
        database.execute(f"ATTACH DATABASE '{plain}/s.db' AS plain KEY ''")
        database.execute("SELECT sqlcipher_export('plain')")
    assert (plain / "s.db").stat().st_size > 1_000_000
    assert left_in(plain) == []


async def test_marks_tell_equal_secrets_and_nothing_of_them(tmp_path: Path) -> None:
    one, other = Eraser(b"1" * 32), Eraser(b"2" * 32)
    twice = one.text(f"{token(1)} {token(2)} {token(1)}").split("] ")
    assert twice[0] == twice[2].removesuffix("]")
    assert twice[0] != twice[1]
    assert one.text(token(1)) != other.text(token(1))
    marked = one.text(f'{{"password": "{token(1)}"}} api_key={token(2)}; Authorization: Bearer {token(3)}')
    assert not [secret for secret in SECRETS if secret in marked]
    assert one.find(marked) == []
    assert json.loads(marked.partition(" api_key")[0])


async def test_only_a_session_that_nobody_holds_is_changed(tmp_path: Path, work: Path) -> None:
    store = await open_store(f"sqlite:///{tmp_path}/s.db")
    await plant(store, work)
    meta = await store.meta(SESSION)
    other = await open_store(f"sqlite:///{tmp_path}/s.db")
    async with open_session(resume=SESSION, store=other, cwd=work):
        with pytest.raises(SessionBusy, match=r"pid \d+"):
            await erase(store, meta, Eraser(KEY), reason="", clock=SystemClock())
    await other.close()
    await store.close()


async def test_a_session_in_memory_is_refused(work: Path) -> None:
    store = await open_store("memory:")
    await plant(store, work)
    with pytest.raises(UserError, match="memory"):
        await erase(store, await store.meta(SESSION), Eraser(KEY), reason="", clock=SystemClock())
    found = await scan(store, await store.meta(SESSION), Eraser(KEY))
    assert found.count > len(PLACES)


async def test_a_snapshot_is_made_anew_and_says_the_same(tmp_path: Path, work: Path) -> None:
    store = await open_store(f"sqlite:///{tmp_path}/s.db")
    await plant(store, work)
    await _erased(store)
    first = await load(store, SESSION)
    await talk_on(store, work)
    second = await load(store, SESSION)
    assert second.state.progress.seq > first.state.progress.seq
    assert "[ERASED " in str(first.state.transcript.messages)
    await store.close()


async def test_another_session_keeps_its_blob_and_its_words(tmp_path: Path, work: Path) -> None:
    store = await open_store(f"sqlite:///{tmp_path}/s.db")
    await plant(store, work)
    copy = await sessions.fork(store, SESSION, clock=SystemClock())
    await _erased(store)
    assert await sessions.verify(store, copy) == ()
    assert (await scan(store, await store.meta(copy), Eraser(KEY))).count
    await erase(store, await store.meta(copy), Eraser(KEY), reason="", clock=SystemClock())
    await scour(store)
    await store.close()
    assert left_in(tmp_path / "s.db.trace") == []
    assert [each for each in left_in(tmp_path) if each[0].startswith("s.db")] == []


async def test_free_pages_of_what_was_deleted_long_ago_are_written_anew(tmp_path: Path, work: Path) -> None:
    store = await open_store(f"sqlite:///{tmp_path}/s.db")
    await plant(store, work)
    await store.delete(SESSION)
    await scour(store)
    await store.close()
    assert [each for each in left_in(tmp_path) if each[0] == "s.db"] == []
    with closing(sqlite3.connect(tmp_path / "s.db")) as database:
        assert database.execute("PRAGMA freelist_count").fetchone() == (0,)
