"""Plain functions in threads of their own.

A thread cannot be stopped. One that does not come back is left behind when its caller is cancelled, and it does not keep the process alive.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

import anyio
import anyio.from_thread
import anyio.lowlevel

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """The result of `work`, run beside the event loop; what it raises is raised here."""
    crossing = _Crossing(work)
    threading.Thread(target=crossing.run, name="backstay tool", daemon=True).start()
    return await crossing.result()


class _Crossing(Generic[T]):
    """Carries a result, or what was raised instead, from a thread to the task that waits for it."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._done = anyio.Event()
        self._loop = anyio.lowlevel.current_token()
        self._value: T
        self._error: BaseException | None = None

    def run(self) -> None:
        with self:
            self._value = self._work()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        self._error = error
        with suppress(RuntimeError):  # the loop has ended: nobody waits any more
            anyio.from_thread.run_sync(self._done.set, token=self._loop)
        return True

    async def result(self) -> T:
        await self._done.wait()
        if self._error is not None:
            raise self._error
        return self._value
