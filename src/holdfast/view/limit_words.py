"""What a person is told in passing about limits: a wait, another model, a shorter conversation, money."""

from typing import Final

from holdfast.logic.pricing import dollars
from holdfast.vocab.errors import ErrorKind
from holdfast.vocab.event import Recorded
from holdfast.vocab.event_limits import (
    BudgetAsked,
    BudgetWarned,
    Compacted,
    CompactionFailed,
    FallbackTaken,
    WaitStarted,
)

_WHY: Final[dict[ErrorKind, str]] = {
    "rate_limit": "rate limited",
    "overloaded": "overloaded",
    "timeout": "no answer in time",
    "transport": "the connection failed",
    "auth": "the key was refused",
}


def limit_in_words(record: Recorded, *, answerable: bool) -> str:
    """A short line about an event; empty for one that is not about limits. `answerable`: somebody may be asked for money."""
    event = record.event
    match event:
        case WaitStarted():
            seconds = max(0, event.until - record.at) / 1_000_000
            return f"{why(event.kind)}; trying again in {seconds:.3g} s ({event.attempt} of {event.attempts})"
        case FallbackTaken():
            return f"{event.came_from}: {why(event.kind)}; {event.to} answers"
        case Compacted():
            return f"compacted: {event.before:,} to {event.after:,} tokens"
        case CompactionFailed():
            return f"not compacted: {event.message}"
        case BudgetWarned():
            return f"budget: {dollars(event.spent)} of {dollars(event.limit)} spent, going on"
        case BudgetAsked() if answerable:
            return f"budget: {dollars(event.spent)} of {dollars(event.limit)} spent, waiting for an answer"
        case BudgetAsked():
            return f"budget: {dollars(event.spent)} spent, paused"
        case _:
            return ""


def why(kind: ErrorKind) -> str:
    """Why a model could not answer, in two or three words."""
    return _WHY.get(kind, "failed")
