"""Hooks that are functions of the program."""

import inspect

import anyio
import anyio.to_thread
import msgspec

from backstay.logic.hooks.spec import PythonHook
from backstay.runtime.hooks.means import Means, PythonFunction, Told
from backstay.runtime.hooks.outcome import Outcome


async def call(handler: PythonHook, told: Told, means: Means) -> Outcome:
    """Call the function with a copy of what the hook is told. A plain function runs in a thread, so that it can be left behind."""
    function = means.python.get(handler.name)
    if function is None:
        return Outcome(failed="the program that opened the session did not bring this function")
    copy: dict[str, object] = msgspec.json.decode(msgspec.json.encode(told))
    said = await _call(function, copy)
    if said is None:
        return Outcome(exit_code=0)
    if not isinstance(said, dict):
        return Outcome(failed=f"it returned {type(said).__name__}, neither None nor a dict")
    return Outcome(exit_code=0, stdout=msgspec.json.encode(said).decode())


async def _call(function: PythonFunction, told: dict[str, object]) -> object:
    if inspect.iscoroutinefunction(function):
        return await function(told)
    # A limiter of its own: a function that never returns must not use up the threads that everybody shares.
    said = await anyio.to_thread.run_sync(function, told, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))
    return await said if inspect.isawaitable(said) else said
