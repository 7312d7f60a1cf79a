"""The lifecycle of contract ST: five states, a table, notices after commits, and resumes that always work."""

import functools
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import anyio
import pytest

from backstay import TurnFailed, open_session, open_store, tool
from backstay.catalog.load import replay
from backstay.catalog.sessions import check_store
from backstay.logic.state.lifecycle import TABLE, Lifecycle, advance, move
from backstay.ports import MachineMismatch, Slot
from backstay.stores.sqlite.store import SqliteStore
from backstay.system.machine import SystemClock
from backstay.vocab.deltas import Notice
from backstay.vocab.errors import IllegalTransition, LogDamaged, NoSession, StoreMismatch
from backstay.vocab.event import Recorded
from backstay.vocab.events import SlotWritten, Started, ToolStarted, TurnCompleted, TurnStarted
from backstay.vocab.messages import text_of
from backstay.vocab.specs import SessionContext
from tests.contracts.kit import call, kinds, look, scripted, stream, talk
from tests.stores.sqlite_kit import damage, put_over


@pytest.mark.contract("ST-1", "ST-6", "ST-7", "ST-18", "ST-19", "ST-32", "RV-6")
async def test_a_launched_session_is_idle_once_its_start_is_in_the_store(tmp_path: Path) -> None:
    store = await open_store(f"sqlite:///{tmp_path}/s.db", clock=SystemClock())
    async with open_session(model=scripted("x"), store=store) as session:
        assert session.state == "Idle"
        assert kinds(list(session.opened)) == ["started", "SessionStarted"]
        stored = (await store.read(session.id)).records
        assert stored == (session.opened[0],)
        beginning = stored[0].event
        assert isinstance(beginning, Started)
        assert (beginning.session, beginning.store, beginning.mode) == (session.id, store.identity, "default")
    assert {state for state, _ in TABLE if state} == {"Idle", "Active", "Persisted", "Resumed", "Closed"}
    await store.close()


@pytest.mark.contract("ST-19")
async def test_a_store_that_refuses_the_start_means_no_session(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("not a folder")
    with pytest.raises(Exception, match="file"):
        async with open_session(model=scripted("x"), store=f"sqlite:///{file}/s.db"):
            pytest.fail("the session must not reach Idle")


@pytest.mark.contract("ST-2", "ST-3", "ST-10", "ST-11", "ST-33", "ST-34", "ST-35")
async def test_each_turn_is_active_then_persisted_and_says_so_after_the_commit(tmp_path: Path) -> None:
    store = await open_store(f"sqlite:///{tmp_path}/s.db", clock=SystemClock())
    async with open_session(model=scripted("one", "two"), store=store) as session:
        for prompt in ("a", "b"):
            committed_when_persisted = 0
            names: list[str] = []
            async for item in session.send(prompt):
                names += kinds([item])
                if names[-1:] == ["SessionTurnStart"]:
                    assert session.state == "Active"
                if names[-1:] == ["SessionPersisted"]:
                    committed_when_persisted = (await store.read(session.id)).records[-1].seq
            assert names.index("SessionTurnStart") < names.index("turn_completed")
            assert names[-3:] == ["turn_completed", "SessionTurnEnd", "SessionPersisted"]
            assert committed_when_persisted == session.seq
            assert session.state == "Persisted"
    await store.close()


@pytest.mark.contract("ST-12", "ST-30")
async def test_a_shutdown_drains_the_turn_writes_its_end_and_closes_last(tmp_path: Path) -> None:
    store = await open_store(f"sqlite:///{tmp_path}/s.db", clock=SystemClock())
    reached, release = anyio.Event(), anyio.Event()

    @tool
    async def slow() -> str:
        """Take a while."""
        reached.set()
        await release.wait()
        return "finished"

    async with open_session(model=scripted(call("slow"), "done"), store=store, tools=[slow]) as session:
        subscription = session.subscribe()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.run, "go")
            await reached.wait()
            tasks.start_soon(functools.partial(session.close, "shutdown", drain_s=20))
            await anyio.wait_all_tasks_blocked()
            assert session.is_running  # it waits for the turn
            release.set()
        assert kinds([item async for item in subscription])[-5:] == [
            "turn_completed",
            "SessionTurnEnd",
            "SessionPersisted",
            "closed",
            "SessionClosed",
        ]
    log = (await store.read(session.id)).records
    assert [r.event.outcome for r in log if isinstance(r.event, TurnCompleted)] == ["completed"]
    assert await store.holder(session.id) is None
    await store.close()


@pytest.mark.contract("ST-38", "ST-5")
async def test_closing_is_terminal_for_the_holder_and_comes_last() -> None:
    async with talk("one") as session:
        await session.run("a")
        subscription = session.subscribe()
        await session.close("done")
        assert session.state == "Closed"
        assert kinds([item async for item in subscription]) == ["closed", "SessionClosed"]
        with pytest.raises(IllegalTransition):
            await session.run("more")


@pytest.mark.contract("ST-4", "ST-13", "ST-14", "ST-25", "ST-36", "ST-37")
async def test_a_resumed_session_waits_in_resumed_for_its_first_input(tmp_path: Path) -> None:
    store = await open_store(f"sqlite:///{tmp_path}/s.db", clock=SystemClock())
    model = scripted("one", "two")
    async with open_session(model=model, store=store) as session:
        await session.run("a")
    before = (await store.read(session.id)).records
    async with open_session(model=model, store=store, resume=session.id) as again:
        assert again.state == "Resumed"
        assert kinds(list(again.opened)) == ["SessionResumeStarted"]
        await anyio.sleep(0.05)
        assert (await store.read(session.id)).records == before  # nothing was written, nothing was run
        names = kinds(await stream(again, "b"))
        assert names[:5] == ["opened", "input_received", "turn_started", "SessionResumed", "SessionTurnStart"]
        assert "SessionResumeStarted" not in names
        assert again.state == "Persisted"
    await store.close()


async def test_a_resume_that_only_looks_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    store = await open_store(f"sqlite:///{tmp_path}/s.db", clock=SystemClock())
    async with open_session(model=scripted("one"), store=store) as session:
        await session.run("a")
    before = (await store.read(session.id)).records
    for _ in range(2):
        async with open_session(model=scripted("one"), store=store, resume=session.id) as again:
            assert again.history == session.history
    assert (await store.read(session.id)).records == before
    await store.close()


@pytest.mark.contract("ST-20", "ST-27")
async def test_a_session_of_another_store_is_refused_by_name(tmp_path: Path) -> None:
    clock = SystemClock()
    first = await SqliteStore.open(tmp_path / "one", clock=clock)
    async with open_session(model=scripted("one"), store=first, session_id="mine") as session:
        await session.run("a")
    await first.close()
    second = await SqliteStore.open(tmp_path / "two", clock=clock)
    await put_over(tmp_path / "one", tmp_path / "two", "mine")
    with pytest.raises(StoreMismatch, match="sessions move") as refused:
        async with open_session(model=scripted("one"), store=second, resume="mine"):
            pytest.fail("must not open")
    assert refused.value.code == "Session.ResumeMismatch"
    with pytest.raises(StoreMismatch):
        await check_store(second, "mine")
    with pytest.raises(NoSession) as missing:
        async with open_session(model=scripted("one"), store=second, resume="other"):
            pytest.fail("must not open")
    assert missing.value.code == "Session.NoSnapshot"
    await second.close()


@pytest.mark.contract("ST-27")
async def test_a_damaged_log_is_the_only_other_thing_that_blocks_a_resume(tmp_path: Path) -> None:
    clock = SystemClock()
    store = await SqliteStore.open(tmp_path / "one", clock=clock)
    async with open_session(model=scripted("one"), store=store, session_id="mine") as session:
        await session.run("a")
    damage(tmp_path / "one", 3, "mine")
    with pytest.raises(LogDamaged) as damaged:
        async with open_session(model=scripted("one"), store=store, resume="mine"):
            pytest.fail("must not open")
    assert damaged.value.code == "Session.ManifestDrift"
    assert (await replay(store, "mine"))["lifecycle"] == "Idle"  # the prefix can still be read
    assert await store.holder("mine") is None
    await store.close()


class Counter:
    """A machine that keeps a number, and is particular about its version."""

    def __init__(self, version: str = "1", *, broken: bool = False) -> None:
        self.id, self.version, self.broken = "counter", version, broken
        self.attached: list[Slot | None] = []

    def attach(self, slot: Slot | None) -> None:
        """Take the slot."""
        self.attached.append(slot)
        if self.broken:
            raise RuntimeError("out of order")
        if slot is not None and slot.version != self.version:
            raise MachineMismatch(f"made for {self.version}, stored by {slot.version}")


@pytest.mark.contract("ST-21", "ST-23", "ST-26", "ST-28")
async def test_core_fields_load_whatever_a_machine_makes_of_its_slot(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    model = scripted("one", "two", "three", "four")
    async with open_session(model=model, store=url, permission_mode="plan", cwd=tmp_path) as session:
        await session.write_slot("counter", "1", '{"n": 3}')
        await session.run("a")
    good, drifted, broken = Counter(), Counter("2"), Counter(broken=True)
    absent: list[tuple[str, ...]] = []
    for machine in (good, drifted, broken):
        async with open_session(model=model, store=url, resume=session.id, machine=machine) as again:
            assert machine.attached == [Slot(owner="counter", version="1", content='{"n": 3}')]
            assert again.report is not None
            absent.append(again.report.absent)
            assert again.permission_mode == "plan"
            assert again.slot("counter") == SlotWritten(owner="counter", version="1", content='{"n": 3}')
            assert text_of(again.history[1].content) == "one"
            assert await again.run("on") in ("two", "three", "four")
    assert absent[0] == ()
    assert "cannot use its state and is stopped" in absent[1][0]
    assert "out of order" in absent[2][0]


CRASH = """
import os, sys, signal, anyio
from backstay import open_session, tool

@tool
async def boom() -> str:
    "Die."
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with open_session(model="scripted:" + sys.argv[2], store=sys.argv[1], tools=[boom], session_id="s") as session:
        await session.run("first")
        await session.run("second")

anyio.run(main)
"""


@pytest.mark.contract("ST-15", "ST-31")
async def test_an_abandoned_turn_leaves_the_state_of_before_and_the_log_keeps_it(tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    script.write_text("- text: one\n- calls: [{name: boom, args: {}}]\n- text: three\n")
    (tmp_path / "crash.py").write_text(textwrap.dedent(CRASH))
    url = f"sqlite:///{tmp_path}/s.db"
    died = await anyio.run_process(
        [sys.executable, str(tmp_path / "crash.py"), url, str(script)], check=False, stderr=subprocess.STDOUT
    )
    assert died.returncode == -signal.SIGKILL, died.stdout
    store = await open_store(url, clock=SystemClock())
    crashed = (await store.read("s")).records
    assert isinstance(crashed[-1].event, ToolStarted)
    async with open_session(store=store, resume="s", on_crash="abandon") as session:
        assert session.report is not None
        assert session.report.open_turn
        given_up = await session.finish()
        assert given_up is not None
        assert given_up.outcome == "abandoned"
        assert [text_of(m.content) for m in session.history] == ["first", "one"]
        assert await session.run("third") == "three"
        assert [text_of(m.content) for m in session.history] == ["first", "one", "third", "three"]
    log = (await store.read("s")).records
    assert log[: len(crashed)] == crashed
    ended = [r.event for r in log if isinstance(r.event, TurnCompleted)]
    assert [event.outcome for event in ended] == ["completed", "abandoned", "completed"]
    await store.close()


@pytest.mark.contract("ST-34")
async def test_a_failed_turn_goes_back_to_the_state_before_it_without_persisted() -> None:
    async with talk("one", {"error": {"kind": "auth"}}) as session:
        await session.run("a")
        items = await stream(session, "b")
        assert kinds(items)[-2:] == ["turn_completed", "SessionTurnEnd"]
        notices = {item.notice: item.outcome for item in items if isinstance(item, Notice)}
        assert notices == {"SessionTurnStart": "", "SessionTurnEnd": "failed"}  # and nothing was said to be persisted
        assert session.state == "Persisted"
    async with talk({"error": {"kind": "auth"}}) as session:
        with pytest.raises(TurnFailed):
            await session.run("a")
        assert session.state == "Idle"


async def test_what_is_not_in_the_table_is_illegal() -> None:
    for state in ("Idle", "Active", "Persisted", "Resumed", "Closed"):
        for trigger in ("launch", "resume", "turn", "recover", "complete", "fail", "close"):
            life = Lifecycle(state=state)
            if (state, trigger) not in TABLE:
                with pytest.raises(IllegalTransition, match=state):
                    move(life, trigger)
    closed = Lifecycle(state="Closed")
    started = Recorded(seq=1, id="a", at=1, by="system", event=TurnStarted(number=1))
    with pytest.raises(IllegalTransition):
        advance(closed, started)


async def test_tools_and_the_state_of_before_survive_a_plain_resume(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    model = scripted(call("look", at="sky"), "blue", "yes")
    async with open_session(model=model, store=url, tools=[look]) as session:
        await session.run("colour?")
    async with open_session(model=model, store=url, tools=[look], resume=session.id) as again:
        assert await again.run("sure?") == "yes"
        live = again.plain_state()
        seq = again.seq
    store = await open_store(url, clock=SystemClock())
    assert await replay(store, session.id, seq) == live
    await store.close()


def test_a_context_is_sandboxed_unless_it_says_otherwise() -> None:
    assert SessionContext(working_dir="/x").fs_scope == "sandboxed"
