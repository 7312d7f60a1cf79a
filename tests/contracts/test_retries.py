"""Waits, retries and the chain of models: RV-3, RV-B9, RV-B10, RB-43 and what a crash or a person does to them."""

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from backstay import Session, TurnFailed, open_session
from backstay.logic.state.retries import SECOND, Retries
from backstay.ports import ModelReply, ModelRequest
from backstay.testing.clock import ObedientClock
from backstay.testing.event_loop import run_virtually
from backstay.vocab.deltas import Delta, ToolArgsDelta
from backstay.vocab.errors import ErrorKind, ProviderError, UserError
from backstay.vocab.events import ModelAsked, ModelChanged, ModelFailed, ModelReplied, TurnCompleted
from backstay.vocab.events.limits import FallbackTaken, WaitEnded, WaitStarted
from backstay.vocab.messages import Text
from backstay.vocab.specs import ModelFacts
from tests.contracts.kit import look
from tests.contracts.limits_kit import (
    Act,
    Broken,
    Fake,
    Silent,
    calling,
    die_when,
    log_of,
    memory,
    own_count,
    quiet,
    stop_at,
)

PASSING: tuple[ErrorKind, ...] = ("rate_limit", "overloaded", "timeout", "transport")


def hurried(*models: Fake, **options: Any) -> Any:  # Any: options of every type, and the block of a session
    """A session in which waiting takes no time."""
    clock = options.pop("clock", None) or ObedientClock(hurries=True)
    return open_session(
        **{
            "model": models[0],
            "fallback_models": models[1:],
            "store": None,
            "clock": clock,
            "only_tools": True,
            **options,
        }
    )


async def waits(session: Session) -> list[float]:
    """How long each wait of the log is, in seconds."""
    records = await session.events()
    return [(r.event.until - r.at) / SECOND for r in records if isinstance(r.event, WaitStarted)]


@pytest.mark.contract("RV-B9", "RV-B10")
@pytest.mark.parametrize("kind", PASSING)
async def test_a_failure_that_may_pass_is_tried_again_after_a_wait_that_grows(kind: ErrorKind) -> None:
    model = Fake(Broken(kind=kind), Broken(kind=kind), Broken(kind=kind), "at last")
    async with hurried(model) as session:
        assert await session.run("go") == "at last"
        assert len(model.asked) == 4
        spans = await waits(session)
        assert 0.25 <= spans[0] <= 0.5
        assert 0.5 <= spans[1] <= 1.0
        assert 1.0 <= spans[2] <= 2.0
        told = await log_of(session, WaitStarted)
        assert [(each.kind, each.attempt, each.attempts, each.model) for each in told] == [
            (kind, attempt, 4, "fake:one") for attempt in (2, 3, 4)
        ]
        records = await session.events()
        ended = [r for r in records if isinstance(r.event, WaitEnded)]
        begun = [r for r in records if isinstance(r.event, WaitStarted)]
        assert [r.cause for r in ended] == [r.id for r in begun]
        assert all(over.at >= wait.event.until for over, wait in zip(ended, begun, strict=True))
        assert len(await log_of(session, ModelAsked)) == 4


@pytest.mark.contract("RV-B9")
async def test_the_same_session_waits_as_long_again_and_another_one_does_not() -> None:
    found: list[list[float]] = []
    for seed in (1, 1, 2):
        model = Fake(*[Broken(kind="overloaded")] * 3)
        async with hurried(model, clock=ObedientClock(hurries=True, seed=seed)) as session:
            await session.run("go")
            found.append(await waits(session))
    assert found[0] == found[1] != found[2]


@pytest.mark.contract("RV-B9")
async def test_a_provider_that_says_when_to_come_back_is_obeyed_unless_it_is_too_long() -> None:
    model = Fake(Broken(kind="rate_limit", retry_after_s=7.5), "yes")
    async with hurried(model) as session:
        assert await session.run("go") == "yes"
        assert await waits(session) == [7.5]
    model = Fake(Broken(kind="rate_limit", retry_after_s=3600.0), "never asked")
    async with hurried(model) as session:
        with pytest.raises(TurnFailed) as caught:
            await session.run("go")
        assert caught.value.reason == "rate_limit"
        assert await waits(session) == []
        assert len(model.asked) == 1


@pytest.mark.contract("RV-B9", "RV-B10")
@pytest.mark.parametrize("kind", ["bad_request", "content_filter", "unknown", "auth", "context_overflow"])
async def test_a_failure_that_will_not_pass_is_not_tried_again_and_the_session_goes_on(kind: ErrorKind) -> None:
    model = Fake(Broken(kind=kind), "better")
    async with hurried(model, auto_compact=False) as session:
        with pytest.raises(TurnFailed) as caught:
            await session.run("go")
        assert caught.value.reason == kind
        assert len(model.asked) == 1
        assert await waits(session) == []
        assert await session.run("again") == "better"


@pytest.mark.contract("RV-B10", "RV-3")
@pytest.mark.parametrize("kind", ["bad_request", "content_filter", "unknown"])
async def test_those_kinds_do_not_lead_to_another_model_either(kind: ErrorKind) -> None:
    other = Fake(name="other:two")
    async with hurried(Fake(Broken(kind=kind)), other) as session:
        with pytest.raises(TurnFailed):
            await session.run("go")
        assert other.asked == []


@pytest.mark.contract("RV-B9", "RB-60")
async def test_nothing_is_asked_again_once_somebody_saw_the_beginning() -> None:
    model, other = Fake(Broken(kind="overloaded", after="It beg"), "fine"), Fake(name="other:two")
    async with hurried(model, other) as session:
        with pytest.raises(TurnFailed) as caught:
            await session.run("go")
        assert caught.value.reason == "overloaded"
        (failed,) = await log_of(session, ModelFailed)
        assert failed.parts == (Text(text="It beg"),)
        assert failed.usage is not None
        assert failed.usage.estimated
        assert (len(model.asked), other.asked, await waits(session)) == (1, [], [])
        assert [message.role for message in session.history] == ["user"]  # the conversation does not hold it
        assert await session.run("again") == "fine"
        assert model.refused == []


@pytest.mark.contract("RV-3", "RV-B9")
async def test_the_next_model_answers_when_the_first_is_exhausted_and_the_first_is_left_alone_for_a_while() -> None:
    clock = ObedientClock(hurries=True)
    first, second = Fake(*[Broken(kind="overloaded")] * 4, "first again"), Fake("two", "two", name="other:two")
    async with hurried(first, second, clock=clock) as session:
        assert await session.run("go") == "two"
        (taken,) = await log_of(session, FallbackTaken)
        assert (taken.came_from, taken.to, taken.kind) == ("fake:one", "other:two", "overloaded")
        assert len(first.asked) == 4
        assert await session.run("still cooling") == "two"
        assert len(first.asked) == 4  # left alone, over the end of the turn
        clock.advance(120)
        assert await session.run("cool now") == "first again"
        assert session.model == "fake:one"  # it was bound to its model all the time
        replied = await log_of(session, ModelReplied)
        assert [reply.model for reply in replied] == ["other:two", "other:two", "fake:one"]
        assert first.refused == second.refused == []


@pytest.mark.contract("RV-B9")
async def test_the_cooldown_is_in_the_log_and_survives_a_restart_and_a_change_of_model() -> None:
    clock = ObedientClock(hurries=True)
    store = await memory(clock)
    first, second = Fake(*[Broken(kind="timeout")] * 4, "first again"), Fake("two", "two", name="other:two")
    third = Fake("three", name="third:three")
    options: dict[str, Any] = {"store": store, "clock": clock, "session_id": "s"}
    async with hurried(first, second, third, **options) as session:
        await session.run("go")
    async with hurried(first, second, third, **options) as session:
        assert await session.run("restarted") == "two"
        await session.set_model("third:three")
        assert await session.run("a person chose") == "three"
        assert len(first.asked) == 4
    async with hurried(first, second, third, **options) as session:  # the first is chosen again, by a person
        assert len(await log_of(session, ModelChanged)) == 1
        assert await session.run("now") == "first again"


@pytest.mark.contract("RV-B9")
async def test_every_model_of_the_chain_is_tried_and_the_last_failure_is_the_turns() -> None:
    first, second = Fake(*[Broken(kind="timeout")] * 2), Fake(*[Broken(kind="overloaded")] * 2, "ok now", name="b:2")
    async with hurried(first, second, retries=Retries(attempts=2)) as session:
        with pytest.raises(TurnFailed) as caught:
            await session.run("go")
        assert caught.value.reason == "overloaded"
        assert (len(first.asked), len(second.asked)) == (2, 2)
        assert await session.run("again") == "ok now"


@pytest.mark.contract("RV-B9")
async def test_a_refused_key_leads_to_the_next_model_unless_that_is_switched_off() -> None:
    second = Fake("from two", name="other:two")
    async with hurried(Fake(Broken(kind="auth")), second) as session:
        assert await session.run("go") == "from two"
        assert await waits(session) == []
    second = Fake("from two", name="other:two")
    async with hurried(Fake(Broken(kind="auth")), second, retries=Retries(fallback_on_auth=False)) as session:
        with pytest.raises(TurnFailed) as caught:
            await session.run("go")
        assert caught.value.reason == "auth"
        assert second.asked == []


@pytest.mark.contract("RV-3", "RV-B9")
async def test_a_turn_that_fell_back_stays_with_that_model_through_its_tools() -> None:
    first = Fake(*[Broken(kind="transport")] * 4)
    second = Fake(calling("look", at="sky"), "blue", name="other:two")
    async with hurried(first, second, tools=[look]) as session:
        assert await session.run("go") == "blue"
        assert (len(first.asked), len(second.asked)) == (4, 2)


@pytest.mark.contract("RV-B9")
async def test_a_fallback_with_a_smaller_window_gets_a_conversation_that_fits_it() -> None:
    big = Fake(*(["long answer " * 80] * 12), *[Broken(kind="overloaded")] * 4)
    small = Fake("fits", name="other:two", facts=ModelFacts(window=3_000, known=True))
    async with hurried(big, small) as session:
        for number in range(12):
            await session.run(f"question {number}")
        assert own_count(big.asked[-1]) > 3_000 * 0.835
        assert await session.run("and now?") == "fits"
        assert small.too_big == []


async def test_a_fallback_that_does_not_exist_is_an_error_at_once() -> None:
    with pytest.raises(UserError, match="nowhere"):
        async with hurried(Fake(), fallback_models=["nowhere:x"]):
            pytest.fail("must not open")


# --- crashes and people ----------------------------------------------------------------------------------------------------------


@pytest.mark.contract("RV-B9")
async def test_after_a_crash_in_a_wait_the_rest_of_it_is_waited_by_the_clock() -> None:
    clock = ObedientClock()
    store = await memory(clock)
    acts: tuple[Act, ...] = (Broken(kind="rate_limit", retry_after_s=10.0), "at last")
    model = Fake(*acts)
    await die_when(
        lambda r: isinstance(r.event, WaitStarted),
        "go",
        store=store,
        clock=clock,
        model=model,
        session_id="s",
        only_tools=True,
    )
    until = clock.now() + 10 * SECOND
    clock.advance(4)
    async with open_session(model=model, store=store, clock=clock, resume="s", only_tools=True) as session:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.finish)
            await quiet()
            again = (await log_of(session, WaitStarted))[-1]
            assert (again.until, again.attempt, again.kind) == (until, 2, "rate_limit")
            clock.advance(5.9)
            await quiet()
            assert len(model.asked) == 1
            clock.advance(0.1)
        assert len(model.asked) == 2
        assert session.turns[-1].text == "at last"


@pytest.mark.contract("RV-B9")
async def test_a_wait_that_was_over_before_the_restart_is_not_waited_again() -> None:
    clock = ObedientClock()
    store = await memory(clock)
    model = Fake(Broken(kind="rate_limit", retry_after_s=10.0), "at last")
    started = lambda r: isinstance(r.event, WaitStarted)  # noqa: E731
    await die_when(started, "go", store=store, clock=clock, model=model, session_id="s", only_tools=True)
    clock.advance(11)
    async with open_session(model=model, store=store, clock=clock, resume="s", only_tools=True) as session:
        result = await session.finish()
        assert result is not None
        assert result.text == "at last"
        assert len(await log_of(session, WaitStarted)) == 1


@pytest.mark.contract("RB-43", "RV-B9")
async def test_a_wait_can_be_interrupted_and_the_session_goes_on() -> None:
    clock = ObedientClock()
    model = Fake(Broken(kind="overloaded", retry_after_s=30.0), "later")
    async with open_session(model=model, store=None, clock=clock, only_tools=True) as session:
        await stop_at(session, "go", WaitStarted)
        assert session.turns[-1].outcome == "interrupted"
        records = await session.events()
        names = [type(r.event).__name__ for r in records][-3:]
        assert names == ["Interrupted", "WaitEnded", "TurnCompleted"]
        assert await session.run("again") == "later"


@pytest.mark.contract("RV-B9")
async def test_another_model_chosen_in_a_wait_is_asked_at_once() -> None:
    clock = ObedientClock()
    model, other = Fake(Broken(kind="overloaded", retry_after_s=50.0)), Fake("other", name="other:two")
    async with open_session(model=model, fallback_models=[other], store=None, clock=clock, only_tools=True) as session:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.run, "go")
            await quiet()
            assert len(await log_of(session, WaitStarted)) == 1
            await session.set_model("other:two")
        assert session.turns[-1].text == "other"
        assert len(model.asked) == 1


@pytest.mark.contract("RB-9")
def test_a_silence_that_is_too_long_is_a_timeout_and_is_tried_again() -> None:
    model = Fake(Silent(), "woke up")

    async def play() -> None:
        async with open_session(model=model, store=None, only_tools=True, idle_timeout_s=60) as session:
            assert await session.run("go") == "woke up"
            (failed,) = await log_of(session, ModelFailed)
            assert failed.kind == "timeout"

    run_virtually(play)


@pytest.mark.contract("RV-B8", "RV-B9")
async def test_a_stream_that_breaks_in_a_calls_arguments_is_tried_again_and_its_tokens_count() -> None:
    class Cut(Fake):
        async def ask(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
            if not self.asked:
                self.asked.append(request)
                yield ToolArgsDelta(index=0, name="look", text='{"at": "sk')
                raise ProviderError("transport", "cut")
            async for item in super().ask(request):
                yield item

    model = Cut("whole")
    async with hurried(model, tools=[look]) as session:
        assert await session.run("go") == "whole"
        (failed,) = await log_of(session, ModelFailed)
        assert failed.parts == ()
        assert failed.usage is not None
        assert failed.usage.estimated
        assert failed.usage.output > 0


@pytest.mark.contract("RV-B10")
async def test_the_words_of_a_failure_decide_nothing() -> None:
    model = Fake(Broken(kind="bad_request", message="429 rate limit, overloaded, retry later"), "next")
    async with hurried(model) as session:
        with pytest.raises(TurnFailed, match="429") as caught:
            await session.run("go")
        assert caught.value.reason == "bad_request"
        (end,) = await log_of(session, TurnCompleted)
        assert (end.outcome, end.stop_reason, end.code) == ("failed", "error", "bad_request")
        assert await waits(session) == []
