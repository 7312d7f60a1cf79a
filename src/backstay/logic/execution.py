"""What one execution came to, in one value: for callers that want everything at once."""

import msgspec

from backstay.logic.context import ContextState
from backstay.logic.entries import Entry
from backstay.logic.results import ToolSummary
from backstay.logic.usage_snapshot import UsageSnapshot


class ExecutionResult(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one input, and how the session stands after it."""

    response: str
    """What the model said last in this turn."""
    history: tuple[Entry, ...]
    """The full history, this turn included."""
    tool_summaries: tuple[ToolSummary, ...]
    """The calls of this turn, in the order in which they ended."""
    context_state: ContextState
    usage: UsageSnapshot | None = None
    """None when no model was asked."""
