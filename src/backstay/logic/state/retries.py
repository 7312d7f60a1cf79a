"""Decide what follows a failed model call, by the kind of the error: wait and ask again, ask the next model, or give up.

No call is repeated once the beginning of its answer was shown. A model that failed for good is not asked for a while;
that lasts as long as the session.
"""

import zlib
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from backstay.vocab import events
from backstay.vocab.errors import ErrorKind
from backstay.vocab.event import Event, Recorded

PASSING: Final[frozenset[ErrorKind]] = frozenset(("rate_limit", "overloaded", "timeout", "transport"))
"""Kinds that a second attempt may cure."""
SECOND: Final = 1_000_000


class Retries(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of retries: how often a failed model call is repeated, and how long it waits before."""

    attempts: int = 4
    """Calls of one model before it is given up, the first included."""
    first_wait_s: float = 0.5
    """Doubled with each attempt, and varied by up to a half, so that many sessions do not come back at once."""
    longest_wait_s: float = 60.0
    """A provider that wants a longer wait is given up at once."""
    cooldown_s: float = 120.0
    """How long a model that was given up on is left alone, when there is another."""
    fallback_on_auth: bool = True
    """Whether a refused key leads to the next model."""


class Failure(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The newest failure of the open turn, until something is done about it."""

    kind: ErrorKind
    message: str
    retry_after_s: float | None = None
    shown: bool = False
    """Whether the beginning of the answer was shown."""
    ask: str = ""
    """The `ModelAsked` that failed."""


class RetryState(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Which model answers, how often it failed, and which are left alone."""

    model: str = ""
    """The one that was asked last in this turn; empty before the first."""
    failures: int = 0
    """In a row, of that model."""
    failure: Failure | None = None
    waiting: str = ""
    """The open `WaitStarted`."""
    not_before: int = 0
    """The model is not asked before then."""
    kind: ErrorKind = "unknown"
    """Why it waits."""
    cooling: tuple[tuple[str, int], ...] = ()
    """Models that are left alone, and until when."""

    def choose(self, chain: Sequence[str], now: int) -> str:
        """Return the model to ask: the one at work, else the first of `chain` that is not left alone, else the first."""
        if self.model in chain:
            return self.model
        cooling = dict(self.cooling)
        return next((each for each in chain if cooling.get(each, 0) <= now), chain[0])


def fold_retries(state: RetryState, record: Recorded) -> RetryState:
    """Fold `record` into the retries."""
    change = _FOLDS.get(type(record.event))
    return state if change is None else change(state, record, record.event)


def wait(state: RetryState, retries: Retries, now: int) -> events.WaitStarted | None:
    """Return the wait before the same model is asked again; None when it is given up."""
    failure = state.failure
    if failure is None or failure.kind not in PASSING or failure.shown or state.failures >= retries.attempts:
        return None
    steps = min(state.failures - 1, 16)
    delay = min(retries.first_wait_s * 2**steps, retries.longest_wait_s) * (0.5 + _chance(failure.ask) / 2)
    if failure.retry_after_s is not None:
        delay = failure.retry_after_s or delay  # at once is no wait
    if delay > retries.longest_wait_s:
        return None
    until = now + int(delay * SECOND)
    return events.WaitStarted(
        until=until,
        model=state.model,
        attempt=state.failures + 1,
        attempts=retries.attempts,
        kind=failure.kind,
    )


def fallback(state: RetryState, chain: Sequence[str], retries: Retries, now: int) -> events.FallbackTaken | None:
    """Return the next model of the chain; None when the failure is not of that kind or there is none left."""
    failure = state.failure
    if failure is None or failure.shown or state.model not in chain:
        return None
    if failure.kind not in PASSING and not (failure.kind == "auth" and retries.fallback_on_auth):
        return None
    cooling = dict(state.cooling)
    rest = chain[chain.index(state.model) + 1 :]
    to = next((each for each in rest if cooling.get(each, 0) <= now), None)
    if to is None:
        return None
    until = now + int(retries.cooldown_s * SECOND)
    return events.FallbackTaken(came_from=state.model, to=to, kind=failure.kind, until=until)


def _chance(word: str) -> float:
    """Return a number in [0, 1) that depends on `word` alone."""
    return zlib.crc32(word.encode()) / 2**32


def _fold_failure(state: RetryState, record: Recorded, event: events.ModelFailed) -> RetryState:
    if not state.model:  # another model answers now: what this one said is past
        return state
    failure = Failure(
        kind=event.kind,
        message=event.message,
        retry_after_s=event.retry_after_s,
        shown=bool(event.parts),
        ask=record.cause,
    )
    return replace(state, failures=state.failures + 1, failure=failure)


def _fold_asked(state: RetryState, _: Recorded, event: events.ModelAsked) -> RetryState:
    failures = state.failures if state.model == event.model else 0
    return replace(state, model=event.model, failures=failures, failure=None)


def _fold_fallback(state: RetryState, _: Recorded, event: events.FallbackTaken) -> RetryState:
    cooling = (*(each for each in state.cooling if each[0] != event.came_from), (event.came_from, event.until))
    return replace(state, model=event.to, failures=0, failure=None, cooling=cooling, not_before=0)


_FOLDS: Final[dict[type[Event], Callable[[RetryState, Recorded, Any], RetryState]]] = {  # Any: each takes its own event
    events.TurnStarted: lambda t, r, e: replace(t, model="", failures=0, failure=None, not_before=0),
    events.ModelChanged: lambda t, r, e: RetryState(cooling=tuple(each for each in t.cooling if each[0] != e.model)),
    events.ModelAsked: _fold_asked,
    events.ModelReplied: lambda t, r, e: replace(t, failures=0, failure=None),
    events.ModelFailed: _fold_failure,
    events.WaitStarted: lambda t, r, e: replace(t, waiting=r.id, not_before=e.until, kind=e.kind, failure=None),
    events.WaitEnded: lambda t, r, e: replace(t, waiting="", not_before=0),
    events.FallbackTaken: _fold_fallback,
    events.Compacted: lambda t, r, e: replace(t, failures=0, failure=None),
    events.Opened: lambda t, r, e: replace(t, waiting=""),
}
FOLDS_ON: Final = frozenset(_FOLDS)
"""The events that change it."""
