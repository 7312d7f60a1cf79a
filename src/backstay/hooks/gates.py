"""When hooks are due, and what they said: a part of `Progress`, and the gates that `decide` passes through. Pure.

A gate is a moment with a subject: `PreToolUse` of a call, `Stop` of a round. It opens when every handler that matches has been heard,
together, in one `HookFinished`. A verdict in the log is never asked for again.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from backstay.hooks.events import EVENTS
from backstay.hooks.matching import select
from backstay.hooks.merge import finish_unanswered
from backstay.logic.decide.policy import Policy
from backstay.logic.state.calls import Calls, EndedCall
from backstay.logic.text import frame
from backstay.vocab.event import Draft, Event, Recorded
from backstay.vocab.events import (
    HistoryCleared,
    InputDropped,
    InputTaken,
    MessageInjected,
    Opened,
    ResultIgnored,
    Started,
    TurnCompleted,
    TurnStarted,
)
from backstay.vocab.events.limits import Compacted
from backstay.vocab.events.tools import HookFinished, HookStarted

FOLDS_ON: Final[frozenset[type[Event]]] = frozenset(
    (
        HookStarted,
        HookFinished,
        MessageInjected,
        InputTaken,
        InputDropped,
        ResultIgnored,
        TurnStarted,
        TurnCompleted,
        Opened,
        Started,
        HistoryCleared,
        Compacted,
    )
)
"""The events that change it."""
SESSION: Final = "session"
"""The subject of hooks that are about the session as a whole."""
OF_TURN: Final = frozenset(("UserPromptSubmit", "PostToolBatch", "Stop"))
"""Gates of a turn."""
OF_CALL: Final = frozenset(("PreToolUse", "PermissionRequest", "PostToolUse", "PostToolUseFailure"))
"""Gates of a call, when it is a call of a turn that they are heard about."""
_WHOSE: Final = "(Added by a hook of the settings. The person did not write this.)"
STOP_BLOCKS: Final = 8
"""How often hooks may keep one turn from ending."""


class OpenHook(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Handlers that are being heard."""

    intent: str
    event: str
    subject: str
    within: bool = False
    """Whether a turn was open when they began to be heard."""
    over: bool = False
    """Whether a turn ended since: what they say has no effect on another."""
    void: bool = False
    """Whether the gate they stand at is gone: what they say is not taken."""


class HookState(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The hooks of a session: open, heard, and what they left to be said."""

    open: tuple[OpenHook, ...] = ()
    done: tuple[HookFinished, ...] = ()
    """Those of the open turn, and of the session itself."""
    owed: tuple[str, ...] = ()
    """What the model is to be told before it is asked again."""
    stop: str = ""
    """Why a hook ended the turn."""
    within: bool = False
    """Whether a turn is open."""
    source: str = "startup"
    """Why the session starts: `startup`, `resume`, `fork`, `clear`, `compact`."""
    compacted: tuple[str, str] = ("", "")
    """The compaction that was done last, and what it was for, until somebody was told."""

    def find_verdict(self, event: str, subject: str) -> HookFinished | None:
        """The verdict of a gate that is open."""
        return next((each for each in reversed(self.done) if each.event == event and each.subject == subject), None)

    def is_running(self, event: str, subject: str) -> bool:
        """Whether handlers are being heard."""
        return any(each.event == event and each.subject == subject and not each.void for each in self.open)

    def awaits(self, intent: str) -> bool:
        """Whether what the handlers of `intent` say will be taken."""
        return any(each.intent == intent and not each.void for each in self.open)


def gate(
    hook_state: HookState, policy: Policy, event: str, subject: str, *, matcher_value: str = "", args: str = ""
) -> Sequence[Draft] | None:
    """None when the gate is open, else what to write to open it: nothing while handlers are being heard."""
    if not policy.hooks or hook_state.find_verdict(event, subject) is not None:
        return None
    if hook_state.is_running(event, subject):
        return ()
    started = hook_intent(policy, event, subject, matcher_value=matcher_value, args=args)
    return None if started is None else (started,)


def hook_intent(policy: Policy, event: str, subject: str, *, matcher_value: str = "", args: str = "") -> Draft | None:
    """The intent that hears the handlers of `event`; None when none is for it. For a call, `word` names the tool."""
    if not any(hook.event == event for hook in policy.hooks):
        return None
    given = msgspec.json.decode(args, type=dict[str, object]) if args else {}
    found = select(policy.hooks, event, matcher_value, args=given, rule_matches=policy.rule_matches)
    if not found:
        return None
    ids = tuple([hook.id for hook in found])
    started = HookStarted(event=event, subject=subject, handlers=ids, agent=policy.agent)
    return Draft(event=started, by="hook", cause=subject)


def fold_hook_state(hook_state: HookState, record: Recorded, calls: Calls, ended: tuple[EndedCall, ...]) -> HookState:
    """Fold `record` into what hooks said; `calls` and `ended` are the calls of the round before it."""
    match record.event:
        case HookStarted(event=event, subject=subject):
            heard = OpenHook(intent=record.id, event=event, subject=subject, within=hook_state.within)
            opened = (*hook_state.open, heard)
            untold = ("", "") if event == "PostCompact" else hook_state.compacted
            return replace(hook_state, open=opened, compacted=untold)
        case HookFinished():
            return _finished(hook_state, record, record.event)
        case MessageInjected() if record.by == "hook":
            return replace(hook_state, owed=())
        case InputTaken() if hook_state.open:  # the turn does not end here, whatever hooks say about its end
            return _voided(hook_state, lambda hook: hook.event == "Stop")
        case InputDropped(inputs=inputs) if hook_state.open:
            return _voided(hook_state, lambda hook: hook.event == "UserPromptSubmit" and hook.subject in inputs)
        case ResultIgnored() if hook_state.open:
            return replace(hook_state, open=tuple([each for each in hook_state.open if each.intent != record.cause]))
        case TurnStarted():
            return replace(hook_state, within=True)
        case TurnCompleted(code=code):
            unsaid = hook_state.owed if code == "hook" else ()  # a refused prompt: nobody has been told anything yet
            mine = {*(call.id for call in calls), *(call.id for call in ended)} if hook_state.open else set()
            rest = _voided(hook_state, lambda hook: _is_of_turn(hook, mine), over=True)
            return replace(rest, done=_of_session(hook_state), owed=unsaid, stop="", within=False)
        case Opened():
            source = "fork" if hook_state.source == "fork" else "resume"
            return replace(hook_state, open=(), done=_outlived(hook_state), source=source)
        case Started(origin=origin):
            return replace(hook_state, source="fork" if origin else "startup")
        case HistoryCleared():
            return replace(hook_state, done=_without_start(hook_state.done), source="clear")
        case Compacted(trigger=trigger):
            again = _without_start(hook_state.done)
            return replace(hook_state, done=again, source="compact", compacted=(record.id, trigger))
        case _:
            return hook_state


def _voided(hook_state: HookState, gone: Callable[[OpenHook], bool], *, over: bool = False) -> HookState:
    """Void the gates that are gone although their handlers still run."""
    if not hook_state.open:
        return hook_state
    left = [replace(each, void=each.void or gone(each), over=each.over or over) for each in hook_state.open]
    return replace(hook_state, open=tuple(left))


def _is_of_turn(hook: OpenHook, calls: set[str]) -> bool:
    """Whether handlers stand at a gate of a turn with these calls. An input that waits on is heard about anew."""
    return hook.event in OF_TURN or (hook.event in OF_CALL and hook.subject.partition("~")[0] in calls)


def _finished(hook_state: HookState, record: Recorded, event: HookFinished) -> HookState:
    began = next((each for each in hook_state.open if each.intent == record.cause), None)
    about_all = event.event == "SessionStart"
    within = about_all or began is None or (began.within and not began.over)
    late = began is not None and began.over and not about_all
    holds = event.blocked and event.event == "Stop"
    ends = within and (event.stops or (event.blocked and event.event == "PostToolBatch"))
    added = "\n".join(filter(None, (event.reason if holds else "", event.context)))
    said = () if late or not added else (frame_hook_text(event.event, added),)
    return replace(
        hook_state,
        open=tuple([each for each in hook_state.open if each.intent != record.cause]),
        done=(*hook_state.done, event),
        owed=(*hook_state.owed, *said),
        stop=(event.reason or "it gave no reason") if ends else hook_state.stop,
        source="startup" if event.event == "SessionStart" and hook_state.source == "fork" else hook_state.source,
    )


def frame_hook_text(event: str, text: str) -> str:
    """What a hook adds for the model, in a frame that says whose words they are."""
    return frame("hook", f"{_WHOSE}\n{text}", {"event": event})


def _outlived(hook_state: HookState) -> tuple[HookFinished, ...]:
    """What stays heard when a process dies: every verdict, and those who only look on, who are not heard twice."""
    watching = (each for each in hook_state.open if each.event in EVENTS and not EVENTS[each.event].reruns)
    began = (HookStarted(event=each.event, subject=each.subject, handlers=()) for each in watching)
    lost = (finish_unanswered(each, "the process ended before they had answered") for each in began)
    return (*_without_start(hook_state.done), *lost)


def _of_session(hook_state: HookState) -> tuple[HookFinished, ...]:
    return tuple([each for each in hook_state.done if each.event == "SessionStart"])


def _without_start(done: tuple[HookFinished, ...]) -> tuple[HookFinished, ...]:
    return tuple([each for each in done if each.event != "SessionStart"])
