"""The contract of stores: a suite of tests that every implementation of `EventStore` must pass.

    from backstay.testing.store_contract import StoreContract, StoreOptions

    class TestMyStore(StoreContract):
        async def open_store(self, where: Path, **options: Unpack[StoreOptions]) -> EventStore:
            return await MyStore.open(where / "my.db", **options)

It needs pytest with the plugin of anyio, and an `anyio_backend` fixture where only one backend is wanted.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar, Final, Required, TypedDict, Unpack

import anyio
import anyio.lowlevel
import pytest
from msgspec.structs import replace

from backstay.logic.state.outline import project
from backstay.logic.stored_content import digest
from backstay.ports import Clock, EventStore, FoldSnapshot, LogSlice, SessionQuery
from backstay.testing.builders import START, conversation, example_events, log, recorded, started
from backstay.vocab import events
from backstay.vocab.errors import (
    BackstayError,
    BadId,
    BlobMissing,
    LeaseLost,
    NoSession,
    SeqConflict,
    SessionBusy,
    StoreReadOnly,
    StoreUnavailable,
    UserError,
)
from backstay.vocab.event import Recorded
from backstay.vocab.messages import Text, TextRef
from backstay.vocab.specs import Lease, Owner, SessionMeta


class StoreOptions(TypedDict, total=False):
    """The options that opening a store must offer."""

    clock: Required[Clock]
    is_dead: Callable[[Owner], bool]
    read_only: bool
    create: bool


class StepClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.time = START
        self._nonces = 0

    def now(self) -> int:
        """Microseconds since 1970."""
        return self.time

    def nonce(self) -> str:
        """Return the next word of a fixed row."""
        self._nonces += 1
        return f"n{self._nonces}"

    async def sleep(self, seconds: float) -> None:
        """Move on by that much."""
        self.time += int(seconds * 1_000_000)
        await anyio.lowlevel.checkpoint()


def owner(name: str = "one") -> Owner:
    """Return an owner on another machine."""
    return Owner(id=name, host="elsewhere", boot="b", pid=42, started=1, label=f"{name} agent")


def say(text: str, seq: int, at: int = 0) -> Recorded:
    """Return an input with a text."""
    return recorded(events.InputReceived(input=f"i{seq}", parts=(Text(text=text),)), seq, at=at or START + seq)


def opening(session: str, *texts: str, at: int = START, **fields: object) -> tuple[Recorded, ...]:
    """Return a session in which some things were said, all at one time."""
    said = (say(text, seq, at) for seq, text in enumerate(texts, 2))
    return (recorded(started(session, **fields), at=at), *said)


class StoreRefusals:
    """The requests that every store refuses."""

    pytestmark = pytest.mark.anyio
    persistent: ClassVar[bool] = True
    """Whether a store that was closed can be opened again with everything in it."""

    async def open_store(self, where: Path, **options: Unpack[StoreOptions]) -> EventStore:
        """Open a store at `where`, an existing folder; the same place twice is the same store."""
        raise NotImplementedError

    @asynccontextmanager
    async def open_one(
        self, where: Path, clock: Clock | None = None, dead: Sequence[str] = ()
    ) -> AsyncIterator[EventStore]:
        """Yield a store that is closed in the end. Owners whose ids are in `dead` are dead."""
        store = await self.open_store(where, clock=clock or StepClock(), is_dead=lambda owner: owner.id in dead)
        try:
            yield store
        finally:
            await store.close()

    async def write_session(self, store: EventStore, session: str, records: Sequence[Recorded]) -> Lease:
        """Write a new session."""
        lease = await store.lease(session, owner(f"writer-of-{session}"))
        await store.append(lease, 0, records)
        return lease

    # --- leases ---

    async def test_a_lease_lasts_a_time_that_can_pass(self, tmp_path: Path) -> None:
        async with self.open_one(tmp_path) as store:
            for ttl_s in (float("inf"), float("nan"), 1e15, 0, -1.0):
                with pytest.raises(UserError, match="lasts"):
                    await store.lease("s1", owner(), ttl_s)
                with pytest.raises(UserError, match="lasts"):
                    await store.heartbeat(owner(), ttl_s)
            await self.write_session(store, "s1", opening("s1"))

    async def test_an_owner_that_cannot_be_written_down_is_refused(self, tmp_path: Path) -> None:
        async with self.open_one(tmp_path) as store:
            with pytest.raises(UserError, match="owner"):
                await store.lease("s1", replace(owner(), label="caf\udce9"))
            with pytest.raises(UserError, match="owner"):
                await store.heartbeat(replace(owner(), label="caf\udce9"))
            await self.write_session(store, "s1", opening("s1"))


__all__ = ["StepClock", "StoreContract", "StoreOptions", "example_events"]

BLOB: Final = b"a long text"
SHA: Final = digest(BLOB)


class StoreContract(StoreRefusals):
    """The suite. Subclass it and say how to open a store."""

    # --- the log ---

    async def test_every_event_is_read_back_as_it_was_written(self, tmp_path: Path) -> None:
        records = log(*example_events())
        async with self.open_one(tmp_path) as store:
            await self.write_session(store, "s1", records)
            assert await store.read("s1") == LogSlice(records=records)

    async def test_a_log_is_read_from_any_point_and_up_to_any_length(self, tmp_path: Path) -> None:
        records = conversation(("a", "b"), ("c", "d"))
        async with self.open_one(tmp_path) as store:
            lease = await store.lease("s1", owner())
            for record in records:
                await store.append(lease, record.seq - 1, (record,))
            for after in range(len(records) + 2):
                assert (await store.read("s1", after)).records == records[after:]
                assert (await store.read("s1", after, limit=2)).records == records[after : after + 2]

    async def test_a_batch_that_does_not_follow_the_log_is_refused_whole(self, tmp_path: Path) -> None:
        async with self.open_one(tmp_path) as store:
            lease = await self.write_session(store, "s1", opening("s1", "hello"))
            for expected, batch in ((1, (say("x", 2),)), (3, (say("x", 4),)), (2, (say("x", 3), say("y", 5)))):
                with pytest.raises(SeqConflict):
                    await store.append(lease, expected, batch)
            await store.append(lease, 2, (say("x", 3), say("y", 4)))
            assert [record.seq for record in (await store.read("s1")).records] == [1, 2, 3, 4]

    async def test_a_batch_with_one_bad_event_leaves_nothing(self, tmp_path: Path) -> None:
        async with self.open_one(tmp_path) as store:
            lease = await self.write_session(store, "s1", opening("s1"))
            with pytest.raises(BackstayError):
                await store.append(lease, 1, (say("good", 2), recorded(events.Renamed(name="half a pair: \ud800"), 3)))
            with pytest.raises(UserError):
                await store.append(lease, 1, (say("good", 2),), {SHA: b"something else"})
            assert (await store.read("s1")).records == opening("s1")
            await store.append(lease, 1, (say("good", 2),))

    async def test_a_cancelled_append_leaves_all_or_nothing_and_the_store_usable(self, tmp_path: Path) -> None:
        async with self.open_one(tmp_path) as store:
            lease = await self.write_session(store, "s1", opening("s1"))
            for steps in range(6):
                known = (await store.read("s1")).records
                batch = (say("one", len(known) + 1), say("two", len(known) + 2))
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(store.append, lease, len(known), batch)
                    for _ in range(steps):
                        await anyio.lowlevel.checkpoint()
                    tasks.cancel_scope.cancel()
                assert (await store.read("s1")).records in (known, known + batch)
            length = (await store.meta("s1")).seq
            await store.append(lease, length, (say("still here", length + 1),))

    async def test_appends_to_many_sessions_at_once_all_land(self, tmp_path: Path) -> None:
        async with self.open_one(tmp_path) as store:

            async def write(session: str) -> None:
                lease = await store.lease(session, owner())
                for record in opening(session, "a", "b"):
                    await store.append(lease, record.seq - 1, (record,))

            async with anyio.create_task_group() as tasks:
                for number in range(20):
                    tasks.start_soon(write, f"s{number}")
            for number in range(20):
                assert (await store.read(f"s{number}")).records == opening(f"s{number}", "a", "b")

    async def test_nothing_is_there_before_the_first_event(self, tmp_path: Path) -> None:
        async with self.open_one(tmp_path) as store:
            await store.lease("s1", owner())
            for ask in (store.read, store.meta, store.verify, store.repair):
                for session in ("s1", "s2"):
                    with pytest.raises(NoSession):
                        await ask(session)
            assert await store.list() == ()

    async def test_what_cannot_be_a_session_is_refused(self, tmp_path: Path) -> None:
        async with self.open_one(tmp_path) as store:
            for name in ("", "../x", "a/b", "a..b", ".hidden", "a\0b", "x" * 200):
                for ask in (store.read, store.meta, store.delete, store.verify, store.repair, store.holder):
                    with pytest.raises(BadId):
                        await ask(name)
                with pytest.raises(BadId):
                    await store.lease(name, owner())

    async def test_an_id_that_is_more_than_a_text_is_taken_as_the_text(self, tmp_path: Path) -> None:
        class Id(str):
            __slots__ = ()

        async with self.open_one(tmp_path) as store:
            lease = await self.write_session(store, Id("s1"), opening("s1", "x"))
            await store.append(replace(lease, session=Id("s1")), 2, (say("y", 3),))
            for ask in (store.read, store.meta, store.verify, store.holder, store.repair):
                await ask(Id("s1"))
            assert [type(meta.id) for meta in await store.list()] == [str]
            await store.delete(Id("s1"))
            assert await store.list() == ()

    # --- leases ---

    async def test_a_living_owner_keeps_everybody_out_and_is_named(self, tmp_path: Path) -> None:
        async with self.open_one(tmp_path) as store:
            lease = await store.lease("s1", owner())
            for other in ("two", "one"):
                with pytest.raises(SessionBusy, match=r"one agent.*42.*elsewhere.*2026-01-01T00:00:00") as caught:
                    await store.lease("s1", owner(other))
            assert "s1" in str(caught.value)
            assert await store.holder("s1") == lease

    async def test_a_dead_owner_is_followed_at_once_and_its_late_write_refused(self, tmp_path: Path) -> None:
        dead: list[str] = []
        async with self.open_one(tmp_path, dead=dead) as store:
            first = await self.write_session(store, "s1", opening("s1"))
            dead.append(first.owner.id)
            assert await store.holder("s1") is None
            second = await store.lease("s1", owner("two"))
            assert second.token > first.token
            with pytest.raises(LeaseLost):
                await store.append(first, 1, (say("too late", 2),))
            assert (await store.read("s1")).records == opening("s1")
            await store.append(second, 1, (say("in time", 2),))

    async def test_a_lease_runs_out_when_its_owner_falls_silent(self, tmp_path: Path) -> None:
        clock = StepClock()
        async with self.open_one(tmp_path, clock) as store:
            first = await store.lease("s1", owner(), ttl_s=10)
            await clock.sleep(9)
            await store.heartbeat(owner(), ttl_s=10)
            await clock.sleep(9)
            with pytest.raises(SessionBusy):
                await store.lease("s1", owner("two"))
            await clock.sleep(2)
            await store.append(
                first, 0, opening("s1")
            )  # running out permits a takeover; only the takeover refuses a write
            await store.lease("s1", owner("two"))
            with pytest.raises(LeaseLost):
                await store.append(first, 1, (say("too late", 2),))

    async def test_an_owner_takes_its_own_session_again_after_its_lease_ran_out(self, tmp_path: Path) -> None:
        clock = StepClock()
        async with self.open_one(tmp_path, clock) as store:
            first = await store.lease("s1", owner(), ttl_s=10)
            await clock.sleep(10)
            assert (await store.lease("s1", owner(), ttl_s=10)).token > first.token

    async def test_tokens_only_grow_also_over_a_deletion(self, tmp_path: Path) -> None:
        async with self.open_one(tmp_path) as store:
            tokens: list[int] = []
            for round_ in range(6):
                lease = await store.lease("s1", owner())
                tokens.append(lease.token)
                await store.append(
                    lease, (await store.meta("s1")).seq if round_ % 2 else 0, (say("x", 1 + round_ % 2),)
                )
                await store.release(lease)
                if round_ % 2:
                    await store.delete("s1")
            assert tokens == sorted(set(tokens))

    async def test_a_released_session_is_free_and_only_its_holder_can_release_it(self, tmp_path: Path) -> None:
        async with self.open_one(tmp_path) as store:
            first = await store.lease("s1", owner())
            await store.release(first)
            assert await store.holder("s1") is None
            second = await store.lease("s1", owner("two"))
            await store.release(first)
            assert await store.holder("s1") == second

    # --- lists and search ---

    async def test_the_metadata_is_the_fold_of_the_log_after_every_append(self, tmp_path: Path) -> None:
        records = (*conversation(("Hello", "Hi."), tool="Read"), *log(*example_events(), after=100))
        records = tuple(replace(record, seq=seq) for seq, record in enumerate(records, 1))
        async with self.open_one(tmp_path) as store:
            lease = await store.lease("s1", owner())
            meta = SessionMeta(id="s1")
            for record in records:
                await store.append(lease, record.seq - 1, (record,))
                meta = project(meta, (record,))
                assert await store.meta("s1") == meta
                assert await store.list(SessionQuery(include_children=True)) == (meta,)

    async def test_a_list_has_the_newest_first_and_what_was_asked_for(self, tmp_path: Path) -> None:
        async with self.open_one(tmp_path) as store:
            await self.write_session(store, "old", opening("old", "x", at=START + 1, project="p"))
            await self.write_session(store, "new", opening("new", "x", at=START + 4, name="n"))
            await self.write_session(store, "middle", opening("middle", at=START + 3, project="p"))
            await self.write_session(store, "child", opening("child", "x", at=START + 2, parent="old"))
            wanted = {
                ("new", "middle", "old"): SessionQuery(),
                ("new", "middle", "child", "old"): SessionQuery(include_children=True),
                ("middle", "old"): SessionQuery(project="p"),
                ("new",): SessionQuery(name="n"),
                ("new", "old"): SessionQuery(include_empty=False),
                ("new", "middle"): SessionQuery(limit=2),
                (): SessionQuery(project="nowhere"),
            }
            for ids, query in wanted.items():
                assert tuple(meta.id for meta in await store.list(query)) == ids

    async def test_a_search_finds_all_words_in_one_event_newest_first(self, tmp_path: Path) -> None:
        async with self.open_one(tmp_path) as store:
            await self.write_session(store, "s1", opening("s1", "The quick Brown fox", "a brown dog", at=START + 1))
            await self.write_session(
                store, "s2", opening("s2", "quick, said the brown bear", 'Über C++: `x = "y"` %_*', at=START + 2)
            )
            hits = await store.search("BROWN quick")
            assert [(hit.session, hit.seq, hit.meta.id) for hit in hits] == [("s2", 2, "s2"), ("s1", 2, "s1")]
            assert "brown bear" in hits[0].snippet
            assert [hit.session for hit in await store.search("brown", limit=1)] == ["s2"]
            for odd in ("über", 'x = "y"', "C++", "100% brown AND", "zebra"):
                found = {hit.seq for hit in await store.search(odd)}
                assert found == ({3} if odd in ("über", 'x = "y"', "C++") else set())
            for nothing in ("", " ", '"', "*", "%", "'; --", "(", "\0"):
                assert await store.search(nothing) == ()

    async def test_a_search_knows_a_word_in_all_its_spellings(self, tmp_path: Path) -> None:
        said = ("die Straße", "STRASSE", "the \ufb01le", "e\u0301tude", "한국어", "Ⅷ", "\U00010400abc", "日本語")
        asked = ("strasse", "straße", "file", "étude", "하", "ⅷ", "\U00010428", "日本")
        async with self.open_one(tmp_path) as store:
            await self.write_session(store, "s1", opening("s1", *said))
            for seq, words in enumerate(asked, 2):
                assert seq in {hit.seq for hit in await store.search(words)}, words

    # --- blobs and snapshots ---

    async def test_a_blob_comes_back_and_a_missing_one_is_named(self, tmp_path: Path) -> None:
        large = bytes(range(256)) * 8192
        async with self.open_one(tmp_path) as store:
            lease = await store.lease("s1", owner())
            await store.append(lease, 0, opening("s1"), {SHA: BLOB, digest(large): large, digest(b""): b""})
            assert [await store.blob(digest(each)) for each in (BLOB, large, b"")] == [BLOB, large, b""]
            for name in ("0" * 64, "../../store.json", "", "é"):
                with pytest.raises(BlobMissing):
                    await store.blob(name)

    async def test_a_deletion_forgets_one_session_and_only_its_own_blobs(self, tmp_path: Path) -> None:
        shared = events.InputReceived(input="i", parts=(TextRef(sha256=SHA, chars=3, tokens=1),))
        mine = b"only here" * 200_000
        async with self.open_one(tmp_path) as store:
            first = await store.lease("s1", owner())
            await store.append(
                first, 0, (*opening("s1", "forget me"), recorded(shared, 3)), {SHA: BLOB, digest(mine): mine}
            )
            await self.write_session(store, "s2", (*opening("s2", "keep me"), recorded(shared, 3)))
            await store.keep_snapshot("s1", FoldSnapshot(tip="t", seq=1, digest="d", content=b"x"))
            for _ in range(2):
                await store.delete("s1")
                assert await store.search("forget") == ()
                assert [meta.id for meta in await store.list()] == ["s2"]
                assert await store.snapshot("s1", "d") is None
                with pytest.raises(NoSession):
                    await store.read("s1")
            await store.delete("never-there")
            assert await store.blob(SHA) == BLOB
            assert await store.verify("s2") == ()
            with pytest.raises(LeaseLost):
                await store.append(first, 3, (say("too late", 4),), {digest(mine): mine})
            with pytest.raises(BlobMissing):  # what was refused does not bring it back
                await store.blob(digest(mine))
            await self.write_session(store, "s1", opening("s1", "again"))
            assert (await store.read("s1")).records == opening("s1", "again")
            await store.delete("s2")
            with pytest.raises(BlobMissing):
                await store.blob(SHA)

    async def test_a_snapshot_is_kept_replaced_and_ignored_by_other_code(self, tmp_path: Path) -> None:
        first = FoldSnapshot(tip="a.1", seq=1, digest="d1", content=b"\0\xff one")
        second = FoldSnapshot(tip="a.2", seq=2, digest="d1", content=b"two")
        async with self.open_one(tmp_path) as store:
            await self.write_session(store, "s1", opening("s1", "x"))
            assert await store.snapshot("s1", "d1") is None
            for each in (first, second):
                await store.keep_snapshot("s1", each)
                assert await store.snapshot("s1", "d1") == each
            assert await store.snapshot("s1", "d2") is None
            assert await store.snapshot("s2", "d1") is None

    async def test_a_sound_session_verifies_clean_and_needs_no_repair(self, tmp_path: Path) -> None:
        async with self.open_one(tmp_path) as store:
            lease = await store.lease("s1", owner())
            cited = events.InputReceived(input="i", parts=(TextRef(sha256=SHA, chars=3, tokens=1),))
            await store.append(lease, 0, (*opening("s1", "x"), recorded(cited, 3)), {SHA: BLOB})
            assert await store.verify("s1") == ()
            assert "s1" in await store.repair("s1")
            lost = events.InputReceived(input="j", parts=(TextRef(sha256="0" * 64, chars=3, tokens=1),))
            await store.append(lease, 3, (recorded(lost, 4),))
            assert len(await store.verify("s1")) == 1

    # --- the same store again ---

    async def test_a_store_opened_again_is_the_same_store(self, tmp_path: Path) -> None:
        if not self.persistent:
            pytest.skip("this store does not outlive its opening")
        async with self.open_one(tmp_path) as store:
            lease = await store.lease("s1", owner())
            await store.append(lease, 0, opening("s1", "x"), {SHA: BLOB})
            identity, metas = store.identity, await store.list()
        async with self.open_one(tmp_path, dead=["one"]) as store:
            assert (store.identity, await store.list()) == (identity, metas)
            assert (await store.read("s1")).records == opening("s1", "x")
            assert await store.blob(SHA) == BLOB
            assert (await store.lease("s1", owner("two"))).token > lease.token
            await store.close()
            await store.close()

    async def test_two_openings_of_a_store_see_each_other(self, tmp_path: Path) -> None:
        if not self.persistent:
            pytest.skip("this store does not outlive its opening")
        async with self.open_one(tmp_path) as one, self.open_one(tmp_path) as two:
            assert one.identity == two.identity
            lease = await one.lease("s1", owner())
            for record in opening("s1", "a", "b", "c"):
                await one.append(lease, record.seq - 1, (record,))
                assert (await two.read("s1", record.seq - 1)).records == (record,)
                assert await two.meta("s1") == await one.meta("s1")
                assert await two.list() == await one.list()
            with pytest.raises(SessionBusy):
                await two.lease("s1", owner("two"))
            await two.delete("s1")
            assert await one.list() == ()

    async def test_a_store_that_may_only_be_read_refuses_to_write(self, tmp_path: Path) -> None:
        if not self.persistent:
            pytest.skip("this store does not outlive its opening")
        with pytest.raises(StoreUnavailable):
            await self.open_store(tmp_path, clock=StepClock(), create=False)
        async with self.open_one(tmp_path) as store:
            lease = await self.write_session(store, "s1", opening("s1", "x"))
            reader = await self.open_store(tmp_path, clock=StepClock(), read_only=True)
            assert (await reader.read("s1")).records == opening("s1", "x")
            assert await reader.list() == await store.list()
            assert len(await reader.search("x")) == 1
            for refused in (reader.append(lease, 2, (say("y", 3),)), reader.lease("s2", owner()), reader.delete("s1")):
                with pytest.raises(StoreReadOnly):
                    await refused
            await reader.close()
