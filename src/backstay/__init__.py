"""Backstay runs AI agent sessions that hold: every step is written down before it is done.

`open_session` opens a session, `query` asks one question. The built-in tools can be put into a session of one's own choosing:

    from backstay import make_grep, open_session, read_file
    open_session(model=..., tools=[read_file, make_grep()], only_tools=True)

`read_file`, `write_file` and `edit_file` are tools; `make_glob`, `make_grep` and `make_bash` make one. Those of the web need a client
that reaches public addresses only, and are imported where they live: `backstay.tools.web.fetch`, `backstay.tools.web.search`.
Transports are in `backstay.headless.lines_transport`.
"""

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from backstay.cli.terminal_prompt import terminal_prompt
    from backstay.hooks.decorator import hook
    from backstay.ports import Answer, EventStore, Model, Question, Tool, ToolContext, ToolOutput
    from backstay.session.assemble import open_session, query
    from backstay.session.session import Session
    from backstay.stores.open import open_store
    from backstay.tools.define import tool
    from backstay.tools.files.edit import edit_file
    from backstay.tools.files.read import read_file
    from backstay.tools.files.write import write_file
    from backstay.tools.search import make_glob, make_grep
    from backstay.tools.shell.bash import make_bash
    from backstay.version import VERSION as __version__
    from backstay.vocab.errors import (
        BackstayError,
        ProviderError,
        SessionBusy,
        StoreError,
        TurnFailed,
        TurnInterrupted,
        UserError,
    )
    from backstay.vocab.event import Recorded
    from backstay.vocab.rules import Rule

_HOME: Final = {
    "open_session": "session.assemble",
    "query": "session.assemble",
    "hook": "hooks.decorator",
    "Answer": "ports",
    "EventStore": "ports",
    "Model": "ports",
    "Question": "ports",
    "Tool": "ports",
    "ToolContext": "ports",
    "ToolOutput": "ports",
    "Session": "session.session",
    "open_store": "stores.open",
    "terminal_prompt": "cli.terminal_prompt",
    "tool": "tools.define",
    "edit_file": "tools.files.edit",
    "make_glob": "tools.search",
    "read_file": "tools.files.read",
    "make_grep": "tools.search",
    "make_bash": "tools.shell.bash",
    "write_file": "tools.files.write",
    "BackstayError": "vocab.errors",
    "ProviderError": "vocab.errors",
    "SessionBusy": "vocab.errors",
    "StoreError": "vocab.errors",
    "TurnFailed": "vocab.errors",
    "TurnInterrupted": "vocab.errors",
    "UserError": "vocab.errors",
    "Recorded": "vocab.event",
    "Rule": "vocab.rules",
}
"""Where each public name lives. It is fetched when it is first asked for, so that `import backstay` costs next to nothing."""

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
    "BackstayError",
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
        return importlib.import_module("backstay.version").VERSION
    if name not in _HOME:
        raise AttributeError(f"module 'backstay' has no attribute {name!r}")
    return getattr(importlib.import_module(f"backstay.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
