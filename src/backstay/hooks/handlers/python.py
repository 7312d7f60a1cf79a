"""Hooks that are functions of the program."""

import inspect
from collections.abc import Awaitable, Callable

import anyio
import anyio.to_thread
import msgspec

from backstay.hooks.run_context import HandlerOutcome, PythonFunction, RunContext, Told
from backstay.hooks.spec import AgentHook, PromptHook, PythonHook


async def call(handler: PythonHook, told: Told, means: RunContext) -> HandlerOutcome:
    """Call the function with a copy of what the hook is told. A plain function runs in a thread, so that it can be left behind."""
    function = means.python.get(handler.name)
    if function is None:
        return HandlerOutcome(failed="the program that opened the session did not bring this function")
    copy: dict[str, object] = msgspec.json.decode(msgspec.json.encode(told))
    said = await _call(function, copy)
    if said is None:
        return HandlerOutcome(exit_code=0)
    if not isinstance(said, dict):
        return HandlerOutcome(failed=f"it returned {type(said).__name__}, neither None nor a dict")
    return HandlerOutcome(exit_code=0, stdout=msgspec.json.encode(said).decode())


async def _call(function: PythonFunction, told: dict[str, object]) -> object:
    if inspect.iscoroutinefunction(function):
        return await function(told)
    # A limiter of its own: a function that never returns must not use up the threads that everybody shares.
    said = await anyio.to_thread.run_sync(function, told, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))
    return await said if inspect.isawaitable(said) else said


FORM = 'Answer with nothing but JSON: {"ok": true}, or {"ok": false, "reason": "why"}.'
"""What is asked for, after the hook's own words."""


async def ask_model(handler: PromptHook, told: Told, means: RunContext) -> HandlerOutcome:
    """Ask a model once."""
    ask = means.run_prompt
    if ask is None:
        return HandlerOutcome(failed="there is no model to ask")
    return await _answered(lambda: ask(question(handler.prompt, told), handler))


async def ask_agent(handler: AgentHook, told: Told, means: RunContext) -> HandlerOutcome:
    """Let a child session look around and answer."""
    ask = means.run_agent
    if ask is None:
        return HandlerOutcome(failed="there is nobody to run an agent")
    return await _answered(lambda: ask(question(handler.prompt, told), handler))


def question(prompt: str, told: Told) -> str:
    """The hook's prompt with the event in the place of `$ARGUMENTS`, or behind it when it has none."""
    event = msgspec.json.encode(told).decode()
    asked = prompt.replace("$ARGUMENTS", event) if "$ARGUMENTS" in prompt else f"{prompt}\n\n{event}".lstrip()
    return f"{asked}\n\n{FORM}"


async def _answered(ask: Callable[[], Awaitable[str]]) -> HandlerOutcome:
    return HandlerOutcome(answer=await ask())
