"""Performs `HookStarted`: hears the handlers of a hook event, and lets other performers wait for them."""

from backstay.hooks.merge import unheard
from backstay.runtime.barrier import Fault
from backstay.runtime.services import Outcome, Services
from backstay.vocab.event import Draft, Recorded
from backstay.vocab.events.tools import HookFinished, HookStarted


class RunHook:
    """One round of handlers."""

    def __init__(self, record: Recorded, world: Services) -> None:
        assert isinstance(record.event, HookStarted)
        self._started = record.event
        self._id = record.id
        self._world = world

    async def run(self) -> Outcome:
        """Hear them."""
        hear = self._world.in_force.hear_hooks
        if hear is None:
            return self._unheard("hooks could not be run: nobody runs hooks here")
        return self._finish(await hear(self._started, self._world))

    def stopped(self) -> Outcome:
        """Say that they were stopped."""
        return self._unheard("stopped before they had answered")

    def failed(self, fault: Fault) -> Outcome:
        """Say that what was to run them broke."""
        return self._unheard(f"hooks could not be run: {fault.kind}: {fault.message}")

    def _unheard(self, why: str) -> Outcome:
        return self._finish(unheard(self._started, why, self._world.policy().hooks))

    def _finish(self, event: HookFinished) -> Outcome:
        return Outcome((Draft(event=event, by="hook", cause=self._id),))
