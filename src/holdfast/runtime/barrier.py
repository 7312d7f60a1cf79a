"""The barrier: the only place that catches everything.

It stands around performers, hooks, extensions and subscribers, whose code is not ours. What it catches is returned, and whoever called it
must record it; nothing vanishes. Cancellation passes through, and so does a keyboard interrupt; a `SystemExit` does not: a tool that
wraps a program's `main` must not end ours.
"""

import traceback
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

T = TypeVar("T")


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Something raised where nobody waited for it."""

    where: str
    kind: str
    message: str
    trace: str


async def guarded(where: str, work: Callable[[], Awaitable[T]]) -> T | Fault:
    """The result of `work`, or the fault that it ended in."""
    try:
        return await work()
    except (Exception, SystemExit) as exc:
        trace = "".join(traceback.format_exception(exc, limit=-8))
        return Fault(where=where, kind=type(exc).__name__, message=str(exc) or type(exc).__name__, trace=trace)
