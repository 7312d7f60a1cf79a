"""Encrypted SQLite stores: what is on the disk, where keys come from, and what is said when they do not fit."""

import os
import re
import shutil
import sqlite3
import sys
import types
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any, Unpack

import anyio
import pytest

from backstay import open_session, open_store
from backstay.logic.state.session_state import state_of
from backstay.logic.stored_content import digest
from backstay.ports import EventStore
from backstay.stores.open import default_store_url
from backstay.stores.sqlite.connection import DbError, connect_stdlib
from backstay.stores.sqlite.files import BLOB_IN_TABLE
from backstay.stores.sqlite.store import SqliteStore
from backstay.stores.trace import trace_folder
from backstay.system.installation import hint_extra
from backstay.system.machine import SystemClock
from backstay.testing.builders import recorded
from backstay.testing.store_contract import StoreContract, StoreOptions
from backstay.vocab.errors import BackstayError, BlobMissing, LeaseLost, StoreUnavailable, UserError
from backstay.vocab.event import Recorded
from backstay.vocab.events import ToolFinished
from backstay.vocab.messages import TextRef, text_of
from tests.contracts.kit import scripted
from tests.e2e.door import Door
from tests.stores.sqlite_kit import Clock, Open, begun, opening, said

cipher = pytest.importorskip("sqlcipher3.dbapi2")
pytestmark = pytest.mark.anyio

RAW, OTHER = "0f" * 32, "f0" * 32
WORDS = "my clandestine plan"


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RAW": RAW, "OTHER": OTHER, "PHRASE": 'open, sesame\'s "door"', "EMPTY": ""}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("BACKSTAY_STORE_KEY", raising=False)


@pytest.fixture
async def open_at(tmp_path: Path) -> AsyncIterator[Open]:
    async with opening(tmp_path) as opened:
        yield opened


class TestEncrypted(StoreContract):
    async def open_store(self, where: Path, **options: Unpack[StoreOptions]) -> EventStore:
        return await SqliteStore.open(where / "store.db", key="env:RAW", **options)


@pytest.mark.contract("RV-32")
@pytest.mark.parametrize("key", ["", "?key=env:RAW"])
async def test_what_a_person_types_is_in_their_store_and_readable_on_the_disk_only_without_a_key(
    tmp_path: Path, key: str
) -> None:
    url = f"sqlite://{tmp_path}/store.db{key}"
    pasted = f"{WORDS} " * 5000
    async with open_session(
        model=scripted(f"noted: {WORDS}", "x"), session_id="s1", cwd=tmp_path, store=url, name=WORDS
    ) as session:
        await session.run(WORDS)
        await session.run(pasted)
        while_open = readable(tmp_path)
    store = await open_store(url, clock=SystemClock())
    assert [hit.session for hit in await store.search("clandestine", limit=1)] == ["s1"]
    messages = state_of("s1", (await store.read("s1")).records).transcript.messages
    while_open |= readable(tmp_path)
    await store.close()

    assert text_of(messages[0].content) == WORDS
    plain = {"store.db", "store.db-wal", "s1.jsonl"}
    assert while_open & plain == (set() if key else plain)
    assert bool(while_open | readable(tmp_path)) is not bool(key)
    assert (trace_folder(store.url) is None) is bool(key)


async def test_large_blobs_and_damaged_lines_stay_inside_the_encrypted_file(open_at: Open, tmp_path: Path) -> None:
    large = WORDS.encode() * BLOB_IN_TABLE
    store = await open_at(key="env:RAW")
    lease = await begun(store)
    await store.append(lease, 1, [_cites(large, 2), said(WORDS, 3), said(WORDS, 4)], {digest(large): large})
    with closing(_unlocked(tmp_path / "store.db", RAW)) as database:
        database.execute("UPDATE events SET line = CAST(? AS BLOB) WHERE seq = 3", (f"broken {WORDS}",))
        database.commit()

    assert await store.blob(digest(large)) == large
    assert "2 lines were put aside in the table 'damaged'" in await store.repair("s1")
    with closing(_unlocked(tmp_path / "store.db", RAW)) as database:
        assert [row[:2] for row in database.execute("SELECT * FROM damaged")] == [("s1", 3), ("s1", 4)]
    with pytest.raises(LeaseLost):
        await store.append(lease, 4, [said("five", 5)])
    assert readable(tmp_path) == set()
    assert {path.name for path in tmp_path.iterdir()} <= {"store.db", "store.db-wal", "store.db-shm", "store.db.lock"}
    await store.delete("s1")
    with closing(_unlocked(tmp_path / "store.db", RAW)) as database:
        assert list(database.execute("SELECT * FROM damaged")) == []
    with pytest.raises(BlobMissing):
        await store.blob(digest(large))


@pytest.mark.parametrize("key", ["env:RAW", "env:PHRASE"])
async def test_every_sqlcipher_opens_the_file_with_the_same_key(open_at: Open, tmp_path: Path, key: str) -> None:
    store = await open_at(key=key)
    await begun(store)
    await store.close()
    with closing(cipher.connect(tmp_path / "store.db")) as database:
        text = f"x'{RAW}'" if key == "env:RAW" else os.environ["PHRASE"]
        database.execute(f"PRAGMA key='{text.replace(chr(39), chr(39) * 2)}'")
        database.execute("PRAGMA cipher_page_size=16384")
        assert list(database.execute("SELECT id FROM sessions")) == [("s1",)]

    again = await open_store(store.url, clock=Clock(), create=False)
    await again.close()

    assert (again.url, again.identity) == (store.url, store.identity)
    assert store.url == f"sqlcipher://{tmp_path}/store.db?key={key}"


@pytest.mark.parametrize(
    ("made_with", "opened_with", "complaint"),
    [
        ("env:RAW", "env:OTHER", r"The key from 'env:OTHER' does not open '.*store\.db'.*Nothing was changed"),
        ("env:RAW", "env:PHRASE", r"does not open '.*store\.db'"),
        ("env:PHRASE", "env:RAW", r"does not open '.*store\.db'"),
        ("env:RAW", "", r"'.*store\.db' is encrypted .* no key was named\..*key=env:NAME.*BACKSTAY_STORE_KEY"),
        ("", "env:RAW", r"'.*store\.db' is not encrypted, but a key was named.*sessions move"),
        ("", "env:PHRASE", "is not encrypted"),
    ],
)
@pytest.mark.parametrize("read_only", [False, True])
async def test_a_key_that_does_not_fit_is_said_and_nothing_is_changed(
    open_at: Open, tmp_path: Path, made_with: str, opened_with: str, complaint: str, read_only: bool
) -> None:
    store = await open_at(key=made_with)
    await begun(store)
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for name in ("store.db", "store.db-wal"):  # as a process that was killed leaves them
        shutil.copy(tmp_path / name, crashed)
    before = _content(crashed)

    with pytest.raises(StoreUnavailable, match=complaint) as caught:
        await open_at("crashed/store.db", key=opened_with, read_only=read_only)

    assert _content(crashed) == before
    _check_silent(str(caught.value))
    again = await open_at("crashed/store.db", key=made_with)
    assert len((await again.read("s1")).records) == 1


async def test_a_missing_package_and_one_that_cannot_encrypt_make_nothing(
    open_at: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, complaint in ((None, re.escape(hint_extra("sqlcipher"))), (sqlite3, "would write plain text")):
        monkeypatch.setitem(sys.modules, "sqlcipher3.dbapi2", module)
        with pytest.raises(BackstayError, match=complaint):
            await open_at("folder/store.db", key="env:RAW")
    assert _content(tmp_path) == {}


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("env:NOT_THERE", "'NOT_THERE'.* is not set"),
        ("env:EMPTY", "'EMPTY'.* is empty"),
        (f"env:{RAW}", "never by the key"),
        (f"env:{OTHER}", "never by the key"),
        ("env:", "never by the key"),
        ("env:two words", "never by the key"),
        (RAW, "never the key"),
        ("raw:" + RAW, "never the key"),
        ("keyring:" + RAW, "never the key"),
        ("file:", "path of a file"),
        ("file:nowhere", "cannot be read: No such file"),
        ("file:open", "mode 0640.*chmod 600"),
        ("file:folder", "is not a file"),
        ("file:pipe", "is not a file"),
        ("file:blank", "one line"),
        ("file:lines", "one line"),
        ("file:long", "one line"),
        ("file:bytes", "no text"),
    ],
)
async def test_a_source_without_a_key_is_said_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, complaint: str
) -> None:
    monkeypatch.chdir(_key_files(tmp_path / "keys"))
    with pytest.raises(UserError, match=complaint) as caught:
        await SqliteStore.open(tmp_path / "new" / "store.db", clock=Clock(), key=source)

    _check_silent(str(caught.value))
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("mode", [0o600, 0o400])
async def test_a_key_file_that_only_its_owner_reads_opens_the_store(open_at: Open, tmp_path: Path, mode: int) -> None:
    (tmp_path / "key").write_text(RAW.upper() + "\n")
    (tmp_path / "key").chmod(mode)

    store = await open_at(key=f"file:{tmp_path}/key")
    await begun(store)

    assert store.url == f"sqlcipher://{tmp_path}/store.db?key=file:{tmp_path}/key"
    with closing(_unlocked(tmp_path / "store.db", RAW)) as database:
        assert list(database.execute("SELECT id FROM sessions")) == [("s1",)]


class Ring(types.ModuleType):
    """Stands in for the package `keyring`."""

    class KeyringError(Exception):
        pass

    def __init__(self, *, keeps: bool = True, locked: bool = False) -> None:
        super().__init__("keyring")
        self.errors = types.SimpleNamespace(KeyringError=self.KeyringError)
        self.kept: dict[tuple[str, str], str] = {}
        self._keeps, self._locked = keeps, locked

    def get_keyring(self) -> object:
        return self

    def get_password(self, service: str, name: str) -> str | None:
        if self._locked:
            raise self.KeyringError("locked")
        return self.kept.get((service, name))

    def set_password(self, service: str, name: str, password: str) -> None:
        if self._keeps:
            self.kept[service, name] = password


@pytest.fixture
def ring(monkeypatch: pytest.MonkeyPatch) -> Ring:
    found: Ring = _installed(Ring(), monkeypatch)
    return found


async def test_a_keyring_gets_a_raw_key_at_first_use_and_opens_the_store_again(
    open_at: Open, tmp_path: Path, ring: Ring
) -> None:
    store = await open_at(key="keyring")
    await begun(store)
    await store.close()
    again = await open_at(key="keyring")

    assert len((await again.read("s1")).records) == 1
    ((name, key),) = ring.kept.items()
    assert name == ("backstay", f"{tmp_path}/store.db")
    assert len(bytes.fromhex(key)) == 32
    assert again.url == f"sqlcipher://{tmp_path}/store.db?key=keyring"


async def test_a_keyring_that_lost_the_key_makes_no_other_for_what_is_stored(open_at: Open, ring: Ring) -> None:
    store = await open_at(key="keyring")
    await begun(store)
    await store.close()
    ring.kept.clear()

    with pytest.raises(UserError, match=r"holds no key for .*keyring get backstay OLD_PATH"):
        await open_at(key="keyring")
    assert ring.kept == {}


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        (Ring(keeps=False), "did not keep the key"),
        (Ring(locked=True), "does not answer: KeyringError"),
        (None, re.escape(hint_extra("keyring"))),
    ],
)
async def test_a_keyring_that_cannot_be_trusted_with_a_key_makes_no_store(
    open_at: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: Ring | None, complaint: str
) -> None:
    _installed(broken, monkeypatch)
    with pytest.raises(BackstayError, match=complaint):
        await open_at(key="keyring")
    assert not (tmp_path / "store.db").exists()


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://{0}/x.db?key={1}",
        "sqlite://{0}/x.db?key=env:{1}",
        "sqlite://{0}/x.db?kye={1}",
        "sqlite://{0}/x.db?KEY=env:RAW",
        "sqlite://{0}/x.db? key=env:RAW",
        "sqlite://{0}/x.db?key",
        "sqlite://{0}/x.db?key=",
        "sqlite://{0}/x.db?key=env:RAW&key=env:OTHER",
        "sqlite://{0}/x.db?key=env:RAW&cipher={1}",
        "sqlite://{0}/x.db?synchronous=off",
        "sqlite://{0}/x.db&key={1}",
        "sqlite://{0}/x.db#key={1}",
        "sqlite://?key={1}",
        "sqlcipher://{0}/x.db",
        "sqlcipher://{0}/x.db?synchronous=normal",
        "memory:?key={1}",
        "sqlit://{0}/x.db?key={1}",
    ],
)
async def test_an_address_that_may_have_meant_a_key_makes_no_plain_store_and_is_not_repeated(
    tmp_path: Path, url: str
) -> None:
    with pytest.raises(UserError) as caught:
        await open_store(url.format(tmp_path, RAW), clock=Clock())

    _check_silent(str(caught.value))
    assert _content(tmp_path) == {}


async def test_options_may_stand_together_and_a_question_mark_may_be_part_of_a_name(tmp_path: Path) -> None:
    for url in (f"sqlcipher://{tmp_path}/a.db?key=env:RAW&synchronous=normal", f"sqlite://{tmp_path}/wh?t/b.db"):
        store = await open_store(url, clock=Clock())
        await store.close()
        assert store.url == url


async def test_one_file_is_not_opened_with_and_without_a_key_at_once(open_at: Open, tmp_path: Path) -> None:
    for name, first, second in (("a.db", "env:RAW", ""), ("b.db", "", "env:RAW")):
        store = await open_at(name, key=first)
        await begun(store)
        with pytest.raises(StoreUnavailable, match="is open in this process with"):
            await open_at(name, key=second)
    with pytest.raises(DbError, match="another SQLite library"):
        connect_stdlib(str(tmp_path / "a.db"), "read")


_ELSEWHERE = """
import anyio, sys
from backstay.stores.sqlite.store import SqliteStore
from tests.stores.sqlite_kit import Clock, begun

async def main():
    store = await SqliteStore.open(sys.argv[1], clock=Clock(), key=sys.argv[2])
    await begun(store, "elsewhere")
    await store.close()

anyio.run(main)
"""


@pytest.mark.parametrize("key", ["", "env:RAW"])
async def test_opening_a_store_twice_in_a_process_takes_no_locks_from_the_first(
    open_at: Open, tmp_path: Path, key: str
) -> None:
    store = await open_at(key=key)
    lease = await begun(store)
    await (await open_at(key=key)).close()

    await anyio.run_process(
        [sys.executable, "-c", _ELSEWHERE, str(tmp_path / "store.db"), key],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )

    assert (tmp_path / "store.db-wal").exists()  # the other process was not the last to close
    await store.append(lease, 1, [said("two", 2)])
    assert await store.verify("s1") == await store.verify("elsewhere") == ()


def test_the_usual_store_is_encrypted_when_its_variable_is_set_and_nothing_tells_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = _door(tmp_path, monkeypatch)
    model = door.script({"text": "noted"}, {"text": "again"})
    monkeypatch.setenv("BACKSTAY_STORE_KEY", RAW)

    ran = [door.run("-p", WORDS, "--model", model, "--session-id", "s1", "--output-format", "stream-json")]
    ran.append(door.run("-p", "more", "-r", "s1"))
    for words in ("sessions show s1", "sessions list --json", "sessions verify", "log show s1", "log validate s1"):
        ran.append(door.run(*words.split()))

    assert [each.code for each in ran] == [0] * 7
    assert WORDS in ran[2].out
    assert "noted" in ran[2].out
    assert readable(door.folder / "data") == set()
    assert not list((door.folder / "data").glob("*.trace"))
    _check_silent("".join(each.out + each.err for each in ran))
    before = _content(door.folder / "data")
    for value, complaint in ((None, "no key was named"), (OTHER, "does not open"), ("", "is empty")):
        monkeypatch.delenv("BACKSTAY_STORE_KEY") if value is None else monkeypatch.setenv("BACKSTAY_STORE_KEY", value)
        refused = door.spawn("sessions", "list")
        assert (refused.code, refused.out, refused.err.count("\n")) == (1, "", 1)
        assert complaint in refused.err
        _check_silent(refused.err)
    assert _content(door.folder / "data") == before


def test_sessions_move_into_an_encrypted_store_and_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    door = _door(tmp_path, monkeypatch)
    sealed, plain = f"sqlite://{tmp_path}/sealed/s.db?key=env:PHRASE", f"sqlite://{tmp_path}/plain/p.db"
    door.run("-p", WORDS, "--model", door.script({"text": "noted"}), "--session-id", "s1")
    shown = door.run("log", "show", "s1").out

    assert door.run("sessions", "move", "s1", sealed).code == 0
    assert door.run("--store", sealed, "log", "show", "s1").out.startswith(shown)
    assert door.run("--store", sealed, "sessions", "verify").out == "s1  ok\n"
    assert readable(tmp_path / "sealed") == set()
    assert not (door.folder / "data/sessions.db.trace/s1.jsonl").exists()
    assert door.run("--store", sealed, "sessions", "move", "s1", plain).code == 0
    assert door.run("--store", plain, "log", "show", "s1").out.startswith(shown)
    assert door.run("--store", plain, "sessions", "verify").out == "s1  ok\n"


@pytest.mark.parametrize("variable", ["BACKSTAY_DATA_DIR", "XDG_DATA_HOME", "HOME"])
async def test_the_variable_counts_for_the_usual_store_only_wherever_that_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    for name in ("BACKSTAY_DATA_DIR", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(tmp_path / "there"))
    for value, source in ((RAW, "env:BACKSTAY_STORE_KEY"), ("env:RAW", "env:RAW")):
        monkeypatch.setenv("BACKSTAY_STORE_KEY", value)
        usual = await open_store(default_store_url(), clock=Clock())
        await usual.close()
        assert usual.url.endswith(f"sessions.db?key={source}")
    other = await open_store(f"sqlite://{tmp_path}/other.db", clock=Clock())
    await other.close()
    assert other.url == f"sqlite://{tmp_path}/other.db"


def readable(folder: Path) -> set[str]:
    """The names of the files in which what was typed can be read."""
    return {name.rpartition("/")[2] for name, content in _content(folder).items() if b"clandestine" in content}


def _content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _check_silent(text: str) -> None:
    assert not any(secret in text for secret in (RAW, OTHER, "sesame", RAW.upper()))


def _unlocked(path: Path, key: str) -> Any:  # Any: the library has no types
    database = cipher.connect(path)
    database.execute(f"PRAGMA key=\"x'{key}'\"")
    database.execute("PRAGMA cipher_page_size=16384")
    return database


def _cites(content: bytes, seq: int) -> Recorded:
    text = TextRef(sha256=digest(content), chars=len(content), tokens=1)
    return recorded(ToolFinished(call="c", outcome="ok", content=(text,)), seq)


def _key_files(folder: Path) -> Path:
    (folder / "folder").mkdir(mode=0o700, parents=True)
    os.mkfifo(folder / "pipe", 0o600)
    contents = {"open": RAW, "blank": " \n", "lines": f"{RAW}\n{RAW}\n", "long": RAW * 100, "bytes": "\udcff" + RAW}
    for name, content in contents.items():
        (folder / name).write_bytes(content.encode("utf-8", "surrogateescape"))
        (folder / name).chmod(0o640 if name == "open" else 0o600)
    return folder


def _installed(ring: Ring | None, monkeypatch: pytest.MonkeyPatch) -> Any:  # Any: the ring, or nothing that is used
    monkeypatch.setitem(sys.modules, "keyring", ring)
    monkeypatch.setitem(sys.modules, "keyring.errors", ring and ring.errors)
    return ring


def _door(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Door:
    monkeypatch.setenv("BACKSTAY_DATA_DIR", str(folder / "data"))
    monkeypatch.setenv("BACKSTAY_CONFIG_DIR", str(folder / "config"))
    return Door(folder)
