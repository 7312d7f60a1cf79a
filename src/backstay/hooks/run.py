"""Runs the hooks that are due: all at once, each for its time; what one of them does is no reason for another to stop."""

import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import anyio
from msgspec import Struct
from msgspec.structs import replace

from backstay.hooks.handlers import python
from backstay.hooks.handlers import python as asking
from backstay.hooks.handlers.command import CommandRun, background_seconds
from backstay.hooks.merge import HookAnswer, HookVerdict, merge_answers
from backstay.hooks.output import is_ok_form, read_answer, read_ok
from backstay.hooks.run_context import AskAgent, AskModel, HandlerOutcome, MakeClient, PythonFunction, RunContext, Told
from backstay.hooks.spec import AgentHook, BrokenHook, CommandHook, HookSpec, HttpHook, PromptHook, PythonHook
from backstay.runtime.barrier import Fault, guarded

if TYPE_CHECKING:
    from anyio.abc import TaskGroup


class HookRun(Struct, frozen=True):
    """One hook that ran: how it ended, what it said, how long it took."""

    spec: HookSpec
    outcome: HandlerOutcome
    answer: HookAnswer
    seconds: float


async def run_hooks(
    specs: Sequence[HookSpec],
    input: Told,
    *,
    cwd: str,
    environment: Mapping[str, str],
    project: str = "",
    run_prompt: AskModel | None = None,
    run_agent: AskAgent | None = None,
    http_client: MakeClient | None = None,
    python: Mapping[str, PythonFunction] | None = None,
    on_output: Callable[[HookSpec, str], None] | None = None,
    background: "TaskGroup | None" = None,
    on_late: Callable[[HookSpec, HookAnswer], None] | None = None,
    mark: str = "",
) -> HookVerdict:
    """Run the hooks of one moment and put their answers together. Nothing that a hook does raises here.

    What each of these is for says `RunContext`.
    """
    means = RunContext(
        cwd=cwd,
        environment=environment,
        project=project,
        run_prompt=run_prompt,
        run_agent=run_agent,
        http_client=http_client,
        python=python or {},
        on_output=on_output,
        background=background,
        on_late=on_late,
        mark=mark,
    )
    return merge_answers([each.answer for each in await run_each(specs, input, means)])


async def run_each(specs: Sequence[HookSpec], told: Told, means: RunContext) -> tuple[HookRun, ...]:
    """Run hooks at once; give what came of each, in their order. Cancelling ends what they started."""
    runs: dict[int, HookRun] = {}

    async def run_one(number: int, spec: HookSpec) -> None:
        runs[number] = await _run(spec, told, means, means.mark_of(number))

    async with anyio.create_task_group() as tasks:
        for number, spec in enumerate(specs):
            tasks.start_soon(run_one, number, spec)
    return tuple(runs[number] for number in sorted(runs))


async def _run(spec: HookSpec, told: Told, means: RunContext, mark: str) -> HookRun:
    started = anyio.current_time()
    outcome = await _guarded(spec, lambda: _perform(spec, told, means, mark))
    return HookRun(spec, outcome, _read(spec, outcome), anyio.current_time() - started)


async def _guarded(spec: HookSpec, work: Callable[[], Awaitable[HandlerOutcome]]) -> HandlerOutcome:
    outcome = await guarded(f"the hook {spec.label!r} of {spec.event}", work)
    return HandlerOutcome(failed=f"{outcome.kind}: {outcome.message}") if isinstance(outcome, Fault) else outcome


def _read(spec: HookSpec, outcome: HandlerOutcome) -> HookAnswer:
    """What a run means."""
    if outcome.background:
        return HookAnswer(hook=spec.id, event=spec.event, label=spec.label)
    over = outcome.timed_out or bool(outcome.failed)
    if not over and outcome.answer is not None:
        return read_ok(spec.event, outcome.answer, spec=spec)
    if not over and isinstance(spec.handler, HttpHook) and is_ok_form(outcome.stdout):
        return read_ok(spec.event, outcome.stdout, spec=spec)
    unended = "it could not be ended" if outcome.exit_code is None else ""
    return read_answer(
        spec.event,
        spec=spec,
        exit_code=outcome.exit_code or 0,
        stdout=outcome.stdout,
        stderr=outcome.stderr,
        timed_out=outcome.timed_out,
        failed=outcome.failed or unended,
        cut=outcome.cut,
    )


async def _perform(spec: HookSpec, told: Told, means: RunContext, mark: str) -> HandlerOutcome:
    match spec.handler:
        case CommandHook() as command:
            return await _command(spec, command, told, means, mark)
        case HttpHook() as address:
            from backstay.hooks.handlers.http import post  # noqa: PLC0415 - it loads the HTTP client

            return await _within(spec, functools.partial(post, spec, address, told, means))
        case PromptHook() as prompt:
            return await _within(spec, functools.partial(asking.ask_model, prompt, told, means))
        case AgentHook() as agent:
            return await _within(spec, functools.partial(asking.ask_agent, agent, told, means))
        case PythonHook() as function:
            return await _within(spec, functools.partial(python.call, function, told, means))
        case BrokenHook(problem=problem):
            return HandlerOutcome(failed=problem)


async def _within(spec: HookSpec, work: Callable[[], Awaitable[HandlerOutcome]]) -> HandlerOutcome:
    outcome = HandlerOutcome(timed_out=True)
    with anyio.move_on_after(spec.timeout):
        outcome = await work()
    return outcome


async def _command(spec: HookSpec, handler: CommandHook, told: Told, means: RunContext, mark: str) -> HandlerOutcome:
    run = CommandRun(spec, handler, told, means, mark)
    group = means.background
    if handler.background and group is not None:
        group.start_soon(_late, spec, means, functools.partial(run.run, may_leave=False))
        return HandlerOutcome(background=True)
    outcome = await run.run(may_leave=not handler.background)
    if outcome.background:
        seconds = background_seconds(outcome.stdout, spec.timeout)
        if group is not None:
            group.start_soon(_late, spec, means, functools.partial(run.finish, seconds))
        else:
            outcome = replace(await run.finish(seconds), background=True)
    return replace(outcome, background=True) if handler.background else outcome


async def _late(spec: HookSpec, means: RunContext, work: Callable[[], Awaitable[HandlerOutcome]]) -> None:
    """Wait, in the background, for what nobody else waits for; hand over what it said in the end."""
    outcome = await _guarded(spec, work)
    if means.on_late is not None:
        means.on_late(spec, _said_late(spec, outcome))


def _said_late(spec: HookSpec, outcome: HandlerOutcome) -> HookAnswer:
    """What a hook in the background may still do: tell the model something, tell the person that it failed. It decides nothing."""
    answer = _read(spec, outcome)
    wakes = isinstance(spec.handler, CommandHook) and spec.handler.wakes and outcome.exit_code == 2
    context = answer.reason or answer.context if wakes else ""
    return HookAnswer(
        hook=spec.id, event=spec.event, label=spec.label, context=context, notes=answer.notes, failed=answer.failed
    )
