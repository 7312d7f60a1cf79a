"""Hooks for tests: read from settings, and really run."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from backstay.hooks.events import OnFailure
from backstay.hooks.merge import HookAnswer, HookVerdict, merge_answers
from backstay.hooks.output import read_answer
from backstay.hooks.payload import sample_input
from backstay.hooks.run import HookRun, run_each
from backstay.hooks.run_context import HookInput, RunContext
from backstay.hooks.settings import read_hooks
from backstay.hooks.spec import CommandHook, Handler, HookSpec, make_spec
from backstay.tools.shell.processes import read_process


def command(
    event: str = "PreToolUse",
    text: str = "guard",
    *,
    matcher: str = "",
    on_failure: OnFailure | None = None,
    doubt: str = "",
) -> HookSpec:
    """A program as a hook."""
    return make_spec(event, CommandHook(command=text), matcher=matcher, on_failure=on_failure, doubt=doubt)


def one(entry: object, event: str = "PreToolUse", matcher: object = None) -> HookSpec:
    """The hook that an entry of the settings makes."""
    group = {"hooks": [entry]} if matcher is None else {"matcher": matcher, "hooks": [entry]}
    (spec,) = read_hooks({event: [group]}, source="person").specs
    return spec


def said(event: str, content: object, *, exit_code: int = 0, on_failure: OnFailure | None = None) -> HookAnswer:
    """What a hook means that prints `content` as JSON."""
    return read_answer(
        event, spec=command(event, on_failure=on_failure), exit_code=exit_code, stdout=json.dumps(content)
    )


def about_call(**fields: object) -> dict[str, object]:
    """An answer about a call."""
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **fields}}


CALL = sample_input("PreToolUse", cwd="/")


def program(
    text: str,
    *args: str,
    event: str = "PreToolUse",
    timeout: float = 20,
    on_failure: OnFailure | None = None,
    background: bool = False,
    wakes: bool = False,
) -> HookSpec:
    """A program as a hook: a shell's text, or with arguments, the program itself."""
    handler = CommandHook(command=text, args=args or None, background=background, wakes=wakes)
    return make_spec(event, handler, timeout=timeout, on_failure=on_failure)


def hook_of(handler: Handler, *, event: str = "PreToolUse", timeout: float = 20) -> HookSpec:
    """A handler as a hook."""
    return make_spec(event, handler, timeout=timeout)


def means(folder: Path | str = "/", environment: Mapping[str, str] = os.environ, **more: object) -> RunContext:
    """What hooks are run with in a folder."""
    return RunContext(cwd=str(folder), environment=environment, **more)  # type: ignore[arg-type]  # as each test says


async def run(spec: HookSpec, use: RunContext, told: Mapping[str, object] = CALL) -> HookRun:
    """Run one hook."""
    (ran,) = await run_each([spec], told, use)
    return ran


def alive(pid: int) -> bool:
    """Whether a process runs."""
    found = read_process(pid)
    return found is not None and not found.dead


async def run_hooks(
    specs: Sequence[HookSpec], payload: HookInput, folder: Path | str = "/", **more: object
) -> HookVerdict:
    """What the hooks of one moment come to."""
    return merge_answers([each.answer for each in await run_each(specs, payload, means(folder, os.environ, **more))])
