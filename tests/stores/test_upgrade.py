"""Upgrades: a store that 0.1.0 wrote is opened, read, gone on with; what a crash, a full disk or a second program on the way leaves."""

import os
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from backstay import open_session, open_store, tool
from backstay.catalog.load import load
from backstay.ports import SessionQuery
from backstay.stores.sqlite.cipher import Cipher, fetch_key
from backstay.stores.sqlite.connection import Access, Db, Row, Value, connect_stdlib
from backstay.stores.sqlite.files import BLOB_IN_TABLE
from backstay.stores.sqlite.open import prepare
from backstay.stores.sqlite.schema import SCHEMA
from backstay.stores.sqlite.store import SqliteStore
from backstay.stores.stored_trace import read_trace
from backstay.system.installation import hint_upgrade
from backstay.system.machine import SystemClock
from backstay.version import VERSION
from backstay.vocab.errors import NeedsUpgrade, NoSession, StoreFull, StoreReadOnly, StoreUnavailable
from backstay.vocab.events import ToolFinished
from backstay.vocab.messages import TextRef
from tests.contracts.kit import scripted
from tests.source_tree import SOURCE
from tests.stores.old_store import connect_encrypted, contents, copy_of, take_back, unpack
from tests.stores.sqlite_kit import (
    Open,
    Taps,
    beginning,
    begun,
    copy_database,
    opening,
    owner,
    peek,
    said,
    tamper,
)

pytestmark = pytest.mark.anyio

SESSIONS = {"talk", "branch", "short", "parent", "large", "killed"}


@pytest.fixture
async def open_at(tmp_path: Path) -> AsyncIterator[Open]:
    """Open stores in the test's folder that are closed at its end."""
    async with opening(tmp_path) as opened:
        yield opened


async def test_a_store_of_0_1_0_opens_and_all_of_it_can_be_read_and_searched(open_at: Open, tmp_path: Path) -> None:
    path = unpack(tmp_path)
    store = await open_at(path.name)

    metas = {meta.id: meta for meta in await store.list(SessionQuery(include_children=True))}
    assert metas.keys() - SESSIONS == {child for child, meta in metas.items() if meta.parent == "parent"}
    assert metas.keys() >= SESSIONS
    for session in metas:
        assert await store.verify(session) == ()
        assert (await store.read(session)).trouble is None
    assert (metas["talk"].name, metas["branch"].origin) == ("the plan", "talk")
    assert {hit.session for hit in await store.search("heron")} == {"talk", "branch"}
    (result,) = [event for event in await events(store, "large") if isinstance(event, ToolFinished)]
    (text,) = result.content
    assert isinstance(text, TextRef)
    assert len(await store.blob(text.sha256)) > BLOB_IN_TABLE
    assert read_trace(tmp_path / "sessions.db.trace", "talk").lines
    for session in metas:
        assert (await load(store, session)).state.transcript.messages


async def test_a_session_that_0_1_0_left_in_a_tool_call_is_finished_and_gone_on_with(tmp_path: Path) -> None:
    unpack(tmp_path)
    url = f"sqlite://{tmp_path}/sessions.db"
    async with open_session(
        resume="killed",
        store=url,
        cwd=tmp_path,
        tools=[charge],
        model=scripted("-", "It may have been charged.", "Again."),
    ) as session:
        result = await session.finish()
        assert result is not None
        assert result.text == "It may have been charged."
        assert await session.run("And?") == "Again."
        (lost,) = [record.event for record in await session.events() if isinstance(record.event, ToolFinished)]
    assert (lost.outcome, lost.code) == ("unknown", "restart")
    async with open_session(
        resume="short", store=url, cwd=tmp_path, model=scripted(*["-"] * 9, "Compacted, and on.")
    ) as session:
        assert await session.run("More.") == "Compacted, and on."
    store = await open_store(url, clock=SystemClock())
    assert [await store.verify(name) for name in ("killed", "short")] == [(), ()]
    await store.close()


async def test_an_upgrade_is_told_once_to_who_opens_the_store(tmp_path: Path) -> None:
    path, told = unpack(tmp_path), list[str]()
    for _ in range(2):
        store = await open_store(f"sqlite://{path}", warn=told.append)
        await store.close()

    assert told == [f"{path} was made by an older Backstay and was upgraded. As it was, it is kept in {copy_of(path)}."]


async def test_the_sandbox_comes_back_to_a_session_of_an_old_store_that_was_left_in_bypass(tmp_path: Path) -> None:
    url = f"sqlite://{unpack(tmp_path)}"
    async with open_session(resume="talk", model=scripted(*["Hi."] * 9), store=url, cwd=tmp_path) as session:
        await session.run("And?")
        assert session.permission_mode == "default"
        (words,) = session.warnings
    assert "The scope 'full' came with it and ended too: commands run in 'sandboxed' again." in words


async def test_an_upgrade_keeps_a_copy_that_is_the_old_store_and_can_take_its_place(
    open_at: Open, tmp_path: Path
) -> None:
    path = unpack(tmp_path)
    copy_database(path, tmp_path / "old.db")
    store = await open_at(path.name)
    lease = await begun(store, "new")
    await store.release(lease)
    await store.close()

    copy = copy_of(path)
    assert copy.name == f"sessions.db.before-upgrade-to-{VERSION}"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert peek(path, "PRAGMA user_version") == [(SCHEMA,)]
    assert peek(path, "SELECT value FROM store WHERE key = 'written_by'") == [(VERSION,)]
    for sql in (
        "PRAGMA user_version",
        "PRAGMA journal_mode",
        "SELECT * FROM events",
        "SELECT * FROM store",
        "SELECT * FROM blobs",
    ):
        assert peek(copy, sql) == peek(tmp_path / "old.db", sql)

    os.replace(copy, path)
    store = await open_at(path.name)
    assert {meta.id for meta in await store.list()} >= {"talk", "killed"}
    with pytest.raises(NoSession):
        await store.meta("new")


@pytest.mark.parametrize("key", ["", "encrypted"])
def test_an_upgrade_that_is_killed_anywhere_leaves_the_old_store_or_the_new_one(tmp_path: Path, key: str) -> None:
    if key:
        pytest.importorskip("sqlcipher3.dbapi2")
        path = tmp_path / "sessions.db"
        connect = connect_encrypted()
        path.touch(0o600)
        prepare(path, new="sqlite-test", read_only=False, synchronous="full", connect=connect)
        take_back(path, connect)
    else:
        path = unpack(tmp_path)
    folder = tmp_path / "each"
    folder.mkdir()

    ran = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.stores.old_store", path, folder, key],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )

    assert (ran.returncode, ran.stderr) == (0, "")
    assert int(ran.stdout.split()[1]) > 30


async def test_an_encrypted_store_is_upgraded_under_its_key(
    tmp_path: Path, open_at: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sqlcipher3.dbapi2")
    monkeypatch.setenv("PHRASE", "open, sesame")
    store = await open_at(key="env:PHRASE")
    await store.release(await begun(store))
    await store.close()
    path = tmp_path / "store.db"
    take_back(path, Cipher(lambda: fetch_key("env:PHRASE", path, create=False)).connect)

    store = await open_at(key="env:PHRASE")
    lease = await store.lease("s1", owner())
    await store.append(lease, 1, [said("two", 2)])
    await store.close()

    copy = copy_of(path)
    assert b"SQLite format" not in copy.read_bytes()
    kept = await open_at(copy.name, key="env:PHRASE", read_only=True)
    assert (await kept.read("s1")).records == (beginning("s1"),)
    assert await kept.aside("s1") == ()


def test_processes_that_open_an_older_store_at_once_upgrade_it_once(tmp_path: Path) -> None:
    path = unpack(tmp_path)
    running = [
        subprocess.Popen([sys.executable, "-c", _OPENS, path], cwd=Path(__file__).parents[2], stdout=subprocess.PIPE)
        for _ in range(4)
    ]

    assert [process.communicate()[0] for process in running] == [b"None\n"] * 4
    assert peek(path, "PRAGMA user_version") == [(SCHEMA,)]
    assert peek(copy_of(path), "PRAGMA user_version") == [(1,)]


_OPENS = """
import pathlib, sys
from backstay.stores.sqlite.connection import connect_stdlib
from backstay.stores.sqlite.open import prepare
print(prepare(pathlib.Path(sys.argv[1]), new="x", read_only=False, synchronous="full", connect=connect_stdlib).refusal)
"""


async def test_an_opening_for_reading_upgrades_nothing(open_at: Open, tmp_path: Path) -> None:
    path = unpack(tmp_path)
    before = path.read_bytes()

    store = await open_at(path.name, read_only=True)

    assert (await store.meta("talk")).name == "the plan"
    assert [hit.session for hit in await store.search("heron", limit=1)] == ["talk"]
    assert await store.aside("talk") == ()
    with pytest.raises(StoreReadOnly, match="reading only"):
        await store.lease("talk", owner())
    await store.close()
    assert path.read_bytes() == before
    assert not copy_of(path).exists()


class Huge:
    """A connection to a database that has more pages than a disk."""

    def __init__(self, inner: Db) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def execute(self, sql: str, args: Sequence[Value] = ()) -> list[Row]:
        return [(10**12,)] if sql == "PRAGMA page_count" else self._inner.execute(sql, args)


async def test_a_disk_without_room_for_the_copy_is_named_before_anything_is_touched(
    open_at: Open, tmp_path: Path
) -> None:
    path = unpack(tmp_path)
    before = contents(path, connect_stdlib)

    def connect(name: str, access: Access) -> Db:
        return cast(Db, Huge(connect_stdlib(name, access)))

    store = await open_at(path.name, connect=connect)

    assert (await store.meta("talk")).name == "the plan"
    with pytest.raises(StoreFull, match=r"upgraded once.* needs 16,384,\d+,\d+ MB on its disk.*Nothing was changed"):
        await store.lease("talk", owner())
    await store.close()
    assert contents(path, connect_stdlib) == before
    assert not copy_of(path).exists()


async def test_an_older_store_that_another_program_has_open_can_be_read_until_it_is_closed(
    open_at: Open, tmp_path: Path
) -> None:
    path = unpack(tmp_path)
    taps = Taps()

    def wait_for_nobody(db: Db) -> None:
        db.execute("PRAGMA busy_timeout=0")

    taps.on_connect = wait_for_nobody
    with closing(sqlite3.connect(path)) as other:
        other.execute("SELECT count(*) FROM events").fetchall()
        store = await open_at(path.name, connect=taps.connect)
        assert (await store.meta("talk")).name == "the plan"
        with pytest.raises(StoreUnavailable, match="another program has it open"):
            await store.lease("talk", owner())
        await store.close()
    assert not copy_of(path).exists()

    store = await open_at(path.name, connect=taps.connect)
    assert (await store.lease("talk", owner())).session == "talk"


@pytest.mark.parametrize(
    ("version", "words"),
    [("9.8.7", "Backstay 9.8.7"), ("9' ; rm -rf ~", "a newer Backstay"), (None, "a newer Backstay")],
)
async def test_a_store_of_a_newer_schema_names_the_version_to_install(
    open_at: Open, tmp_path: Path, version: str | None, words: str
) -> None:
    store = await open_at()
    lease = await begun(store)
    await store.close()
    tamper(tmp_path / "store.db", f"PRAGMA user_version={SCHEMA + 1}")
    tamper(tmp_path / "store.db", "UPDATE store SET value = ? WHERE key = 'written_by'", (version,))
    store = await open_at()

    assert (await store.read("s1")).records == (beginning("s1"),)
    with pytest.raises(NeedsUpgrade) as refused:
        await store.append(lease, 1, [said("two", 2)])
    assert f"the store schema {SCHEMA + 1}, made by {words}; this is Backstay {VERSION}" in str(refused.value)
    assert hint_upgrade(version if version == "9.8.7" else "") in str(refused.value)


def test_an_older_program_that_was_installed_from_a_wheel_says_which_version_to_install(tmp_path: Path) -> None:
    shutil.copytree(SOURCE, tmp_path / "site" / "backstay", ignore=shutil.ignore_patterns("__pycache__"))
    path = tmp_path / "store.db"
    path.touch(0o600)
    prepare(path, new="sqlite-test", read_only=False, synchronous="full", connect=connect_stdlib)
    tamper(path, f"PRAGMA user_version={SCHEMA + 1}")
    tamper(path, "UPDATE store SET value = '0.4.0' WHERE key = 'written_by'")

    ran = subprocess.run(
        [sys.executable, "-c", _OPENS, path],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
    )

    assert re.search(r"To write it, type: \S.* install .*'backstay>=0\.4\.0'$", ran.stdout.strip())


async def test_a_database_of_another_program_is_not_upgraded(open_at: Open, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "theirs.db")) as theirs:
        theirs.execute("CREATE TABLE recipes (name)")
        theirs.execute("PRAGMA user_version=1")
    before = (tmp_path / "theirs.db").read_bytes()

    with pytest.raises(StoreUnavailable, match=r"theirs\.db"):
        await open_at("theirs.db")

    assert (tmp_path / "theirs.db").read_bytes() == before


async def test_what_is_scoured_is_not_kept_in_a_copy(open_at: Open, tmp_path: Path) -> None:
    path = unpack(tmp_path)
    (tmp_path / "other.db.before-upgrade-to-1").touch()
    store = await open_at(path.name)
    assert copy_of(path).exists()

    await store.scour()

    assert not copy_of(path).exists()
    assert (tmp_path / "other.db.before-upgrade-to-1").exists()


async def events(store: SqliteStore, session: str) -> list[object]:
    """All events of a session."""
    return [record.event for record in (await store.read(session)).records]


@tool
async def charge(amount: int) -> str:
    """Charge an amount."""
    return f"charged {amount}"
