"""Money: RV-B7, RV-B8, decision 29. Whole micro-cents, set aside before a call and settled after it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from backstay import TurnFailed, TurnInterrupted, UserError, open_session, open_store
from backstay.logic.budget import cost
from backstay.ports import Answer, ModelReply, ModelRequest, Question
from backstay.session.subagents import child_tool
from backstay.testing.clock import ObedientClock
from backstay.vocab.deltas import Delta, TextDelta
from backstay.vocab.errors import TurnPaused
from backstay.vocab.events import ChildFinished, Interrupted, ModelAsked, ModelFailed, ModelReplied, TurnCompleted
from backstay.vocab.events.limits import BudgetAnswered, BudgetAsked, BudgetSet, BudgetWarned, ChildPaused, Compacted
from backstay.vocab.messages import Text
from backstay.vocab.specs import ModelFacts, Prices, Usage
from tests.contracts.kit import look, stream
from tests.contracts.limits_kit import (
    CHEAP,
    Act,
    Broken,
    Fake,
    Silent,
    calling,
    die_when,
    log_of,
    memory,
    quiet,
    stop_at,
)

PRICED = ModelFacts(known=True, prices=CHEAP)


def paid(*acts: Act, **fields: Any) -> Fake:
    """A model with a price, and answers that each cost 100 to be read and 50 to be written."""
    return Fake(*map(_costing, acts), *[costly()] * 50, facts=PRICED, **fields)


def costly(text: str = "ok", sent: int = 100, said: int = 25) -> ModelReply:
    """An answer of so many tokens."""
    return ModelReply(parts=(Text(text=text),), usage=Usage(input=sent, output=said))


def _costing(act: Act) -> Act:
    if isinstance(act, str):
        return costly(act)
    return act


def bounded(model: Fake, limit: int | None = 400, **options: Any) -> Any:  # Any: options, and the block of a session
    """A session with a budget in micro-cents and almost nothing to send."""
    given = {"model": model, "store": None, "only_tools": True, "system_prompt": "x", "budget_microcents": limit}
    return open_session(**{**given, **options})


# --- whole numbers ---------------------------------------------------------------------------------------------------------------


@pytest.mark.contract("RV-B7")
async def test_what_a_call_costs_is_a_whole_number_rounded_half_up_by_each_class_of_token() -> None:
    prices = Prices(input=1_500_000, output=500_000, cache_read=250_000, cache_write=3_500_000)
    usage = Usage(input=13, output=3, cache_read=2, cache_write=10)
    reply = ModelReply(parts=(Text(text="x"),), usage=usage)
    async with bounded(Fake(reply, facts=ModelFacts(known=True, prices=prices)), limit=None) as session:
        await session.run("go")
        (said,) = await log_of(session, ModelReplied)
        assert said.cost == 2 + 1 + 35 + 2  # 1.5, 0.5, 35 and 1.5
        assert isinstance(said.cost, int)
        assert session.cost == said.cost


@pytest.mark.contract("RV-B7")
async def test_a_model_without_a_price_needs_an_acknowledgement_wherever_a_budget_meets_it() -> None:
    free = Fake(name="free:one")
    with pytest.raises(UserError, match="no known price"):
        async with bounded(free):
            pytest.fail("must not open")
    with pytest.raises(UserError, match="'free:one' has no known price"):
        async with bounded(paid(), fallback_models=[free]):
            pytest.fail("must not open")
    async with bounded(free, allow_unpriced=True) as session:
        assert await session.run("go") == "ok"
        assert session.cost == 0
        await session.set_budget(500)
    async with bounded(free, limit=None) as session:
        with pytest.raises(UserError, match="no known price"):
            await session.set_budget(500)
        await session.set_budget(None)
    async with bounded(paid(), find={"free:one": free}.__getitem__) as session:
        with pytest.raises(UserError, match="no known price"):
            await session.set_model("free:one")
        assert session.model == "fake:one"


@pytest.mark.contract("RV-B7")
async def test_a_session_with_a_budget_can_be_read_without_its_model() -> None:
    clock = ObedientClock(hurries=True)
    store = await memory(clock)
    async with bounded(paid(name="gone:model"), store=store, clock=clock, session_id="s") as session:
        await session.run("go")
    async with open_session(resume="s", store=store, clock=clock) as session:
        assert session.cost == 150
        assert session.report is not None
        assert "gone:model" in str(session.report)


async def test_a_budget_that_is_none_is_refused() -> None:
    async with bounded(paid()) as session:
        with pytest.raises(UserError, match="cannot be kept"):
            await session.set_budget(-1)
    with pytest.raises(UserError, match="perhaps"):
        async with bounded(paid(), on_exceed="perhaps"):
            pytest.fail("must not open")


# --- when it is spent ------------------------------------------------------------------------------------------------------------


@pytest.mark.contract("RV-B7")
async def test_a_spent_budget_fails_the_turn_before_anything_is_sent_unless_something_else_is_said() -> None:
    model = paid("one", costly("two", sent=130, said=200))
    async with bounded(model, limit=400) as session:
        await session.run("go")
        await session.run("go on")
        assert session.cost == 150 + 530  # one call went past it
        with pytest.raises(TurnFailed, match="is used up") as caught:
            await session.run("no more")
        assert caught.value.reason == "budget"
        assert len(model.asked) == 2
        end = (await log_of(session, TurnCompleted))[-1]
        assert (end.outcome, end.stop_reason, end.code) == ("failed", "error", "budget")
        await session.set_budget(2_000)
        assert await session.run("raised") == "ok"
        assert model.refused == []


@pytest.mark.contract("RV-B7")
async def test_a_call_whose_input_alone_costs_more_than_is_left_is_not_made() -> None:
    model = paid()
    async with bounded(model, limit=400) as session:
        with pytest.raises(TurnFailed, match="the next call needs about") as caught:
            await session.run("word " * 600)
        assert caught.value.reason == "budget"
        assert (model.asked, session.cost) == ([], 0)


@pytest.mark.contract("RV-B7")
async def test_a_warning_is_said_once_and_the_session_goes_on() -> None:
    model = paid()
    async with bounded(model, limit=200, on_exceed="warn") as session:
        for _ in range(5):
            assert await session.run("go") == "ok"
        warned = await log_of(session, BudgetWarned)
        assert [(each.spent, each.limit) for each in warned] == [(150, 200)]
        await session.set_budget(900)
        for _ in range(3):
            await session.run("go")
        assert len(await log_of(session, BudgetWarned)) == 2


@pytest.mark.contract("RV-B7")
async def test_a_pause_waits_survives_a_restart_and_goes_on_when_the_budget_is_raised(tmp_path: Path) -> None:
    clock = ObedientClock()
    store = await open_store(f"sqlite:///{tmp_path}/s.db", clock=clock)
    model = paid(calling("look", at="sky"), "blue")
    options: dict[str, Any] = {"store": store, "clock": clock, "tools": [look]}
    model._acts[0] = ModelReply(parts=calling("look", at="sky").parts, stop="tool_calls", usage=Usage(input=300))
    async with bounded(model, 200, on_exceed="pause_for_approval", session_id="s", **options) as session:
        with pytest.raises(TurnPaused, match="Raise the budget"):
            await session.run("colour?")
        assert session.is_paused
        assert len(model.asked) == 1
    async with bounded(model, None, resume="s", **options) as session:
        assert session.is_paused
        with pytest.raises(TurnPaused):
            await session.finish()
        assert len(model.asked) == 1
    async with bounded(model, 1_000, resume="s", **options) as session:  # opened with more
        result = await session.finish()
        assert result is not None
        assert (result.text, result.outcome, result.cost) == ("blue", "completed", 450)
        assert not session.is_paused
        assert [message.role for message in session.history] == ["user", "assistant", "tool", "assistant"]
        assert model.refused == []
    await store.close()


@pytest.mark.contract("RV-B7")
async def test_a_paused_turn_goes_on_at_once_when_somebody_raises_the_budget() -> None:
    model = paid("one", "two")
    async with bounded(model, 120, on_exceed="pause_for_approval") as session:
        await session.run("first")
        with pytest.raises(TurnPaused):
            await session.run("second")
        with pytest.raises(TurnPaused):  # it waits behind the paused one
            await session.run("third")
        with pytest.raises(TurnPaused):
            await session.finish()
        await session.set_budget(130)
        with pytest.raises(TurnPaused):
            await session.finish()
        await session.set_budget(10_000)
        result = await session.finish()
        assert result is not None
        assert [turn.outcome for turn in session.turns] == ["completed"] * 3
        assert [turn.text for turn in session.turns] == ["one", "two", "ok"]
        assert len(model.asked) == 3


@pytest.mark.contract("RV-B7")
async def test_a_paused_turn_can_be_interrupted_and_the_next_one_asks_anew() -> None:
    model = paid()
    async with bounded(model, 120, on_exceed="pause_for_approval") as session:
        await session.run("first")
        with pytest.raises(TurnPaused):
            await session.run("second")
        await session.abort()
        await quiet()
        assert session.turns[-1].outcome == "interrupted"
        assert not session.is_paused
        with pytest.raises(TurnPaused):
            await session.run("third")
        assert len(await log_of(session, BudgetAsked)) == 2
        await session.set_budget(None)
        assert (await session.finish() or session.turns[-1]).text == "ok"


@pytest.mark.contract("RV-B7")
async def test_somebody_who_can_be_asked_allows_as_much_again() -> None:
    questions: list[Question] = []

    async def allow(question: Question) -> Answer:
        questions.append(question)
        return Answer(allowed=True)

    model = paid()
    async with bounded(model, 300, on_exceed="pause_for_approval", asker=allow) as session:
        for _ in range(5):
            assert await session.run("go") == "ok"
        assert [question.tool for question in questions] == ["Budget", "Budget"]
        assert questions[0].args == {"spent_usd": 300 / 1e8, "limit_usd": 300 / 1e8}
        answered = await log_of(session, BudgetAnswered)
        assert [each.limit for each in answered] == [600, 1200]


@pytest.mark.contract("RV-B7")
async def test_somebody_who_refuses_ends_the_turn_and_is_asked_again_in_the_next() -> None:
    answers = [Answer(allowed=False, message="not today"), Answer(allowed=True)]

    async def ask(_: Question) -> Answer:
        return answers.pop(0)

    model = paid()
    async with bounded(model, 150, on_exceed="pause_for_approval", asker=ask) as session:
        await session.run("first")
        with pytest.raises(TurnFailed, match="not today") as caught:
            await session.run("second")
        assert caught.value.reason == "budget"
        assert len(model.asked) == 1
        assert await session.run("third") == "ok"
        assert answers == []


@pytest.mark.contract("RV-B7", "RB-43")
async def test_a_question_about_money_can_be_interrupted() -> None:
    async def never(_: Question) -> Answer:
        await anyio.sleep_forever()
        raise AssertionError

    model = paid()
    async with bounded(model, 100, on_exceed="pause_for_approval", asker=never) as session:
        await session.run("first")
        await stop_at(session, "second", BudgetAsked)
        assert session.turns[-1].outcome == "interrupted"
        await session.set_budget(1_000)
        assert await session.run("third") == "ok"


@pytest.mark.contract("RV-B7")
async def test_a_question_about_money_that_was_open_in_a_crash_is_asked_again() -> None:
    clock = ObedientClock(hurries=True)
    store = await memory(clock)

    async def never(_: Question) -> Answer:
        await anyio.sleep_forever()
        raise AssertionError

    async def allow(_: Question) -> Answer:
        return Answer(allowed=True)

    model = paid()
    options: dict[str, Any] = {"store": store, "clock": clock}
    async with bounded(model, 150, on_exceed="pause_for_approval", session_id="s", **options) as session:
        await session.run("first")
    asked = lambda r: isinstance(r.event, BudgetAsked)  # noqa: E731
    await die_when(asked, "second", model=model, asker=never, session_id="s", only_tools=True, **options)
    async with bounded(model, None, resume="s", asker=allow, **options) as session:
        result = await session.finish()
        assert result is not None
        assert result.text == "ok"
        assert len(await log_of(session, BudgetAsked)) == 2


# --- what was cut short ----------------------------------------------------------------------------------------------------------


@pytest.mark.contract("RV-B8")
async def test_an_answer_that_is_stopped_or_breaks_off_is_counted_as_an_estimate() -> None:
    model = paid(Silent(after="half an answer"), Broken(kind="overloaded", after="a quarter"))
    async with bounded(model, limit=10_000) as session:
        async for item in session.send("go"):
            if isinstance(item, TextDelta):
                await session.abort()
        (stopped,) = await log_of(session, ModelReplied)
        assert stopped.stop == "interrupted"
        assert stopped.usage is not None
        assert stopped.usage.estimated
        assert stopped.usage.input > 0 < stopped.usage.output
        assert stopped.cost == cost(stopped.usage, CHEAP)
        with pytest.raises(TurnFailed):
            await session.run("again")
        (failed,) = await log_of(session, ModelFailed)
        assert failed.usage is not None
        assert failed.usage.estimated
        assert failed.cost == cost(failed.usage, CHEAP)
        assert session.cost == (stopped.cost or 0) + (failed.cost or 0) > 0
        assert session.usage.estimated


@pytest.mark.contract("RV-B8")
async def test_a_failure_before_anything_came_costs_nothing() -> None:
    model = paid(Broken(kind="auth"))
    async with bounded(model, limit=10_000) as session:
        with pytest.raises(TurnFailed):
            await session.run("go")
        assert session.cost == 0


@pytest.mark.contract("RV-B8")
async def test_a_model_that_does_not_stop_when_it_is_told_to_is_paid_for_what_it_was_sent() -> None:
    class Deaf(Fake):
        async def ask(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
            with anyio.CancelScope(shield=True):
                await heard.wait()
            async for item in super().ask(request):
                yield item

    heard = anyio.Event()
    clock = ObedientClock()
    model = Deaf(costly(), facts=PRICED)
    async with bounded(model, limit=10_000, clock=clock) as session:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stop_at, session, "go " * 50, ModelAsked)
            while not await log_of(session, Interrupted):
                await anyio.sleep(0.001)
            while not await log_of(
                session, ModelReplied
            ):  # the deadline counts from when the interrupt was carried out
                clock.advance(5)
                await anyio.sleep(0.001)
        (silence,) = await log_of(session, ModelReplied)
        assert silence.parts == ()
        assert silence.usage is not None
        assert silence.usage.estimated
        assert session.cost == silence.cost == silence.usage.input > 50
        heard.set()
        await anyio.sleep(0.01)
        assert session.cost == silence.cost  # what came too late changes nothing


@pytest.mark.contract("RV-B7", "RV-B8")
async def test_a_call_that_a_crash_cut_off_is_settled_with_what_was_set_aside_for_it() -> None:
    clock = ObedientClock(hurries=True)
    store = await memory(clock)
    model = paid("after all")
    options: dict[str, Any] = {"store": store, "clock": clock}
    asked = lambda r: isinstance(r.event, ModelAsked)  # noqa: E731
    await die_when(
        asked,
        "go",
        model=model,
        session_id="s",
        only_tools=True,
        system_prompt="x",
        budget_microcents=10_000,
        **options,
    )
    async with bounded(model, None, resume="s", **options) as session:
        (lost,) = await log_of(session, ModelAsked)
        assert lost.reserved > 0
        assert session.cost == 0
        await session.finish()
        assert session.cost == lost.reserved + 150


# --- who else spends -------------------------------------------------------------------------------------------------------------


@pytest.mark.contract("RV-B7")
async def test_a_summary_is_not_bought_with_money_that_is_not_there() -> None:
    facts = ModelFacts(window=4_000, known=True, prices=CHEAP)
    model = Fake(*["word " * 60] * 100, facts=facts)
    async with bounded(model, limit=None, max_session_turns=500) as session:
        while session.context_state.used < 0.82 * 4_000:
            await session.run("question?")
        await session.set_budget(session.cost + 10)
        with pytest.raises(TurnFailed) as caught:
            await session.run("long question " * 20)
        assert caught.value.reason == "budget"
        assert model.summaries == []
        done = await session.compact()  # what a person wants is done, without a model
        assert (done.model, done.cost, model.summaries) == ("", None, [])
        await session.set_budget(None)
        while len(await log_of(session, Compacted)) < 2:
            await session.run("question?")
        assert model.summaries


@pytest.mark.contract("RV-B7")
async def test_a_child_spends_from_its_parents_purse_and_what_it_spent_counts_however_it_ended() -> None:
    model = paid(calling("delegate", prompt="work"), Silent(after="part of the work"))
    model._acts[0] = ModelReply(
        parts=calling("delegate", prompt="work").parts, stop="tool_calls", usage=Usage(input=100, output=25)
    )
    async with bounded(model, 5_000, tools=[child_tool()], permission_mode="bypassPermissions") as session:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream, session, "delegate it")
            while len(model.asked) < 2:
                await quiet()
            await session.abort()
        (ended,) = await log_of(session, ChildFinished)
        assert ended.outcome == "interrupted"
        assert ended.cost
        assert ended.spent is not None
        assert ended.spent.estimated
        assert session.cost == 150 + ended.cost


@pytest.mark.contract("RV-B7")
async def test_a_child_that_spent_its_share_waits_and_its_parent_asks() -> None:
    work = calling("look", at="x").parts
    acts: list[Act] = [
        ModelReply(parts=calling("delegate", prompt="work").parts, stop="tool_calls", usage=Usage(input=100))
    ]
    spends = (Usage(input=100), Usage(input=200, output=400), Usage(input=300))
    acts += [ModelReply(parts=work, stop="tool_calls", usage=usage) for usage in spends]
    model = paid(*acts, costly("child is done"), costly("parent is done"))
    tools = [child_tool(), look]
    options: dict[str, Any] = {"tools": tools, "permission_mode": "bypassPermissions"}
    async with bounded(model, 600, on_exceed="pause_for_approval", **options) as session:
        with pytest.raises(TurnPaused):
            await session.run("delegate it")
        (paused,) = await log_of(session, ChildPaused)
        assert (paused.share, paused.cost) == (500, 1_100)
        assert session.cost == 1_200
        assert session.is_paused
        assert len(await log_of(session, BudgetSet)) == 1
        await session.set_budget(5_000)
        result = await session.finish()
        assert result is not None
        assert result.text == "parent is done"
        (done,) = await log_of(session, ChildFinished)
        assert done.cost == 1_100 + 300 + 150
        assert session.cost == 100 + done.cost + 150 == result.cost


async def test_a_refusal_to_pay_for_a_child_is_a_result_like_any_other() -> None:
    async def refuse(_: Question) -> Answer:
        return Answer(allowed=False, message="too dear")

    acts: list[Act] = [
        ModelReply(parts=calling("delegate", prompt="work").parts, stop="tool_calls", usage=Usage(input=100)),
        ModelReply(parts=calling("look", at="x").parts, stop="tool_calls", usage=Usage(input=900)),
    ]
    model = paid(*acts)
    async with bounded(
        model,
        600,
        on_exceed="pause_for_approval",
        asker=refuse,
        tools=[child_tool(), look],
        permission_mode="bypassPermissions",
    ) as session:
        with pytest.raises(TurnFailed, match="too dear"):
            await session.run("delegate it")
        assert len(model.asked) == 2
        assert session.cost == 1_000


async def test_stopping_while_nobody_runs_says_so_to_whoever_waits() -> None:
    model = paid()
    async with bounded(model, 120, on_exceed="pause_for_approval") as session:
        await session.run("first")
        with pytest.raises(TurnPaused):
            await session.run("second", input_id="b")
        with pytest.raises(TurnPaused):
            await session.run("second", input_id="b")  # the same again: still waiting
        await session.abort()
        await quiet()
        with pytest.raises(TurnInterrupted):
            await session.run("second", input_id="b")
