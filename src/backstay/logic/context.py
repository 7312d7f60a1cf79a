"""How full the context is."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import msgspec

from backstay.logic.tokens import estimate_text
from backstay.vocab.messages import (
    DurablePart,
    MediaLink,
    MediaRef,
    Reasoning,
    SessionMessage,
    Text,
    TextRef,
    ToolCall,
    ToolResult,
)

MESSAGE: Final = 4
"""Tokens that a message has besides its parts."""
CALL: Final = 8
"""Tokens that a call has besides its name and arguments."""
MEDIUM: Final = 1600
"""Tokens of an image or a document, when nothing is known of it: a large picture."""


class ContextState(msgspec.Struct, frozen=True, kw_only=True):
    """What the context holds and what it can hold, in tokens."""

    used: int
    max: int
    percentage: float
    exact: bool
    """Whether `used` is what the provider counted."""

    @property
    def remaining_percentage(self) -> float:
        """How much is left."""
        return round(100 - self.percentage, 2)


def context_state(used: int, window: int, *, exact: bool) -> ContextState:
    """The state of a context."""
    return ContextState(used=used, max=window, percentage=round(min(100.0, 100 * used / window), 2), exact=exact)


def estimate(message: SessionMessage) -> int:
    """About how many tokens a message has."""
    return tokens_of(message.content)


def tokens_of(parts: Iterable[DurablePart]) -> int:
    """About how many tokens a message with these parts has."""
    return MESSAGE + sum(map(_tokens, parts))


_name_tokens = lru_cache(256)(estimate_text)  # a session has few tools, and calls them often


def _tokens(part: object) -> int:
    match part:
        case Text() | Reasoning():
            return estimate_text(part.text)
        case TextRef():
            return part.tokens
        case ToolCall():
            return CALL + _name_tokens(part.name) + estimate_text(part.args)
        case ToolResult():
            return sum(map(_tokens, part.content))
        case MediaRef() | MediaLink():
            return MEDIUM
        case _:
            return 0
