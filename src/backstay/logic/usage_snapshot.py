"""What a turn used, in one look: tokens, the context they fill, and what they cost."""

from typing import Literal

import msgspec

from backstay.logic.context import ContextState
from backstay.logic.results import TurnResult

CostStatus = Literal["unknown", "estimated", "exact"]
"""`unknown`: some call has no known price. `estimated`: the tokens are."""


class UsageSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one turn."""

    kind: Literal["exact", "estimated"]
    """`exact` when the provider counted every token."""
    scope: Literal["turn"] = "turn"
    input: int
    output: int
    cache_read: int
    cache_write: int
    reasoning: int
    context_used: int
    context_max: int
    context_percentage: float
    cost: int | None
    """Micro-cents; None when no call has a known price."""
    cost_status: CostStatus

    @property
    def total(self) -> int:
        """Everything that was sent and received."""
        return self.input + self.output


def usage_snapshot(turn: TurnResult, context: ContextState) -> UsageSnapshot:
    """The figures of `turn`, with the context as it is after it."""
    usage = turn.usage
    counted = bool(turn.priced + turn.unpriced) and not usage.estimated
    return UsageSnapshot(
        kind="exact" if counted else "estimated",
        input=usage.input,
        output=usage.output,
        cache_read=usage.cache_read,
        cache_write=usage.cache_write,
        reasoning=usage.reasoning,
        context_used=context.used,
        context_max=context.max,
        context_percentage=context.percentage,
        cost=turn.cost if turn.priced else None,
        cost_status="unknown" if turn.unpriced or not turn.priced else "exact" if counted else "estimated",
    )
