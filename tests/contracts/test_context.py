"""How full the context is: RB-11, RB-12, RB-46, RB-88, RV-B14, and the guard before an overflow."""

from typing import Any

import pytest

from backstay import Session, TurnFailed, UserError, open_session
from backstay.logic.context_usage import ContextState, estimate
from backstay.ports import ModelReply
from backstay.testing.clock import ObedientClock
from backstay.vocab.events import ModelAsked, ModelReplied, TurnCompleted, TurnStarted
from backstay.vocab.events.limits import Compacted, CompactionStarted
from backstay.vocab.messages import Text
from backstay.vocab.specs import ModelFacts, Usage
from tests.contracts.kit import look
from tests.contracts.limits_kit import Act, Broken, Fake, Silent, calling, die_when, log_of, memory, own_count, stop_at

SMALL = ModelFacts(window=4_000, known=True)


def small(*acts: Act, **options: Any) -> Any:  # Any: options of every type, and the block of a session
    """A session whose model takes 4,000 tokens."""
    model = options.pop("model", None) or Fake(*acts, facts=SMALL)
    return open_session(**{"model": model, "store": None, "only_tools": True, "system_prompt": "Answer.", **options})


def assert_meter_is_right(session: Session) -> None:
    """The meter says what a fresh count of the conversation says."""
    fill = session._services.state.progress.context
    assert fill.guess == sum(map(estimate, session.history))
    assert fill.messages == len(session.history)


@pytest.mark.contract("RB-11", "RB-46")
async def test_the_meter_is_an_estimate_before_the_call_and_the_providers_count_after_it() -> None:
    seen: list[ContextState] = []
    model = Fake("a fine answer", facts=SMALL)
    async with small(model=model) as session:
        assert not session.context_state.exact
        session.on("context_update", seen.append)
        await session.run("a question of some words")
        before, after = seen
        (reply,) = await log_of(session, ModelReplied)
        (asked,) = await log_of(session, ModelAsked)
        assert reply.usage is not None
        assert (before.exact, before.used) == (False, asked.tokens)
        assert (after.exact, after.used) == (True, reply.usage.input + reply.usage.output)
        assert after == session.context_state
        assert (after.max, after.percentage) == (4_000, round(100 * after.used / 4_000, 2))
        assert after.remaining_percentage == round(100 - after.percentage, 2)


@pytest.mark.contract("RB-46", "RV-B14")
async def test_the_meter_is_never_a_sum_over_calls() -> None:
    model = Fake(calling("look", at="a"), calling("look", at="b"), calling("look", at="c"), "done", facts=SMALL)
    async with small(model=model, tools=[look]) as session:
        await session.run("look around")
        replies = await log_of(session, ModelReplied)
        newest = replies[-1].usage
        assert newest is not None
        assert session.context_state.used == newest.input + newest.output
        assert session.usage.input == sum(reply.usage.input for reply in replies if reply.usage)
        assert session.context_state.used < session.usage.input
        await session.inject("user", "one more thing, which nobody counted yet")
        state = session.context_state
        assert not state.exact
        assert newest.input + newest.output < state.used < newest.input + newest.output + 60


@pytest.mark.contract("RB-46")
async def test_a_provider_that_counts_nothing_leaves_an_estimate() -> None:
    async with small(model=Fake("yes", counts=False, facts=SMALL)) as session:
        await session.run("go")
        (reply,) = await log_of(session, ModelReplied)
        assert reply.usage is not None
        assert reply.usage.estimated
        assert not session.context_state.exact
        assert_meter_is_right(session)


@pytest.mark.contract("RB-46")
async def test_what_the_provider_counted_corrects_the_estimate_of_what_comes_next() -> None:
    model = Fake("short", facts=ModelFacts(window=200_000, known=True))
    async with small(model=model) as session:
        await session.run("1234567890 " * 2_000)
        counted = own_count(model.asked[0])
        (asked,) = await log_of(session, ModelAsked)
        ratio = session._services.state.progress.context.ratio
        assert abs(ratio - counted / asked.tokens) < 0.1
        await session.inject("user", "1234567890 " * 2_000)
        await session.run("again")
        error = abs(own_count(model.asked[1]) - (await log_of(session, ModelAsked))[1].tokens * ratio)
        assert error < 0.05 * own_count(model.asked[1])


async def test_a_short_request_says_little_about_long_ones() -> None:
    """What a provider adds to every request weighs most in a short one."""
    heavy = ModelReply(parts=(Text(text="hello"),), usage=Usage(input=480, output=5))
    model = Fake(heavy, facts=ModelFacts(window=30_000, known=True))
    async with small(model=model) as session:
        await session.run("hi")
        text = "lorem ipsum dolor " * 1_000
        assert await session.run(text) == "ok"
        assert len(text) < 30_000 * 3 * 0.8  # well within the window


@pytest.mark.contract("RB-46")
async def test_rewinding_clearing_forking_interrupting_and_failing_leave_the_meter_right() -> None:
    clock = ObedientClock(hurries=True)
    store = await memory(clock)
    acts: tuple[Act, ...] = (
        calling("look", "I look.", at="sky"),
        "blue",
        "second answer",
        Silent(after="It be"),
        Silent(),
        Broken(kind="bad_request"),
        "after all that",
    )
    async with small(model=Fake(*acts, facts=SMALL), tools=[look], store=store, clock=clock) as session:
        await session.run("first")
        assert_meter_is_right(session)
        await session.run("second " * 40)
        await _interrupt(session, "third")
        assert_meter_is_right(session)
        await _interrupt(session, "fourth")
        assert_meter_is_right(session)
        with pytest.raises(TurnFailed):
            await session.run("fifth")
        assert_meter_is_right(session)
        await session.inject("system", "Be brief.")
        await session.run("sixth")
        assert_meter_is_right(session)
        await session.rewind(to=session.turns[1].turn)
        assert_meter_is_right(session)
        assert not session.context_state.exact
        fork = await session.fork()
        await session.clear_history()
        assert_meter_is_right(session)
        assert session._services.state.progress.context.guess == 0
    async with small(model=Fake("x", facts=SMALL), store=store, clock=clock, resume=fork.id) as forked:
        assert len(forked.history) == 6
        assert_meter_is_right(forked)
        await forked.run("go on")
        assert_meter_is_right(forked)


async def _interrupt(session: Session, prompt: str) -> None:
    await stop_at(session, prompt, ModelAsked)
    assert session.turns[-1].outcome == "interrupted"


@pytest.mark.contract("RB-46")
async def test_an_abandoned_turn_leaves_the_meter_as_it_was_before_it() -> None:
    clock = ObedientClock(hurries=True)
    store = await memory(clock)
    options: dict[str, Any] = {"store": store, "clock": clock}
    async with small("one", **options, session_id="s") as session:
        await session.run("first")
        before = session.context_state
    asked = lambda r: isinstance(r.event, ModelAsked)  # noqa: E731
    await die_when(asked, "second " * 50, model=Fake(Silent(), facts=SMALL), **options, session_id="s", only_tools=True)
    async with small("three", **options, resume="s", on_crash="abandon") as session:
        await session.finish()
        assert session.context_state == before
        assert_meter_is_right(session)


@pytest.mark.contract("RB-46")
async def test_inputs_that_are_taken_together_and_inputs_that_are_dropped_are_counted_as_the_request_has_them() -> None:
    model = Fake(calling("look", at="x"), "done", facts=SMALL)
    async with small(model=model, tools=[look]) as session:
        async for item in session.send("first"):
            if type(getattr(item, "event", None)) is TurnStarted:
                await session.steer("also this")
                await session.steer("and that")
        assert_meter_is_right(session)
        assert [message.role for message in session.history].count("user") == 2
    async with small(Silent(), "x") as session:
        async for item in session.send("first"):
            if type(getattr(item, "event", None)) is ModelAsked:
                await session.steer("never taken")
                await session.abort()
        assert session._services.state.progress.context.waiting == ()
        assert_meter_is_right(session)


@pytest.mark.contract("RB-46", "RB-88")
async def test_another_model_has_its_own_window_and_nothing_of_it_is_counted_yet() -> None:
    first, second = Fake("one", facts=SMALL), Fake("two", name="other:two", facts=ModelFacts(window=9_000, known=True))
    async with small(model=first, fallback_models=[second]) as session:
        await session.run("go")
        assert (session.context_state.max, session.context_state.exact) == (4_000, True)
        await session.set_model("other:two")
        assert (session.context_state.max, session.context_state.exact) == (9_000, False)
        await session.run("go on")
        assert (session.context_state.max, session.context_state.exact) == (9_000, True)


# --- the threshold and the guard -------------------------------------------------------------------------------------------------


async def fills(threshold: float | None) -> tuple[list[int], int]:
    """What each request before the first compaction was thought to have, and the request that was too much."""
    model = Fake(*["word " * 60] * 200, facts=SMALL)
    async with small(model=model, auto_compact=threshold, max_session_turns=300) as session:
        for number in range(200):
            await session.run(f"question number {number}")
            if started := await log_of(session, CompactionStarted):
                assert started[0].trigger == "auto"
                assert model.too_big == []
                return [own_count(each) for each in model.asked[:-1]], started[0].used
    raise AssertionError("it was never compacted")


@pytest.mark.contract("RB-12", "RB-88")
async def test_the_conversation_is_made_shorter_at_the_threshold_which_is_0_835_unless_something_else_is_said() -> None:
    for threshold, share in ((None, 0.835), (0.5, 0.5)):
        sent, too_much = await fills(threshold)
        assert max(sent) < share * 4_000 <= too_much < share * 4_000 + 150


@pytest.mark.contract("RB-45")
async def test_the_first_moment_to_compact_is_the_start_of_a_run() -> None:
    model = Fake(*["word " * 60] * 60, facts=SMALL)
    async with small(model=model) as session:
        for number in range(40):
            await session.run(f"question number {number}")
        names = [type(r.event).__name__ for r in await session.events()]
        at = names.index("CompactionStarted")
        assert names[at - 3 : at] == ["InputReceived", "TurnStarted", "InputTaken"]
        assert names[at + 1 : at + 3] == ["Compacted", "ModelAsked"]


@pytest.mark.contract("RB-12")
@pytest.mark.parametrize("wrong", [0, -0.1, 1.5])
async def test_a_threshold_that_is_no_share_is_refused(wrong: float) -> None:
    with pytest.raises(UserError, match="auto_compact"):
        async with small(auto_compact=wrong):
            pytest.fail("must not open")
    async with small() as session:
        with pytest.raises(UserError, match="auto_compact"):
            session.set_auto_compact(wrong)


@pytest.mark.contract("RB-12")
async def test_another_threshold_holds_from_the_next_run_on() -> None:
    model = Fake(*["word " * 60] * 20, facts=SMALL)
    async with small(model=model) as session:
        await _talk(session, 10)
        assert await log_of(session, CompactionStarted) == []
        session.set_auto_compact(0.1)
        await _talk(session, 1)
        assert len(await log_of(session, CompactionStarted)) == 1
        session.set_auto_compact(False)
        await _talk(session, 5)
        assert len(await log_of(session, CompactionStarted)) == 1


@pytest.mark.contract("RB-12")
async def test_without_a_threshold_nothing_is_compacted_and_nothing_that_is_too_big_is_sent() -> None:
    model = Fake(*["word " * 60] * 100, facts=SMALL)
    async with small(model=model, auto_compact=False, max_session_turns=200) as session:
        with pytest.raises(TurnFailed, match="was not sent") as caught:
            await _talk(session, 100)
        assert caught.value.reason == "context_overflow"
        assert await log_of(session, CompactionStarted) == []
        assert model.too_big == []
        asked = len(model.asked)
        end = (await log_of(session, TurnCompleted))[-1]
        assert (end.outcome, end.stop_reason, end.code) == ("failed", "error", "context_overflow")
        await session.rewind(to=session.turns[5].turn)
        assert await session.run("and on")
        assert len(model.asked) == asked + 1


async def _talk(session: Session, turns: int) -> None:
    for number in range(turns):
        await session.run(f"question number {number}")


@pytest.mark.contract("RB-12")
async def test_a_single_text_that_no_compaction_can_make_fit_is_not_sent() -> None:
    model = Fake(facts=SMALL)
    async with small(model=model) as session:
        with pytest.raises(TurnFailed, match="Compacting cannot help: make the prompt shorter") as caught:
            await session.run("word " * 20_000)
        assert caught.value.reason == "context_overflow"
        assert model.asked == model.summaries == []
        await session.clear_history()
        assert await session.run("short") == "ok"


@pytest.mark.contract("RB-88", "RV-B14")
async def test_a_provider_that_finds_the_request_too_long_leads_to_a_compaction_and_one_more_try() -> None:
    talk: list[Act] = [f"answer {number} " + "word " * 50 for number in range(8)]
    model = Fake(*talk, Broken(kind="context_overflow"), "it fits now", facts=SMALL)
    async with small(model=model) as session:
        for number in range(8):
            await session.run(f"question {number}")
        assert await session.run("one more") == "it fits now"
        (done,) = await log_of(session, Compacted)
        assert done.trigger == "overflow"
        assert own_count(model.asked[-1]) < own_count(model.asked[-2])


@pytest.mark.contract("RB-88")
async def test_a_provider_that_still_finds_it_too_long_fails_the_turn() -> None:
    talk: list[Act] = [f"answer {number} " + "word " * 50 for number in range(8)]
    model = Fake(*talk, *[Broken(kind="context_overflow")] * 2, "better", facts=SMALL)
    async with small(model=model) as session:
        for number in range(8):
            await session.run(f"question {number}")
        with pytest.raises(TurnFailed) as caught:
            await session.run("one more")
        assert caught.value.reason == "context_overflow"
        assert len(model.asked) == 10
        assert await session.run("again") == "better"
