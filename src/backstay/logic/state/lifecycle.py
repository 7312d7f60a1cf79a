"""The five states of a session, as a table.

    Idle       started, nothing said yet
    Active     a turn is going on
    Persisted  the store acknowledged everything; safe to leave
    Resumed    loaded again, before its first turn
    Closed     done; terminal for this holder

A turn that completes or is interrupted ends in Persisted. A turn that fails, or is abandoned, goes back to where it came from, without
`SessionPersisted`. Anything that is not in the table is illegal. The notices go out after the commit of the event that led to them.
"""

from typing import Final, Literal

import msgspec

from backstay.vocab import events
from backstay.vocab.deltas import LifecycleState, Notice, NoticeName
from backstay.vocab.errors import IllegalTransition
from backstay.vocab.event import Event, Recorded

Trigger = Literal["launch", "resume", "turn", "recover", "complete", "fail", "close"]
Row = tuple[LifecycleState | Literal["before"], tuple[NoticeName, ...]]

TABLE: Final[dict[tuple[LifecycleState | None, Trigger], Row]] = {
    (None, "launch"): ("Idle", ("SessionStarted",)),
    ("Idle", "turn"): ("Active", ("SessionTurnStart",)),
    ("Persisted", "turn"): ("Active", ("SessionTurnStart",)),
    ("Resumed", "turn"): ("Active", ("SessionResumed", "SessionTurnStart")),
    ("Resumed", "recover"): ("Active", ("SessionResumed", "SessionTurnStart")),
    ("Active", "complete"): ("Persisted", ("SessionTurnEnd", "SessionPersisted")),
    ("Active", "fail"): ("before", ("SessionTurnEnd",)),
    ("Resumed", "fail"): ("Resumed", ()),
    ("Idle", "resume"): ("Resumed", ("SessionResumeStarted",)),
    ("Active", "resume"): ("Resumed", ("SessionResumeStarted",)),
    ("Persisted", "resume"): ("Resumed", ("SessionResumeStarted",)),
    ("Resumed", "resume"): ("Resumed", ("SessionResumeStarted",)),
    ("Closed", "resume"): ("Resumed", ("SessionResumeStarted",)),
    ("Closed", "close"): ("Closed", ()),
    ("Idle", "close"): ("Closed", ("SessionClosed",)),
    ("Active", "close"): ("Closed", ("SessionClosed",)),
    ("Persisted", "close"): ("Closed", ("SessionClosed",)),
    ("Resumed", "close"): ("Closed", ("SessionClosed",)),
}


class Lifecycle(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a session in its lifecycle."""

    state: LifecycleState | None = None
    before: LifecycleState = "Idle"
    """Where the open turn came from."""
    turn_open: bool = False


FOLDS_ON: Final[frozenset[type[Event]]] = frozenset(
    (events.Started, events.Opened, events.TurnStarted, events.TurnCompleted, events.Closed)
)
"""The events that move the lifecycle."""


def move(
    life: Lifecycle, trigger: Trigger, *, outcome: str = "", after: int = 0
) -> tuple[Lifecycle, tuple[Notice, ...]]:
    """Take one edge of the table. Raise `IllegalTransition` when there is none; the state is unchanged then."""
    row = TABLE.get((life.state, trigger))
    if row is None:
        raise IllegalTransition(f"A session that is {life.state} cannot {trigger}.")
    target, names = row
    state: LifecycleState = life.before if target == "before" else target
    came_from: LifecycleState = "Persisted" if life.state in ("Resumed", None) else life.state
    before = came_from if state == "Active" and life.state != "Active" else life.before
    notices = tuple(
        Notice(notice=name, state=state, outcome=outcome if name == "SessionTurnEnd" else "", after=after)
        for name in names
    )
    return Lifecycle(state=state, before=before, turn_open=life.turn_open), notices


def advance(life: Lifecycle, record: Recorded) -> tuple[Lifecycle, tuple[Notice, ...]]:
    """Return the lifecycle after an event, and the notices to publish once it is committed."""
    match record.event:
        case events.Started():
            return move(life, "launch", after=record.seq)
        case events.Opened(on_crash=on_crash):
            resumed, notices = move(life, "resume", after=record.seq)
            if life.turn_open and on_crash == "continue":
                active, more = move(resumed, "recover", after=record.seq)
                return active, notices + more
            return resumed, notices
        case events.TurnStarted():
            started, notices = move(life, "turn", after=record.seq)
            return msgspec.structs.replace(started, turn_open=True), notices
        case events.TurnCompleted(outcome=outcome):
            trigger: Trigger = "complete" if outcome in ("completed", "interrupted") else "fail"
            ended, notices = move(life, trigger, outcome=outcome, after=record.seq)
            return msgspec.structs.replace(ended, turn_open=False), notices
        case events.Closed():
            return move(life, "close", after=record.seq)
        case _:
            return life, ()
