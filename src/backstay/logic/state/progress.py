"""The progress of a session: the small state that `decide` works on.

`fold(progress, record)` is pure. It holds scalars, open calls and queued input, never the conversation, so that folding stays linear.
"""

from collections.abc import Callable, Iterable
from functools import cache, reduce
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from backstay.hooks import gates
from backstay.hooks.gates import HookState
from backstay.logic import budget, context_usage
from backstay.logic.budget import BudgetState
from backstay.logic.context_usage import ContextUsage
from backstay.logic.state import calls as open_calls
from backstay.logic.state import retries
from backstay.logic.state.calls import EndedCall, OpenCall
from backstay.logic.state.retries import RetryState
from backstay.permissions import grants
from backstay.permissions.grants import Grants
from backstay.vocab import events
from backstay.vocab.event import Delivery, Draft, Event, Recorded, Stop
from backstay.vocab.ids import event_id
from backstay.vocab.specs import FsScope, Mode, OnCrash

LEFT: Final = 32
"""Processes of ended calls that are remembered: more cannot run in the background."""


class Queued(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Input that waits."""

    input: str
    delivery: Delivery


class OpenTurn(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The turn that is going on."""

    id: str
    number: int
    since: int = 0
    """The seq at which it began."""
    rounds: int = 0
    """Model calls that gave a reply."""
    run: int = 0
    """Those of them since the session was opened."""
    owes: Literal["input", "reply", "end"] = "input"
    """What comes next: input to take, a model call, or the end."""
    stop: Stop = "end"
    problem: str = ""
    """Why the newest answer cannot be taken: it does not fit the schema."""
    refusals: int = 0
    """Answers that could not be taken."""
    held: int = 0
    """How often a hook kept the turn from ending."""


class OpenSkill(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A skill that a person runs in a child session, and that has not ended."""

    started: events.ChildStarted
    intent: str
    """The id of `started`, when this process performs it."""
    lost: bool = False
    """The process that performed it died."""
    abandoned: bool = False

    def performs(self, call: str, intent: str) -> bool:
        """Return whether a result of `call` that was caused by `intent` ends it."""
        return bool(intent) and (self.started.call, self.intent) == (call, intent)


class Progress(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The progress of a session."""

    seq: int = 0
    at: int = 0
    tip: str = ""
    session: str = ""
    model: str = ""
    mode: Mode = "default"
    scope: FsScope = "sandboxed"
    scope_implied: bool = False
    """The scope was not named: it follows the mode of each opening."""
    closed: bool = False
    turns: int = 0
    """Turns on the active path."""
    begun: int = 0
    """Turns begun in the whole log, without those that the session's limit refused."""
    completed: int = 0
    """Turns completed in the whole log."""
    replies: int = 0
    """Replies and failed attempts in the whole log."""
    stand_ins: tuple[tuple[str, int], ...] = ()
    """Models that were asked instead of the session's own, and the replies and failed attempts of each."""
    queue: tuple[Queued, ...] = ()
    turn: OpenTurn | None = None
    asking: str = ""
    """The open `ModelAsked`."""
    compacting: str = ""
    """The open `CompactionStarted`."""
    restoring: str = ""
    """The open `RestoreStarted` that this process performs."""
    restore: events.RestoreStarted | None = None
    """The open `RestoreStarted`, also when the process that performed it died."""
    skill: OpenSkill | None = None
    """The skill that a person runs in a child session: no turn begins before its end."""
    calls: tuple[OpenCall, ...] = ()
    left: tuple[events.ProcessStarted, ...] = ()
    """The processes of calls that are over; some may run on in the background."""
    ended: tuple[EndedCall, ...] = ()
    """The calls of this round that have their results."""
    stopping: str = ""
    """The `Interrupted` that the open turn is obeying."""
    stop_timed_out: bool = False
    """A performer that was told to stop did not answer in time."""
    abandoning: bool = False
    grants: Grants = Grants()
    hooks: HookState = HookState()
    context: ContextUsage = ContextUsage()
    retries: RetryState = RetryState()
    budget: BudgetState = BudgetState()

    def count_replies(self, model: str) -> int:
        """Count the replies and failed attempts of `model`: where its script goes on. A session's own models count as one."""
        others = dict(self.stand_ins)
        return self.replies - sum(others.values()) if model == self.model else others.get(model, 0)

    @property
    def paused(self) -> bool:
        """Whether the open turn waits for money, and no question about it is open."""
        return self.turn is not None and self.budget.paused

    @property
    def busy(self) -> bool:
        """Whether a turn is going on."""
        return self.turn is not None


def stamp(progress: Progress, draft: Draft, *, nonce: str, now: int) -> Recorded:
    """Give a draft its place in the log. Time never goes back within a session."""
    seq = progress.seq + 1
    at = max(progress.at, now)
    return Recorded(seq=seq, id=event_id(nonce, seq), at=at, by=draft.by, cause=draft.cause, event=draft.event)


def fold(progress: Progress, record: Recorded) -> Progress:
    """Return `progress` after `record`."""
    kind = type(record.event)
    change = _FOLDS.get(kind)
    changes = change(progress, record, record.event) if change else {}
    for field, part in _listeners(kind):
        changes[field] = part(progress, record)
    return replace(progress, seq=record.seq, at=record.at, tip=record.id, **changes)


def fold_all(records: Iterable[Recorded], start: Progress | None = None) -> Progress:
    """Fold a log into `Progress`."""
    return reduce(fold, records, start or Progress())


Change = dict[str, object]
Part = Callable[[Progress, Recorded], object]

_PARTS: Final[tuple[tuple[str, frozenset[type[Event]], Part], ...]] = (
    ("context", context_usage.FOLDS_ON, lambda p, r: context_usage.fold_context_usage(p.context, r)),
    ("retries", retries.FOLDS_ON, lambda p, r: retries.fold_retries(p.retries, r)),
    ("budget", budget.FOLDS_ON, lambda p, r: budget.fold_budget(p.budget, r)),
    ("grants", grants.FOLDS_ON, lambda p, r: grants.fold_grants(p.grants, r, p.calls)),
    ("hooks", gates.FOLDS_ON, lambda p, r: gates.fold_hook_state(p.hooks, r, p.calls, p.ended)),
    ("calls", open_calls.FOLDS_ON, lambda p, r: open_calls.fold_calls(p.calls, r)),
)
"""The fields that are folds of their own, and the events that each folds on."""


@cache
def _listeners(kind: type[Event]) -> tuple[tuple[str, Part], ...]:
    return tuple((field, part) for field, folds_on, part in _PARTS if kind in folds_on)


def _fold_started(_: Progress, __: Recorded, event: events.Started) -> Change:
    scope = event.context.fs_scope
    said = {"session": event.session, "model": event.model, "mode": event.mode}
    # 0.1.0 did not record whether the scope was named; a sandbox that comes back is the safer guess, and is said
    implied = event.version == "0.1.0" and event.mode == "bypassPermissions" and scope == "full"
    return {**said, "scope": scope, "scope_implied": event.scope_implied or implied}


def _fold_opened(p: Progress, _: Recorded, event: events.Opened) -> Change:
    return {
        "closed": False,
        "asking": "",
        "compacting": "",
        "restoring": "",
        "skill": p.skill and replace(p.skill, intent="", lost=True, abandoned=_abandons(event.on_crash)),
        "left": (),
        "turn": p.turn and replace(p.turn, run=0),
        "abandoning": p.turn is not None and _abandons(event.on_crash),
    }


def _abandons(on_crash: OnCrash) -> bool:
    return on_crash == "abandon"


def _input_received(p: Progress, _: Recorded, event: events.InputReceived) -> Change:
    return {"queue": (*p.queue, Queued(input=event.input, delivery=event.delivery))}


def _input_gone(p: Progress, event: events.InputDropped | events.InputTaken) -> tuple[Queued, ...]:
    return tuple(waiting for waiting in p.queue if waiting.input not in event.inputs)


def _input_dropped(p: Progress, _: Recorded, event: events.InputDropped) -> Change:
    return {"queue": _input_gone(p, event)}


def _turn_started(p: Progress, record: Recorded, event: events.TurnStarted) -> Change:
    return {
        "turn": OpenTurn(id=record.id, number=event.number, since=record.seq),
        "turns": event.number,
        "begun": p.begun + 1,
    }


def _input_taken(p: Progress, _: Recorded, event: events.InputTaken) -> Change:
    return {"queue": _input_gone(p, event), "turn": p.turn and replace(p.turn, owes="reply")}


def _turn_completed(p: Progress, _: Recorded, event: events.TurnCompleted) -> Change:
    return {
        "turn": None,
        "ended": (),
        "asking": "",
        "compacting": "",
        "stopping": "",
        "stop_timed_out": False,
        "abandoning": False,
        "turns": p.turns - (event.outcome == "abandoned"),
        "completed": p.completed + (event.outcome == "completed"),
        "begun": p.begun - (event.code == "turn_limit" and p.turn is not None and p.turn.rounds == 0),
    }


def _model_asked(_: Progress, record: Recorded, __: events.ModelAsked) -> Change:
    return {"asking": record.id, "ended": ()}


def _model_replied(p: Progress, _: Recorded, event: events.ModelReplied) -> Change:
    calls = events.calls_of(event)
    turn = p.turn and replace(
        p.turn,
        rounds=p.turn.rounds + 1,
        run=p.turn.run + 1,
        owes="reply" if calls else "end",
        stop=event.stop,
        problem="" if calls else event.problem,
    )
    return {"asking": "", "turn": turn, **_count_reply(p)}


def _model_failed(p: Progress, _: Recorded, __: events.ModelFailed) -> Change:
    return {"asking": "", **_count_reply(p)}


def _count_reply(p: Progress) -> Change:
    asked = p.retries.model or p.model
    change: Change = {"replies": p.replies + 1}
    if asked != p.model:
        change["stand_ins"] = tuple({**dict(p.stand_ins), asked: p.count_replies(asked) + 1}.items())
    return change


def _fold_injected(p: Progress, _: Recorded, __: events.MessageInjected) -> Change:
    """Take a message inside a turn as the refusal of its answer: it is injected for nothing else."""
    if p.turn is None or not p.turn.problem:
        return {}
    return {"turn": replace(p.turn, owes="reply", problem="", refusals=p.turn.refusals + 1)}


def _compaction_over(p: Progress, _: Recorded, __: events.Compacted | events.CompactionFailed) -> Change:
    return {"compacting": ""}


def _child_started(p: Progress, record: Recorded, event: events.ChildStarted) -> Change:
    if event.skill is None:
        return {}
    return {"skill": OpenSkill(started=event, intent=record.id, lost=p.skill is not None and p.skill.lost)}


def _child_over(p: Progress, record: Recorded, event: events.ChildFinished) -> Change:
    return {"skill": None} if event.skill else _call_over(p, record, event)


def _call_over(p: Progress, record: Recorded, event: events.ToolFinished | events.ChildFinished) -> Change:
    over = [
        EndedCall(
            id=c.id,
            name=c.name,
            args=c.args,
            outcome=event.outcome,
            took_ms=(record.at - c.since) // 1000 if c.since else 0,
        )
        for c in p.calls
        if c.id == event.call
    ]
    left = [c.process for c in p.calls if c.id == event.call and c.process is not None]
    return {"ended": (*p.ended, *over), "left": (*p.left, *left)[-LEFT:]}


def _fold_restored(p: Progress, record: Recorded, _: events.RestoreFinished) -> Change:
    return {"restoring": "", "restore": None} if record.cause == p.restoring else {}


def _hook_finished(p: Progress, _: Recorded, event: events.HookFinished) -> Change:
    if event.event != "Stop" or not event.blocked or p.turn is None:
        return {}
    return {"turn": replace(p.turn, owes="reply", held=p.turn.held + 1)}


_FOLDS: Final[
    dict[type[Event], Callable[[Progress, Recorded, Any], Change]]
] = {  # Any: each function takes its own event
    events.Started: _fold_started,
    events.Opened: _fold_opened,
    events.Closed: lambda p, r, e: {"closed": True},
    events.ScopeChanged: lambda p, r, e: {"scope": e.scope, "scope_implied": e.implied},
    events.ModeChanged: lambda p, r, e: {"mode": e.mode},
    events.ModelChanged: lambda p, r, e: {"model": e.model},
    events.InputReceived: _input_received,
    events.InputDropped: _input_dropped,
    events.TurnStarted: _turn_started,
    events.InputTaken: _input_taken,
    events.TurnCompleted: _turn_completed,
    events.Interrupted: lambda p, r, e: {"stopping": r.id if p.turn else ""},
    events.StopDeadlinePassed: lambda p, r, e: {"stop_timed_out": bool(p.stopping)},
    events.ModelAsked: _model_asked,
    events.ModelReplied: _model_replied,
    events.ModelFailed: _model_failed,
    events.ToolFinished: _call_over,
    events.ChildStarted: _child_started,
    events.ChildFinished: _child_over,
    events.MessageInjected: _fold_injected,
    events.HookFinished: _hook_finished,
    events.CompactionStarted: lambda p, r, e: {"compacting": r.id},
    events.Compacted: _compaction_over,
    events.CompactionFailed: _compaction_over,
    events.CompactionUndone: lambda p, r, e: {"compacting": ""},
    events.HistoryCleared: lambda p, r, e: {"compacting": ""},
    events.RestoreStarted: lambda p, r, e: {"restoring": r.id, "restore": e},
    events.RestoreFinished: _fold_restored,
    events.Rewound: lambda p, r, e: {"turns": e.turns, "compacting": ""},
}
