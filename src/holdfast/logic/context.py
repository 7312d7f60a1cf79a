"""How full the context is."""

from collections.abc import Iterable
from typing import Final

import msgspec

from holdfast.logic.parts import rough_tokens
from holdfast.vocab.messages import Reasoning, SessionMessage, Text, TextRef, ToolCall, ToolResult

UNKNOWN_WINDOW: Final = 200_000
"""The window of a model that nobody has told us about."""


class ContextState(msgspec.Struct, frozen=True, kw_only=True):
    """What the context holds and what it can hold, in tokens."""

    used: int
    max: int
    percentage: float
    exact: bool
    """Whether `used` is what the provider counted."""


def context_state(counted: int, messages: Iterable[SessionMessage], window: int = UNKNOWN_WINDOW) -> ContextState:
    """The state of the context, by the provider's count where there is one, else by an estimate."""
    used = counted or sum(map(estimate, messages))
    return ContextState(used=used, max=window, percentage=round(100 * used / window, 2), exact=bool(counted))


def estimate(message: SessionMessage) -> int:
    """About how many tokens a message has."""
    return sum(map(_tokens, message.content))


def _tokens(part: object) -> int:
    match part:
        case Text() | Reasoning():
            return rough_tokens(part.text)
        case TextRef():
            return part.tokens
        case ToolCall():
            return rough_tokens(part.name) + rough_tokens(part.args)
        case ToolResult():
            return sum(map(_tokens, part.content))
        case _:
            return 0
