"""Ceilings of turns, rounds and messages: RV-14, RV-15, RV-16, RV-17, RB-10."""

from typing import Any

import pytest

from backstay import TurnFailed, UserError, open_session
from backstay.logic.decide.policy import SESSION_TURNS
from backstay.testing.clock import ObedientClock
from backstay.vocab.event import Recorded
from backstay.vocab.events import ModelAsked, TurnCompleted
from backstay.vocab.events.limits import Compacted, CompactionStarted
from backstay.vocab.messages import SessionMessage
from backstay.wire.stream import line
from tests.contracts.kit import look
from tests.contracts.limits_kit import Fake, calling, content_of, log_of, memory
from tests.contracts.test_context import assert_meter_is_right


def capped(model: Fake, **options: Any) -> Any:  # Any: options of every type, and the block of a session
    """A session without tools of its own."""
    return open_session(**{"model": model, "store": None, "only_tools": True, **options})


@pytest.mark.contract("RV-14")
@pytest.mark.parametrize("given", [{}, {"max_session_turns": 0}])
async def test_a_session_has_fifty_turns_unless_something_else_is_said(given: dict[str, int]) -> None:
    model = Fake()
    async with capped(model, **given) as session:
        for number in range(50):
            await session.run(f"turn {number}")
        with pytest.raises(TurnFailed, match="limit of 50 turns"):
            await session.run("one too many")
        assert len(model.asked) == SESSION_TURNS == 50


@pytest.mark.contract("RV-14", "RV-16")
async def test_past_the_limit_nothing_is_sent_and_the_turn_ends_as_an_error_that_says_why() -> None:
    model = Fake()
    async with capped(model, max_session_turns=2) as session:
        await session.run("one")
        await session.run("two")
        items = [item async for item in session.send("three")]
        ends = [item for item in items if isinstance(item, Recorded) and isinstance(item.event, TurnCompleted)]
        assert len(ends) == 1
        end = ends[0].event
        assert isinstance(end, TurnCompleted)
        assert (end.outcome, end.stop_reason, end.code) == ("failed", "error", "turn_limit")
        assert b'"session:turn_completed"' in line(session.id, ends[0])
        assert len(model.asked) == len(await log_of(session, ModelAsked)) == 2
        with pytest.raises(TurnFailed) as caught:
            await session.run("four")
        assert caught.value.reason == "turn_limit"


@pytest.mark.contract("RV-14", "RV-16")
async def test_the_limit_is_of_the_whole_log_and_a_higher_one_lets_it_go_on() -> None:
    clock = ObedientClock(hurries=True)
    store = await memory(clock)
    model = Fake()
    options: dict[str, Any] = {"store": store, "clock": clock}
    async with capped(model, session_id="s", max_session_turns=2, **options) as session:
        await session.run("one")
        await session.run("two")
        await session.rewind(to=session.turns[0].turn)
        for _ in range(3):
            with pytest.raises(TurnFailed):
                await session.run("no")
    async with capped(model, resume="s", max_session_turns=3, **options) as session:
        assert await session.run("three") == "ok"  # those that were refused do not count
        with pytest.raises(TurnFailed):
            await session.run("four")
    assert len(model.asked) == 3
    assert model.refused == []


async def test_a_limit_that_is_none_is_refused() -> None:
    for wrong in ({"max_session_turns": -1}, {"max_messages": 0}):
        with pytest.raises(UserError, match=next(iter(wrong))):
            async with capped(Fake(), **wrong):
                pytest.fail("must not open")


@pytest.mark.contract("RV-17", "RB-10")
async def test_a_turn_with_too_many_rounds_ends_with_the_same_code_through_the_same_event() -> None:
    model = Fake(*[calling("look", at="x")] * 20, "done")
    async with capped(model, tools=[look], max_rounds=3) as session:
        with pytest.raises(TurnFailed, match="limit of 3 model calls") as caught:
            await session.run("look for ever")
        assert caught.value.reason == "turn_limit"
        (end,) = await log_of(session, TurnCompleted)
        assert (end.outcome, end.stop_reason, end.code) == ("failed", "error", "turn_limit")
        assert len(model.asked) == 3
        with pytest.raises(TurnFailed):
            await session.run("the next turn has its own three")
        assert len(model.asked) == 6
        assert model.refused == []


@pytest.mark.contract("RB-10")
@pytest.mark.parametrize("given", [{}, {"max_rounds": 0}])
async def test_without_a_limit_a_turn_has_as_many_rounds_as_it_takes(given: dict[str, int]) -> None:
    model = Fake(*[calling("look", at="x")] * 60, "done")
    async with capped(model, tools=[look], **given) as session:
        assert await session.run("look for long") == "done"
        assert len(model.asked) == 61


@pytest.mark.contract("RV-15")
async def test_a_history_of_too_many_messages_is_trimmed_without_a_word_and_nothing_fails() -> None:
    model = Fake(*[f"answer {number}" for number in range(30)])
    async with capped(model, max_messages=6, max_session_turns=30) as session:
        await session.inject("system", "Be brief.")
        for number in range(30):
            assert await session.run(f"question {number}") == f"answer {number}"
        assert max(len(request.messages) for request in model.asked) <= 6
        assert [content_of(m) for m in model.asked[-1].messages] == [
            "question 27",
            "answer 27",
            "question 28",
            "answer 28",
            "question 29",
        ]
        assert all(request.instructions.endswith("Be brief.") for request in model.asked)
        assert model.summaries == []
        done = await log_of(session, Compacted)
        assert {(each.trigger, each.summary, each.verbatim) for each in done} == {("trim", None, ())}
        assert_meter_is_right(session)
        entries = await session.full_history()
        kept = [entry for entry in entries if isinstance(entry.data, SessionMessage)]
        assert len(kept) == 61  # nothing was deleted
        assert model.refused == []


@pytest.mark.contract("RV-15", "RV-17")
async def test_the_limits_do_not_know_of_each_other() -> None:
    model = Fake(*[calling("look", at="x")] * 8, "done")
    async with capped(model, tools=[look], max_messages=4) as session:
        assert await session.run("a turn that is longer than the limit") == "done"
        assert model.refused == []
        assert content_of(model.asked[-1].messages[0]) == "a turn that is longer than the limit"
        assert len(await log_of(session, CompactionStarted)) == 1  # it does not try in every round
        assert await session.run("the next") == "ok"
        assert [content_of(m) for m in model.asked[-1].messages] == ["the next"]
        fill = session._services.state.progress.context
        assert fill.fruitless == 0  # trimming says nothing about compaction
