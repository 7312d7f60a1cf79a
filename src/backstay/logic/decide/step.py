"""One step: fold what arrived, decide to a fixpoint, and say what to write and what to perform. Pure.

Every record of a step is written in one commit. A result whose intent is no longer open changes nothing: it is noted, not folded.
"""

import re
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

from backstay.logic.decide.decide import decide
from backstay.logic.decide.policy import Policy
from backstay.logic.state.calls import OpenCall
from backstay.logic.state.progress import Progress, fold
from backstay.vocab.errors import Bug
from backstay.vocab.event import Draft, Recorded
from backstay.vocab.events import (
    INTENTS,
    CallInspected,
    ChildFinished,
    Closed,
    InputDropped,
    Interrupted,
    ModelFailed,
    ModelReplied,
    PermissionAnswered,
    ProcessStarted,
    ResultIgnored,
    StopDeadlinePassed,
    ToolFinished,
)
from backstay.vocab.events.limits import BudgetAnswered, ChildPaused, Compacted, CompactionFailed, WaitEnded
from backstay.vocab.events.tools import HookFinished
from backstay.vocab.ids import event_id

MOST_EVENTS: Final = 10_000
"""More events than `decide` can have to say in one step: past it, it is going round in circles."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What one step writes, and where the session stands when it is written."""

    progress: Progress
    records: tuple[Recorded, ...]

    @property
    def intents(self) -> tuple[Recorded, ...]:
        """The records that somebody must perform."""
        return tuple(record for record in self.records if isinstance(record.event, INTENTS))


def settle(progress: Progress, arrived: Iterable[Draft], policy: Policy | None, *, nonce: str, now: int) -> Step:
    """Fold what arrived, then decide until there is nothing more to decide; without a policy, decide nothing."""
    records: list[Recorded] = []

    def write(draft: Draft) -> None:
        nonlocal progress
        record = stamp(progress, draft, nonce=nonce, now=now)
        records.append(record)
        progress = fold(progress, record)

    for draft in arrived:
        if accepted := accept(progress, draft):
            write(accepted)
    most = len(records) + MOST_EVENTS + 20 * len(progress.calls)
    while drafts := decide(progress, policy) if policy is not None else ():
        for draft in drafts:
            write(draft)
        if len(records) > most:
            raise Bug(f"Session {progress.session!r} decides without end; the newest event is {records[-1].event!r}.")
    return Step(progress=progress, records=tuple(records))


def stamp(progress: Progress, draft: Draft, *, nonce: str, now: int) -> Recorded:
    """Give a draft its place in the log. Time never goes back within a session."""
    seq = progress.seq + 1
    at = max(progress.at, now)
    return Recorded(seq=seq, id=event_id(nonce, seq), at=at, by=draft.by, cause=draft.cause, event=draft.event)


def accept(p: Progress, draft: Draft) -> Draft | None:
    """`draft` as it is to be written: a late result becomes a note, a stop or a drop of nothing becomes nothing."""
    match draft.event:
        case Interrupted():
            return draft if (not p.stopping if p.turn is not None else p.compacting) else None
        case InputDropped(inputs=("*",)):
            waiting = tuple(queued.input for queued in p.queue)
            return replace(draft, event=InputDropped(inputs=waiting)) if waiting else None
        case Closed() if p.closed:
            return None
        case StopDeadlinePassed():
            return draft if p.stopping and p.stopping == draft.cause else None
        case InputDropped():
            return _still_queued(p, draft, draft.event)
        case ModelReplied() | ModelFailed() if draft.cause != p.asking:
            return _ignored(p, draft)
        case WaitEnded() if draft.cause != p.trying.waiting:
            return None
        case Compacted() | CompactionFailed() if draft.cause != p.compacting:
            return _ignored(p, draft)
        case BudgetAnswered() if draft.cause != p.purse.asking:
            return _ignored(p, draft)
        case CallInspected() if not _waits(p, draft, draft.event.call, ("new", "inspecting")):
            return _ignored(p, draft)
        case HookFinished() if not p.hooks.awaits(draft.cause):
            return _ignored(p, draft)
        case PermissionAnswered() if not _waits(p, draft, draft.event.call, ("asking",)):
            return _ignored(p, draft)
        case ToolFinished() | ChildFinished() | ChildPaused() | ProcessStarted() if not _waits(
            p, draft, draft.event.call, ("running",)
        ):
            return _ignored(p, draft)
        case _:
            return draft


def _still_queued(p: Progress, draft: Draft, event: InputDropped) -> Draft | None:
    """A drop of what still waits: input that was taken while the drop was on its way stays taken."""
    waiting = {queued.input for queued in p.queue}
    inputs = tuple(each for each in event.inputs if each in waiting)
    return msgspec.structs.replace(draft, event=InputDropped(inputs=inputs)) if inputs else None


def _waits(p: Progress, draft: Draft, call_id: str, phases: tuple[str, ...]) -> bool:
    call: OpenCall | None = next((call for call in p.calls if call.id == call_id), None)
    return call is not None and call.phase in phases and call.intent == draft.cause


def _ignored(p: Progress, draft: Draft) -> Draft:
    kind = re.sub(r"(?<!^)(?=[A-Z])", "_", type(draft.event).__name__).lower()
    ignored = ResultIgnored(kind=kind, summary=repr(draft.event)[:200], cost=_unpaid(p, draft))
    return Draft(event=ignored, cause=draft.cause)


def _unpaid(p: Progress, draft: Draft) -> int | None:
    """What a late result cost beyond what is counted already."""
    match draft.event:
        case ModelReplied(cost=int() as cost) | ModelFailed(cost=int() as cost):
            return max(0, cost - (p.purse.guessed[1] if p.purse.guessed[0] == draft.cause else 0))
        case ChildFinished(cost=int() as cost, child=child) | ChildPaused(cost=int() as cost, child=child):
            return max(0, cost - dict(p.purse.children).get(child, 0))
        case Compacted(cost=cost) | CompactionFailed(cost=cost):
            return cost
        case _:
            return None
