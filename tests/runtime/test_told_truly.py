"""What callers are told is what happened."""

from contextlib import suppress

import anyio
import pytest

from backstay import TurnFailed, TurnInterrupted, UserError, open_session, open_store
from backstay.stores.memory import MemoryStore
from backstay.system.machine import SystemClock
from backstay.testing.clock import ObedientClock
from backstay.vocab.errors import IllegalTransition, LeaseLost
from backstay.vocab.events import InputDropped
from tests.contracts.kit import scripted, talk
from tests.hooks.test_moments import Slow

CALL = {"calls": [{"name": "slow", "args": {"n": 1}}]}


async def test_an_input_that_a_close_leaves_waiting_is_not_said_to_be_dropped() -> None:
    store, slow = await open_store("memory:"), Slow()
    said: list[str] = []
    options = {"model": scripted(CALL, "x"), "tools": [slow.tool], "store": store, "session_id": "s"}
    async with anyio.create_task_group() as tasks, open_session(**options) as session:  # type: ignore[arg-type]

        async def run(prompt: str) -> None:
            with pytest.raises(TurnInterrupted) as caught:
                await session.run(prompt, input_id=prompt)
            said.append(str(caught.value))

        tasks.start_soon(run, "first")
        await slow.reached.wait()
        tasks.start_soon(run, "second")
        while session.pending_inputs != ("second",):
            await anyio.sleep(0.001)
        await session.close("the program ends")
    assert sorted("is kept" in each for each in said) == [False, True]
    async with open_session(model=scripted("x", "Answered."), store=store, resume="s") as again:
        assert again.pending_inputs == ("second",)
        assert await again.run("second", input_id="second") == "Answered."


@pytest.mark.contract("ST-12")
async def test_what_is_said_during_a_drain_is_refused_and_not_queued() -> None:
    slow = Slow()
    async with talk(CALL, "done", tools=[slow.tool]) as session, anyio.create_task_group() as tasks:
        tasks.start_soon(session.run, "go")
        await slow.reached.wait()

        async def close() -> None:
            await session.close("enough", drain_s=60)

        tasks.start_soon(close)
        await anyio.sleep(0.02)
        with pytest.raises(IllegalTransition, match="takes no more prompts"):
            await session.run("more")
        slow.release.set()
    assert [turn.outcome for turn in session.turns] == ["completed"]


async def test_an_input_whose_turn_was_given_up_has_no_answer() -> None:
    store = await MemoryStore.open(clock=SystemClock(), is_dead=lambda owner: True)
    slow = Slow()
    with suppress(LeaseLost):
        async with open_session(model=scripted(CALL), tools=[slow.tool], store=store, session_id="s") as session:
            await session.submit("go", input_id="k")
            await slow.reached.wait()
            async with open_session(model=scripted("x"), store=store, resume="s", on_crash="abandon") as again:
                with pytest.raises(TurnInterrupted, match="given up after a crash"):
                    await again.run("go", input_id="k")


async def test_an_input_that_is_sent_twice_does_not_take_its_own_place() -> None:
    slow = Slow()
    async with talk(CALL, "done", "the answer", tools=[slow.tool]) as session, anyio.create_task_group() as tasks:
        tasks.start_soon(session.run, "go")
        await slow.reached.wait()

        async def submit() -> None:
            await session.submit("important", input_id="x", replaces=True)

        async with anyio.create_task_group() as senders:
            senders.start_soon(submit)
            senders.start_soon(submit)
        assert session.pending_inputs == ("x",)
        slow.release.set()
        await session.until_idle()
        assert not any(isinstance(record.event, InputDropped) for record in await session.events())


async def test_no_input_is_called_as_all_of_them() -> None:
    async with talk("one") as session:
        with pytest.raises(UserError, match="stands for all of them"):
            await session.run("a", input_id="*")


async def test_only_one_of_two_compactions_begins() -> None:
    ended: list[str] = []
    async with talk(*["word " * 400] * 12) as session:
        for _ in range(6):
            await session.run("tell me " * 200)

        async def compact() -> None:
            try:
                await session.compact()
                ended.append("compacted")
            except IllegalTransition:
                ended.append("refused")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(compact)
            tasks.start_soon(compact)
    assert sorted(ended) == ["compacted", "refused"]


async def test_a_log_that_was_written_with_the_clock_ahead_delays_no_retry() -> None:
    store = await open_store("memory:")
    day = 24 * 3600 * 1_000_000
    ahead, now = ObedientClock(start=2 * day, hurries=True), ObedientClock(start=day, hurries=True)
    async with open_session(model=scripted("one"), store=store, session_id="s", clock=ahead) as session:
        await session.run("a")
    replies = ("one", {"error": {"kind": "rate_limit", "retry_after_s": 0.2}}, "two")
    async with open_session(model=scripted(*replies), store=store, resume="s", clock=now) as session:
        assert await session.run("b") == "two"
    assert now.now() < 1.5 * day  # a clock that hurries passes over what else waits, too


async def test_a_script_that_ends_in_an_error_names_it() -> None:
    async with talk({"error": {"kind": "rate_limit", "retry_after_s": 0.01}}) as session:
        with pytest.raises(TurnFailed, match="after the error 'rate_limit'"):
            await session.run("a")


async def test_tokens_of_calls_that_failed_are_counted_where_sessions_are_listed() -> None:
    async with talk({"text": "half", "error": {"kind": "auth"}}, "two") as session:
        with pytest.raises(TurnFailed):
            await session.run("a")
        failed = session.usage.input
        await session.run("b")
        meta = await session.store.meta(session.id)
        assert 0 < failed < meta.input_tokens == session.usage.input
