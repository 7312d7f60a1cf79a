"""Callbacks that break, lag or are taken back disturb nobody, and hear of every event."""

from collections.abc import AsyncIterator

import anyio
import pytest

from backstay import tool
from backstay.ports import ModelReply, ModelRequest
from backstay.runtime.bus import CAPACITY
from backstay.session.session import Session
from backstay.vocab.deltas import Delta, TextDelta
from backstay.vocab.event import Draft
from backstay.vocab.events import FaultCaught
from backstay.vocab.messages import Text, ToolCall
from backstay.vocab.specs import ModelFacts
from tests.contracts.kit import call, talk

PIECES = 20_000


class Flood:
    """A model that says more than a ring holds, then calls a tool, then says as much again."""

    name, format, facts = "flood:1", "anthropic", ModelFacts(known=True)

    def __init__(self) -> None:
        self._asked = 0

    async def ask(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        """Stream many small pieces."""
        self._asked += 1
        for _ in range(PIECES):
            yield TextDelta(text="x")
        calls = (ToolCall(id="c", name="look", args="{}"),) if self._asked == 1 else ()
        yield ModelReply(parts=(Text(text="said"), *calls), stop="tool_calls" if calls else "end")


async def faults_of(session: Session) -> list[FaultCaught]:
    return [record.event for record in await session.events() if isinstance(record.event, FaultCaught)]


@pytest.mark.parametrize("name", ["*", "fault_caught", "model_asked"])
async def test_a_callback_that_always_breaks_is_recorded_once(name: str) -> None:
    def broken(_: object) -> None:
        raise ZeroDivisionError("again and again")

    async with talk("one", "two") as session:
        session.on(name, broken)
        session.on("text_delta", broken)
        await session.run("a")
        await session.run("b")
        await anyio.sleep(0.1)
        faults = await faults_of(session)
        length = session.seq
        await anyio.sleep(0.1)

        assert session.seq == length
        assert sorted(fault.where for fault in faults) == sorted(
            f"the callback for {each!r}" for each in {name, "text_delta"} - {"fault_caught"}
        )
        assert all("again and again" in fault.message for fault in faults)
        assert all(
            fault.message.endswith("More errors of this kind in this callback are not recorded.") for fault in faults
        )


async def test_each_kind_of_error_of_each_callback_is_recorded() -> None:
    errors: list[Exception] = [ValueError("1"), KeyError("2"), ValueError("3")]

    def broken(_: object) -> None:
        raise errors.pop(0)

    def another(_: object) -> None:
        raise ValueError("4")

    async with talk("one", "two", "three") as session:
        session.on("complete", broken)
        session.on("complete", another)
        for prompt in ("a", "b", "c"):
            await session.run(prompt)
        await anyio.sleep(0.1)

        assert [fault.kind for fault in await faults_of(session)] == ["ValueError", "ValueError", "KeyError"]


async def test_a_callback_that_is_slower_than_the_stream_hears_of_every_event() -> None:
    @tool
    async def look() -> str:
        """Look."""
        return "seen"

    heard: list[str] = []

    async def slow(_: object) -> None:
        await anyio.sleep(0.0005)

    async with talk("", model=Flood(), tools=[look]) as session:
        session.on("text_delta", slow)
        for name in ("model_asked", "model_replied", "tool_start", "tool_end", "complete"):
            session.on(name, lambda _, name=name: heard.append(name))  # type: ignore[misc]  # mypy knows no such lambda
        assert await session.run("go") == "said"
        with anyio.fail_after(40):
            while "complete" not in heard:
                await anyio.sleep(0.05)

    asked = ["model_asked", "model_replied"]
    assert heard == [*asked, "tool_start", "tool_end", *asked, "complete"]


async def test_a_callback_that_is_slower_than_the_log_hears_of_every_event() -> None:
    heard: list[str] = []

    async def slow(_: object) -> None:
        await anyio.sleep(0.001 if not heard else 0)

    async with talk("one") as session:
        session.on("*", slow)
        session.on("fault_caught", lambda record: heard.append(record.event.message))  # type: ignore[attr-defined]  # a `Recorded`
        faults = [FaultCaught(where="test", kind="None", message=str(number)) for number in range(CAPACITY + 600)]
        await session.note(*(Draft(event=fault) for fault in faults))
        with anyio.fail_after(40):
            while len(heard) < len(faults):
                await anyio.sleep(0.05)

        assert heard == [fault.message for fault in faults]
        assert len(await faults_of(session)) == len(faults)


async def test_a_callback_may_be_ended_twice_and_another_like_it_goes_on() -> None:
    heard: list[object] = []

    async with talk("one", "two") as session:
        end = session.on("text_delta", heard.append)
        session.on("text_delta", heard.append)
        end()
        end()
        await session.run("a")

    assert heard == ["one"]


async def test_a_callback_may_end_itself() -> None:
    heard: list[object] = []

    async with talk(call("missing"), "two") as session:

        def once(item: object) -> None:
            heard.append(item)
            end()

        end = session.on("model_asked", once)
        await session.run("a")

    assert len(heard) == 1
