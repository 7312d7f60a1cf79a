"""A cancellation that nobody here asked for is a fault like any other: recorded, and the session goes on."""

import asyncio
from collections.abc import AsyncIterator

import anyio
import pytest

from backstay import Answer, Question, TurnFailed, TurnInterrupted, hook, open_session, tool
from backstay.ports import ModelReply, ModelRequest
from backstay.runtime.barrier import Fault, run_guarded
from backstay.testing.clock import ObedientClock
from backstay.vocab.deltas import Delta, TextDelta
from backstay.vocab.events import FaultCaught, ToolFinished
from backstay.vocab.messages import text_of
from backstay.vocab.specs import ModelFacts
from tests.contracts.kit import call, talk


async def waits_for_the_cancelled() -> None:
    """Wait for a task that somebody else has cancelled."""
    task = asyncio.get_running_loop().create_future()
    task.cancel()
    await task


class Odd(BaseException):
    """Nobody's ordinary error."""


@tool(effect="pure")
async def waits() -> str:
    """Wait for somebody."""
    await waits_for_the_cancelled()
    return "never"


@tool(effect="pure")
async def odd() -> str:
    """Raise what is no Exception."""
    raise Odd("odd")


@pytest.mark.contract("RB-47", "RB-48")
@pytest.mark.parametrize(("each", "kind"), [(waits, "CancelledError"), (odd, "Odd")])
async def test_a_tool_that_ends_so_has_failed_and_the_session_goes_on(each: object, kind: str) -> None:
    name = "waits" if each is waits else "odd"
    async with talk(call(name), "told", "again", tools=[each]) as session:
        assert await session.run("go") == "told"
        events = [record.event for record in await session.events()]
        (finished,) = [event for event in events if isinstance(event, ToolFinished)]
        assert (finished.outcome, finished.code) == ("failed", "raised")
        assert [event.kind for event in events if isinstance(event, FaultCaught)] == [kind]
        assert await session.run("more") == "again"


async def test_a_model_that_ends_so_has_failed_and_the_session_goes_on() -> None:
    class Cancelled:
        name, format, facts = "m:1", "anthropic", ModelFacts()

        async def ask(self, _: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
            await waits_for_the_cancelled()
            yield TextDelta(text="never")

    async with open_session(model=Cancelled(), store=None) as session:
        for _ in range(2):
            with pytest.raises(TurnFailed, match="CancelledError"):
                await session.run("go")


async def test_an_asker_and_a_callback_that_end_so_disturb_nobody() -> None:
    async def ask(_: Question) -> Answer:
        await waits_for_the_cancelled()
        raise AssertionError

    @tool(asks=True)
    async def act() -> str:
        """Act."""
        return "done"

    async def deaf(_: object) -> None:
        await waits_for_the_cancelled()

    async with talk(call("act"), "refused", "again", tools=[act], asker=ask) as session:
        session.on("text_delta", deaf)
        assert await session.run("go") == "refused"
        (result,) = [r.event for r in await session.events() if isinstance(r.event, ToolFinished)]
        assert result.outcome == "denied"
        assert await session.run("more") == "again"


async def test_rb_w12_a_hook_that_ends_so_refuses_and_the_word_of_another_counts() -> None:
    ran: list[str] = []

    @tool
    async def wipe() -> str:
        """Wipe."""
        ran.append("wiped")
        return "wiped"

    @hook("PreToolUse")
    async def breaks(_: object) -> None:
        await waits_for_the_cancelled()

    @hook("PreToolUse")
    async def denies(_: object) -> dict[str, str]:
        await anyio.sleep(0.02)
        return {"decision": "block", "reason": "never wipe"}

    for hooks, reason in (([breaks], "CancelledError"), ([denies, breaks], "never wipe")):
        async with talk(call("wipe"), "ok", tools=[wipe], hooks=hooks) as session:
            await session.run("go")
            (result,) = [r.event for r in await session.events() if isinstance(r.event, ToolFinished)]
            assert (result.outcome, ran) == ("denied", [])
            assert reason in text_of(result.content)


async def test_a_cancellation_of_ours_passes() -> None:
    reached: list[str] = []

    async def work() -> None:
        reached.append("began")
        await anyio.sleep_forever()

    with anyio.move_on_after(0.01) as scope:
        await run_guarded("a test", work)
        reached.append("went on")
    task = asyncio.get_running_loop().create_task(run_guarded("a test", work))
    await anyio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (scope.cancelled_caught, reached) == (True, ["began", "began"])
    assert isinstance(await run_guarded("a test", waits_for_the_cancelled), Fault)


@pytest.mark.contract("RB-43")
async def test_what_was_said_is_kept_although_the_stream_does_not_stop_in_time() -> None:
    class Stubborn:
        name, format, facts = "m:1", "anthropic", ModelFacts()

        def __init__(self) -> None:
            self.let_go = anyio.Event()

        async def ask(self, _: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
            yield TextDelta(text="half of it")
            with anyio.CancelScope(shield=True):
                await self.let_go.wait()

    model, clock = Stubborn(), ObedientClock()
    heard: list[str] = []
    async with open_session(model=model, store=None, clock=clock) as session, anyio.create_task_group() as tasks:

        async def run() -> None:
            with pytest.raises(TurnInterrupted) as caught:
                await session.run("go")
            heard.append(caught.value.text)

        tasks.start_soon(run)
        while session.streaming_text != "half of it":
            await anyio.sleep(0.001)
        await session.rename("a commit in the middle of the stream")
        assert session.streaming_text == "half of it"
        tasks.start_soon(session.abort)
        while not heard:
            clock.advance(1)
            await anyio.sleep(0.001)
        model.let_go.set()
    assert heard == ["half of it"]
    assert [(message.role, message.state) for message in session.history][-1] == ("assistant", "interrupted")
