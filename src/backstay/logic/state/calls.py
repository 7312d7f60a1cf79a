"""The tool calls that have no result yet: a state machine for each. A part of `Progress`, folded on its own.

A call moves only by events. `decide` (`logic/decide/call_gates.py`) takes the phase of each call and writes the next event; performers,
hooks and people answer with events of their own; `fold_calls` moves the call. A crash may fall between any two events, so every phase
has an event that `decide` can write next, and what a dead process was at begins again at `new`.

| phase | what is known | what is due |
|---|---|---|
| `new` | the tool and its arguments | its inspection: `CallProposed`, when the facts did not come with the reply |
| `inspecting` | a performer resolves its paths | the facts |
| `inspected` | the arguments fit or not; where every path leads | the `PreToolUse` hooks, then the judgement; or a result at once |
| `judged` | the rules want a person to be asked | the `PermissionRequest` hooks, then the question, one at a time |
| `asking` | a person is being asked | the answer |
| `allowed` | it may run | its start, as soon as the calls before it permit |
| `refused` | it may not run | its result, which tells the model why |
| `running` | the tool or the child session is at work | its result |
| `paused` | its child session has spent its share | more money, or its result |

An allowed call was judged by the arguments, the paths and the rules of that moment. What changes one of them sends the call back: other
arguments to `new`; the end of another call that may have changed files or links to `new`, if the call names paths; mode, scope, grants and
taint to `inspected`. A call that is being inspected or asked about cannot go back then, since an answer is on its way: it is marked
`stale`, and goes back with that answer. Rules that were read again from settings are noticed when the call would start (`rules`): `decide`
judges it once more. A call that was `running` when its process died is also `lost`: it starts again, is looked for, or ends as *outcome
unknown*, by its effect.

"stays" means that only fields change. "closed": the call has its result and leaves the list. A phase that a line about every call does not
name stays. `tests/logic/state/test_call_transitions.py` holds this table against `_FOLDS`, and against every order of events it can try.

| from | event | to | written by |
|---|---|---|---|
| nothing | ModelReplied | new | the model call |
| new | CallProposed | inspecting | `decide` |
| new, inspecting | CallInspected | inspected, new | the model call with its reply, or `InspectCall`; `new` when it was stale |
| new, inspected | HookFinished of PreToolUse | stays, new | hooks; `new` with other arguments |
| inspected, allowed | CallJudged | judged, allowed, refused | `decide`; from `allowed` when the rules were read again |
| judged | CallJudged deny | refused | `decide`; hooks said no to this very call before it was inspected again |
| judged | HookFinished of PermissionRequest | stays, inspected, new, refused | hooks: no answer, yes, other arguments, no |
| judged | PermissionAsked | asking | `decide` |
| asking | PermissionAnswered | allowed, refused, new, inspected | person; `new`: other arguments, or stale; `inspected`: stale, no paths |
| judged | PermissionAnswered of another call | stays, inspected | person; `inspected` when the answer is a grant |
| allowed | ToolStarted | running | `decide` |
| allowed, paused | ChildStarted | running | `decide` |
| running | ProcessStarted | stays | the tool |
| running | ChildPaused | paused | the child session |
| every | ToolFinished | closed | the tool, or `decide` for a call that does not run |
| every | ChildFinished | closed | the child session |
| inspected, judged, allowed | ToolFinished of another call | stays, new | the tool; `new` when it was not pure and this call names paths |
| inspected, judged, allowed | ChildFinished of another call | stays, new, inspected | the child; `inspected` when it brought taint |
| judged, allowed | ModeChanged | inspected | person |
| judged, allowed | ScopeChanged | inspected | person |
| judged, allowed | GrantsCleared | inspected | person |
| judged, allowed | TaintMet | inspected | the tool, or a command |
| every | Opened | new | the opening, after a crash |
| every | TurnCompleted | closed | `decide` |
"""

import hashlib
from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from backstay.permissions import fingerprint
from backstay.vocab import events
from backstay.vocab.event import Decision, Event, Recorded, ToolOutcome, TurnOutcome
from backstay.vocab.specs import Effect, Taint

Phase = Literal["new", "inspecting", "inspected", "judged", "asking", "allowed", "refused", "running", "paused"]


class OpenCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A tool call that has no result yet."""

    id: str
    name: str
    args: str
    """As it would run now: a hook or a person may have changed what the model wrote."""
    changed: Literal["", "hook", "user"] = ""
    """Who changed the arguments last."""
    changes: int = 0
    """How often they were changed."""
    phase: Phase = "new"
    intent: str = ""
    """The intent that a performer carries out for it."""
    effect: Effect = "once"
    """As declared when it was started."""
    lost: bool = False
    """It was running when a process died."""
    problem: str = ""
    facts: events.CallFacts | None = None
    stale: bool = False
    """Something changed since it was inspected or judged, while it was being inspected or a person was being asked about it."""
    hook: Decision | None = None
    """What the hooks before it decided."""
    hook_reason: str = ""
    approved: str = ""
    """What a person said yes to: see `fingerprint_seen`. A later change of it is asked about again."""
    decision: Decision | None = None
    reason: str = ""
    """The kind of reason of the decision."""
    detail: str = ""
    rules: str = ""
    """Digest of the rules that it was judged by."""
    offers: tuple[str, ...] = ()
    taints: tuple[Taint, ...] = ()
    process: events.ProcessStarted | None = None
    """What it left running, perhaps."""
    since: int = 0
    """When it was started."""
    child: str = ""
    """The child session that it started."""
    share: int = 0
    """For a child session that waits for money: what it might have spent."""


class EndedCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A call of this round that has its result."""

    id: str
    name: str
    args: str
    outcome: ToolOutcome | TurnOutcome
    took_ms: int = 0


Calls = tuple[OpenCall, ...]


def fingerprint_seen(name: str, args: str, facts: events.CallFacts | None) -> str:
    """Return what a person sees of a call: the tool, its arguments, and a digest of where its paths lead."""
    leads = hashlib.sha256(msgspec.json.encode(facts, order="deterministic")).hexdigest()[:16] if facts else ""
    return f"{fingerprint(name, args)}@{leads}"


def subject_of(call: OpenCall) -> str:
    """Return what hooks before a call are asked about: the call, and each time that its arguments were changed, the call anew."""
    return f"{call.id}~{call.changes}" if call.changes else call.id


def fold_calls(calls: Calls, record: Recorded) -> Calls:
    """Return `calls` after `record`."""
    change = _FOLDS.get(type(record.event))
    return change(calls, record, record.event) if change else calls


def _change(calls: Calls, call: str, **changes: object) -> Calls:
    return tuple([replace(c, **changes) if c.id == call else c for c in calls])


def _fold_reply(_: Calls, record: Recorded, event: events.ModelReplied) -> Calls:
    """Open the calls of a reply. Their facts came with it, and are looked up again only when something changed."""
    return tuple(
        [OpenCall(id=call.id, name=call.name, args=call.args, intent=record.cause) for call in events.calls_of(event)]
    )


def _fold_opened(calls: Calls, _: Recorded, __: events.Opened) -> Calls:
    return tuple([replace(c, phase="new", intent="", lost=c.lost or c.phase == "running", **_UNJUDGED) for c in calls])


_UNJUDGED: Final[dict[str, object]] = {
    "decision": None,
    "problem": "",
    "reason": "",
    "detail": "",
    "offers": (),
    "facts": None,
}


def _fold_inspected(calls: Calls, _: Recorded, event: events.CallInspected) -> Calls:
    calls = _change(calls, event.call, phase="inspected", intent="", problem=event.problem, facts=event.facts)
    return _again_if_stale(calls, event.call)


def _again_if_stale(calls: Calls, call: str) -> Calls:
    return tuple([_from_the_start(c) if c.id == call and c.stale else c for c in calls])


def _from_the_start(call: OpenCall) -> OpenCall:
    """Return `call` to be judged anew: by where its paths lead now, if it names any."""
    if call.facts is None:
        return replace(_to_be_judged(call), stale=False)
    return replace(call, phase="new", intent="", stale=False, **_UNJUDGED)


def _fold_judged(calls: Calls, _: Recorded, event: events.CallJudged) -> Calls:
    phase = {"allow": "allowed", "ask": "judged", "deny": "refused"}[event.decision]
    return _change(
        calls,
        event.call,
        phase=phase,
        decision=event.decision,
        reason=event.reason,
        detail=event.detail,
        rules=event.rules,
        offers=event.offers,
        taints=event.taints,
    )


def _judge_again(calls: Calls, _: Recorded, __: Event) -> Calls:
    """Send back every call that has not begun: what calls are judged by has changed. What a person is asked is judged after the answer."""
    return tuple([_to_be_judged(call) for call in calls])


def _to_be_judged(call: OpenCall) -> OpenCall:
    match call.phase:
        case "asking":
            return replace(call, stale=True)
        case "judged" | "allowed":
            return replace(call, phase="inspected", decision=None, reason="", detail="", offers=())
        case _:
            return call


def _fold_answer(calls: Calls, _: Recorded, event: events.PermissionAnswered) -> Calls:
    call = next((c for c in calls if c.id == event.call), None)
    if not event.allowed or call is None:
        why = f"nobody could be asked, and it needs a person: {call.detail}" if call else "nobody could be asked"
        detail = event.message or (why if event.nobody else "the person refused it")
        return _change(calls, event.call, phase="refused", intent="", detail=detail)
    if event.grant != "once":  # it may answer what is asked next
        calls = tuple([_to_be_judged(c) if c.phase == "judged" else c for c in calls])
    if event.args:
        return _rewrite_args(calls, call.id, event.args, by="user")
    calls = _change(
        calls, call.id, phase="allowed", intent="", approved=fingerprint_seen(call.name, call.args, call.facts)
    )
    return _again_if_stale(calls, call.id)


def _fold_hook(calls: Calls, _: Recorded, event: events.HookFinished) -> Calls:
    call = next((c for c in calls if subject_of(c) == event.subject), None)
    match event.event:
        case "PreToolUse" if call is not None:  # in any phase: it may have to be inspected again meanwhile
            other = bool(event.args) and event.args != call.args
            mine = other and not call.changes  # one round of changes is enough
            # a yes to other arguments than the person's is no yes to those
            said = None if other and call.changed == "user" and event.decision == "allow" else event.decision
            calls = _change(calls, call.id, hook=said, hook_reason=event.reason)
            return _rewrite_args(calls, call.id, event.args, by="hook") if mine else calls
        case "PermissionRequest" if call is not None and event.decision == "allow":  # in any phase, likewise
            return _allow_by_hook(calls, call, event)
        case "PermissionRequest" if call is not None and call.phase == "judged" and event.decision == "deny":
            why = event.reason or "a hook refused it"
            return _change(calls, call.id, phase="refused", reason="hook", detail=why)
        case _:
            pass
    return calls


def _allow_by_hook(calls: Calls, call: OpenCall, event: events.HookFinished) -> Calls:
    """Judge the call with a hook's yes where a person would be asked, as with the yes of a hook before the call."""
    other, judged = bool(event.args) and event.args != call.args, call.phase == "judged"
    if call.hook == "ask":  # another hook wants a person
        return calls
    if other and (
        not judged or call.changes
    ):  # one round of changes is enough, and a yes to other arguments is none to these
        return calls
    calls = _change(calls, call.id, hook="allow", hook_reason=event.reason)
    if other:
        return _rewrite_args(calls, call.id, event.args, by="hook")
    return tuple([_to_be_judged(each) if each.id == call.id and judged else each for each in calls])


def _rewrite_args(calls: Calls, call: str, args: str, *, by: Literal["hook", "user"]) -> Calls:
    """Give the call other arguments, to be judged like any other. A person who wrote them need not be asked about them."""
    return tuple(
        [
            replace(
                c,
                args=args,
                changed=by,
                changes=c.changes + 1,
                hook=c.hook if by == "hook" else None,
                phase="new",
                intent="",
                approved=fingerprint(c.name, args) if by == "user" else "",
                stale=False,
                **_UNJUDGED,
            )
            if c.id == call
            else c
            for c in calls
        ]
    )


def _fold_finished(calls: Calls, _: Recorded, event: events.ToolFinished | events.ChildFinished) -> Calls:
    changed = any(c.id == event.call and c.phase == "running" and c.effect != "pure" for c in calls)
    rest = [call for call in calls if call.id != event.call]
    if isinstance(event, events.ChildFinished) and event.taint:
        rest = [_to_be_judged(call) for call in rest]
    return tuple([_to_be_looked_at(call) for call in rest] if changed else rest)


def _to_be_looked_at(call: OpenCall) -> OpenCall:
    """Return `call` after something was changed: where its paths lead has to be found out again before it may run."""
    if call.phase == "inspecting" or (call.phase == "asking" and call.facts is not None):
        return replace(call, stale=True)
    waits = call.phase in ("inspected", "judged", "allowed") and call.facts is not None
    return _from_the_start(call) if waits else call


_FOLDS: Final[dict[type[Event], Callable[[Calls, Recorded, Any], Calls]]] = {  # Any: each function takes its own event
    events.ModelReplied: _fold_reply,
    events.Opened: _fold_opened,
    events.CallProposed: lambda calls, r, e: _change(calls, e.call, phase="inspecting", intent=r.id),
    events.CallInspected: _fold_inspected,
    events.CallJudged: _fold_judged,
    events.PermissionAsked: lambda calls, r, e: _change(calls, e.call, phase="asking", intent=r.id),
    events.PermissionAnswered: _fold_answer,
    events.HookFinished: _fold_hook,
    events.ToolStarted: lambda calls, r, e: _change(
        calls, e.call, phase="running", intent=r.id, effect=e.effect, since=r.at
    ),
    events.ToolFinished: _fold_finished,
    events.ChildStarted: lambda calls, r, e: _change(
        calls, e.call, phase="running", intent=r.id, effect="idempotent", child=e.child, since=r.at
    ),
    events.ChildFinished: _fold_finished,
    events.ChildPaused: lambda calls, r, e: _change(calls, e.call, phase="paused", intent="", share=e.share),
    events.ProcessStarted: lambda calls, r, e: _change(calls, e.call, process=e),
    events.ModeChanged: _judge_again,
    events.ScopeChanged: _judge_again,
    events.GrantsCleared: _judge_again,
    events.TaintMet: _judge_again,
    events.TurnCompleted: lambda calls, r, e: (),
}
FOLDS_ON: Final = frozenset(_FOLDS)
"""The events that change it."""
