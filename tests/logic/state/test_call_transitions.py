"""The table of transitions above the phases of a call says what the fold does, and all of it."""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, get_args

import pytest
from msgspec.structs import replace

from backstay.logic.state import calls as calls_module
from backstay.logic.state.calls import FOLDS_ON, OpenCall, Phase, fold_calls
from backstay.vocab.event import Event, Recorded
from backstay.vocab.events import (
    CallInspected,
    CallJudged,
    CallProposed,
    ChildFinished,
    ChildStarted,
    GrantsCleared,
    ModeChanged,
    ModelReplied,
    Opened,
    PermissionAnswered,
    PermissionAsked,
    ProcessStarted,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
)
from backstay.vocab.events.limits import ChildPaused
from backstay.vocab.events.tools import CallFacts, HookFinished, ScopeChanged, TaintMet
from backstay.vocab.messages import ToolCall
from tests.logic.state.test_call_orders import OTHER, Crossroads, every_end, policy, verdict

PHASES: Final[tuple[Phase, ...]] = get_args(Phase)
ANOTHER: Final = " of another call"


class Row(NamedTuple):
    """A line of the table."""

    before: tuple[str, ...]
    event: str
    after: frozenset[str]


def rows() -> tuple[Row, ...]:
    """The table, as the module's docstring has it."""
    found = re.findall(
        r"^\| ([a-z, ]+) \| ([A-Z]\w+(?: \w+)*) \| ([a-z, ]+) \|", calls_module.__doc__ or "", re.MULTILINE
    )
    return tuple(
        Row(PHASES if before == "every" else tuple(before.split(", ")), event, frozenset(after.split(", ")))
        for before, event, after in found
    )


FACTS = CallFacts(links={"/a": "/b"})
HOOK = HookFinished(event="", subject="it", decision=None, blocked=False, args="", reason="")
EVENTS: Final[Mapping[str, Sequence[Event]]] = {
    "CallProposed": [CallProposed(call="it")],
    "CallInspected": [CallInspected(call="it"), CallInspected(call="it", facts=FACTS)],
    "HookFinished of PreToolUse": [
        replace(HOOK, event="PreToolUse"),
        replace(HOOK, event="PreToolUse", decision="allow", args=OTHER),
    ],
    "CallJudged": [CallJudged(call="it", decision=said, reason="", rules="") for said in ("allow", "ask", "deny")],
    "CallJudged deny": [CallJudged(call="it", decision="deny", reason="", rules="")],
    "HookFinished of PermissionRequest": [
        replace(HOOK, event="PermissionRequest", decision=said, args=args)
        for said in (None, "allow", "deny")
        for args in ("", OTHER)
    ],
    "PermissionAsked": [PermissionAsked(call="it", detail="")],
    "PermissionAnswered": [
        PermissionAnswered(call="it", allowed=allowed, args=args) for allowed in (True, False) for args in ("", OTHER)
    ],
    "PermissionAnswered of another call": [
        PermissionAnswered(call="other", allowed=True, grant=grant) for grant in ("once", "session")
    ],
    "ToolStarted": [ToolStarted(call="it", name="put", effect="once", key="")],
    "ChildStarted": [ChildStarted(call="it", child="c", prompt="")],
    "ProcessStarted": [ProcessStarted(call="it", group=1, boot="", started=0)],
    "ChildPaused": [ChildPaused(call="it", child="c", share=0)],
    "ToolFinished": [ToolFinished(call="it", outcome="ok")],
    "ChildFinished": [ChildFinished(call="it", child="c", outcome="completed", text="")],
    "ToolFinished of another call": [ToolFinished(call="other", outcome="ok")],
    "ChildFinished of another call": [
        ChildFinished(call="other", child="c", outcome="completed", text="", taint=taint)
        for taint in ((), ("private",))
    ],
    "ModeChanged": [ModeChanged(mode="plan")],
    "ScopeChanged": [ScopeChanged(scope="full")],
    "GrantsCleared": [GrantsCleared()],
    "TaintMet": [TaintMet(taints=("private",))],
    "Opened": [Opened(on_crash="continue")],
    "TurnCompleted": [TurnCompleted(turn="t", outcome="completed")],
}
"""What is tried of each line but the first, by what the line calls it."""
ABOUT_EVERY_CALL: Final = ("ModeChanged", "ScopeChanged", "GrantsCleared", "TaintMet")


def variants(phase: Phase) -> Iterator[OpenCall]:
    """Calls in a phase that may be moved to different ones."""
    for facts, stale, changes in itertools.product((None, FACTS), (False, True), (0, 1)):
        yield OpenCall(id="it", name="put", args="{}", phase=phase, facts=facts, stale=stale, changes=changes)


def moved(call: OpenCall, event: Event) -> str:
    """The phase after an event; `other` is running, and is no pure tool."""
    subject = f"it~{call.changes}" if call.changes else "it"
    about = replace(event, subject=subject) if isinstance(event, HookFinished) else event
    other = OpenCall(id="other", name="pay", args="{}", phase="running")
    after = fold_calls((call, other), Recorded(seq=1, id="e1", at=0, by="system", event=about))
    return next((one.phase for one in after if one.id == "it"), "closed")


def named(event: Event, call: str) -> Iterable[str]:
    """What the table may call an event for this call."""
    name = type(event).__name__
    if isinstance(event, HookFinished):
        return (f"{name} of {event.event}",)
    about = getattr(event, "call", call)
    return (f"{name}{ANOTHER}",) if about != call else (name, f"{name} deny")


def test_the_table_has_a_line_for_each_event_that_the_fold_hears() -> None:
    table = rows()

    assert {row.event.split()[0] for row in table} == {kind.__name__ for kind in FOLDS_ON}
    assert {row.event for row in table} == {"ModelReplied", *EVENTS}
    assert {phase for row in table for phase in (*row.before, *row.after)} == {*PHASES, "nothing", "stays", "closed"}


@pytest.mark.parametrize("row", [row for row in rows() if row.event in EVENTS], ids=lambda row: f"{row.event}")
def test_a_line_of_the_table_is_what_the_fold_does(row: Row) -> None:
    found: set[str] = set()
    for phase in PHASES:
        for call in variants(phase) if phase in row.before else ():
            after = {moved(call, event) for event in EVENTS[row.event]}
            found |= {"stays" if one == phase and phase not in row.after else one for one in after}

    assert found == row.after


@pytest.mark.parametrize(
    "row",
    [row for row in rows() if row.event.endswith(ANOTHER) or row.event in ABOUT_EVERY_CALL],
    ids=lambda row: f"{row.event}",
)
def test_a_phase_that_a_line_about_every_call_does_not_name_stays(row: Row) -> None:
    for phase in PHASES:
        for call in variants(phase) if phase not in row.before else ():
            assert {moved(call, event) for event in EVENTS[row.event]} == {phase}


@pytest.mark.parametrize("crashes", [0, 1])
@pytest.mark.parametrize("event", ["PreToolUse", "PermissionRequest"])
@pytest.mark.parametrize(
    "said", [verdict("deny"), verdict("allow", OTHER), verdict(None)], ids=["deny", "other", "none"]
)
def test_in_no_order_does_a_call_move_as_the_table_does_not_say(said: HookFinished, event: str, crashes: int) -> None:
    allowed = {(before, row.event, after) for row in rows() for before in row.before for after in row.after}
    rules = ("pay",) if event == "PermissionRequest" else ("pay", "put")
    seen: set[tuple[str, str, str]] = set()
    for path, road in every_end(lambda: Crossroads.of(policy(event, *rules), said, "pay", "put", crashes=crashes)):
        for before, record, after in steps(road.story.log):
            seen.add((before.phase, type(record.event).__name__, after))
            assert any((before.phase, name, after) in allowed for name in named(record.event, before.id)), (
                path,
                record,
            )
    assert len(seen) > 5


def steps(log: Sequence[Recorded]) -> Iterator[tuple[OpenCall, Recorded, str]]:
    """Each move of a call in a log: the call before it, the event, and the phase after it."""
    calls: tuple[OpenCall, ...] = ()
    for record in log:
        after = fold_calls(calls, record)
        phases = {call.id: call.phase for call in after}
        for call in calls:
            if phases.get(call.id) != call.phase:
                yield call, record, phases.get(call.id, "closed")
        calls = after


def test_the_calls_of_a_reply_are_new() -> None:
    replied = ModelReplied(parts=(ToolCall(id="it", name="put", args="{}"),))

    (call,) = fold_calls((), Recorded(seq=1, id="e1", at=0, by="model", event=replied))
    assert call.phase == "new"
