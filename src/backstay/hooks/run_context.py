"""What hooks are run with: where, in which environment, and who can be asked."""

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

Told = Mapping[str, object]
"""What a hook is told; the standard input of a program."""

AskModel = Callable[[str, PromptHook], Awaitable[str]]
"""Asks a model once: the prompt with the event in it, and the hook, which may name a model. Gives what it said."""
AskAgent = Callable[[str, AgentHook], Awaitable[str]]
"""Lets a child session answer: the prompt with the event in it, and the hook. Gives the last thing that it said."""
PythonFunction = Callable[[dict[str, object]], object]
"""Takes what a hook is told, and gives None or an object as a program would print it; may be a coroutine function."""
MakeClient = Callable[[HookSpec], "httpx.AsyncClient"]
"""Makes the client that posts for a hook; it judges where requests may go."""

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
    """Takes what a program writes, while it runs. Never waits."""
    background: "TaskGroup | None" = None
    """Where hooks go on that nobody waits for; without it, they are waited for."""
    on_late: Callable[[HookSpec, HookAnswer], None] | None = None
    """Takes what a hook in the background said in the end."""
    mark: str = ""
    """What tells the programs of this run from all others, in their environment: see `marks`."""

    def mark_of(self, number: int) -> str:
        """The mark of one hook's programs."""
        return f"{self.mark or f'hook-{os.getpid()}-{next(_numbers)}'}.{number}"


def marks(mark: str, count: int) -> tuple[str, ...]:
    """What the programs of a run of `count` hooks carry, so that what a crash left behind can be found (`stop_call`)."""
    return tuple(f"{mark}.{number}" for number in range(count))


class HandlerOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a run."""

    exit_code: int | None = None
    """As the system says it; negative for a signal. None for what has none, or never ended."""
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False
    failed: str = ""
    """Why there is no answer."""
    cut: bool = False
    """Whether standard output was longer than what is kept."""
    background: bool = False
    """Whether it goes on without us."""
    answer: str | None = None
    """What a model said."""
