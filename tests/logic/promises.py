"""What must hold after every step, whatever the order in which things came. Each check counts in the log by itself where it can."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from backstay.logic.decide.call_gates import judge_open_call
from backstay.logic.state.calls import OpenCall, subject_of
from backstay.logic.state.progress import Progress, fold
from backstay.testing.crash.invariants import calls_have_one_result, what_is_refused_never_starts
from backstay.vocab.event import Draft, Recorded
from backstay.vocab.events import (
    CallInspected,
    CallJudged,
    CallProposed,
    ChildFinished,
    ChildStarted,
    InputDropped,
    InputReceived,
    InputTaken,
    ModelAsked,
    ModelFailed,
    ModelReplied,
    PermissionAnswered,
    PermissionAsked,
    ResultIgnored,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
    TurnStarted,
    calls_of,
)
from backstay.vocab.events.limits import BudgetAnswered, ChildPaused, Compacted, CompactionFailed
from backstay.vocab.events.tools import HookFinished, HookStarted
from tests.logic.crossing_results import HUSHED

if TYPE_CHECKING:
    from tests.logic.crossroads import Road

OF_A_CALL: Final = (
    *(CallProposed, CallInspected, CallJudged, PermissionAsked, PermissionAnswered, ToolStarted, ToolFinished),
    *(ChildStarted, ChildFinished, ChildPaused),
)
RESULTS: Final = (
    CallInspected
    | ChildFinished
    | ChildPaused
    | Compacted
    | CompactionFailed
    | BudgetAnswered
    | HookFinished
    | ModelFailed
    | ModelReplied
    | PermissionAnswered
    | ToolFinished
)
GATES: Final = frozenset(
    (
        "PreToolUse",
        "PermissionRequest",
        "PostToolUse",
        "PostToolUseFailure",
        "PostToolBatch",
        "UserPromptSubmit",
        "Stop",
    )
)
"""Moments of a turn: what is said of them after it says nothing."""


def broken_by(road: "Road", before: Progress, records: Sequence[Recorded]) -> Iterator[str]:
    """The promises that a step broke: what it wrote, and where the session stood before it."""
    log = road.log
    yield from what_is_refused_never_starts(log)
    yield from _starts(road, before, records)
    yield from _inputs(road)
    yield from _turns(log)
    yield from _stops(log)
    if any(isinstance(record.event, TurnCompleted) for record in records):
        yield from calls_have_one_result(log)
    yield from _waits(road)


def ignored(drafts: Sequence[Draft], records: Sequence[Recorded]) -> Iterator[str]:
    """Every result is in the log, or it says that one came too late."""
    for draft in drafts:
        if isinstance(draft.event, RESULTS):
            noted = [
                r.event for r in records if r.cause == draft.cause and isinstance(r.event, RESULTS | ResultIgnored)
            ]
            if not any(event == draft.event or isinstance(event, ResultIgnored) for event in noted):
                yield f"a result left no trace: {draft.event}"


def _waits(road: "Road") -> Iterator[str]:
    """Whoever is waited for is at work, and money is set aside for those alone."""
    p = road.progress
    awaited = {p.asking, p.compacting, p.retries.waiting, p.budget.asking} - {""}
    awaited |= {hook.intent for hook in p.hooks.open}
    awaited |= {call.intent for call in p.calls if call.phase in ("inspecting", "asking", "running")}
    yield from (f"somebody is waited for who is not there: {each}" for each in awaited - road.doing.keys())
    if p.turn is not None and not awaited and not p.paused:
        yield f"the turn is open, and nobody does anything: {p.turn}, {p.calls}"
    if p.budget.reserved and not (p.asking or p.compacting):
        yield "money is set aside for nobody"


def _starts(road: "Road", before: Progress, records: Sequence[Recorded]) -> Iterator[str]:
    """What starts was looked at as it is, may run as things are now, and is the only one that changes anything."""
    p = before
    for record in records:
        if isinstance(record.event, ToolStarted | ChildStarted):
            name = record.event.call
            call = next(each for each in p.calls if each.id == name)
            yield from _may_start(road, p, call)
        p = fold(p, record)


def _may_start(road: "Road", p: Progress, call: OpenCall) -> Iterator[str]:
    now, spec = road.facts(call.name, call.args), road.policy.tools[call.name]
    if call.facts != now:
        yield f"{call.name} runs, looked at as {call.facts}, and it is {now}"
    if spec.effect != "pure" and any(each.phase == "running" and each.effect != "pure" for each in p.calls):
        yield f"{call.name} runs beside another that changes things"
    hooks = {hook.event for hook in road.policy.hooks if hook.matcher in ("", call.name)}
    heard = _heard(road.log, "PreToolUse", subject_of(call))
    if "PreToolUse" in hooks and (heard is None or HUSHED in heard.notes):
        yield f"{call.name} runs, and its hooks were not heard"
    verdict = judge_open_call(
        replace(p, calls=()), call, spec, road.policy
    ).event  # what others would bring, they answer for
    assert isinstance(verdict, CallJudged)
    if call.phase == "paused" or verdict.decision == "allow":
        return
    yield f"{call.name} runs, and as things are it is not allowed to: {verdict.decision}, {verdict.detail}"


def _heard(log: Sequence[Recorded], event: str, subject: str) -> HookFinished | None:
    found = (r.event for r in reversed(log) if isinstance(r.event, HookFinished))
    return next((each for each in found if each.event == event and each.subject == subject), None)


def _inputs(road: "Road") -> Iterator[str]:
    """Every input was taken once, was dropped, or waits; what hooks stand before was heard, and let in."""
    log = road.log
    gone = Counter(
        each for r in log if isinstance(r.event, InputTaken | InputDropped) for each in r.event.inputs
    ) + Counter(waiting.input for waiting in road.progress.queue)
    for record in log:
        if isinstance(record.event, InputReceived) and gone[record.event.input] != 1:
            yield f"the input {record.event.input} was taken, dropped or kept {gone[record.event.input]} times"
        if isinstance(record.event, InputTaken) and any(hook.event == "UserPromptSubmit" for hook in road.policy.hooks):
            for each in record.event.inputs:
                verdict = _heard(log[: record.seq - 1], "UserPromptSubmit", each)
                if verdict is None or verdict.blocked or HUSHED in verdict.notes:
                    yield f"the input {each} was taken, and hooks had said {verdict}"


def _turns(log: Sequence[Recorded]) -> Iterator[str]:
    """A turn begins when none is open and ends once; what belongs to one is written while it is open."""
    turn = ""
    began: dict[str, str] = {}
    for record in log:
        match record.event:
            case TurnStarted():
                if turn:
                    yield "a turn began in another"
                turn = record.id
            case TurnCompleted(turn=ended):
                if ended != turn:
                    yield f"the turn {ended} ended, and {turn} is open"
                turn = ""
            case ModelAsked() | HookStarted():
                began[record.id] = turn
            case ModelReplied() | ModelFailed():
                began |= (
                    {call.id: turn for call in calls_of(record.event)} if isinstance(record.event, ModelReplied) else {}
                )
                if began.get(record.cause) != turn or not turn:
                    yield f"a reply was written after its turn: {record.event}"
            case HookFinished(event=event) if event in GATES:
                if began.get(record.cause) != turn or not turn:
                    yield f"what hooks said was written after their turn: {record.event}"
            case event if isinstance(event, OF_A_CALL):
                if began.get(event.call) != turn or not turn:
                    yield f"something of a call was written after its turn: {event}"
            case _:
                pass


def _stops(log: Sequence[Recorded]) -> Iterator[str]:
    """When a hook ends a turn, nothing more begins in it, and no other turn ends of it."""
    turn, stopped = "", False
    began: dict[str, str] = {}
    for record in log:
        match record.event:
            case TurnStarted():
                turn = record.id
            case HookStarted():
                began[record.id] = turn
            case HookFinished(stops=stops, event=event, blocked=blocked):
                mine = event == "SessionStart" or (turn and began[record.cause] == turn)
                stopped = stopped or bool(mine and (stops or (blocked and event == "PostToolBatch")))
            case TurnCompleted(message=message):
                if message.startswith("A hook stopped") and not stopped:
                    yield "a turn ended because of a hook that said nothing in it"
                turn, stopped = "", False
            case ToolStarted() | ChildStarted() | ModelAsked() | InputTaken():
                if stopped:
                    yield f"a hook ended the turn, and it went on: {record.event}"
            case _:
                pass
