"""What performers bring to a session at a crossroads."""

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from backstay.vocab.event import Event, Grant, Recorded
from backstay.vocab.events import (
    CallInspected,
    CallProposed,
    ChildFinished,
    ChildStarted,
    ModelFailed,
    ModelReplied,
    PermissionAnswered,
    ToolFinished,
    ToolStarted,
)
from backstay.vocab.events.limits import (
    BudgetAnswered,
    BudgetAsked,
    ChildPaused,
    Compacted,
    CompactionFailed,
    CompactionStarted,
    WaitEnded,
)
from backstay.vocab.events.tools import HookFinished, HookStarted
from backstay.vocab.messages import Text, ToolCall

if TYPE_CHECKING:
    from tests.logic.crossroads import Road

ARGS: Final = '{"prompt": "x"}'
OTHER: Final = '{"prompt": "other"}'
HUSHED: Final = "stopped before they had answered"
COST: Final = 10
"""What a reply costs where somebody counts."""


def answer_of(kind: str, call: str) -> PermissionAnswered:
    """What a person says: `allow`, `always` (for the session), `edit` (with other arguments), `refuse`."""
    grant: Grant = "session" if kind == "always" else "once"
    return PermissionAnswered(call=call, allowed=kind != "refuse", grant=grant, args=OTHER if kind == "edit" else "")


def result_of(road: "Road", kind: str, record: Recorded) -> tuple[Event, ...]:
    """What the performer of an intent brings."""
    match record.event:
        case CallProposed(call=call):
            return (CallInspected(call=call, facts=road.looks.pop(record.id)),)
        case ToolStarted(call=call, effect=effect):
            road.changes += effect != "pure"
            return (ToolFinished(call=call, outcome="ok"),)
        case ChildStarted():
            road.changes += kind == "finish"
            return (_of_child(road, kind, record.event),)
        case HookStarted(event=event, subject=subject):
            if kind == "hush":
                return (hushed(record.event),)
            said = road.scene.says.get(event, HookFinished(event="", subject=""))
            return (replace(said, event=event, subject=subject, args="" if "~" in subject else said.args),)
        case BudgetAsked(limit=limit):
            more = limit + 100 if kind == "pay" else None
            return (BudgetAnswered(allowed=kind == "pay", limit=more, nobody=kind == "nobody"),)
        case CompactionStarted(trigger=trigger):
            shorter = Compacted(trigger=trigger, first_kept="", summary=Text(text="short"), after=1, window=1000)
            return (shorter if kind == "compacted" else CompactionFailed(message="it was not to be"),)
        case _:
            return _of_model(road, kind, record)


def hushed(started: HookStarted) -> HookFinished:
    """What is said of handlers that were told to stop: a word of its own, which no gate may take for theirs."""
    return HookFinished(event=started.event, subject=started.subject, notes=(HUSHED,))


def _of_child(road: "Road", kind: str, started: ChildStarted) -> Event:
    if kind == "pause":
        share = started.budget.get("limit", 0)
        assert isinstance(share, int)
        return ChildPaused(call=started.call, child=started.child, share=share, cost=share)
    return ChildFinished(call=started.call, child=started.child, outcome="completed", taint=("untrusted", "private"))


def _of_model(road: "Road", kind: str, record: Recorded) -> tuple[Event, ...]:
    match kind:
        case "waited":
            return (WaitEnded(),)
        case "fail":
            return (ModelFailed(kind="overloaded", message="too much"),)
        case "silence":
            return (ModelReplied(parts=(), stop="interrupted"),)
        case _:
            names = road.scene.replies[road.replied] if road.replied < len(road.scene.replies) else ()
            road.replied += 1
            calls = [ToolCall(id=f"{record.id}-{n}", name=name, args=ARGS) for n, name in enumerate(names)]
            looked = [CallInspected(call=call.id, facts=road.facts(call.name, call.args)) for call in calls]
            return (ModelReplied(parts=tuple(calls), cost=COST), *looked)
