"""What was once wrong with limits: each of these lost a text, lost money, or left a session that did not go on."""

import anyio

from backstay import open_session, open_store
from backstay.logic.compaction import apply, frame_summary, plan, state_after
from backstay.ports import Answer, ModelReply, ModelRequest, Question
from backstay.session.subagents import child_tool
from backstay.system.machine import SystemClock
from backstay.vocab.errors import TurnPaused
from backstay.vocab.events import ChildFinished
from backstay.vocab.events.limits import Compacted
from backstay.vocab.messages import DurablePart, MediaRef, Role, SessionMessage, Text, ToolCall, ToolResult
from backstay.vocab.specs import ModelFacts, Prices, Usage
from tests.contracts.limits_kit import Fake, log_of

PRICED = ModelFacts(known=True, prices=Prices(input=100_000_000, output=100_000_000), summarises=False)
USED = Usage(input=1000, output=100)
"""110,000 micro-cents at that price."""


def said(number: int, role: Role, *parts: DurablePart) -> SessionMessage:
    """A message with the id and the number `number`."""
    return SessionMessage(id=str(number), session="s", number=number, role=role, content=parts, at=0)


def worked(first: int, rounds: int) -> list[SessionMessage]:
    """Rounds of a long turn, each with a long tool output."""
    output = ToolResult(call="c", content=(Text(text="a line that a tool wrote, with a number 123\n" * 300),))
    return [
        said(number, "assistant", ToolCall(id="c", name="t", args="{}")) if number % 2 else said(number, "tool", output)
        for number in range(first, first + 2 * rounds)
    ]


def compacted(messages: list[SessionMessage], before: Compacted | None, number: int, turn: int | None) -> Compacted:
    """Shorten `messages` in place."""
    chosen = plan(messages, before, used=20_000, window=20_000, overhead=100, ratio=1.0, turn=turn)
    assert chosen is not None
    event = state_after(chosen, Text(text="notes"), "auto")
    messages[:] = apply(event, said(number, "user", *frame_summary(event)), messages)
    return event


def test_a_request_of_several_parts_stays_whole_however_often_its_turn_is_compacted() -> None:
    image = MediaRef(sha256="a" * 64, media_type="image/png", size=5)
    request = (Text(text="Delete nothing."), Text(text="Rename foo to bar."), image)
    messages = [said(3, "user", *request), *worked(5, 6)]
    before = compacted(messages, None, 20, turn=2)
    messages += [said(21, "user", Text(text="And quickly.")), *worked(23, 6)]
    again = compacted(messages, before, 60, turn=2)

    assert before.request == request
    assert again.request == (*request, Text(text="And quickly."))
    assert set(request) < set(messages[0].content)

    messages += [said(71, "assistant", Text(text="Done.")), said(72, "user", Text(text="Next.")), *worked(73, 6)]
    answered = compacted(messages, again, 90, turn=71)
    assert answered.request == (Text(text="Next."),)


class Family:
    """A parent that delegates once and a child that works for five calls."""

    name, format, facts = "priced:one", "anthropic", PRICED

    async def ask(self, request: ModelRequest):  # type: ignore[no-untyped-def]  # an async generator
        """Answer by who asks and how often they asked before."""
        await anyio.lowlevel.checkpoint()
        child = "work" in str(request.messages[0])
        if child and request.position < 4:
            yield ModelReply(parts=(ToolCall(id="", name="no_such", args="{}"),), stop="tool_calls", usage=USED)
        elif not child and request.position == 0:
            args = '{"prompt": "work"}'
            yield ModelReply(parts=(ToolCall(id="", name="delegate", args=args),), stop="tool_calls", usage=USED)
        else:
            yield ModelReply(parts=(Text(text="done"),), usage=USED)


async def test_a_paused_child_goes_on_when_the_budget_is_lifted_altogether() -> None:
    async with open_session(
        model=Family(),
        store=await open_store("memory:", clock=SystemClock()),
        tools=[child_tool()],
        only_tools=True,
        permission_mode="bypassPermissions",
        budget_microcents=400_000,
        on_exceed="pause_for_approval",
    ) as session:
        try:
            await session.run("go")
        except TurnPaused:
            await session.set_budget(None)
        result = await session.finish()
        assert result is not None
        assert result.outcome == "completed"
        (finished,) = await log_of(session, ChildFinished)
        assert finished.outcome == "completed"
        assert session.cost == 7 * 110_000
        assert session.usage.input == 7 * 1000
        assert not session.is_paused


def answering(*texts: str) -> Fake:
    """A model with a price."""
    return Fake(*(ModelReply(parts=(Text(text=text),), usage=USED) for text in texts), facts=PRICED)


async def test_a_turn_that_goes_on_under_another_rule_is_no_longer_paused() -> None:
    async with open_session(
        model=answering("ok"),
        store=None,
        only_tools=True,
        budget_microcents=1_000,
        on_exceed="pause_for_approval",
    ) as session:
        try:
            await session.run("go")
        except TurnPaused:
            await session.set_budget(1_000, "warn")
        result = await session.finish()
        assert result is None or result.outcome == "completed"
        assert not session.is_paused


async def test_a_fork_has_the_budget_and_what_was_spent_on_its_path() -> None:
    store = await open_store("memory:", clock=SystemClock())
    async with open_session(model=answering("one"), store=store, only_tools=True, budget_microcents=250_000) as session:
        await session.run("go")
        fork = await session.fork()
    async with open_session(model=answering("two"), store=store, resume=fork, only_tools=True) as copy:
        assert copy.budget == 250_000
        assert copy.cost == 110_000


async def test_a_budget_that_is_set_while_somebody_is_asked_counts_and_the_old_question_does_not() -> None:
    asked, answer = anyio.Event(), anyio.Event()

    async def asker(question: Question) -> Answer:
        asked.set()
        await answer.wait()
        return Answer(allowed=True)

    async with (
        open_session(
            model=answering("ok"),
            store=None,
            only_tools=True,
            budget_microcents=1_000,
            on_exceed="pause_for_approval",
            asker=asker,
        ) as session,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(session.run, "go")
        await asked.wait()
        await session.set_budget(None)
        result = await session.finish()
        assert result is None or result.outcome == "completed"
        answer.set()
        assert session.budget is None
