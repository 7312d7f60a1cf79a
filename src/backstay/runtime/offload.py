"""Pure work that may take long, beside the event loop.

One loop drives many sessions. Judging a short call takes less than handing it to a thread; judging a long one would keep all other sessions
waiting. The work is bounded by the length of its input, since a thread cannot be stopped.
"""

from collections.abc import Callable
from typing import Final, TypeVar

import anyio.to_thread

T = TypeVar("T")

LONG: Final = 2_000
"""Characters of arguments from which a call is inspected and judged in a thread: about 10 ms of judging."""


async def offloaded(work: Callable[[], T], size: int) -> T:
    """Return the result of `work`, done in a thread when its input has more than `LONG` characters."""
    return await in_worker(work) if size > LONG else work()


async def in_worker(work: Callable[[], T]) -> T:
    """Return the result of `work`, done in a thread, and left behind there when nobody waits for it any more."""
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
