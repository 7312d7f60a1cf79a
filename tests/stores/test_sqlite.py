"""What is special to the SQLite store: its file, its one writer, and what a failed commit means."""

import os
import stat
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import pytest

from backstay.logic.stored_content import digest
from backstay.stores.sqlite.connection import Db
from backstay.stores.sqlite.files import BLOB_IN_TABLE
from backstay.vocab.errors import Bug, LeaseLost, LogDamaged, SeqConflict, StoreFull, StoreUnavailable
from backstay.vocab.specs import Lease, Owner
from backstay.wire import codec
from tests.stores.sqlite_kit import Open, Taps, beginning, begun, io_error, opening, owner, peek, said, tamper

pytestmark = pytest.mark.anyio


@pytest.fixture
async def open_at(tmp_path: Path) -> AsyncIterator[Open]:
    """Open stores in the test's folder that are closed at its end."""
    async with opening(tmp_path) as opened:
        yield opened


async def test_the_file_and_what_lies_beside_it_belong_to_one_user(open_at: Open, tmp_path: Path) -> None:
    store = await open_at("new/folder/store.db")
    lease = await begun(store)
    large = b"x" * (BLOB_IN_TABLE + 1)
    await store.append(lease, 1, [], {digest(large): large})

    made = [tmp_path / "new", *(tmp_path / "new").rglob("*")]

    assert {path.name for path in made} >= {"store.db", "store.db-wal", "store.db-shm", "store.db.lock", digest(large)}
    assert {stat.S_IMODE(path.stat().st_mode) for path in made if path.is_file()} == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in made if path.is_dir()} == {0o700}


async def test_a_store_keeps_its_identity_and_its_log_when_it_is_opened_again(open_at: Open, tmp_path: Path) -> None:
    first = await open_at()
    await begun(first)
    await first.close()
    second, other = await open_at(), await open_at("other.db")

    assert second.identity == first.identity != other.identity
    assert second.url == first.url == f"sqlite://{tmp_path}/store.db"
    assert (await second.read("s1")).records == (beginning("s1"),)


async def test_the_database_has_the_shape_that_was_measured(open_at: Open, tmp_path: Path) -> None:
    store = await open_at()
    await begun(store)

    assert peek(tmp_path / "store.db", "PRAGMA journal_mode") == [("wal",)]
    assert peek(tmp_path / "store.db", "PRAGMA page_size") == [(16384,)]


@pytest.mark.parametrize(("option", "level"), [("full", 2), ("normal", 1)])
async def test_every_connection_that_writes_waits_for_the_disk_unless_told_otherwise(
    open_at: Open, option: str, level: int
) -> None:
    levels = set[int]()

    def look(db: Db) -> None:
        levels.add(db.execute("PRAGMA synchronous")[0][0])
        db.commit()

    taps = Taps()
    store = await open_at(connect=taps.connect, synchronous=option)
    taps.on_commit = look
    await begun(store)

    assert levels == {level}


async def test_appends_that_wait_together_share_a_commit_and_a_conflict_harms_only_itself(
    open_at: Open, tmp_path: Path
) -> None:
    taps = Taps()
    store = await open_at(connect=taps.connect)
    leases = [await begun(store, f"s{n}") for n in range(8)]
    stale, damaged = await begun(store, "stale"), await begun(store, "damaged")
    tamper(tmp_path / "store.db", "UPDATE sessions SET meta = x'00' WHERE id = 'damaged'")
    outcomes: dict[str, str] = {}

    async def add(lease: Lease, expected: int) -> None:
        try:
            await store.append(lease, expected, [said("more", expected + 1)])
            outcomes[lease.session] = "done"
        except (LeaseLost, SeqConflict, LogDamaged) as exc:
            outcomes[lease.session] = type(exc).__name__

    taps.gate.clear()
    taps.waiting.clear()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(store.heartbeat, owner())  # the writer takes it and stands before the gate
        await anyio.to_thread.run_sync(taps.waiting.wait)
        before = taps.commits
        for lease in leases[1:]:
            tasks.start_soon(add, lease, 1)
        tasks.start_soon(add, damaged, 1)  # found out after its events were put in
        tasks.start_soon(add, leases[0], 7)
        tasks.start_soon(add, Lease(session="stale", token=stale.token - 1, owner=stale.owner, since=0), 1)
        await anyio.wait_all_tasks_blocked()
        taps.gate.set()

    refused = {"s0": "SeqConflict", "stale": "LeaseLost", "damaged": "LogDamaged"}
    assert outcomes == refused | {f"s{n}": "done" for n in range(1, 8)}
    assert taps.commits == before + 2
    assert [len((await store.read(f"s{n}")).records) for n in range(8)] == [1] + [2] * 7
    assert len((await store.read("damaged")).records) == 1


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("reached_the_disk", [False, True])
async def test_a_failed_commit_is_looked_up_before_it_is_answered(
    open_at: Open, inline: bool, reached_the_disk: bool
) -> None:
    taps = Taps()
    store = await open_at(connect=taps.connect, inline=inline)
    lease = await begun(store)
    taps.on_commit = _failing_once(taps, reached_the_disk)

    if reached_the_disk:
        await store.append(lease, 1, [said("two", 2)])
    else:
        with pytest.raises(StoreUnavailable, match="disk I/O error"):
            await store.append(lease, 1, [said("two", 2)])
        await store.append(lease, 1, [said("two", 2)])

    await store.append(lease, 2, [said("three", 3)])
    assert (await store.read("s1")).records == (beginning("s1"), said("two", 2), said("three", 3))
    assert await store.verify("s1") == ()


@pytest.mark.parametrize("reached_the_disk", [False, True])
async def test_an_append_whose_outcome_nobody_could_find_out_may_be_tried_again(
    open_at: Open, reached_the_disk: bool
) -> None:
    taps = Taps()
    store = await open_at(connect=taps.connect)
    lease = await begun(store)

    def broken(_: Db) -> None:
        raise io_error()

    taps.on_commit, taps.on_connect = _failing_once(taps, reached_the_disk), broken
    with pytest.raises(StoreUnavailable, match="it is not known whether"):
        await store.append(lease, 1, [said("two", 2)])
    taps.on_connect = None

    await store.append(lease, 1, [said("two", 2)])

    assert (await store.read("s1")).records == (beginning("s1"), said("two", 2))
    with pytest.raises(SeqConflict):
        await store.append(lease, 1, [said("another two", 2, nonce="t1")])


@pytest.mark.parametrize("reached_the_disk", [False, True])
async def test_a_lease_whose_commit_failed_is_held_exactly_when_it_was_given(
    open_at: Open, reached_the_disk: bool
) -> None:
    taps = Taps()
    store = await open_at(connect=taps.connect)
    taps.on_commit = _failing_once(taps, reached_the_disk)

    if reached_the_disk:
        lease = await store.lease("s1", owner())
    else:
        with pytest.raises(StoreUnavailable):
            await store.lease("s1", owner())
        lease = await store.lease("s1", owner())

    assert await store.holder("s1") == lease


async def test_a_full_disk_refuses_cleanly_and_writing_goes_on_when_there_is_space(open_at: Open) -> None:
    taps, quota = Taps(), [40]
    taps.on_connect = lambda db: void(db.execute(f"PRAGMA max_page_count={quota[0]}"))
    store = await open_at(connect=taps.connect)
    lease = await begun(store)
    acknowledged = [1]

    async def fill() -> None:
        while True:
            seq = acknowledged[-1]
            await store.append(lease, seq, [said("x" * 20_000, seq + 1)])
            acknowledged.append(seq + 1)

    with pytest.raises(StoreFull, match="Free some space"):
        await fill()

    seq = acknowledged[-1]
    assert seq > 5
    assert len((await store.read("s1")).records) == (await store.meta("s1")).seq == seq
    quota[0] = 400
    await store.append(lease, seq, [said("y" * 20_000, seq + 1)])
    assert await store.verify("s1") == ()


async def test_a_batch_loses_only_the_append_that_does_not_fit(open_at: Open) -> None:
    taps = Taps()
    taps.on_connect = lambda db: void(db.execute("PRAGMA max_page_count=40"))
    store = await open_at(connect=taps.connect)
    leases = [await begun(store, f"s{n}") for n in range(3)]
    full: list[str] = []

    async def add(lease: Lease, size: int) -> None:
        try:
            await store.append(lease, 1, [said("x" * size, 2)])
        except StoreFull:
            full.append(lease.session)

    taps.gate.clear()
    taps.waiting.clear()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(store.heartbeat, owner())
        await anyio.to_thread.run_sync(taps.waiting.wait)
        for lease, size in zip(leases, (10, 1_000_000, 10), strict=True):
            tasks.start_soon(add, lease, size)
        await anyio.wait_all_tasks_blocked()
        taps.gate.set()

    assert full == ["s1"]
    assert [meta.seq for meta in sorted(await store.list(), key=lambda meta: meta.id)] == [2, 1, 2]


async def test_an_append_that_was_accepted_is_done_before_a_cancellation_takes_effect(open_at: Open) -> None:
    taps = Taps()
    store = await open_at(connect=taps.connect)
    lease = await begun(store)
    taps.gate.clear()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(store.append, lease, 1, [said("two", 2)])
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
        taps.gate.set()

    assert (await store.read("s1")).records == (beginning("s1"), said("two", 2))
    await store.append(lease, 2, [said("three", 3)])


async def test_close_finishes_what_was_accepted_and_ends_the_thread(open_at: Open, tmp_path: Path) -> None:
    store = await open_at()
    lease = await begun(store)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(store.append, lease, 1, [said("two", 2)])
        await anyio.wait_all_tasks_blocked()
        await store.close()

    assert not [thread for thread in threading.enumerate() if thread.name == "backstay-sqlite-writer"]
    assert peek(tmp_path / "store.db", "SELECT count(*) FROM events") == [(2,)]
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.append(lease, 2, [said("three", 3)])
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.read("s1")


async def test_an_event_that_cannot_be_encoded_is_refused_and_the_writer_goes_on(open_at: Open) -> None:
    store = await open_at()
    lease = await begun(store)

    with pytest.raises(Bug, match="cannot be written down"):
        await store.append(lease, 1, [said("half a pair: \ud800", 2)])

    await store.append(lease, 1, [said("whole", 2)])


async def test_an_error_that_nobody_foresaw_is_the_jobs_own_and_the_writer_lives_on(open_at: Open) -> None:
    def is_dead(who: Owner) -> bool:
        if who.id == "odd":
            raise ZeroDivisionError("an odd owner")
        return False

    taps = Taps()
    store = await open_at(connect=taps.connect, is_dead=is_dead)
    lease = await begun(store)
    await store.lease("odd", owner("odd"))
    refused: list[Bug] = []

    async def ask() -> None:
        with pytest.raises(Bug, match="an odd owner") as caught:
            await store.lease("odd", owner())
        refused.append(caught.value)

    taps.gate.clear()
    taps.waiting.clear()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(store.heartbeat, owner())
        await anyio.to_thread.run_sync(taps.waiting.wait)
        tasks.start_soon(ask)
        tasks.start_soon(store.append, lease, 1, [said("two", 2)])
        await anyio.wait_all_tasks_blocked()
        taps.gate.set()

    assert len(refused) == 1
    await store.append(lease, 2, [said("three", 3)])
    assert await store.verify("s1") == ()


async def test_the_inline_writer_needs_no_thread(open_at: Open) -> None:
    before = set(threading.enumerate())
    store = await open_at(inline=True)
    lease = await begun(store)
    await store.append(lease, 1, [said("find the needle", 2)])
    found = await store.search("needle")
    await store.release(lease)
    await store.delete("s1")

    assert [hit.seq for hit in found] == [2]
    assert await store.list() == ()
    assert set(threading.enumerate()) <= before


async def test_the_file_is_a_tenth_larger_than_the_events_and_the_search_index_adds_an_eighth(
    open_at: Open, tmp_path: Path
) -> None:
    store = await open_at(inline=True, synchronous="normal")
    leases = [await store.lease(f"s{n}", owner()) for n in range(10)]
    text = "".join(path.read_text("utf-8") for path in sorted(Path(os.__file__).parent.glob("*.py")))
    pieces = [text[start : start + 1000] for start in range(0, len(text), 1000)]
    payload = 0
    for seq in range(0, len(pieces) // 50 * 5, 5):
        for number, lease in enumerate(leases):
            start = 10 * seq + 5 * number
            records = [said(piece, seq + n) for n, piece in enumerate(pieces[start : start + 5], 1)]
            payload += sum(len(codec.encode(record)) for record in records)
            await store.append(lease, seq, records)
    await store.close()
    plain = (tmp_path / "store.db").stat().st_size
    store = await open_at(inline=True, synchronous="normal")
    await store.search("hold")
    await store.close()
    indexed = (tmp_path / "store.db").stat().st_size

    assert plain < 1.12 * payload
    assert indexed < 1.25 * payload


def test_twenty_processes_may_make_and_use_one_store_at_once(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _TWENTY, str(tmp_path / "store.db")],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert peek(tmp_path / "store.db", "SELECT count(*), count(DISTINCT session), max(seq) FROM events") == [
        (100, 20, 5)
    ]


_TWENTY = """
import anyio, os, sys
from backstay.stores.sqlite.store import SqliteStore
from tests.stores.sqlite_kit import Clock, beginning, owner, said

async def use(name):
    store = await SqliteStore.open(sys.argv[1], clock=Clock())
    lease = await store.lease(name, owner(name))
    await store.append(lease, 0, [beginning(name)])
    for seq in range(1, 5):
        await store.append(lease, seq, [said("hello", seq + 1)])
    await store.release(lease)
    await store.close()

ready, go = os.pipe()
children = []
for number in range(20):
    child = os.fork()
    if not child:
        os.close(go)
        os.read(ready, 1)
        anyio.run(use, f"s{number}")
        os._exit(0)
    children.append(child)
os.close(go)
sys.exit(any([os.waitpid(child, 0)[1] for child in children]))
"""


def _failing_once(taps: Taps, reached_the_disk: bool) -> Callable[[Db], None]:
    def fail(db: Db) -> None:
        taps.on_commit = None
        if reached_the_disk:
            db.commit()
        raise io_error()

    return fail


def void(_: object) -> None:
    """Forget a result."""
