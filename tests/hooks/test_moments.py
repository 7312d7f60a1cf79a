"""Things that happen at a bad moment: two calls in one step, a close with work queued, a late answer."""

import functools
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from backstay import Answer, Question, TurnInterrupted, UserError, open_session, open_store, tool
from backstay.catalog import sessions
from backstay.headless.approvals import ApprovalQueue
from backstay.logic.state.results import TurnResult
from backstay.stores.memory import MemoryStore
from backstay.system.machine import SystemClock
from backstay.vocab.errors import IllegalTransition, InputConflict, LeaseLost, StoreFull, StoreMismatch
from backstay.vocab.events import Closed, HistoryCleared, ToolFinished, ToolStarted, TurnCompleted
from backstay.vocab.messages import text_of
from tests.contracts.kit import Till, call, scripted, stream, talk
from tests.tools.context import until


class Slow:
    """A tool that waits until it is let go."""

    def __init__(self) -> None:
        self.ran: list[int] = []
        self.reached, self.release = anyio.Event(), anyio.Event()

        @tool
        async def slow(n: int) -> str:
            """Wait."""
            self.ran.append(n)
            self.reached.set()
            await self.release.wait()
            return f"did {n}"

        self.tool = slow


async def test_an_interrupt_does_not_touch_the_turn_that_begins_in_the_same_step() -> None:
    asked = anyio.Event()

    async def never(question: Question) -> Answer:
        asked.set()
        await anyio.sleep_forever()
        return Answer(allowed=False)

    async with talk(call("Bash", command="touch x"), "answer to B", asker=never) as session:
        outcomes: dict[str, str] = {}

        async def go(prompt: str) -> None:
            try:
                outcomes[prompt] = await session.run(prompt)
            except TurnInterrupted:
                outcomes[prompt] = "interrupted"

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(go, "A")
            await asked.wait()
            tasks.start_soon(session.abort)
            tasks.start_soon(go, "B")
        assert outcomes == {"A": "interrupted", "B": "answer to B"}


async def test_closing_leaves_queued_input_for_the_next_opening(tmp_path: Path) -> None:
    store = await open_store(f"sqlite:///{tmp_path}/s.db", clock=SystemClock())
    slow = Slow()
    script = (call("slow", n=1), call("slow", n=2), "done")
    async with (
        open_session(model=scripted(*script), tools=[slow.tool], store=store, session_id="s") as session,
        anyio.create_task_group() as tasks,
    ):

        async def go(prompt: str) -> None:
            with pytest.raises(TurnInterrupted):
                await session.run(prompt)

        tasks.start_soon(go, "A")
        await slow.reached.wait()
        tasks.start_soon(go, "B")
        while not session.pending_inputs:
            await anyio.sleep(0.001)
        await session.close()
    assert slow.ran == [1]
    log = (await store.read("s")).records
    assert isinstance(log[-1].event, Closed)
    assert isinstance(log[-2].event, TurnCompleted)
    slow.release.set()
    async with open_session(model=scripted(*script), tools=[slow.tool], store=store, resume="s") as again:
        assert len(again.pending_inputs) == 1
        result = await again.finish()
        assert result is not None
        assert (result.text, slow.ran) == ("done", [1, 2])
    await store.close()


async def test_the_history_cannot_be_changed_under_a_turn() -> None:
    slow = Slow()
    async with talk("one", call("slow", n=1), "two", tools=[slow.tool]) as session:
        await session.run("first")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.run, "second")
            await slow.reached.wait()
            changes: list[Callable[[], Awaitable[object]]] = [
                lambda: session.rewind(to=session.turns[0].turn),
                session.clear_history,
                lambda: session.inject("user", "x"),
            ]
            for change in changes:
                with pytest.raises(IllegalTransition, match="going on"):
                    await change()
            slow.release.set()
        assert [text_of(m.content) for m in session.history if m.role != "tool"][-1] == "two"
        assert not any(isinstance(r.event, HistoryCleared) for r in await session.events())


async def test_two_inputs_under_one_id_in_one_step_are_one_or_a_conflict() -> None:
    async with talk("one", "two") as session:
        outcomes: list[str] = []

        async def go(text: str) -> None:
            try:
                outcomes.append(await session.run(text, input_id="x"))
            except InputConflict:
                outcomes.append("conflict")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(go, "A")
            tasks.start_soon(go, "B")
            tasks.start_soon(go, "A")
        assert sorted(outcomes) == ["conflict", "one", "one"]
        assert [text_of(m.content) for m in session.history] == ["A", "one"]


async def test_an_event_that_no_encoding_has_breaks_nothing() -> None:
    @tool
    async def odd() -> str:
        """Raise."""
        raise ValueError("cannot read caf\udce9")

    async with talk(call("odd"), "went on", "again", tools=[odd]) as session:
        assert await session.run("go") == "went on"
        await session.rename("na\udcffme")
        await session.inject("user", "x\ud800y")
        await session.write_slot("o", "1", "\udfff")
        assert await session.run("more", input_id="i\udc00") == "again"
        assert session.name == "na?me"


async def test_a_grant_does_not_go_into_a_fork_and_wide_denials_hold(tmp_path: Path) -> None:
    from backstay import Rule

    asked = 0

    async def always(question: Question) -> Answer:
        nonlocal asked
        asked += 1
        return Answer(allowed=True, grant="session")

    write = call("Write", file_path="a.txt", content="x")
    store = await open_store("memory:", clock=SystemClock())
    async with open_session(model=scripted(write, "1", write, "2"), store=store, cwd=tmp_path, asker=always) as session:
        await session.run("write")
        fork = await session.fork()
    async with open_session(
        model=scripted(write, "1", write, "2"), store=store, cwd=tmp_path, asker=always, resume=fork
    ) as again:
        assert again.approved_tools == ()
        await again.run("write")
    assert asked == 2
    for text in ("Ba*", "bash", "*"):
        rule = Rule.parse("deny", text)
        async with talk(
            call("Bash", command="touch x"), "no", rules=[rule], permission_mode="bypassPermissions"
        ) as session:
            await session.run("go")
            assert [denial.tool for denial in session.turns[0].denials] == ["Bash"], text
    async with talk(call("Bash", command="touch x"), "no", rules=[Rule.parse("allow", "Ba*")]) as session:
        await session.run("go")
        assert len(session.turns[0].denials) == 1  # what allows is read to the letter


async def test_a_check_that_fails_leaves_the_outcome_unknown(tmp_path: Path) -> None:
    async def bank_is_closed(amount: int) -> str | None:
        raise ConnectionError("the bank does not answer")

    paid: list[int] = []

    @tool(effect="reconcilable", check=bank_is_closed)
    async def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        await anyio.sleep_forever()
        raise AssertionError

    dead = functools.partial(MemoryStore.open, is_dead=lambda owner: True)  # each opening thinks so of the one before
    store = await dead(clock=SystemClock())
    model = scripted(call("pay", amount=3), "I looked")

    async def takes_over() -> tuple[TurnResult | None, ToolFinished]:
        async with open_session(model=model, tools=[pay], store=store, resume="s") as again:
            return await again.finish(), next(
                r.event for r in await again.events() if isinstance(r.event, ToolFinished)
            )

    found: list[tuple[TurnResult | None, ToolFinished]] = []
    with suppress(LeaseLost):
        async with open_session(model=model, tools=[pay], store=store, session_id="s") as session:
            await session.submit("pay")
            await until(lambda: bool(paid))
            found.append(await takes_over())
    ((result, finished),) = found
    assert result is not None
    assert (finished.outcome, paid) == ("unknown", [3])


async def test_only_ended_turns_can_be_rewound_to() -> None:
    async with talk("one", "two") as session:
        await session.run("a")
        reply = session.history[1].id
        with pytest.raises(UserError, match="no turn"):
            await session.rewind(to=reply)
        with pytest.raises(UserError, match="no turn"):
            await session.rewind(to="")


async def test_a_move_that_was_cut_off_opens_nowhere_twice_and_can_be_finished(tmp_path: Path) -> None:
    clock = SystemClock()
    source = await open_store(f"sqlite:///{tmp_path}/a.db", clock=clock)
    target = await open_store(f"sqlite:///{tmp_path}/b.db", clock=clock)
    async with open_session(model=scripted("one", "two"), store=source, session_id="s") as session:
        await session.run("a")

    class CutOff:
        """A store in which nothing can be deleted."""

        def __getattr__(self, name: str) -> object:
            return getattr(source, name)

        async def delete(self, session: str) -> None:
            raise StoreFull("the process dies here")

    with pytest.raises(StoreFull):
        await sessions.move(CutOff(), target, "s", clock=clock)  # type: ignore[arg-type]  # it is the source in all else
    with pytest.raises(StoreMismatch):
        async with open_session(model=scripted("one", "two"), store=source, resume="s"):
            pytest.fail("it must not open in two places")
    async with open_session(model=scripted("one", "two"), store=target, resume="s") as again:
        assert len(again.history) == 2
    await sessions.move(source, target, "s", clock=clock)
    assert not await sessions.exists(source, "s")
    async with open_session(model=scripted("one", "two"), store=target, resume="s") as again:
        assert await again.run("b") == "two"
    await source.close()
    await target.close()


async def test_a_late_answer_allows_nothing_else() -> None:
    desk = ApprovalQueue()
    with anyio.move_on_after(0.01):
        await desk.ask(Question(session="s", call="rm-1", tool="Bash", args={}, reason=""))
    assert desk.answer("", Answer(allowed=True)) != ""
    with anyio.move_on_after(0.01) as waited:
        await desk.ask(Question(session="s", call="other", tool="Bash", args={}, reason=""))
    assert waited.cancelled_caught


async def test_a_result_in_hand_waits_for_space_however_long_it_takes() -> None:
    inner = await open_store("memory:", clock=SystemClock())
    till = Till()

    class Full:
        """A store that is full whenever a result comes, for a while."""

        refused = 0

        def __getattr__(self, name: str) -> object:
            return getattr(inner, name)

        async def append(self, lease, seq, records, blobs=()):  # type: ignore[no-untyped-def]  # the port's
            if any(isinstance(r.event, ToolFinished) for r in records) and self.refused < 3:
                self.refused += 1
                raise StoreFull("no space")
            await inner.append(lease, seq, records, dict(blobs))

    full = Full()
    script = (call("charge", amount=1), "paid")
    async with open_session(model=scripted(*script), tools=[till.tool], store=full, patience_s=0.0) as session:  # type: ignore[arg-type]  # all but append is the store's
        items = await stream(session, "pay")
        assert session.turns[-1].text == "paid"
    assert full.refused == 3
    assert till.charged == [1]
    assert sum(type(item).__name__ == "StoreWaiting" for item in items) == 3
    assert sum(isinstance(getattr(item, "event", None), ToolStarted) for item in items) == 1


async def test_a_sync_tool_that_never_returns_is_left_behind() -> None:
    import threading

    @tool
    def stuck() -> str:
        """Never return."""
        threading.Event().wait(30)
        return ""

    async with talk(call("stuck"), "went on", tools=[stuck], tool_timeout_s=0.05) as session:
        assert await session.run("go") == "went on"
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "backstay tool")


async def test_a_tool_that_exits_fails_and_ends_nothing_else() -> None:
    @tool
    async def leave() -> str:
        """Exit."""
        raise SystemExit(3)

    async with talk(call("leave"), "went on", tools=[leave]) as session:
        assert await session.run("go") == "went on"
        finished = next(r.event for r in await session.events() if isinstance(r.event, ToolFinished))
        assert (finished.outcome, finished.code, text_of(finished.content)) == ("failed", "raised", "SystemExit: 3")


async def test_an_empty_id_names_nothing() -> None:
    store = await open_store("memory:", clock=SystemClock())
    async with open_session(model=scripted("x"), store=store) as session:
        await session.run("hi")
    for nothing in ("", " "):
        with pytest.raises(UserError):
            await sessions.find(store, nothing)
        with pytest.raises(UserError):
            async with open_session(model=scripted("x"), store=store, resume=nothing):
                pytest.fail("must not open")
