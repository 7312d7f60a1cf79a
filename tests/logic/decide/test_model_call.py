"""What comes before a model is asked: given where the session stands, expect the next event."""

from typing import Any

import pytest
from msgspec.structs import replace

from backstay.logic.budget import BudgetState
from backstay.logic.context_usage import ContextUsage
from backstay.logic.decide.model_call import BREAKER, after_failure, ask
from backstay.logic.decide.policy import Policy
from backstay.logic.state.progress import OpenTurn, Progress
from backstay.logic.state.retries import Failure, RetryState
from backstay.vocab.event import Event
from backstay.vocab.events import ModelAsked, TurnCompleted
from backstay.vocab.events.limits import BudgetAsked, BudgetWarned, CompactionStarted, FallbackTaken, WaitStarted
from backstay.vocab.specs import ModelFacts, Prices

TURN = OpenTurn(id="t", number=1, owes="reply")
POLICY = Policy(facts={"m": ModelFacts(window=1_000, prices=Prices(input=1_000_000, output=1_000_000))}, overhead=10)


def stands(**fields: Any) -> Progress:  # Any: fields of every type
    """A session in the middle of a turn."""
    given = {"session": "s", "model": "m", "turn": TURN, "begun": 1, "at": 100}
    return Progress(**{**given, **fields})


def next_of(progress: Progress, policy: Policy = POLICY) -> Event | None:
    """The event that comes next; None when the session waits."""
    assert progress.turn is not None
    drafts = ask(progress, progress.turn, policy)
    assert len(drafts) <= 1
    return drafts[0].event if drafts else None


def test_when_nothing_stands_in_the_way_the_model_is_asked() -> None:
    found = next_of(stands(context=ContextUsage(guess=100)))
    assert isinstance(found, ModelAsked)
    assert (found.model, found.round, found.tokens, found.reserved) == ("m", 1, 110, 110 + 256)


def test_the_ceilings_come_first() -> None:
    full = ContextUsage(guess=2_000)
    found = next_of(stands(begun=51, context=full))
    assert isinstance(found, TurnCompleted)
    assert (found.code, found.stop_reason) == ("turn_limit", "error")
    later = stands(begun=51, turn=replace(TURN, rounds=1))
    assert isinstance(next_of(later), ModelAsked)  # a turn that began within the limit goes on
    third = next_of(stands(turn=replace(TURN, rounds=3, run=3)), replace(POLICY, max_rounds=3))
    assert isinstance(third, TurnCompleted)
    assert third.code == "turn_limit"


def test_then_the_rest_of_a_wait_then_money_then_the_context() -> None:
    waits = RetryState(model="m", failures=1, not_before=200, kind="timeout")
    broke = BudgetState(limit=10, spent=10)
    full = ContextUsage(guess=2_000)
    first = next_of(stands(retries=waits, budget=broke, context=full))
    assert isinstance(first, WaitStarted)
    assert (first.until, first.attempt, first.kind) == (200, 2, "timeout")
    second = next_of(stands(budget=broke, context=full))
    assert isinstance(second, TurnCompleted)
    assert second.code == "budget"
    third = next_of(stands(context=full))
    assert isinstance(third, CompactionStarted)
    assert (third.trigger, third.used, third.window, third.overhead) == ("auto", 2_010, 1_000, 10)


@pytest.mark.parametrize(
    "context",
    [ContextUsage(guess=2_000, tried=True), ContextUsage(guess=2_000, fruitless=BREAKER)],
    ids=["tried", "breaker"],
)
def test_what_was_tried_in_vain_is_not_tried_again_and_nothing_too_big_is_sent(context: ContextUsage) -> None:
    found = next_of(stands(context=context))
    assert isinstance(found, TurnCompleted)
    assert found.code == "context_overflow"
    assert "did not help" in found.message
    between = replace(context, guess=900)
    assert isinstance(next_of(stands(context=between)), ModelAsked)  # above the threshold, and it fits


def test_without_a_threshold_there_is_only_the_guard() -> None:
    never = replace(POLICY, auto_compact=None)
    assert isinstance(next_of(stands(context=ContextUsage(guess=960)), never), ModelAsked)
    found = next_of(stands(context=ContextUsage(guess=990)), never)
    assert isinstance(found, TurnCompleted)
    assert "did not help" not in found.message


def test_too_many_messages_are_trimmed_whatever_the_threshold_is() -> None:
    few = replace(POLICY, max_messages=4, auto_compact=None)
    found = next_of(stands(context=ContextUsage(guess=50, messages=5)), few)
    assert isinstance(found, CompactionStarted)
    assert (found.trigger, found.keep) == ("trim", 4)
    assert isinstance(next_of(stands(context=ContextUsage(guess=50, messages=5, trimmed=True)), few), ModelAsked)
    assert isinstance(next_of(stands(context=ContextUsage(guess=50, messages=4)), few), ModelAsked)


@pytest.mark.parametrize(
    ("budget", "kind"),
    [
        (BudgetState(limit=5, spent=5, on_exceed="warn"), BudgetWarned),
        (BudgetState(limit=5, spent=5, on_exceed="warn", warned=True), ModelAsked),
        (BudgetState(limit=5, spent=5, on_exceed="fail"), TurnCompleted),
        (BudgetState(limit=5, spent=5, on_exceed="pause_for_approval"), BudgetAsked),
        (BudgetState(limit=5, spent=5, on_exceed="pause_for_approval", paused=True), type(None)),
        (BudgetState(limit=5, spent=5, on_exceed="pause_for_approval", refused="no"), TurnCompleted),
        (BudgetState(limit=10_000, spent=5), ModelAsked),
        (BudgetState(spent=5), ModelAsked),
    ],
)
def test_an_empty_purse_leads_to_what_was_agreed(budget: BudgetState, kind: type) -> None:
    assert type(next_of(stands(budget=budget))) is kind


# --- after a failure -------------------------------------------------------------------------------------------------------------


def failing(kind: str, **fields: Any) -> Progress:  # Any: fields of every type
    """A session whose model has just failed for the last time."""
    failure = Failure(kind=kind, message="why", ask="a", **fields)  # type: ignore[arg-type]  # any kind of failure
    return stands(retries=RetryState(model="m", failures=4, failure=failure))


def then(progress: Progress, policy: Policy = POLICY) -> Event:
    """What is done about it."""
    return after_failure(progress, TURN, policy).event


def test_a_failure_leads_to_a_wait_another_model_a_compaction_or_the_end_in_that_order() -> None:
    two = replace(POLICY, fallbacks=("n",))
    fresh = failing("overloaded")
    again = replace(fresh, retries=replace(fresh.retries, failures=1))
    assert isinstance(then(again, two), WaitStarted)
    assert isinstance(then(fresh, two), FallbackTaken)
    overflow = then(failing("context_overflow"), two)
    assert isinstance(overflow, CompactionStarted)
    assert overflow.trigger == "overflow"
    for ended in (
        then(fresh),
        then(failing("bad_request"), two),
        then(failing("context_overflow", shown=True)),
        then(failing("context_overflow"), replace(two, auto_compact=None)),
        then(replace(failing("context_overflow"), context=ContextUsage(tried=True))),
        then(replace(failing("context_overflow"), context=ContextUsage(fruitless=BREAKER))),
    ):
        assert isinstance(ended, TurnCompleted)
        assert (ended.outcome, ended.stop_reason, ended.message) == ("failed", "error", "why")
