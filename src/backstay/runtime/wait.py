"""Performs `WaitStarted`: lets time pass before a model is asked again."""

from backstay.runtime.barrier import Fault
from backstay.runtime.world import Outcome, World
from backstay.vocab.event import Draft, Recorded
from backstay.vocab.event_limits import WaitEnded, WaitStarted


class Wait:
    """One wait."""

    def __init__(self, record: Recorded, world: World) -> None:
        assert isinstance(record.event, WaitStarted)
        self._until, self._since = record.event.until, record.at
        self._id = record.id
        self._world = world

    async def run(self) -> Outcome:
        """Wait until it is time."""
        left = min(self._until - self._world.clock.now(), self._until - self._since)  # the clock may have been ahead
        if left > 0:
            await self._world.clock.sleep(left / 1_000_000)
        return self._over()

    def stopped(self) -> Outcome:
        """Whoever stopped it has said so."""
        return Outcome()

    def failed(self, fault: Fault) -> Outcome:
        """A clock that breaks is no reason to wait for ever."""
        return self._over()

    def _over(self) -> Outcome:
        return Outcome((Draft(event=WaitEnded(), cause=self._id),))
