"""Fragments of a stream: shown and traced, never folded. And the notices of the lifecycle, which are derived, never stored."""

from typing import Literal

import msgspec

LifecycleState = Literal["Idle", "Active", "Persisted", "Resumed", "Closed"]
NoticeName = Literal[
    "SessionStarted",
    "SessionTurnStart",
    "SessionTurnEnd",
    "SessionPersisted",
    "SessionResumeStarted",
    "SessionResumed",
    "SessionClosed",
]


class Delta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fragment. `after` is the last `seq` before it, `n` its number since then."""

    after: int = 0
    n: int = 0


class TextDelta(Delta, frozen=True, kw_only=True):
    """A piece of the model's text."""

    text: str


class ReasoningDelta(Delta, frozen=True, kw_only=True):
    """A piece of the model's reasoning."""

    text: str


class ToolArgsDelta(Delta, frozen=True, kw_only=True):
    """A piece of a call's arguments, while the model is still writing them."""

    index: int
    name: str
    text: str


class ToolOutputDelta(Delta, frozen=True, kw_only=True):
    """A piece of a running tool's output."""

    call: str
    text: str


class StoreWaiting(Delta, frozen=True, kw_only=True):
    """The store cannot take an append; the session is paused and tries again."""

    problem: str


DELTAS: tuple[type[Delta], ...] = (TextDelta, ReasoningDelta, ToolArgsDelta, ToolOutputDelta, StoreWaiting)


class Notice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The session passed a point of its lifecycle."""

    notice: NoticeName
    state: LifecycleState
    outcome: str = ""
    after: int = 0


class Lagged(msgspec.Struct, frozen=True, kw_only=True):
    """A subscriber was too slow: what came after `after` is to be read from the log."""

    after: int
    missed: int


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """A slash command was carried out. What it changed is in the log; this is not."""

    after: int
    command: str
    success: bool
    message: str
    """For a person."""
    data: dict[str, object]
    """For programs."""
