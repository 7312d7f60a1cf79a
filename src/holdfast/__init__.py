"""Holdfast runs AI agent sessions that hold: every step is written down before it is done."""

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from holdfast.assemble import open_session, query
    from holdfast.hooks import hook
    from holdfast.ports import Answer, EventStore, Model, Question, Tool, ToolContext, ToolOutput
    from holdfast.session import Session
    from holdfast.stores.urls import open_store
    from holdfast.terminal_prompt import terminal_prompt
    from holdfast.tools.define import tool
    from holdfast.version import VERSION as __version__
    from holdfast.vocab.errors import (
        HoldfastError,
        ProviderError,
        SessionBusy,
        StoreError,
        TurnFailed,
        TurnInterrupted,
        UserError,
    )
    from holdfast.vocab.event import Recorded
    from holdfast.vocab.rules import Rule

_HOME: Final = {
    "open_session": "assemble",
    "query": "assemble",
    "hook": "hooks",
    "Answer": "ports",
    "EventStore": "ports",
    "Model": "ports",
    "Question": "ports",
    "Tool": "ports",
    "ToolContext": "ports",
    "ToolOutput": "ports",
    "Session": "session",
    "open_store": "stores.urls",
    "terminal_prompt": "terminal_prompt",
    "tool": "tools.define",
    "HoldfastError": "vocab.errors",
    "ProviderError": "vocab.errors",
    "SessionBusy": "vocab.errors",
    "StoreError": "vocab.errors",
    "TurnFailed": "vocab.errors",
    "TurnInterrupted": "vocab.errors",
    "UserError": "vocab.errors",
    "Recorded": "vocab.events",
    "Rule": "vocab.rules",
}
"""Where each public name lives. It is fetched when it is first asked for, so that `import holdfast` costs next to nothing."""

__all__ = [  # noqa: RUF022  (grouped by home)
    "open_session",
    "query",
    "hook",
    "Answer",
    "EventStore",
    "Model",
    "Question",
    "Tool",
    "ToolContext",
    "ToolOutput",
    "Session",
    "open_store",
    "terminal_prompt",
    "tool",
    "HoldfastError",
    "ProviderError",
    "SessionBusy",
    "StoreError",
    "TurnFailed",
    "TurnInterrupted",
    "UserError",
    "Recorded",
    "Rule",
    "__version__",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        return importlib.import_module("holdfast.version").VERSION
    if name not in _HOME:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    return getattr(importlib.import_module(f"holdfast.{_HOME[name]}"), name)
