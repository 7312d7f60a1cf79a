"""Performs `CallProposed`: finds out what the policy needs to know about a call."""

from functools import partial
from typing import Final

from backstay.runtime.barrier import Fault
from backstay.runtime.offload import offloaded
from backstay.runtime.world import Outcome, World
from backstay.vocab.event import Draft, Recorded
from backstay.vocab.events import CallInspected, CallProposed
from backstay.vocab.messages import ToolCall

MOST_CALLS: Final = 128
"""Calls of one reply that are looked at."""


class InspectCall:
    """One look at a call that was not looked at when it arrived."""

    def __init__(self, record: Recorded, world: World) -> None:
        assert isinstance(record.event, CallProposed)
        self._call = record.event.call
        self._id = record.id
        self._world = world

    async def run(self) -> Outcome:
        """Look."""
        found = next(call for call in self._world.state.progress.calls if call.id == self._call)
        call = ToolCall(id=found.id, name=found.name, args=found.args)
        return Outcome((await inspected(self._world, call, cause=self._id),))

    def stopped(self) -> Outcome:
        """Nothing came of it; the call is closed without."""
        return Outcome()

    def failed(self, fault: Fault) -> Outcome:
        """A call that cannot be looked at cannot run."""
        problem = f"inspection_failed: {fault.kind}: {fault.message}"
        return Outcome((Draft(event=CallInspected(call=self._call, problem=problem), cause=self._id),))


async def inspected(world: World, call: ToolCall, *, cause: str) -> Draft:
    """The facts about `call`, as an event."""
    if int(call.id.rpartition("-")[2] or 0) >= MOST_CALLS:
        problem = f"too_many_calls: One reply may have {MOST_CALLS} calls. Make the rest in the next one."
        return Draft(event=CallInspected(call=call.id, problem=problem), cause=cause)
    inspect = partial(world.tools.inspect, call.name, call.args)
    code, message, args = await offloaded(inspect, len(call.args))
    if code:
        return Draft(event=CallInspected(call=call.id, problem=f"{code}: {message}"), cause=cause)
    return Draft(event=CallInspected(call=call.id, facts=await world.look(call.name, args)), cause=cause)
