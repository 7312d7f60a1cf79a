"""Where a session stands: the small state that `decide` works on.

`fold(progress, record)` is pure. It holds scalars, open calls and queued input, never the conversation, so that folding stays linear.
"""

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from holdfast.logic.fill import Fill, fold_fill
from holdfast.logic.permissions import fingerprint
from holdfast.logic.purse import Purse, fold_purse
from holdfast.logic.trying import Trying, fold_trying
from holdfast.vocab.event import Decision, Delivery, Event, Recorded, Stop
from holdfast.vocab.event_limits import ChildPaused, Compacted, CompactionFailed, CompactionStarted, CompactionUndone
from holdfast.vocab.events import (
    CallInspected,
    CallJudged,
    CallProposed,
    ChildFinished,
    ChildStarted,
    Closed,
    GrantsCleared,
    HistoryCleared,
    InputDropped,
    InputReceived,
    InputTaken,
    Interrupted,
    MessageInjected,
    ModeChanged,
    ModelAsked,
    ModelChanged,
    ModelFailed,
    ModelReplied,
    Opened,
    PermissionAnswered,
    PermissionAsked,
    ProcessStarted,
    Rewound,
    Started,
    StopDeadlinePassed,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
    TurnStarted,
    calls_of,
)
from holdfast.vocab.specs import Effect, Mode, OnCrash

Phase = Literal["new", "inspecting", "inspected", "judged", "asking", "allowed", "refused", "running", "paused"]


class OpenCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A tool call that has no result yet."""

    id: str
    name: str
    args: str
    phase: Phase = "new"
    intent: str = ""
    """The intent that somebody is performing for it."""
    effect: Effect = "once"
    """As declared when it was started."""
    lost: bool = False
    """It was running when a process died."""
    problem: str = ""
    decision: Decision | None = None
    detail: str = ""
    process: ProcessStarted | None = None
    """What it left running, perhaps."""
    child: str = ""
    """The child session that it started."""
    share: int = 0
    """For a child session that waits for money: what it might have spent."""


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


class Progress(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where a session stands."""

    seq: int = 0
    at: int = 0
    tip: str = ""
    session: str = ""
    model: str = ""
    mode: Mode = "default"
    closed: bool = False
    turns: int = 0
    """Turns on the active path."""
    begun: int = 0
    """Turns begun in the whole log, without those that the session's limit refused."""
    completed: int = 0
    """Turns completed in the whole log."""
    replies: int = 0
    """Replies and failed attempts in the whole log."""
    queue: tuple[Queued, ...] = ()
    turn: OpenTurn | None = None
    asking: str = ""
    """The open `ModelAsked`."""
    compacting: str = ""
    """The open `CompactionStarted`."""
    calls: tuple[OpenCall, ...] = ()
    stopping: str = ""
    """The `Interrupted` that the open turn is obeying."""
    gave_up: bool = False
    """What was told to stop did not answer in time."""
    abandoning: bool = False
    grants: frozenset[str] = frozenset()
    fill: Fill = Fill()
    trying: Trying = Trying()
    purse: Purse = Purse()

    @property
    def paused(self) -> bool:
        """Whether the open turn waits for money, and nobody is being asked."""
        return self.turn is not None and self.purse.paused

    @property
    def busy(self) -> bool:
        """Whether a turn is going on."""
        return self.turn is not None


def fold(progress: Progress, record: Recorded) -> Progress:
    """`progress` after `record`."""
    change = _FOLDS.get(type(record.event))
    changes = change(progress, record, record.event) if change else {}
    return replace(
        progress,
        seq=record.seq,
        at=record.at,
        tip=record.id,
        fill=fold_fill(progress.fill, record),
        trying=fold_trying(progress.trying, record),
        purse=fold_purse(progress.purse, record),
        **changes,
    )


def fold_all(records: Iterable[Recorded], start: Progress | None = None) -> Progress:
    """What a log means."""
    return reduce(fold, records, start or Progress())


Change = dict[str, object]


def _started(_: Progress, __: Recorded, event: Started) -> Change:
    return {"session": event.session, "model": event.model, "mode": event.mode}


def _opened(p: Progress, _: Recorded, event: Opened) -> Change:
    calls = tuple(
        replace(
            call,
            phase="new",
            intent="",
            lost=call.lost or call.phase == "running",
            decision=None,
            problem="",
            detail="",
        )
        for call in p.calls
    )
    return {
        "closed": False,
        "asking": "",
        "compacting": "",
        "calls": calls,
        "turn": p.turn and replace(p.turn, run=0),
        "abandoning": p.turn is not None and _abandons(event.on_crash),
    }


def _abandons(on_crash: OnCrash) -> bool:
    return on_crash == "abandon"


def _input_received(p: Progress, _: Recorded, event: InputReceived) -> Change:
    return {"queue": (*p.queue, Queued(input=event.input, delivery=event.delivery))}


def _input_gone(p: Progress, event: InputDropped | InputTaken) -> tuple[Queued, ...]:
    return tuple(waiting for waiting in p.queue if waiting.input not in event.inputs)


def _input_dropped(p: Progress, _: Recorded, event: InputDropped) -> Change:
    return {"queue": _input_gone(p, event)}


def _turn_started(p: Progress, record: Recorded, event: TurnStarted) -> Change:
    return {
        "turn": OpenTurn(id=record.id, number=event.number, since=record.seq),
        "turns": event.number,
        "begun": p.begun + 1,
    }


def _input_taken(p: Progress, _: Recorded, event: InputTaken) -> Change:
    return {"queue": _input_gone(p, event), "turn": p.turn and replace(p.turn, owes="reply")}


def _turn_completed(p: Progress, _: Recorded, event: TurnCompleted) -> Change:
    return {
        "turn": None,
        "calls": (),
        "asking": "",
        "compacting": "",
        "stopping": "",
        "gave_up": False,
        "abandoning": False,
        "turns": p.turns - (event.outcome == "abandoned"),
        "completed": p.completed + (event.outcome == "completed"),
        "begun": p.begun - (event.code == "turn_limit" and p.turn is not None and p.turn.rounds == 0),
    }


def _model_asked(_: Progress, record: Recorded, __: ModelAsked) -> Change:
    return {"asking": record.id}


def _model_replied(p: Progress, _: Recorded, event: ModelReplied) -> Change:
    calls = tuple(OpenCall(id=call.id, name=call.name, args=call.args) for call in calls_of(event))
    turn = p.turn and replace(
        p.turn,
        rounds=p.turn.rounds + 1,
        run=p.turn.run + 1,
        owes="reply" if calls else "end",
        stop=event.stop,
        problem="" if calls else event.problem,
    )
    return {"asking": "", "calls": calls, "turn": turn, "replies": p.replies + 1}


def _model_failed(p: Progress, _: Recorded, __: ModelFailed) -> Change:
    return {"asking": "", "replies": p.replies + 1}


def _injected(p: Progress, _: Recorded, __: MessageInjected) -> Change:
    """Inside a turn, a message is injected only to say why an answer cannot be taken."""
    if p.turn is None or not p.turn.problem:
        return {}
    return {"turn": replace(p.turn, owes="reply", problem="", refusals=p.turn.refusals + 1)}


def _compaction_over(p: Progress, _: Recorded, __: Compacted | CompactionFailed) -> Change:
    return {"compacting": ""}


def _call(p: Progress, call: str, **changes: object) -> Change:
    return {"calls": tuple([replace(c, **changes) if c.id == call else c for c in p.calls])}


def _call_proposed(p: Progress, record: Recorded, event: CallProposed) -> Change:
    return _call(p, event.call, phase="inspecting", intent=record.id)


def _call_inspected(p: Progress, _: Recorded, event: CallInspected) -> Change:
    return _call(p, event.call, phase="inspected", intent="", problem=event.problem)


def _call_judged(p: Progress, _: Recorded, event: CallJudged) -> Change:
    phase = {"allow": "allowed", "ask": "judged", "deny": "refused"}[event.decision]
    return _call(p, event.call, phase=phase, decision=event.decision, detail=event.detail)


def _permission_asked(p: Progress, record: Recorded, event: PermissionAsked) -> Change:
    return _call(p, event.call, phase="asking", intent=record.id)


def _permission_answered(p: Progress, _: Recorded, event: PermissionAnswered) -> Change:
    detail = event.message or ("nobody could be asked" if event.nobody else "the person refused it")
    change = _call(p, event.call, phase="allowed" if event.allowed else "refused", intent="", detail=detail)
    if event.allowed and event.grant == "session":
        change["grants"] = p.grants | {fingerprint(c.name, c.args) for c in p.calls if c.id == event.call}
    return change


def _running(p: Progress, record: Recorded, event: ToolStarted) -> Change:
    return _call(p, event.call, phase="running", intent=record.id, effect=event.effect)


def _child_running(p: Progress, record: Recorded, event: ChildStarted) -> Change:
    return _call(p, event.call, phase="running", intent=record.id, effect="idempotent", child=event.child)


def _process_started(p: Progress, _: Recorded, event: ProcessStarted) -> Change:
    return _call(p, event.call, process=event)


def _child_paused(p: Progress, _: Recorded, event: ChildPaused) -> Change:
    return _call(p, event.call, phase="paused", intent="", share=event.share)


def _call_over(p: Progress, _: Recorded, event: ToolFinished | ChildFinished) -> Change:
    return {"calls": tuple([call for call in p.calls if call.id != event.call])}


_FOLDS: Final[
    dict[type[Event], Callable[[Progress, Recorded, Any], Change]]
] = {  # Any: each function takes its own event
    Started: _started,
    Opened: _opened,
    Closed: lambda p, r, e: {"closed": True},
    ModeChanged: lambda p, r, e: {"mode": e.mode},
    ModelChanged: lambda p, r, e: {"model": e.model},
    InputReceived: _input_received,
    InputDropped: _input_dropped,
    TurnStarted: _turn_started,
    InputTaken: _input_taken,
    TurnCompleted: _turn_completed,
    Interrupted: lambda p, r, e: {"stopping": r.id if p.turn else ""},
    StopDeadlinePassed: lambda p, r, e: {"gave_up": bool(p.stopping)},
    ModelAsked: _model_asked,
    ModelReplied: _model_replied,
    ModelFailed: _model_failed,
    CallProposed: _call_proposed,
    CallInspected: _call_inspected,
    CallJudged: _call_judged,
    PermissionAsked: _permission_asked,
    PermissionAnswered: _permission_answered,
    GrantsCleared: lambda p, r, e: {"grants": frozenset()},
    ToolStarted: _running,
    ToolFinished: _call_over,
    ChildStarted: _child_running,
    ChildFinished: _call_over,
    ProcessStarted: _process_started,
    ChildPaused: _child_paused,
    MessageInjected: _injected,
    CompactionStarted: lambda p, r, e: {"compacting": r.id},
    Compacted: _compaction_over,
    CompactionFailed: _compaction_over,
    CompactionUndone: lambda p, r, e: {"compacting": ""},
    HistoryCleared: lambda p, r, e: {"compacting": ""},
    Rewound: lambda p, r, e: {"turns": e.turns, "compacting": ""},
}
