"""Holdfast runs AI agent sessions that hold: every step is written down before it is done.

`open_session` opens a session, `query` asks one question. The built-in tools can be put into a session of one's own choosing:

    from holdfast import make_grep, open_session, read_file
    open_session(model=..., tools=[read_file, make_grep()], only_tools=True)

`read_file`, `write_file` and `edit_file` are tools; `make_glob`, `make_grep` and `make_bash` make one. Those of the web need a client
that reaches public addresses only, and are imported where they live: `holdfast.tools.web.fetch`, `holdfast.tools.web.search`.
Transports are in `holdfast.transports`.
"""

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from holdfast.assemble import open_session, query
    from holdfast.hooks import hook
    from holdfast.ports import Answer, EventStore, Model, Question, Tool, ToolContext, ToolOutput
    from holdfast.session import Session
    from holdfast.storing import open_store
    from holdfast.terminal_prompt import terminal_prompt
    from holdfast.tools.define import tool
    from holdfast.tools.edit import edit_file
    from holdfast.tools.glob import make_glob
    from holdfast.tools.read import read_file
    from holdfast.tools.search import make_grep
    from holdfast.tools.shell import make_bash
    from holdfast.tools.write import write_file
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
    "open_store": "storing",
    "terminal_prompt": "terminal_prompt",
    "tool": "tools.define",
    "edit_file": "tools.edit",
    "make_glob": "tools.glob",
    "read_file": "tools.read",
    "make_grep": "tools.search",
    "make_bash": "tools.shell",
    "write_file": "tools.write",
    "HoldfastError": "vocab.errors",
    "ProviderError": "vocab.errors",
    "SessionBusy": "vocab.errors",
    "StoreError": "vocab.errors",
    "TurnFailed": "vocab.errors",
    "TurnInterrupted": "vocab.errors",
    "UserError": "vocab.errors",
    "Recorded": "vocab.event",
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
    "edit_file",
    "make_glob",
    "read_file",
    "make_grep",
    "make_bash",
    "write_file",
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


def __dir__() -> list[str]:
    return sorted(__all__)
