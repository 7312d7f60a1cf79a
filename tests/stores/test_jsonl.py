"""The JSONL store beyond the contract: its files, what it knows, and who may write when somebody was stopped."""

import json
import signal
from pathlib import Path

import pytest

from holdfast.ports import LogSlice, SessionQuery
from holdfast.stores.blobs import BlobFolder
from holdfast.stores.jsonl_append import Pen, begin
from holdfast.stores.jsonl_claims import Claims, Owners, holds
from holdfast.stores.jsonl_known import Knowledge
from holdfast.stores.jsonl_lines import seal_batch
from holdfast.stores.jsonl_upkeep import Upkeep
from holdfast.testing.builders import START
from holdfast.testing.store_examples import StepClock, opening, owner, say
from holdfast.vocab.errors import LeaseLost, SeqConflict, StoreError, StoreUnavailable
from holdfast.vocab.specs import Lease
from tests.stores.jsonl_kit import jsonl, python, seqs, stop

pytestmark = pytest.mark.anyio

WRITER = """
import sys, anyio
from holdfast.runtime.clock import SystemClock
from holdfast.stores.jsonl import JsonlStore
from holdfast.stores.owners import this_process
from holdfast.testing.store_examples import opening, say
from holdfast.vocab.errors import LeaseLost

async def main(root, session):
    store = await JsonlStore.open(root, clock=SystemClock())
    lease = await store.lease(session, this_process())
    await store.append(lease, 0, opening(session))
    print(1, flush=True)
    seq = 1
    while True:
        await store.append(lease, seq, (say("a", seq + 1), say("b", seq + 2)))
        seq += 2
        print(seq, flush=True)

try:
    anyio.run(main, *sys.argv[1:])
except LeaseLost:
    print("lost", flush=True)
"""


def parts(root: Path) -> tuple[Knowledge, Claims, Pen]:
    """The inner parts of a store, to be stopped between two steps."""
    knowledge = Knowledge(root / "sessions", root / "cache")
    claims = Claims(Owners(root / "owners"), lambda _: True, StepClock().now)
    return knowledge, claims, Pen(knowledge, claims, BlobFolder(root / "blobs"))


def test_a_write_of_a_stopped_process_counts_as_a_whole_or_not_at_all_wherever_it_falls(tmp_path: Path) -> None:
    batch = (say("b", 2), say("c", 3))
    late = seal_batch(batch)
    line = late.index(b"\n") + 1
    for step in ("before the claim", "before the measuring", "after it"):
        for length in (0, 1, line - 1, line, line + 1, len(late) - 1, len(late)):
            knowledge, claims, pen = parts(tmp_path)
            session = f"{step.split()[-1]}-{length}"
            first = pen.take(session, owner(), 0)
            pen.append(first, 0, opening(session), {})
            folder = knowledge.folder(session)
            old = folder / "00000001.jsonl"
            if step == "before the claim":
                old.write_bytes(old.read_bytes() + late[:length])
            claim = claims.take(folder, owner("two"), 0)
            if step == "before the measuring":
                old.write_bytes(old.read_bytes() + late[:length])
            begin(folder, claim)
            if step == "after it":
                old.write_bytes(old.read_bytes() + late[:length])
            with pytest.raises(LeaseLost):
                pen.append(first, 1, batch, {})
            found = knowledge.look(session, trust=False).reading
            counts = step != "after it" and length == len(late)
            assert found.records == opening(session) + (batch if counts else ())
            assert found.flaw is None
            assert sum(found.ignored.values()) == (0 if counts else length)


async def test_the_bytes_of_a_stopped_writer_are_ignored_and_reported(tmp_path: Path) -> None:
    async with jsonl(tmp_path, dead=["one"]) as store:
        first = await store.lease("s1", owner())
        await store.append(first, 0, opening("s1"))
        second = await store.lease("s1", owner("two"))
        old = tmp_path / "sessions/s1/00000001.jsonl"
        old.write_bytes(old.read_bytes() + seal_batch((say("too late", 2),)))
        await store.append(second, 1, (say("in time", 2),))
        found = await store.read("s1")
        assert found.records == (*opening("s1"), say("in time", 2))
        assert found.trouble is not None
        assert (found.trouble.kind, found.trouble.seq) == ("torn", 2)
        assert found.notes == (found.trouble.detail,)
        assert "00000001.jsonl" in found.trouble.detail
        assert await store.search("late") == ()


async def test_a_process_that_was_stopped_and_goes_on_loses_the_lease_and_no_acknowledged_event(tmp_path: Path) -> None:
    for round_ in range(2):
        session = f"s{round_}"
        with python(WRITER, str(tmp_path), session) as process:
            assert process.stdout is not None
            acknowledged = [process.stdout.readline() for _ in range(5)]
            stop(process)
            async with jsonl(tmp_path) as store:
                holder = await store.holder(session)
                assert holder is not None
            async with jsonl(tmp_path, dead=[holder.owner.id]) as store:
                lease = await store.lease(session, owner())
                seq = (await store.read(session)).records[-1].seq
                process.send_signal(signal.SIGCONT)
                *more, last = process.stdout.read().split()
                acknowledged += more
                assert last == "lost"
                assert int(acknowledged[-1]) <= seq
                await store.append(lease, seq, (say("mine", seq + 1),))
                assert seqs((await store.read(session)).records) == list(range(1, seq + 2))


async def test_a_killed_process_loses_no_acknowledged_event(tmp_path: Path) -> None:
    for round_ in range(3):
        session = f"s{round_}"
        with python(WRITER, str(tmp_path), session) as process:
            assert process.stdout is not None
            for _ in range(3 + round_):
                process.stdout.readline()
            process.kill()
            acknowledged = process.stdout.read().split()
        async with jsonl(tmp_path) as store:
            found = (await store.read(session)).records
            assert len(found) >= int(acknowledged[-1] if acknowledged else 5)
            assert len(found) % 2 == 1
            assert seqs(found) == list(range(1, len(found) + 1))


async def test_two_openings_with_one_lease_never_write_the_same_place(tmp_path: Path) -> None:
    async with jsonl(tmp_path) as one, jsonl(tmp_path) as two:
        lease = await one.lease("s1", owner())
        await one.append(lease, 0, opening("s1"))
        await two.append(lease, 1, (say("two", 2),))
        with pytest.raises(SeqConflict):
            await one.append(lease, 1, (say("one", 2),))
        await one.append(lease, 2, (say("one", 3),))
        assert (await two.read("s1")).records == (*opening("s1"), say("two", 2), say("one", 3))


def test_a_writer_that_is_overtaken_while_it_syncs_does_not_acknowledge(tmp_path: Path) -> None:
    knowledge, claims, pen = parts(tmp_path)
    lease = pen.take("s1", owner(), 0)
    pen.append(lease, 0, opening("s1"), {})

    def overtake(_: int) -> None:
        pen.take("s1", owner("two"), 0)

    overtaken = Pen(knowledge, claims, BlobFolder(tmp_path / "blobs"), sync=overtake)
    with pytest.raises(LeaseLost):
        overtaken.append(lease, 1, (say("late", 2),), {})
    found = knowledge.look("s1", trust=False).reading
    assert (found.records, found.flaw) == ((*opening("s1"), say("late", 2)), None)


def test_a_claim_so_slow_that_its_token_was_used_and_removed_gets_another(tmp_path: Path) -> None:
    knowledge, claims, pen = parts(tmp_path)
    folder = knowledge.folder("s1")
    pen.append(pen.take("s1", owner(), 0), 0, opening("s1"), {})
    moments = iter(("the heartbeat", "the expiry", "the claim"))

    def slow() -> int:
        if next(moments, "") == "the claim":
            pen.take("s1", owner("two"), 0)
            Upkeep(knowledge, claims, BlobFolder(tmp_path / "blobs")).delete("s1")
        return START

    late = Claims(Owners(tmp_path / "owners"), lambda _: False, slow).take(folder, owner("late"), 0)
    assert late.segment == 4
    assert not holds(folder, Lease(session="s1", token=2, owner=owner("late"), since=START))


def test_after_a_failed_sync_a_lease_takes_no_more_writes(tmp_path: Path) -> None:
    def fail(_: int) -> None:
        raise OSError(5, "the disk is dying")

    knowledge, claims, pen = parts(tmp_path)
    lease = pen.take("s1", owner(), 0)
    pen.append(lease, 0, opening("s1"), {})
    failing = Pen(knowledge, claims, BlobFolder(tmp_path / "blobs"), sync=fail)
    with pytest.raises(OSError, match="dying"):
        failing.append(lease, 1, (say("unknown", 2),), {})
    with pytest.raises(StoreUnavailable, match="Open it again"):
        failing.append(lease, 1, (say("unknown", 2),), {})
    assert pen.take("s1", owner("two"), 0).token == 2


async def test_each_line_is_json_and_everything_is_private(tmp_path: Path) -> None:
    async with jsonl(tmp_path / "new" / "store") as store:
        lease = await store.lease("s1", owner())
        await store.append(lease, 0, opening("s1", "x", "y"), {})
        await store.list()
        lines = (tmp_path / "new/store/sessions/s1/00000001.jsonl").read_bytes().splitlines()
        assert [json.loads(line).get("seq") for line in lines] == [None, None, 1, 2, 3]
        modes = {path: path.stat().st_mode & 0o777 for path in (tmp_path / "new").rglob("*")}
        assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
        assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}


async def test_the_cache_may_be_deleted_damaged_or_of_another_time(tmp_path: Path) -> None:
    cache = tmp_path / "cache" / "sessions.msgpack"
    async with jsonl(tmp_path) as store:
        lease = await store.lease("s1", owner())
        await store.append(lease, 0, opening("s1", "x"))
        old = await store.list()
        stale = cache.read_bytes()
        await store.append(lease, 2, (say("y", 3),))
        now = await store.list()
    assert now != old
    for content in (None, b"", b"nonsense", stale, stale[:-1]):
        cache.unlink(missing_ok=True)
        if content is not None:
            cache.write_bytes(content)
        async with jsonl(tmp_path) as store:
            assert await store.list() == now
            assert (await store.read("s1", 2)).records == (say("y", 3),)


async def test_a_list_is_right_when_another_process_wrote_deleted_or_took_over(tmp_path: Path) -> None:
    async with jsonl(tmp_path) as one, jsonl(tmp_path) as two:
        lease = await one.lease("s1", owner())
        for step in range(3):
            await one.append(lease, step, (opening("s1", "x", "y")[step],))
            assert [meta.seq for meta in await two.list(SessionQuery())] == [step + 1]
            await one.release(lease)
            lease = await one.lease("s1", owner())
            assert [meta.seq for meta in await two.list(SessionQuery())] == [step + 1]
        await one.delete("s1")
        assert await two.list() == ()
        lease = await one.lease("s1", owner())
        assert await two.list() == ()
        await one.append(lease, 0, opening("s1", "new"))
        assert [meta.prompt for meta in await two.list()] == ["new"]
        assert await two.read("s1") == LogSlice(records=opening("s1", "new"))


async def test_a_deleted_session_leaves_only_its_name(tmp_path: Path) -> None:
    async with jsonl(tmp_path) as store:
        lease = await store.lease("s1", owner())
        await store.append(lease, 0, opening("s1", "secret"))
        await store.release(lease)
        await store.lease("s1", owner())
        await store.delete("s1")
        left = [path for path in tmp_path.rglob("*") if path.is_file() and b"secret" in path.read_bytes()]
        assert left == []
        assert sorted(path.name for path in (tmp_path / "sessions/s1").iterdir()) == ["00000003.jsonl"]


async def test_a_deletion_that_was_cut_short_stays_a_deletion(tmp_path: Path) -> None:
    async with jsonl(tmp_path) as store:
        lease = await store.lease("s1", owner())
        await store.append(lease, 0, opening("s1", "old"))
        segment = tmp_path / "sessions/s1/00000001.jsonl"
        content = segment.read_bytes()
        await store.delete("s1")
        segment.write_bytes(content)
        assert await store.list() == ()
        with pytest.raises(StoreError):
            await store.append(lease, 2, (say("late", 3),))
        lease = await store.lease("s1", owner("two"))
        await store.append(lease, 0, opening("s1", "new"))
        assert await store.read("s1") == LogSlice(records=opening("s1", "new"))
