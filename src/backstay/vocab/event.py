"""The base of events, their envelope, and the literals that events share."""

from typing import Literal

import msgspec

By = Literal["user", "model", "rule", "hook", "system", "child"]
Delivery = Literal["steer", "queue"]
Decision = Literal["allow", "ask", "deny"]
TurnOutcome = Literal["completed", "interrupted", "failed", "abandoned"]
ToolOutcome = Literal["ok", "failed", "denied", "invalid", "interrupted", "unknown"]
"""How a call ended. `unknown`: it was started, the process died, and it is not known whether it happened."""
Stop = Literal["end", "tool_calls", "length", "filter", "interrupted", "other"]
Grant = Literal["once", "session", "project", "person"]
"""For how long a yes holds: for this call, this session, every session of this project, every session of this person."""
OnExceed = Literal["warn", "fail", "pause_for_approval"]
"""What happens when the budget is spent."""
CompactionTrigger = Literal["manual", "auto", "overflow", "trim"]
"""Why the conversation is made shorter: a caller asked, the window is nearly full, the provider refused it, or it has too many messages."""


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A fact. Frozen and without cycles, so the garbage collector skips it: a long log loads half again as fast."""


class Recorded(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An event in its envelope, as the log holds it."""

    seq: int
    """Position in the session: 1, 2, 3, ... without gaps, also across restarts."""
    id: str
    at: int
    """Microseconds since 1970, never going back within a session."""
    by: By
    cause: str = ""
    """The id of the intent this answers, or of the event that led to it."""
    event: Event


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """An event that is about to be written: it has no place in the log yet."""

    event: Event
    by: By = "system"
    cause: str = ""
