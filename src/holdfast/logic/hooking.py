"""When hooks are due, and what they said: a part of `Progress`, and the gates that `decide` passes through. Pure.

A gate is a moment with a subject: `PreToolUse` of a call, `Stop` of a round. It opens when every handler that matches has been heard,
together, in one `HookFinished`. A verdict in the log is never asked for again.
"""

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from holdfast.vocab.event import Draft, Recorded
from holdfast.vocab.event_limits import Compacted
from holdfast.vocab.event_tools import HookFinished, HookStarted
from holdfast.vocab.events import HistoryCleared, MessageInjected, Opened, Started, TurnCompleted

SESSION: Final = "session"
"""The subject of hooks that are about the session as a whole."""
STOP_BLOCKS: Final = 8
"""How often hooks may keep one turn from ending."""
DECIDING: Final = frozenset(
    ("PreToolUse", "PermissionRequest", "UserPromptSubmit", "Stop", "SubagentStop", "PreCompact", "SessionStart")
)
"""Events whose handlers are heard again when the process died before they had answered. The others only look on."""
TOLD: Final = frozenset(("PostToolUse", "PostToolUseFailure", "PostToolBatch", "Stop", "SubagentStop"))
"""Events that a handler blocks by having the model told why."""

Called = tuple[str, str]
"""A tool's name and its arguments."""


class Hook(Protocol):
    """Handlers of one event."""

    @property
    def id(self) -> str:
        """What the log calls it."""

    def matches(self, event: str, word: str, call: Called | None) -> bool:
        """Whether it wants to be heard."""


class OpenHook(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Handlers that are being heard."""

    intent: str
    event: str
    subject: str


class Hooking(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The hooks of a session: open, heard, and what they left to be said."""

    open: tuple[OpenHook, ...] = ()
    done: tuple[HookFinished, ...] = ()
    """Those of the open turn, and of the session itself."""
    owed: tuple[str, ...] = ()
    """What the model is to be told before it is asked again."""
    stop: str = ""
    """Why a hook ended the turn."""
    source: str = "startup"
    """Why the session starts: `startup`, `resume`, `fork`, `clear`, `compact`."""

    def heard(self, event: str, subject: str) -> HookFinished | None:
        """The verdict of a gate that is open."""
        return next((each for each in self.done if each.event == event and each.subject == subject), None)

    def hearing(self, event: str, subject: str) -> bool:
        """Whether handlers are being heard."""
        return any(each.event == event and each.subject == subject for each in self.open)


def gate(
    hooking: Hooking,
    hooks: Sequence[Hook],
    event: str,
    subject: str,
    *,
    word: str = "",
    call: Called | None = None,
    agent: str = "",
) -> Sequence[Draft] | None:
    """None when the gate is open, else what to write to open it: nothing while handlers are being heard."""
    if not hooks or hooking.heard(event, subject) is not None:
        return None
    if hooking.hearing(event, subject):
        return ()
    started = due(hooks, event, subject, word=word, call=call, agent=agent)
    return None if started is None else (started,)


def due(
    hooks: Sequence[Hook],
    event: str,
    subject: str,
    *,
    word: str = "",
    call: Called | None = None,
    agent: str = "",
) -> Draft | None:
    """The intent that hears the handlers of `event`; None when none matches. `call` is a tool's name and its arguments."""
    ids = tuple([each.id for each in hooks if each.matches(event, word, call)])
    if not ids:
        return None
    return Draft(event=HookStarted(event=event, subject=subject, handlers=ids, agent=agent), by="hook", cause=subject)


def fold_hooking(hooking: Hooking, record: Recorded) -> Hooking:
    """`hooking` after `record`."""
    match record.event:
        case HookStarted(event=event, subject=subject):
            return replace(hooking, open=(*hooking.open, OpenHook(intent=record.id, event=event, subject=subject)))
        case HookFinished():
            return _finished(hooking, record, record.event)
        case MessageInjected() if record.by == "hook":
            return replace(hooking, owed=())
        case TurnCompleted() if hooking.done or hooking.owed or hooking.stop:
            return replace(hooking, done=_of_session(hooking), owed=(), stop="")
        case Opened():
            return replace(hooking, open=(), done=_outlived(hooking), source="resume")
        case Started(origin=origin):
            return replace(hooking, source="fork" if origin else "startup")
        case HistoryCleared():
            return replace(hooking, done=_without_start(hooking.done), source="clear")
        case Compacted():
            return replace(hooking, done=_without_start(hooking.done), source="compact")
        case _:
            return hooking


def _finished(hooking: Hooking, record: Recorded, event: HookFinished) -> Hooking:
    told = event.blocked and event.event in TOLD
    said = tuple(filter(None, (event.reason if told else "", event.context)))
    return replace(
        hooking,
        open=tuple([each for each in hooking.open if each.intent != record.cause]),
        done=(*hooking.done, event),
        owed=(*hooking.owed, *said),
        stop=(event.reason or "a hook said so") if event.stops else hooking.stop,
    )


def _outlived(hooking: Hooking) -> tuple[HookFinished, ...]:
    """What stays heard when a process dies: every verdict, and those who only look on, who are not heard twice."""
    watching = (each for each in hooking.open if each.event not in DECIDING)
    lost = (HookFinished(event=each.event, subject=each.subject) for each in watching)
    return (*_without_start(hooking.done), *lost)


def _of_session(hooking: Hooking) -> tuple[HookFinished, ...]:
    return tuple([each for each in hooking.done if each.event == "SessionStart"])


def _without_start(done: tuple[HookFinished, ...]) -> tuple[HookFinished, ...]:
    return tuple([each for each in done if each.event != "SessionStart"])
