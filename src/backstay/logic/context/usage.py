"""How full the context is: what the provider counted, and an estimate of what came since.

Never a sum over calls: a request holds the whole conversation, so its newest count says everything up to there. The estimate is corrected
by what the provider counted for the newest request.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from backstay.logic.context.tokens import MESSAGE, tokens_of
from backstay.vocab.event import CompactionTrigger, Event, Recorded
from backstay.vocab.events import (
    ChildFinished,
    HistoryCleared,
    InputDropped,
    InputReceived,
    InputTaken,
    Interrupted,
    MessageInjected,
    ModelAsked,
    ModelChanged,
    ModelReplied,
    Opened,
    Rewound,
    ToolFinished,
    TurnCompleted,
    TurnStarted,
)
from backstay.vocab.events.limits import Compacted, CompactionFailed, CompactionStarted, CompactionUndone
from backstay.vocab.messages import Text
from backstay.vocab.specs import Usage

FRUITLESS: Final = 0.9
"""A compaction that leaves more than this share of the context has brought nothing."""
LEAST_RATIO, MOST_RATIO = 0.5, 4.0
"""How far the provider's count may be from the estimate before it is the estimate's unit that is wrong."""
PRIOR: Final = 500
"""Tokens that count as estimated well: a short request, most of which its provider added, says little about long ones."""


class ContextUsage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the conversation takes of the context, in tokens."""

    counted: int = 0
    """By the provider, for the newest request and its reply; 0 when it says nothing about the conversation as it is now."""
    since: int = 0
    """Estimated, for what came after that."""
    guess: int = 0
    """Estimated, for the whole conversation."""
    asked: int = 0
    """Estimated, for the newest request."""
    ratio: float = 1.0
    """Counted tokens for one estimated token."""
    messages: int = 0
    prompt: int = 0
    """Estimated, for the newest input alone."""
    fruitless: int = 0
    """Compactions in a row that brought nothing."""
    tried: bool = False
    """Whether there was a compaction since anything was said."""
    trimmed: bool = False
    """Whether there is nothing left to drop before the open turn."""
    compacting: tuple[CompactionTrigger, int, int] | None = None
    """The open compaction: why, and what `guess` and `messages` were when it began. None once somebody stopped it."""
    before_turn: tuple[int, int, int, int] = (0, 0, 0, 0)
    """`counted`, `since`, `guess` and `messages` when the open turn began."""
    waiting: tuple[tuple[str, int], ...] = ()
    """Queued inputs and their estimates."""

    def used(self, overhead: int) -> int:
        """Tokens of the next request; `overhead` is the estimate for instructions and tools."""
        if self.counted:
            return self.counted + int(self.since * self.ratio)
        return int((overhead + self.guess) * self.ratio)

    @property
    def exact(self) -> bool:
        """Whether the provider counted all of it."""
        return self.counted > 0 and self.since == 0


def fold_context_usage(state: ContextUsage, record: Recorded) -> ContextUsage:
    """Fold `record` into the usage of the context."""
    change = _FOLDS.get(type(record.event))
    return state if change is None else change(state, record.event)


def _added(state: ContextUsage, tokens: int) -> ContextUsage:
    return replace(
        state, since=state.since + tokens, guess=state.guess + tokens, messages=state.messages + 1, tried=False
    )


def _received(state: ContextUsage, event: InputReceived) -> ContextUsage:
    return replace(state, waiting=(*state.waiting, (event.input, tokens_of(event.parts))))


def _taken(state: ContextUsage, event: InputTaken) -> ContextUsage:
    """Several inputs that are taken together are one message."""
    tokens = MESSAGE + sum(size - MESSAGE for name, size in state.waiting if name in event.inputs)
    return replace(_added(state, tokens), prompt=tokens, waiting=_left(state, event))


def _left(state: ContextUsage, event: InputTaken | InputDropped) -> tuple[tuple[str, int], ...]:
    return tuple(each for each in state.waiting if each[0] not in event.inputs)


def _replied(state: ContextUsage, event: ModelReplied) -> ContextUsage:
    said = any(not isinstance(part, Text) or part.text for part in event.parts)
    added = _added(state, tokens_of(event.parts)) if said else state
    usage = event.usage
    if usage is None or usage.estimated:
        return added
    return replace(added, counted=usage.input + usage.output, since=0, ratio=_ratio(state, usage))


def _ratio(state: ContextUsage, usage: Usage) -> float:
    if not state.asked or not usage.input:
        return state.ratio
    return min(max((usage.input + PRIOR) / (state.asked + PRIOR), LEAST_RATIO), MOST_RATIO)


def _child_said(state: ContextUsage, event: ChildFinished) -> ContextUsage:
    return _added(state, tokens_of((Text(text=event.text or f"(the child session ended: {event.outcome})"),)))


def _turn_over(state: ContextUsage, event: TurnCompleted) -> ContextUsage:
    if event.outcome != "abandoned":
        return state
    counted, since, guess, messages = state.before_turn
    return replace(state, counted=counted, since=since, guess=guess, messages=messages, tried=False, trimmed=False)


def _elsewhere(state: ContextUsage, guess: int, messages: int) -> ContextUsage:
    """The conversation is another one now: no count of a provider is about it."""
    return replace(
        state,
        counted=0,
        since=0,
        guess=guess,
        messages=messages,
        fruitless=0,
        tried=False,
        trimmed=False,
        compacting=None,
    )


def _compacted(state: ContextUsage, event: Compacted) -> ContextUsage:
    _, guess, messages = state.compacting or (event.trigger, state.guess, state.messages)
    there = _elsewhere(state, event.guess + state.guess - guess, event.messages + state.messages - messages)
    if event.trigger == "trim":
        return replace(there, fruitless=state.fruitless, tried=state.tried)
    fruitless = state.fruitless + 1 if event.after > event.before * FRUITLESS else 0
    return replace(there, fruitless=fruitless if event.trigger != "manual" else 0, tried=True)


def _not_compacted(state: ContextUsage, _: CompactionFailed) -> ContextUsage:
    """Only what the session tried by itself, and nobody stopped, counts as fruitless."""
    trigger = state.compacting[0] if state.compacting else "manual"
    if trigger == "trim":
        return replace(state, compacting=None, trimmed=True)
    return replace(state, compacting=None, fruitless=state.fruitless + (trigger != "manual"), tried=True)


_FOLDS: Final[
    dict[type[Event], Callable[[ContextUsage, Any], ContextUsage]]
] = {  # Any: each function takes its own event
    InputReceived: _received,
    InputTaken: _taken,
    InputDropped: lambda f, e: replace(f, waiting=_left(f, e)),
    ModelChanged: lambda f, e: replace(f, counted=0, since=0),
    TurnStarted: lambda f, e: replace(f, before_turn=(f.counted, f.since, f.guess, f.messages), trimmed=False),
    TurnCompleted: _turn_over,
    ModelAsked: lambda f, e: replace(f, asked=e.tokens),
    ModelReplied: _replied,
    ToolFinished: lambda f, e: _added(f, tokens_of(e.content)),
    ChildFinished: _child_said,
    MessageInjected: lambda f, e: _added(f, tokens_of(e.parts)),
    HistoryCleared: lambda f, e: _elsewhere(f, 0, 0),
    Rewound: lambda f, e: _elsewhere(f, e.tokens, e.messages),
    CompactionStarted: lambda f, e: replace(f, compacting=(e.trigger, f.guess, f.messages)),
    Compacted: _compacted,
    CompactionFailed: _not_compacted,
    Interrupted: lambda f, e: replace(f, compacting=None),
    Opened: lambda f, e: replace(f, compacting=None),
    CompactionUndone: lambda f, e: replace(_elsewhere(f, e.guess, e.messages), tried=True),
}
HEARS: Final = frozenset(_FOLDS)
"""The events that change it."""
