"""The context of a run of hooks: folder, environment, clients; and the outcome of one handler."""

import itertools
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct, field

from backstay.hooks.merge import HookAnswer
from backstay.hooks.spec import AgentHook, HookSpec, PromptHook

if TYPE_CHECKING:
    import httpx
    from anyio.abc import TaskGroup

HookInput = Mapping[str, object]
"""The JSON object that a hook receives: the standard input of a program, the body of a request."""

AskModel = Callable[[str, PromptHook], Awaitable[str]]
"""Asks a model once: takes the prompt with the event in it and the hook, which may name a model; returns the reply."""
AskAgent = Callable[[str, AgentHook], Awaitable[str]]
"""Lets a child session answer: takes the prompt with the event in it and the hook; returns the last reply."""
PythonFunction = Callable[[dict[str, object]], object]
"""Takes the input of a hook and returns None or an object as a program would print it; may be a coroutine function."""
MakeClient = Callable[[HookSpec], "httpx.AsyncClient"]
"""Makes the client that posts for a hook; the client refuses addresses that the hook may not reach."""

_numbers: Final = itertools.count(1)


class RunContext(Struct, frozen=True, kw_only=True):
    """Everything that a run of hooks may use."""

    cwd: str
    environment: Mapping[str, str]
    headers: Mapping[str, str] | None = None
    """The variables that headers may be made of; the environment when it is not said."""
    project: str = ""
    """The project's folder; the working folder when it is not said."""
    run_prompt: AskModel | None = None
    run_agent: AskAgent | None = None
    http_client: MakeClient | None = None
    python: Mapping[str, PythonFunction] = field(default_factory=dict)
    """The functions of hooks, by the name of their handler."""
    on_output: Callable[[HookSpec, str], None] | None = None
    """Takes the output of a program while it runs. Never waits."""
    background: "TaskGroup | None" = None
    """Where background hooks run; without it, the run waits for them."""
    on_late: Callable[[HookSpec, HookAnswer], None] | None = None
    """Takes the answer of a background hook when it has ended."""
    mark: str = ""
    """Marks the programs of this run in their environment: see `marks`."""

    def mark_of(self, number: int) -> str:
        """Return the mark of one hook's programs."""
        return f"{self.mark or f'hook-{os.getpid()}-{next(_numbers)}'}.{number}"


def marks(mark: str, count: int) -> tuple[str, ...]:
    """Return the marks of a run of `count` hooks, by which `stop_call` finds what a crash left behind."""
    return tuple(f"{mark}.{number}" for number in range(count))


class HandlerOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one handler."""

    exit_code: int | None = None
    """As the system reports it; negative for a signal. None for a handler without one, or that never ended."""
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False
    failed: str = ""
    """Why there is no answer."""
    cut: bool = False
    """Whether standard output was longer than what is kept."""
    background: bool = False
    """Whether it goes on in the background."""
    answer: str | None = None
    """The reply of a model."""
