"""Run hooks: all of one event at once, each within its timeout. What one of them does never stops another."""

import functools
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import anyio
import anyio.to_thread
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from backstay.hooks.command import CommandRun, background_seconds
from backstay.hooks.merge import HookAnswer
from backstay.hooks.output import is_ok_form, read_answer, read_ok
from backstay.hooks.run_context import HandlerOutcome, HookInput, PythonFunction, RunContext
from backstay.hooks.spec import AgentHook, BrokenHook, CommandHook, HookSpec, HttpHook, PromptHook, PythonHook
from backstay.runtime.barrier import Fault, run_guarded


class HookRun(Struct, frozen=True):
    """One run of a hook: how it ended, what it answered, how long it took."""

    spec: HookSpec
    outcome: HandlerOutcome
    answer: HookAnswer
    seconds: float


async def run_each(specs: Sequence[HookSpec], payload: HookInput, context: RunContext) -> tuple[HookRun, ...]:
    """Run hooks at once and return their runs in order. Cancelling ends what they started."""
    runs: dict[int, HookRun] = {}

    async def run_one(number: int, spec: HookSpec) -> None:
        runs[number] = await _run(spec, payload, context, context.mark_of(number))

    async with anyio.create_task_group() as tasks:
        for number, spec in enumerate(specs):
            tasks.start_soon(run_one, number, spec)
    return tuple(runs[number] for number in sorted(runs))


async def _run(spec: HookSpec, payload: HookInput, context: RunContext, mark: str) -> HookRun:
    started = anyio.current_time()
    outcome = await _run_guarded(spec, lambda: _run_handler(spec, payload, context, mark))
    return HookRun(spec, outcome, _read_outcome(spec, outcome), anyio.current_time() - started)


async def _run_guarded(spec: HookSpec, work: Callable[[], Awaitable[HandlerOutcome]]) -> HandlerOutcome:
    outcome = await run_guarded(f"the hook {spec.label!r} of {spec.event}", work)
    return HandlerOutcome(failed=f"{outcome.kind}: {outcome.message}") if isinstance(outcome, Fault) else outcome


def _read_outcome(spec: HookSpec, outcome: HandlerOutcome) -> HookAnswer:
    """Return the answer that a run comes to."""
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


async def _run_handler(spec: HookSpec, payload: HookInput, context: RunContext, mark: str) -> HandlerOutcome:
    match spec.handler:
        case CommandHook() as command:
            return await _run_command(spec, command, payload, context, mark)
        case HttpHook() as address:
            from backstay.hooks.http import post  # noqa: PLC0415 - it loads the HTTP client

            return await _with_timeout(spec, functools.partial(post, spec, address, payload, context))
        case PromptHook() as prompt:
            return await _with_timeout(spec, functools.partial(_ask_model, prompt, payload, context))
        case AgentHook() as agent:
            return await _with_timeout(spec, functools.partial(_ask_agent, agent, payload, context))
        case PythonHook() as function:
            return await _with_timeout(spec, functools.partial(_call_function, function, payload, context))
        case BrokenHook(problem=problem):
            return HandlerOutcome(failed=problem)


async def _with_timeout(spec: HookSpec, work: Callable[[], Awaitable[HandlerOutcome]]) -> HandlerOutcome:
    outcome = HandlerOutcome(timed_out=True)
    with anyio.move_on_after(spec.timeout):
        outcome = await work()
    return outcome


async def _run_command(
    spec: HookSpec, handler: CommandHook, payload: HookInput, context: RunContext, mark: str
) -> HandlerOutcome:
    run = CommandRun(spec, handler, payload, context, mark)
    group = context.background
    if handler.background and group is not None:
        group.start_soon(_finish_in_background, spec, context, functools.partial(run.run, may_leave=False))
        return HandlerOutcome(background=True)
    outcome = await run.run(may_leave=not handler.background)
    if outcome.background:
        seconds = background_seconds(outcome.stdout, spec.timeout)
        if group is not None:
            group.start_soon(_finish_in_background, spec, context, functools.partial(run.finish, seconds))
        else:
            outcome = replace(await run.finish(seconds), background=True)
    return replace(outcome, background=True) if handler.background else outcome


async def _finish_in_background(
    spec: HookSpec, context: RunContext, work: Callable[[], Awaitable[HandlerOutcome]]
) -> None:
    """Wait in the background for a hook that the session does not wait for, and hand over its answer."""
    outcome = await _run_guarded(spec, work)
    if context.on_late is not None:
        context.on_late(spec, _background_answer(spec, outcome))


def _background_answer(spec: HookSpec, outcome: HandlerOutcome) -> HookAnswer:
    """Keep of an answer what a hook in the background may still do: tell the model something, or report its failure."""
    answer = _read_outcome(spec, outcome)
    wakes = isinstance(spec.handler, CommandHook) and spec.handler.wakes and outcome.exit_code == 2
    added = answer.reason or answer.context if wakes else ""
    return HookAnswer(
        hook=spec.id, event=spec.event, label=spec.label, context=added, notes=answer.notes, failed=answer.failed
    )


async def _call_function(handler: PythonHook, payload: HookInput, context: RunContext) -> HandlerOutcome:
    """Call the function with a copy of the payload. A plain function runs in a thread, so that it can be left behind."""
    function = context.python.get(handler.name)
    if function is None:
        return HandlerOutcome(failed="the program that opened the session did not bring this function")
    copy: dict[str, object] = msgspec.json.decode(msgspec.json.encode(payload))
    result = await _call(function, copy)
    if result is None:
        return HandlerOutcome(exit_code=0)
    if not isinstance(result, dict):
        return HandlerOutcome(failed=f"it returned {type(result).__name__}, neither None nor a dict")
    return HandlerOutcome(exit_code=0, stdout=msgspec.json.encode(result).decode())


async def _call(function: PythonFunction, payload: dict[str, object]) -> object:
    if inspect.iscoroutinefunction(function):
        return await function(payload)
    # a limiter of its own: a function that never returns must not use up the threads that all share
    result = await anyio.to_thread.run_sync(function, payload, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))
    return await result if inspect.isawaitable(result) else result


_FORM: Final = 'Answer with nothing but JSON: {"ok": true}, or {"ok": false, "reason": "why"}.'
"""The form of the answer, asked for after the hook's own prompt."""


async def _ask_model(handler: PromptHook, payload: HookInput, context: RunContext) -> HandlerOutcome:
    """Ask a model once."""
    ask = context.run_prompt
    if ask is None:
        return HandlerOutcome(failed="there is no model to ask")
    return HandlerOutcome(answer=await ask(_prompt_of(handler.prompt, payload), handler))


async def _ask_agent(handler: AgentHook, payload: HookInput, context: RunContext) -> HandlerOutcome:
    """Let a child session answer."""
    ask = context.run_agent
    if ask is None:
        return HandlerOutcome(failed="there is nobody to run an agent")
    return HandlerOutcome(answer=await ask(_prompt_of(handler.prompt, payload), handler))


def _prompt_of(prompt: str, payload: HookInput) -> str:
    """Fill the payload into the hook's prompt at `$ARGUMENTS`, or append it where the prompt has none."""
    event = msgspec.json.encode(payload).decode()
    asked = prompt.replace("$ARGUMENTS", event) if "$ARGUMENTS" in prompt else f"{prompt}\n\n{event}".lstrip()
    return f"{asked}\n\n{_FORM}"
