"""The gates of hooks: a fold that is a part of `Progress`, and the intents that `decide` writes to open a gate. Pure.

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
from backstay.vocab import events
from backstay.vocab.event import Draft, Event, Recorded

FOLDS_ON: Final[frozenset[type[Event]]] = frozenset(
    (
        events.HookStarted,
        events.HookFinished,
        events.MessageInjected,
        events.InputTaken,
        events.InputDropped,
        events.ResultIgnored,
        events.TurnStarted,
        events.TurnCompleted,
        events.Opened,
        events.Started,
        events.HistoryCleared,
        events.Compacted,
    )
)
"""The events that change the fold."""
SESSION: Final = "session"
"""The subject of hooks about the whole session."""
OF_TURN: Final = frozenset(("UserPromptSubmit", "PostToolBatch", "Stop"))
"""Gates of a turn."""
OF_CALL: Final = frozenset(("PreToolUse", "PermissionRequest", "PostToolUse", "PostToolUseFailure"))
"""Gates of a call, when it is a call of the turn."""
_WHOSE: Final = "(Added by a hook of the settings. The person did not write this.)"
STOP_BLOCKS: Final = 8
"""The number of times that hooks may keep one turn from ending."""


class OpenHook(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Handlers that run."""

    intent: str
    event: str
    subject: str
    in_turn: bool = False
    """Whether a turn was open when they started."""
    turn_ended: bool = False
    """Whether a turn ended since: their answer has no effect on another turn."""
    void: bool = False
    """Whether their gate is gone: their answer is not taken."""


class HookState(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The hooks of a session: those that run, their verdicts, and the texts that wait for the model."""

    open: tuple[OpenHook, ...] = ()
    done: tuple[events.HookFinished, ...] = ()
    """Verdicts of the open turn, and of the session itself."""
    pending_texts: tuple[str, ...] = ()
    """Texts for the next request to the model."""
    stop: str = ""
    """Why a hook ended the turn."""
    in_turn: bool = False
    """Whether a turn is open."""
    source: str = "startup"
    """Why the session starts: `startup`, `resume`, `fork`, `clear`, `compact`."""
    compacted: tuple[str, str] = ("", "")
    """The last compaction and its trigger, until `PostCompact` hooks ran."""

    def find_verdict(self, event: str, subject: str) -> events.HookFinished | None:
        """Return the verdict of a gate; None while it is closed."""
        return next((each for each in reversed(self.done) if each.event == event and each.subject == subject), None)

    def is_running(self, event: str, subject: str) -> bool:
        """Return whether handlers of a gate run."""
        return any(each.event == event and each.subject == subject and not each.void for each in self.open)

    def awaits(self, intent: str) -> bool:
        """Return whether the answer of the handlers of `intent` will be taken."""
        return any(each.intent == intent and not each.void for each in self.open)


def gate(
    hook_state: HookState, policy: Policy, event: str, subject: str, *, matcher_value: str = "", args: str = ""
) -> Sequence[Draft] | None:
    """Return None when the gate is open, else the drafts that open it: none while its handlers run."""
    if not policy.hooks or hook_state.find_verdict(event, subject) is not None:
        return None
    if hook_state.is_running(event, subject):
        return ()
    started = hook_intent(policy, event, subject, matcher_value=matcher_value, args=args)
    return None if started is None else (started,)


def hook_intent(policy: Policy, event: str, subject: str, *, matcher_value: str = "", args: str = "") -> Draft | None:
    """Return the intent that runs the handlers of `event`; None when none is due. For a call, `matcher_value` is the tool's name."""
    if not any(hook.event == event for hook in policy.hooks):
        return None
    given = msgspec.json.decode(args, type=dict[str, object]) if args else {}
    found = select(policy.hooks, event, matcher_value, args=given, rule_matches=policy.rule_matches)
    if not found:
        return None
    ids = tuple([hook.id for hook in found])
    started = events.HookStarted(event=event, subject=subject, handlers=ids, agent=policy.agent)
    return Draft(event=started, by="hook", cause=subject)


def fold_hook_state(hook_state: HookState, record: Recorded, calls: Calls, ended: tuple[EndedCall, ...]) -> HookState:
    """Fold `record` into the hook state; `calls` and `ended` are the calls of the round before it."""
    match record.event:
        case events.HookStarted(event=event, subject=subject):
            hook = OpenHook(intent=record.id, event=event, subject=subject, in_turn=hook_state.in_turn)
            opened = (*hook_state.open, hook)
            untold = ("", "") if event == "PostCompact" else hook_state.compacted
            return replace(hook_state, open=opened, compacted=untold)
        case events.HookFinished():
            return _fold_finished(hook_state, record, record.event)
        case events.MessageInjected() if record.by == "hook":
            return replace(hook_state, pending_texts=())
        case events.InputTaken() if hook_state.open:  # the turn does not end here, whatever hooks say about its end
            return _void_gates(hook_state, lambda hook: hook.event == "Stop")
        case events.InputDropped(inputs=inputs) if hook_state.open:
            return _void_gates(hook_state, lambda hook: hook.event == "UserPromptSubmit" and hook.subject in inputs)
        case events.ResultIgnored() if hook_state.open:
            return replace(hook_state, open=tuple([each for each in hook_state.open if each.intent != record.cause]))
        case events.TurnStarted():
            return replace(hook_state, in_turn=True)
        case events.TurnCompleted(code=code):
            pending = hook_state.pending_texts if code == "hook" else ()  # a refused prompt: no request was made yet
            mine = {*(call.id for call in calls), *(call.id for call in ended)} if hook_state.open else set()
            rest = _void_gates(hook_state, lambda hook: _is_of_turn(hook, mine), turn_ended=True)
            return replace(rest, done=_keep_session_start(hook_state), pending_texts=pending, stop="", in_turn=False)
        case events.Opened():
            source = "fork" if hook_state.source == "fork" else "resume"
            return replace(hook_state, open=(), done=_keep_at_restart(hook_state), source=source)
        case events.Started(origin=origin):
            return replace(hook_state, source="fork" if origin else "startup")
        case events.HistoryCleared():
            return replace(hook_state, done=_without_start(hook_state.done), source="clear")
        case events.Compacted(trigger=trigger):
            again = _without_start(hook_state.done)
            return replace(hook_state, done=again, source="compact", compacted=(record.id, trigger))
        case _:
            return hook_state


def _void_gates(hook_state: HookState, gone: Callable[[OpenHook], bool], *, turn_ended: bool = False) -> HookState:
    """Void the gates that are gone although their handlers still run."""
    if not hook_state.open:
        return hook_state
    left = [
        replace(each, void=each.void or gone(each), turn_ended=each.turn_ended or turn_ended)
        for each in hook_state.open
    ]
    return replace(hook_state, open=tuple(left))


def _is_of_turn(hook: OpenHook, calls: set[str]) -> bool:
    """Return whether handlers run at a gate of a turn with these calls. An input that still waits gets a new gate."""
    return hook.event in OF_TURN or (hook.event in OF_CALL and hook.subject.partition("~")[0] in calls)


def _fold_finished(hook_state: HookState, record: Recorded, event: events.HookFinished) -> HookState:
    began = next((each for each in hook_state.open if each.intent == record.cause), None)
    about_all = event.event == "SessionStart"
    in_turn = about_all or began is None or (began.in_turn and not began.turn_ended)
    late = began is not None and began.turn_ended and not about_all
    holds = event.blocked and event.event == "Stop"
    ends = in_turn and (event.stops or (event.blocked and event.event == "PostToolBatch"))
    added = "\n".join(filter(None, (event.reason if holds else "", event.context)))
    texts = () if late or not added else (frame_hook_text(event.event, added),)
    return replace(
        hook_state,
        open=tuple([each for each in hook_state.open if each.intent != record.cause]),
        done=(*hook_state.done, event),
        pending_texts=(*hook_state.pending_texts, *texts),
        stop=(event.reason or "it gave no reason") if ends else hook_state.stop,
        source="startup" if event.event == "SessionStart" and hook_state.source == "fork" else hook_state.source,
    )


def frame_hook_text(event: str, text: str) -> str:
    """Frame what a hook adds for the model, so that its origin is clear."""
    return frame("hook", f"{_WHOSE}\n{text}", {"event": event})


def _keep_at_restart(hook_state: HookState) -> tuple[events.HookFinished, ...]:
    """Return the verdicts that hold after a restart: all that are known, and observer hooks count as run."""
    watching = (each for each in hook_state.open if each.event in EVENTS and not EVENTS[each.event].reruns)
    began = (events.HookStarted(event=each.event, subject=each.subject, handlers=()) for each in watching)
    lost = (finish_unanswered(each, "the process ended before they had answered") for each in began)
    return (*_without_start(hook_state.done), *lost)


def _keep_session_start(hook_state: HookState) -> tuple[events.HookFinished, ...]:
    return tuple([each for each in hook_state.done if each.event == "SessionStart"])


def _without_start(done: tuple[events.HookFinished, ...]) -> tuple[events.HookFinished, ...]:
    return tuple([each for each in done if each.event != "SessionStart"])
