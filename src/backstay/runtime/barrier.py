"""Run code that is not ours behind a barrier: the only place that catches every exception.

It stands around performers, hooks, extensions and subscribers. What it catches is returned, and the caller must
record it; nothing vanishes. A cancellation of ours passes through, and so does a keyboard interrupt. A `SystemExit` does not: a tool
that wraps a program's `main` must not end ours. Nor does a foreign cancellation: a tool that waits for a task which
other code cancelled has failed, and must not take the session with it.
"""

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
import anyio.lowlevel
import msgspec

T = TypeVar("T")


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """An error that was raised behind the barrier."""

    where: str
    kind: str
    message: str
    trace: str


async def run_guarded(where: str, work: Callable[[], Awaitable[T]]) -> T | Fault:
    """Return the result of `work`, or the fault that it ended in."""
    try:
        return await work()
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as exc:
        if isinstance(exc, BaseExceptionGroup) and exc.split((KeyboardInterrupt, GeneratorExit))[0] is not None:
            raise
        if isinstance(exc, anyio.get_cancelled_exc_class()):
            await anyio.lowlevel.checkpoint_if_cancelled()  # raises when it is us who are to end
            if _is_cancelled():
                raise
        trace = "".join(traceback.format_exception(exc, limit=-8))
        return Fault(where=where, kind=type(exc).__name__, message=str(exc) or type(exc).__name__, trace=trace)


def _is_cancelled() -> bool:
    """Return whether this task itself was cancelled, without a scope of anyio's."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
