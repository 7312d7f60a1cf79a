"""What a session used, over every event of its log: never rewound."""

from typing import Final

import msgspec

from backstay.vocab.event import Event, Recorded
from backstay.vocab.events import ChildFinished, ModelFailed, ModelReplied, TurnCompleted
from backstay.vocab.events.limits import ChildPaused, ChildSpent, Compacted, CompactionFailed
from backstay.vocab.specs import Usage

HEARS: Final[frozenset[type[Event]]] = frozenset(
    (ModelReplied, ModelFailed, Compacted, CompactionFailed, ChildFinished, ChildPaused, ChildSpent, TurnCompleted)
)
"""The events that count."""


class UsageTotals(msgspec.Struct, kw_only=True):
    """Tokens used, in all and by model. What they cost is in the budget of `Progress`."""

    total: Usage = Usage()
    by_model: dict[str, Usage] = {}
    turn: Usage = Usage()
    """Of the newest turn."""
    turn_over: bool = False
    children: dict[str, Usage] = {}
    """What each child session used so far, as its own log says."""

    def apply(self, record: Recorded) -> None:
        """Take an event in."""
        event = record.event
        if isinstance(event, ModelReplied | ModelFailed | Compacted | CompactionFailed) and event.usage is not None:
            if self.turn_over:
                self.turn, self.turn_over = Usage(), False
            model = getattr(event, "model", "")
            self.total = add(self.total, event.usage)
            self.turn = add(self.turn, event.usage)
            if model:
                self.by_model[model] = add(self.by_model.get(model, Usage()), event.usage)
        elif isinstance(event, ChildFinished | ChildPaused | ChildSpent) and event.spent is not None:
            self.total = add(self.total, less(event.spent, self.children.get(event.child, Usage())))
            self.children[event.child] = event.spent
        elif isinstance(event, TurnCompleted):
            self.turn_over = True


def add(one: Usage, other: Usage) -> Usage:
    """Both together; estimated when either is."""
    return Usage(
        input=one.input + other.input,
        output=one.output + other.output,
        cache_read=one.cache_read + other.cache_read,
        cache_write=one.cache_write + other.cache_write,
        reasoning=one.reasoning + other.reasoning,
        estimated=one.estimated or other.estimated,
    )


def less(one: Usage, other: Usage) -> Usage:
    """`one` without `other`, which is part of it."""
    return Usage(
        input=one.input - other.input,
        output=one.output - other.output,
        cache_read=one.cache_read - other.cache_read,
        cache_write=one.cache_write - other.cache_write,
        reasoning=one.reasoning - other.reasoning,
        estimated=one.estimated,
    )
