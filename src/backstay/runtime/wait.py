"""Performs `WaitStarted`: lets time pass before a model is asked again."""

from collections.abc import Callable
from typing import Final, TypeVar

import anyio.to_thread

from backstay.runtime.barrier import Fault
from backstay.runtime.services import Outcome, Services
from backstay.vocab.event import Draft, Recorded
from backstay.vocab.events.limits import WaitEnded, WaitStarted


class Wait:
    """One wait."""

    def __init__(self, record: Recorded, services: Services) -> None:
        assert isinstance(record.event, WaitStarted)
        self._until, self._since = record.event.until, record.at
        self._id = record.id
        self._services = services

    async def run(self) -> Outcome:
        """Wait until it is time."""
        left = min(self._until - self._services.clock.now(), self._until - self._since)  # the clock may have been ahead
        if left > 0:
            await self._services.clock.sleep(left / 1_000_000)
        return self._over()

    def stopped(self) -> Outcome:
        """Whoever stopped it has said so."""
        return Outcome()

    def failed(self, fault: Fault) -> Outcome:
        """A clock that breaks is no reason to wait for ever."""
        return self._over()

    def _over(self) -> Outcome:
        return Outcome((Draft(event=WaitEnded(), cause=self._id),))


T = TypeVar("T")

LONG: Final = 2_000
"""Characters of arguments from which a call is inspected and judged in a thread: about 10 ms of judging."""


async def run_offloaded(work: Callable[[], T], size: int) -> T:
    """Return the result of `work`, done in a thread when its input has more than `LONG` characters."""
    return await in_worker(work) if size > LONG else work()


async def in_worker(work: Callable[[], T]) -> T:
    """Return the result of `work`, done in a thread, and left behind there when nobody waits for it any more."""
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
