"""Reading what is damaged, newer or read-only; checking, mending and deleting; blobs and snapshots."""

import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import cast

import anyio
import anyio.from_thread
import pytest

from backstay.logic.stored_content import digest
from backstay.ports import FoldSnapshot, SessionQuery
from backstay.stores.sqlite.connection import Access, Db, Row, Value, connect_stdlib
from backstay.stores.sqlite.files import BLOB_IN_TABLE, check_local
from backstay.stores.sqlite.store import SqliteStore
from backstay.testing.builders import conversation, recorded
from backstay.vocab.errors import (
    BlobMissing,
    LeaseLost,
    LogDamaged,
    NeedsUpgrade,
    NoSession,
    SeqConflict,
    SessionBusy,
    StoreReadOnly,
    StoreUnavailable,
    UserError,
)
from backstay.vocab.event import Recorded
from backstay.vocab.events import ToolFinished
from backstay.vocab.messages import TextRef
from tests.stores.sqlite_kit import Clock, Open, Taps, beginning, begun, opening, owner, peek, said, tamper

pytestmark = pytest.mark.anyio

SMALL, LARGE = b"small" * 10_000, b"l" * (BLOB_IN_TABLE + 1)


@pytest.fixture
async def open_at(tmp_path: Path) -> AsyncIterator[Open]:
    """Open stores in the test's folder that are closed at its end."""
    async with opening(tmp_path) as opened:
        yield opened


async def test_a_line_that_is_no_event_ends_the_reading_with_what_stands_before_it(
    open_at: Open, tmp_path: Path
) -> None:
    store = await open_at()
    lease = await begun(store)
    await store.append(lease, 1, [said("two", 2), said("three", 3), said("four", 4)])
    tamper(tmp_path / "store.db", "UPDATE events SET line = x'7b22' WHERE seq = 3")

    found = await store.read("s1")

    assert found.records == (beginning("s1"), said("two", 2))
    assert found.trouble is not None
    assert (found.trouble.kind, found.trouble.seq) == ("damaged", 2)


async def test_an_event_of_a_newer_version_ends_the_reading_and_is_no_damage(open_at: Open, tmp_path: Path) -> None:
    store = await open_at()
    lease = await begun(store)
    await store.append(lease, 1, [said("two", 2)])
    line = '{"seq":2,"id":"t0.2","at":1,"by":"user","type":"dream_dreamt","v":1,"data":{}}'
    tamper(tmp_path / "store.db", "UPDATE events SET line = CAST(? AS BLOB) WHERE seq = 2", (line,))

    found = await store.read("s1")

    assert found.records == (beginning("s1"),)
    assert found.trouble is not None
    assert (found.trouble.kind, found.trouble.seq) == ("newer", 1)
    with pytest.raises(NeedsUpgrade, match="not damaged"):
        await store.repair("s1")


async def test_a_missing_line_is_damage(open_at: Open, tmp_path: Path) -> None:
    store = await open_at()
    lease = await begun(store)
    await store.append(lease, 1, [said("two", 2), said("three", 3)])
    tamper(tmp_path / "store.db", "DELETE FROM events WHERE seq = 2")

    found = await store.read("s1")

    assert found.records == (beginning("s1"),)
    assert found.trouble is not None
    assert found.trouble.kind == "damaged"
    assert await store.verify("s1") == ("Event 2 cannot be read: Event 2 is missing: 3 stands at 3.",)


async def test_a_damaged_page_is_an_error_that_names_the_file(open_at: Open, tmp_path: Path) -> None:
    store = await open_at()
    lease = await begun(store)
    await store.append(lease, 1, [said(f"mark {seq} " + "x" * 5000, seq) for seq in range(2, 30)])
    await store.close()
    content = bytearray((tmp_path / "store.db").read_bytes())
    page = content.index(b"mark 15") // 16384 * 16384
    content[page : page + 16] = b"\xff" * 16
    (tmp_path / "store.db").write_bytes(content)
    store = await open_at()

    with pytest.raises(LogDamaged, match=r"store\.db"):
        await store.read("s1")
    assert "store.db" in (await store.verify("s1"))[0]
    assert [meta.id for meta in await store.list()] == ["s1"]


async def test_damaged_metadata_never_hides_a_session_or_the_others(open_at: Open, tmp_path: Path) -> None:
    store = await open_at()
    await begun(store, "s1")
    lease = await begun(store, "s2")
    await store.release(lease)
    tamper(tmp_path / "store.db", "UPDATE sessions SET meta = x'00' WHERE id = 's2'")

    assert {meta.id for meta in await store.list(SessionQuery())} == {"s1", "s2"}
    assert not (await store.meta("s2")).empty  # nobody knows
    lease = await store.lease("s2", owner("o2"))
    with pytest.raises(LogDamaged, match="repair s2"):
        await store.append(lease, 1, [said("two", 2)])
    assert "rebuilt" in await store.repair("s2")
    assert await store.verify("s2") == ()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("UPDATE events SET line = x'00' WHERE seq = 2", "Event 2 cannot be read"),
        ("UPDATE events SET line = (SELECT line FROM events WHERE seq = 2) WHERE seq = 3", "Event 3 cannot be read"),
        ("UPDATE events SET line = replace(CAST(line AS TEXT), 't0.3', 't0.2') WHERE seq = 3", "the id 't0.2'"),
        ("DELETE FROM events WHERE seq = 3", "ends at 2, but 3 events"),
        ("DELETE FROM events", "ends at 0, but 3 events"),
        ("UPDATE blobs SET content = x'00'", "altered"),
        ("DELETE FROM blobs", "not in this store"),
        ("UPDATE sessions SET meta = replace(CAST(meta AS TEXT), 'scripted:test', 'other')", "metadata"),
    ],
)
async def test_verify_names_what_is_wrong(open_at: Open, tmp_path: Path, change: str, complaint: str) -> None:
    store = await open_at()
    lease = await begun(store)
    await store.append(lease, 1, [said("two", 2), cites(SMALL, 3)], {digest(SMALL): SMALL})
    assert await store.verify("s1") == ()
    tamper(tmp_path / "store.db", change)

    found = await store.verify("s1")

    assert len(found) == 1
    assert complaint in found[0]
    with pytest.raises(NoSession):
        await store.verify("s2")


class Meddled:
    """A connection during whose first look at the metadata something else happens."""

    def __init__(self, inner: Db, meddle: Callable[[], None]) -> None:
        self._inner = inner
        self._meddle = meddle

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def execute(self, sql: str, args: Sequence[Value] = ()) -> list[Row]:
        if sql.startswith("SELECT id, seq"):
            self._meddle()
        return self._inner.execute(sql, args)


async def test_a_session_verifies_clean_while_it_is_written(open_at: Open, tmp_path: Path) -> None:
    writer = await open_at()
    lease = await begun(writer)

    def append() -> None:
        seq = anyio.from_thread.run(writer.meta, "s1").seq
        anyio.from_thread.run(writer.append, lease, seq, [said("more", seq + 1)])

    def connect(path: str, access: Access) -> Db:
        return cast(Db, Meddled(connect_stdlib(path, access), append))

    looker = await open_at(connect=connect)

    for _ in range(3):
        assert await looker.verify("s1") == ()
    assert (await writer.meta("s1")).seq == 4


async def test_repair_keeps_the_prefix_puts_the_rest_aside_and_makes_the_log_writable(
    open_at: Open, tmp_path: Path
) -> None:
    store = await open_at()
    lease = await begun(store)
    await store.append(lease, 1, [said("two", 2), said("three", 3), said("needle", 4)])
    await store.search("needle")
    await store.keep_snapshot("s1", FoldSnapshot(tip="t0.4", seq=4, digest="d", content=b"c"))
    tamper(tmp_path / "store.db", "UPDATE events SET line = CAST('broken' AS BLOB) WHERE seq = 3")

    said_so = await store.repair("s1")

    aside = tmp_path / "store.db.damaged" / "s1-3.jsonl"
    assert str(aside) in said_so
    assert [line[:6] for line in aside.read_bytes().splitlines()] == [b"broken", b'{"seq"']
    assert await store.verify("s1") == ()
    assert await store.search("needle") == ()
    assert peek(tmp_path / "store.db", "SELECT rowid FROM words WHERE words MATCH 'needle'") == []
    assert await store.snapshot("s1", "d") is None
    with pytest.raises(LeaseLost):
        await store.append(lease, 4, [said("five", 5)])
    lease = await store.lease("s1", owner("o2"))
    await store.append(lease, 2, [said("third again, needle", 3, nonce="t1")])
    assert [hit.seq for hit in await store.search("needle")] == [3]
    assert "no repair" in await store.repair("s1")
    await store.delete("s1")
    assert not aside.exists()


async def test_a_deleted_session_leaves_nothing_that_no_other_needs(open_at: Open, tmp_path: Path) -> None:
    store = await open_at()
    shared = b"shared" * 400_000
    for session in ("s1", "s2"):
        lease = await begun(store, session)
        blobs = {digest(shared): shared} | ({digest(SMALL): SMALL, digest(LARGE): LARGE} if session == "s1" else {})
        await store.append(lease, 1, [cites(content, n) for n, content in enumerate(blobs.values(), 2)], blobs)
        await store.keep_snapshot(session, FoldSnapshot(tip="t", seq=2, digest="d", content=b"c"))
    await store.search("anything")

    await store.delete("s1")
    await store.delete("s1")

    assert [meta.id for meta in await store.list()] == ["s2"]
    assert await store.blob(digest(shared)) == shared
    for gone in (SMALL, LARGE):
        with pytest.raises(BlobMissing):
            await store.blob(digest(gone))
    assert [path.name for path in (tmp_path / "store.db.blobs").rglob("*") if path.is_file()] == [digest(shared)]
    counts = {
        table: peek(tmp_path / "store.db", f"SELECT count(*) FROM {table}")[0][0]
        for table in ("sessions", "events", "blobs", "refs", "snapshots")
    }
    assert counts == {"sessions": 1, "events": 2, "blobs": 0, "refs": 1, "snapshots": 1}
    assert await store.verify("s2") == ()


async def test_an_append_that_is_refused_leaves_no_file_behind_unless_others_need_it(
    open_at: Open, tmp_path: Path
) -> None:
    store = await open_at()
    other = LARGE + b"!"
    holder = await begun(store, "s1")
    await store.append(holder, 1, [cites(LARGE, 2)], {digest(LARGE): LARGE})

    with pytest.raises(SeqConflict):
        await store.append(holder, 7, [cites(LARGE, 8)], {digest(LARGE): LARGE, digest(other): other})

    assert [path.name for path in (tmp_path / "store.db.blobs").rglob("*") if path.is_file()] == [digest(LARGE)]
    assert await store.blob(digest(LARGE)) == LARGE


async def test_the_holder_of_a_deleted_session_cannot_write_into_a_new_one_of_its_name(open_at: Open) -> None:
    store = await open_at()
    old = await begun(store)
    await store.delete("s1")
    with pytest.raises(LeaseLost, match="deleted"):
        await store.append(old, 1, [said("two", 2)])

    new = await store.lease("s1", owner("o2"))

    with pytest.raises(LeaseLost):
        await store.append(old, 0, [beginning("s1")])
    await store.append(new, 0, [beginning("s1")])


async def test_a_large_blob_that_is_swept_up_meanwhile_is_written_again_with_the_event(
    open_at: Open, tmp_path: Path
) -> None:
    taps = Taps()
    store = await open_at(connect=taps.connect)
    lease = await begun(store)
    taps.gate.clear()
    taps.waiting.clear()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(store.append, lease, 1, [cites(LARGE, 2)], {digest(LARGE): LARGE})
        await anyio.to_thread.run_sync(taps.waiting.wait)
        (tmp_path / "store.db.blobs" / digest(LARGE)[:2] / digest(LARGE)).unlink()
        taps.gate.set()

    assert await store.blob(digest(LARGE)) == LARGE


@pytest.mark.parametrize("content", [SMALL, LARGE])
async def test_an_altered_blob_is_written_again_with_the_same_content(
    open_at: Open, tmp_path: Path, content: bytes
) -> None:
    store, sha = await open_at(), digest(content)
    lease = await begun(store)
    await store.append(lease, 1, [cites(content, 2)], {sha: content})
    if content is LARGE:
        (tmp_path / "store.db.blobs" / sha[:2] / sha).write_bytes(bytes(len(content)))
    else:
        tamper(tmp_path / "store.db", "UPDATE blobs SET content = zeroblob(length(content))")
    with pytest.raises(BlobMissing, match="altered"):
        await store.blob(sha)

    await store.append(lease, 2, [cites(content, 3)], {sha: content})

    assert await store.blob(sha) == content
    assert await store.verify("s1") == ()


@pytest.mark.parametrize("name", ["", "zz", "../../etc/passwd", "A" * 64, digest(b"never stored")])
async def test_a_name_that_no_blob_has_is_a_missing_blob(open_at: Open, name: str) -> None:
    store = await open_at()

    with pytest.raises(BlobMissing):
        await store.blob(name)


async def test_bytes_that_do_not_have_their_hash_are_refused(open_at: Open) -> None:
    store = await open_at()
    lease = await begun(store)

    with pytest.raises(UserError, match="not the SHA-256"):
        await store.append(lease, 1, [], {digest(b"one"): b"other"})


async def test_the_busy_message_says_who_and_since_when(open_at: Open) -> None:
    clock = Clock()
    store = await open_at(clock=clock)
    await store.lease("s1", owner("o1", pid=4711))

    with pytest.raises(SessionBusy, match=r"'test o1' \(pid 4711 on 'elsewhere'\) since 2026-01-01T00:00:00\+00:00"):
        await store.lease("s1", owner("o2"))

    clock.time += 15_000_000
    assert (await store.lease("s1", owner("o2"))).token == 2
    assert await store.holder("s1") is not None


async def test_a_dead_owner_is_replaced_at_once_and_forgotten(open_at: Open, tmp_path: Path) -> None:
    dead = set[str]()
    store = await open_at(is_dead=lambda each: each.id in dead)
    await store.lease("s1", owner("o1"))
    dead.add("o1")

    await store.lease("s1", owner("o2"))

    assert peek(tmp_path / "store.db", "SELECT id FROM owners") == [("o2",)]


async def test_a_store_of_a_newer_schema_opens_for_reading(open_at: Open, tmp_path: Path) -> None:
    store = await open_at()
    lease = await begun(store)
    await store.close()
    tamper(tmp_path / "store.db", "PRAGMA user_version=99")
    store = await open_at()

    assert (await store.read("s1")).records == (beginning("s1"),)
    with pytest.raises(NeedsUpgrade, match="schema 99"):
        await store.append(lease, 1, [said("two", 2)])
    await store.close()
    tamper(tmp_path / "store.db", "DROP TABLE store")
    with pytest.raises(NeedsUpgrade, match="schema 99"):
        await open_at()


async def test_a_file_that_is_no_store_is_refused_and_kept(open_at: Open, tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("dear diary " * 1000)

    for read_only in (False, True):
        with pytest.raises(LogDamaged, match=r"text\.db"):
            await open_at("text.db", read_only=read_only)
    for options in ({"create": False}, {"read_only": True}):
        with pytest.raises(StoreUnavailable, match="no store"):
            await open_at("missing.db", **options)
    assert (tmp_path / "text.db").read_text().startswith("dear diary")


@pytest.mark.parametrize("inline", [False, True])
async def test_a_store_opened_for_reading_follows_the_writer_and_writes_nothing(open_at: Open, inline: bool) -> None:
    writing = await open_at()
    lease = await begun(writing)
    reading = await open_at(read_only=True, inline=inline)
    await writing.append(lease, 1, [said("needle", 2)])

    assert len((await reading.read("s1")).records) == 2
    assert [hit.seq for hit in await reading.search("needle")] == [2]
    assert reading.identity == writing.identity
    for attempt in (reading.append(lease, 2, [said("x", 3)]), reading.lease("s2", owner()), reading.delete("s1")):
        with pytest.raises(StoreReadOnly):
            await attempt


def test_a_store_in_a_folder_that_cannot_be_written_can_be_read() -> None:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", _READ_ONLY_FOLDER, folder],
            capture_output=True,
            text=True,
            check=False,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        os.chmod(folder, 0o700)

    assert (done.stdout, done.stderr) == ("1 StoreReadOnly\n1 StoreReadOnly\n", "")


_READ_ONLY_FOLDER = """
import anyio, os, sys
from backstay.stores.sqlite.store import SqliteStore
from backstay.vocab.errors import StoreReadOnly
from tests.stores.sqlite_kit import Clock, begun, said

async def main():
    path = sys.argv[1] + "/store.db"
    store = await SqliteStore.open(path, clock=Clock())
    lease = await begun(store)
    await store.close()
    os.chmod(path, 0o444)
    os.chmod(sys.argv[1], 0o555)
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    for read_only in (True, False):
        store = await SqliteStore.open(path, clock=Clock(), read_only=read_only)
        try:
            print(len((await store.read("s1")).records), end=" ")
            await store.append(lease, 1, [said("two", 2)])
        except StoreReadOnly as exc:
            print(type(exc).__name__)
        await store.close()

anyio.run(main)
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/net/home/me/x.db", "nfs4"), ("/net/home/a b/x.db", "fuse.sshfs"), ("/net/other/x.db", ""), ("/x.db", "")],
)
def test_a_network_file_system_is_refused_with_a_hint(path: str, kind: str) -> None:
    mounts = (
        "/dev/sda / ext4 rw 0 0\nserver:/home /net/home nfs4 rw 0 0\n"
        "me@host:/ /net/home/a\\040b fuse.sshfs rw 0 0\n/dev/sdb /net/other xfs rw 0 0\n"
    )
    if not kind:
        check_local(Path(path), mounts)
        return
    with pytest.raises(StoreUnavailable, match=rf"\({kind} at .*local disk.*log export ID --format events.*log import"):
        check_local(Path(path), mounts)


async def test_the_newest_snapshot_is_kept_and_given_only_to_the_code_that_made_it(open_at: Open) -> None:
    store = await open_at()
    lease = await store.lease("s1", owner())
    await store.append(lease, 0, conversation(("Hello", "Hi.")))
    first = FoldSnapshot(tip="t0.3", seq=3, digest="code", content=b"three")
    second = FoldSnapshot(tip="t0.4", seq=4, digest="code", content=b"four")

    await store.keep_snapshot("s1", first)
    await store.keep_snapshot("s1", second)
    await store.keep_snapshot("missing", second)

    assert await store.snapshot("s1", "code") == second
    assert await store.snapshot("s1", "other code") is None
    assert await store.snapshot("missing", "code") is None


def cites(content: bytes, seq: int) -> Recorded:
    """An event that needs `content` as a blob."""
    text = TextRef(sha256=digest(content), chars=len(content), tokens=1)
    return recorded(ToolFinished(call="c", outcome="ok", content=(text,)), seq)


async def test_a_database_of_somebody_else_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE foo (bar)")
    other.commit()
    other.close()
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(StoreUnavailable, match="not a Backstay store"):
            await SqliteStore.open(path, clock=Clock(), read_only=read_only)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "foreign",
    [
        "CREATE VIEW endless AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT * FROM c",
        "CREATE TRIGGER change AFTER INSERT ON events BEGIN DELETE FROM events; END",
    ],
)
async def test_a_store_with_views_or_triggers_is_not_opened(open_at: Open, tmp_path: Path, foreign: str) -> None:
    store = await open_at()
    await begun(store)
    await store.close()
    tamper(tmp_path / "store.db", foreign)

    with pytest.raises(StoreUnavailable, match="not a Backstay store"):
        await open_at()
