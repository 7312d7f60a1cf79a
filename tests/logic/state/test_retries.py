"""Which model is asked, when, and when no more: by the kind of the failure alone."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.logic.state.retries import PASSING, SECOND, Failure, Retries, RetryState, fallback, fold_retries, wait
from backstay.testing.builders import recorded
from backstay.vocab.errors import ErrorKind
from backstay.vocab.event import Event
from backstay.vocab.events import ModelAsked, ModelChanged, ModelFailed, ModelReplied, Opened, TurnStarted
from backstay.vocab.events.limits import Compacted, FallbackTaken, WaitEnded, WaitStarted
from backstay.vocab.messages import Text

KINDS: tuple[ErrorKind, ...] = (
    "rate_limit",
    "overloaded",
    "timeout",
    "transport",
    "auth",
    "bad_request",
    "content_filter",
    "context_overflow",
    "unknown",
)


def after(*events: Event, start: RetryState | None = None) -> RetryState:
    """The state after events."""
    state = start or RetryState()
    for seq, event in enumerate(events, start=1):
        state = fold_retries(state, recorded(event, seq=seq))
    return state


def asked(model: str = "a") -> ModelAsked:
    """A model is asked."""
    return ModelAsked(turn="t", round=1, model=model)


def failed(kind: ErrorKind = "overloaded", **fields: object) -> ModelFailed:
    """It failed."""
    return ModelFailed(kind=kind, message="", **fields)  # type: ignore[arg-type]  # each test names its own


@pytest.mark.parametrize("kind", KINDS)
def test_only_what_may_pass_is_waited_for_and_only_that_or_a_key_leads_to_another_model(kind: ErrorKind) -> None:
    state = after(asked(), failed(kind))
    assert (wait(state, Retries(), 0) is not None) == (kind in PASSING)
    assert (fallback(state, ("a", "b"), Retries(), 0) is not None) == (kind in PASSING or kind == "auth")
    assert (fallback(state, ("a", "b"), Retries(fallback_on_auth=False), 0) is not None) == (kind in PASSING)
    shown = after(asked(), failed(kind, parts=(Text(text="x"),)))
    assert wait(shown, Retries(), 0) is None
    assert fallback(shown, ("a", "b"), Retries(), 0) is None


@given(st.integers(1, 40), st.floats(0.01, 10), st.floats(0.1, 100), st.text(max_size=8))
def test_a_wait_grows_by_doubling_up_to_its_limit_and_varies_by_half(
    failures: int, first: float, longest: float, ask: str
) -> None:
    retries = Retries(attempts=50, first_wait_s=first, longest_wait_s=longest)
    state = RetryState(model="a", failures=failures, failure=Failure(kind="overloaded", message="", ask=ask))
    found = wait(state, retries, 7)
    assert found is not None
    whole = min(first * 2 ** min(failures - 1, 16), longest)
    assert whole * 0.5 * SECOND - 1 <= found.until - 7 <= whole * SECOND
    assert wait(state, retries, 7) == found
    assert found.attempt == failures + 1


def test_after_the_last_attempt_there_is_no_wait_and_a_wait_that_is_asked_for_is_kept_as_it_is() -> None:
    failure = Failure(kind="rate_limit", message="", retry_after_s=3.25)
    assert wait(RetryState(failures=4, failure=failure), Retries(), 0) is None
    found = wait(RetryState(failures=3, failure=failure), Retries(), 10)
    assert found is not None
    assert found.until == 10 + 3_250_000
    assert wait(RetryState(failures=1, failure=failure), Retries(longest_wait_s=3), 0) is None


def test_a_model_that_cools_is_passed_over_by_the_chain_and_by_the_fallback() -> None:
    state = RetryState(cooling=(("a", 100), ("b", 50)))
    assert [state.choose(("a", "b", "c"), now) for now in (0, 49, 50, 99, 100)] == ["c", "c", "b", "b", "a"]
    assert state.choose(("a", "b"), 0) == "a"  # when all of them cool, the first
    broken = RetryState(model="a", failures=4, cooling=(("b", 50),), failure=Failure(kind="timeout", message=""))
    taken = fallback(broken, ("a", "b", "c"), Retries(cooldown_s=2), 10)
    assert taken == FallbackTaken(came_from="a", to="c", kind="timeout", until=10 + 2 * SECOND)
    assert fallback(broken, ("a", "b"), Retries(), 10) is None
    assert fallback(broken, ("x", "y"), Retries(), 10) is None  # it is no longer in the chain


def test_a_turn_begins_afresh_but_what_cools_goes_on_cooling() -> None:
    state = after(asked(), failed(), FallbackTaken(came_from="a", to="b", kind="overloaded", until=9), asked("b"))
    assert (state.model, state.failures, state.cooling) == ("b", 0, (("a", 9),))
    again = after(TurnStarted(number=2), start=state)
    assert (again.model, again.cooling) == ("", (("a", 9),))
    assert after(ModelChanged(model="c"), start=again).cooling == (("a", 9),)
    assert after(ModelChanged(model="a"), start=again).cooling == ()


def test_a_wait_is_open_until_it_ends_and_its_time_is_kept_over_a_restart() -> None:
    waiting = after(asked(), failed(), WaitStarted(until=90, model="a", attempt=2, attempts=4, kind="overloaded"))
    assert (waiting.waiting != "", waiting.not_before, waiting.failure) == (True, 90, None)
    restarted = after(Opened(), start=waiting)
    assert (restarted.waiting, restarted.not_before, restarted.failures, restarted.kind) == ("", 90, 1, "overloaded")
    over = after(WaitEnded(), start=waiting)
    assert (over.waiting, over.not_before, over.failures) == ("", 0, 1)


@pytest.mark.parametrize("cure", [ModelReplied(parts=()), Compacted(trigger="overflow", first_kept="")])
def test_a_success_forgets_the_failures(cure: Event) -> None:
    events: Sequence[Event] = (asked(), failed(), asked(), failed("context_overflow"), cure)
    state = after(*events)
    assert (state.failures, state.failure) == (0, None)
