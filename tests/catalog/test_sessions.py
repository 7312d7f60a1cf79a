"""The sessions of a store: found, forked, pruned, moved, verified."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import anyio
import pytest

from backstay import SessionBusy, UserError, open_session, open_store, tool
from backstay.catalog import sessions
from backstay.catalog.load import replay
from backstay.ports import EventStore, LogSlice, ToolContext
from backstay.stores.memory import MemoryStore
from backstay.stores.owners import this_process
from backstay.system.machine import SystemClock
from backstay.testing.store_contract import opening, say
from backstay.vocab.errors import BadId, NoSession
from backstay.vocab.event import Recorded
from backstay.vocab.events import Rewound, Started, StoreChanged, TurnCompleted, TurnStarted
from backstay.vocab.events.instructions import MemoryNoted
from backstay.vocab.messages import text_of
from backstay.vocab.specs import Lease, Owner
from tests.contracts.kit import Till, call, calls, look, scripted, stream, talk

CLOCK = SystemClock()


async def talked(store: EventStore, name: str, *replies: str, cwd: Path | str = ".") -> None:
    async with open_session(model=scripted(*replies), store=store, session_id=name, cwd=cwd) as session:
        for number in range(len(replies)):
            await session.run(f"{name} {number}")


async def test_a_session_is_found_by_id_or_name_and_a_missing_one_says_what_to_do() -> None:
    store = await open_store("memory:", clock=CLOCK)
    await talked(store, "one", "x")
    await sessions.rename(store, "one", "my talk", clock=CLOCK)
    assert (await sessions.find(store, "one")).id == "one"
    assert (await sessions.find(store, "my talk")).id == "one"
    with pytest.raises(NoSession, match="sessions list"):
        await sessions.find(store, "two")
    with pytest.raises(BadId, match="not a session id"):
        async with open_session(model=scripted("x"), store=store, resume="../etc"):
            pytest.fail("must not open")


async def test_the_newest_session_of_a_project_is_one_in_which_something_was_said(tmp_path: Path) -> None:
    store = await open_store("memory:", clock=CLOCK)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    await talked(store, "first", "x", cwd=tmp_path / "a")
    await talked(store, "other", "x", cwd=tmp_path / "b")
    await talked(store, "empty", cwd=tmp_path / "a")
    assert (await sessions.newest(store, str(tmp_path / "a"))).id == "first"
    with pytest.raises(NoSession):
        await sessions.newest(store, str(tmp_path))


async def test_renaming_a_crashed_session_does_not_set_it_going(tmp_path: Path) -> None:
    store = await open_store("memory:", clock=CLOCK)
    async with open_session(model=scripted("x"), store=store, session_id="s") as session:
        await session.run("a")
        with pytest.raises(SessionBusy, match=r"this process|pid"):
            await sessions.rename(store, "s", "busy", clock=CLOCK)
    await sessions.rename(store, "s", "later", clock=CLOCK)
    assert (await store.meta("s")).name == "later"
    assert (await store.meta("s")).turns == 1


async def test_a_fork_copies_the_path_and_leaves_what_was_rewound() -> None:
    store = await open_store("memory:", clock=CLOCK)
    till = Till()
    replies = (call("charge", amount=1), "paid", "second", "third")
    async with open_session(model=scripted(*replies), tools=[till.tool], store=store, session_id="s") as session:
        await session.run("pay")
        await session.run("left behind")
        await session.rewind(to=session.turns[0].turn)
        await session.run("kept")
        fork = await session.fork()
        early = await session.fork(at=session.turns[0].turn)
        second = await session.fork(at="2")
        for at in ("nowhere", "0", "3"):
            with pytest.raises(UserError, match="It has 2 turns"):
                await session.fork(at=at)
    assert till.charged == [1]
    copied = (await store.read(fork)).records
    assert [record.seq for record in copied] == list(range(1, len(copied) + 1))
    assert not any(isinstance(record.event, Rewound) for record in copied)
    beginning = copied[0].event
    assert isinstance(beginning, Started)
    assert beginning.origin is not None
    assert beginning.origin.session == "s"
    told = [text_of(m.content) for m in session.history]
    numbered = [record.event for record in (await store.read(second)).records]
    assert numbered[1:] == [record.event for record in copied[1:]]
    async with open_session(model=scripted(*replies, "more"), store=store, resume=fork) as again:
        assert [text_of(m.content) for m in again.history] == told
        assert again.turns[-1].number == 2
    async with open_session(model=scripted(*replies), store=store, resume=early) as again:
        assert [m.role for m in again.history] == ["user", "assistant", "tool", "assistant"]
    assert await sessions.verify(store, fork) == ()
    await sessions.delete(store, "s")
    assert await sessions.verify(store, fork) == ()  # it stands on its own


async def test_a_fork_of_a_running_turn_ends_it_at_the_last_point_without_an_open_call() -> None:
    store = await open_store("memory:", clock=CLOCK)
    till = Till()
    script = (call("look", at="a"), calls(("look", {"at": "b"}), ("charge", {"amount": 2}), ("wait", {})), "done")
    reached, release = anyio.Event(), anyio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        reached.set()
        await release.wait()
        return "waited"

    async with (
        open_session(model=scripted(*script), tools=[look, till.tool, wait], store=store) as session,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(session.run, "go")
        await reached.wait()
        fork = await session.fork()
        release.set()
    records = (await store.read(fork)).records
    ended = [record.event for record in records if isinstance(record.event, TurnCompleted)]
    assert [(event.outcome, event.stop_reason) for event in ended] == [("interrupted", "forked")]
    async with open_session(model=scripted("a", "fresh"), store=store, resume=fork, tools=[look]) as again:
        assert [message.role for message in again.history] == ["user", "assistant", "tool"]
        assert await again.run("on") == "fresh"
    assert till.charged == [2]


async def test_rewinding_goes_back_and_forward_again() -> None:
    async with talk("one", "two", "three", "four") as session:
        for prompt in ("a", "b", "c"):
            await session.run(prompt)
        first, second, third = session.turns
        await session.rewind(to=first.turn)
        assert len(session.history) == 2
        await session.rewind(to=third.turn)
        assert len(session.history) == 6
        await session.rewind(before=second.turn)
        assert len(session.history) == 2
        assert await session.run("d") == "four"
        assert session.turns[-1].number == 2
        assert [text_of(m.content) for m in session.history] == ["a", "one", "d", "four"]
        await session.rewind(before=first.turn)
        assert session.history == ()
        with pytest.raises(UserError):
            await session.rewind()


async def test_a_rewind_goes_to_before_a_turn_and_never_into_the_middle_of_one() -> None:
    async with talk(call("look", at="a"), "one", "two", tools=[look]) as session:
        await session.run("a")
        for record in await session.events():
            if not isinstance(record.event, TurnStarted):
                with pytest.raises(UserError, match="There is no turn"):
                    await session.rewind(before=record.id)
        assert len(session.history) == 4
        await session.rewind(before=session.turns[0].turn)
        assert session.history == ()


async def test_a_fork_knows_the_memories_up_to_where_it_was_made() -> None:
    store = await open_store("memory:", clock=CLOCK)

    @tool
    async def remember(what: str, context: ToolContext) -> str:
        """Use a memory."""
        await context.emit(MemoryNoted(act="used", memory=what))
        return "remembered"

    script = (call("remember", what="one"), "x", call("remember", what="two"), "y", call("remember", what="three"), "z")
    async with open_session(model=scripted(*script), store=store, session_id="s", tools=[remember]) as session:
        for prompt in ("a", "b"):
            await session.run(prompt)
        await session.rewind(to=session.turns[0].turn)
        await session.run("c")
        early, late = await session.fork(at="1"), await session.fork()
        assert session.used_memory == ("one", "two", "three")
    async with open_session(model=scripted(*script), store=store, resume=early) as copy:
        assert copy.used_memory == ("one",)
    async with open_session(model=scripted(*script), store=store, resume=late) as copy:
        assert copy.used_memory == ("one", "two", "three")
        assert copy.memory_events == session.memory_events
    assert await sessions.verify(store, late) == ()


class Cited(MemoryStore):
    """A store that counts what is read and written of blobs, and may lose a session while it is copied."""

    moved = 0
    loses = ""

    async def append(
        self, lease: Lease, expected_seq: int, records: Sequence[Recorded], blobs: Mapping[str, bytes] = {}
    ) -> None:
        self.moved += sum(map(len, blobs.values()))
        if self.loses:
            await self.delete(self.loses)
        await super().append(lease, expected_seq, records, blobs)

    async def blob(self, sha256: str) -> bytes:
        found = await super().blob(sha256)
        self.moved += len(found)
        return found


async def test_a_fork_cites_what_is_in_the_store_and_keeps_it_when_the_original_goes() -> None:
    store = await Cited.open(clock=CLOCK)
    assert isinstance(store, Cited)
    async with open_session(model=scripted("one"), store=store, session_id="s") as session:
        await session.run("a long text " * 10_000)
    store.moved = 0
    fork = await sessions.fork(store, "s", clock=CLOCK)
    assert store.moved == 0
    await sessions.delete(store, "s")
    assert await sessions.verify(store, fork) == ()


async def test_a_fork_whose_original_is_deleted_meanwhile_is_not_made() -> None:
    store = await Cited.open(clock=CLOCK)
    assert isinstance(store, Cited)
    await talked(store, "s", "one")
    store.loses = "s"
    with pytest.raises(NoSession, match="while it was being copied"):
        await sessions.fork(store, "s", clock=CLOCK, new_id="copy")
    assert await store.list() == ()


class Cancelling(MemoryStore):
    """A store whose user is cancelled while it waits for it for the n-th time."""

    scope: anyio.CancelScope
    left = 0

    async def lease(self, session: str, owner: Owner, ttl_s: float = 15.0) -> Lease:
        found = await super().lease(session, owner, ttl_s)
        await self._wait()
        return found

    async def release(self, lease: Lease) -> None:
        await self._wait()
        await super().release(lease)

    async def read(self, session: str, after: int = 0, limit: int | None = None) -> LogSlice:
        await self._wait()
        return await super().read(session, after, limit)

    async def delete(self, session: str) -> None:
        await self._wait()
        await super().delete(session)

    async def _wait(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.scope.cancel()
        await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("what", ["rename", "fork", "delete", "prune"])
async def test_work_that_is_cancelled_holds_no_session(what: str) -> None:
    cancelled, moment = True, 0
    while cancelled:
        moment += 1
        store = await Cancelling.open(clock=CLOCK)
        assert isinstance(store, Cancelling)
        await talked(store, "s", "one")
        work: dict[str, Callable[[], Awaitable[object]]] = {
            "rename": partial(sessions.rename, store, "s", "other", clock=CLOCK),
            "fork": partial(sessions.fork, store, "s", clock=CLOCK, new_id="copy"),
            "delete": partial(sessions.delete, store, "s"),
            "prune": partial(sessions.prune, store, clock=CLOCK, older_than_days=-1),
        }
        with anyio.CancelScope() as scope:
            store.scope, store.left = scope, moment
            await work[what]()
        cancelled = scope.cancel_called
        assert [await store.holder(session) for session in ("s", "copy")] == [None, None]
    assert moment > 2


async def test_pruning_takes_old_and_empty_sessions_and_leaves_open_ones() -> None:
    store = await open_store("memory:", clock=CLOCK)
    await talked(store, "said", "x")
    await talked(store, "empty")
    async with open_session(model=scripted("x"), store=store, session_id="open"):
        assert [meta.id for meta in await sessions.prune(store, clock=CLOCK, empty=True, dry_run=True)] == ["empty"]
        assert [meta.id for meta in await sessions.prune(store, clock=CLOCK, empty=True)] == ["empty"]
        gone = await sessions.prune(store, clock=CLOCK, older_than_days=-1)
        assert [meta.id for meta in gone] == ["said"]
    with pytest.raises(UserError, match="what to prune"):
        await sessions.prune(store, clock=CLOCK)


async def test_a_session_moves_to_another_store_whole_and_goes_on_there(tmp_path: Path) -> None:
    source = await open_store(f"sqlite:///{tmp_path}/a.db", clock=CLOCK)
    target = await open_store(f"sqlite:///{tmp_path}/b.db", clock=CLOCK)
    long = "x" * 50_000
    async with open_session(model=scripted("one", "two"), store=source, session_id="s") as session:
        await session.run(long)
    before = (await source.read("s")).records
    await sessions.move(source, target, "s", clock=CLOCK)
    with pytest.raises(NoSession):
        await source.meta("s")
    after = (await target.read("s")).records
    assert after[: len(before)] == before
    assert isinstance(after[-1].event, StoreChanged)
    assert await sessions.verify(target, "s") == ()
    async with open_session(model=scripted("one", "two"), store=target, resume="s") as again:
        assert await again.run("still there?") == "two"
    await talked(source, "s", "x")
    with pytest.raises(UserError, match="already"):
        await sessions.move(source, target, "s", clock=CLOCK)
    await source.close()
    await target.close()


async def test_a_replay_of_a_prefix_shows_the_session_as_it_was_and_runs_nothing() -> None:
    store = await open_store("memory:", clock=CLOCK)
    till = Till()
    async with open_session(
        model=scripted(call("charge", amount=1), "paid"), tools=[till.tool], store=store
    ) as session:
        states = {0: await replay(store, session.id, 0)}
        items = await stream(session, "pay")
        assert items
        end = session.plain_state()
        seq = session.seq
    for at in range(1, seq + 1):
        states[at] = await replay(store, session.id, at)
    assert states[seq] == end
    assert states[0]["lifecycle"] is None
    assert till.charged == [1]
    with pytest.raises(UserError, match="position"):
        await replay(store, session.id, -1)


class Busy:
    """A store in which somebody else writes whenever somebody reads."""

    def __init__(self, store: EventStore, lease: Lease) -> None:
        self._store = store
        self._lease = lease

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def read(self, session: str, after: int = 0, limit: int | None = None) -> LogSlice:
        seq = (await self._store.meta(session)).seq
        await self._store.append(self._lease, seq, (say("more", seq + 1),))
        return await self._store.read(session, after, limit)


@pytest.mark.parametrize("url", ["memory:", "sqlite:///{}/s.db"])
async def test_a_session_that_is_written_meanwhile_verifies_clean(tmp_path: Path, url: str) -> None:
    store = await open_store(url.format(tmp_path), clock=CLOCK)
    lease = await store.lease("s", this_process())
    await store.append(lease, 0, opening("s", "one", store=store.identity))
    for _ in range(3):
        assert await sessions.verify(cast(EventStore, Busy(store, lease)), "s") == ()
    await store.close()
