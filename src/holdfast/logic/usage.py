"""What a session used, over every event of its log: never rewound."""

from typing import Final

import msgspec

from holdfast.vocab.events import ChildFinished, Event, HistoryCleared, ModelReplied, Recorded, TurnCompleted
from holdfast.vocab.specs import Usage

HEARS: Final[frozenset[type[Event]]] = frozenset((ModelReplied, ChildFinished, TurnCompleted, HistoryCleared))
"""The events that count."""


class UsageTotals(msgspec.Struct, kw_only=True):
    """Tokens used, in all and by model, and what the context holds now."""

    total: Usage = Usage()
    by_model: dict[str, Usage] = {}
    turn: Usage = Usage()
    """Of the newest turn."""
    context: int = 0
    """Tokens of the newest request and its reply: what the next request starts from."""
    turn_over: bool = False

    def apply(self, record: Recorded) -> None:
        """Take an event in."""
        event = record.event
        if isinstance(event, ModelReplied) and event.usage is not None:
            if self.turn_over:
                self.turn, self.turn_over = Usage(), False
            self.total = add(self.total, event.usage)
            self.turn = add(self.turn, event.usage)
            self.by_model[event.model] = add(self.by_model.get(event.model, Usage()), event.usage)
            self.context = event.usage.input + event.usage.output
        elif isinstance(event, ChildFinished) and event.spent is not None:
            self.total = add(self.total, event.spent)
        elif isinstance(event, TurnCompleted):
            self.turn_over = True
        elif isinstance(event, HistoryCleared):
            self.context = 0


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
