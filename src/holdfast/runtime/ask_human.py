"""Performs `PermissionAsked`: asks whoever can be asked."""

import msgspec

from holdfast.ports import Question
from holdfast.runtime.barrier import Fault
from holdfast.runtime.world import Outcome, World
from holdfast.vocab.event import Draft, Recorded
from holdfast.vocab.events import PermissionAnswered, PermissionAsked


class AskHuman:
    """One question to a person."""

    def __init__(self, record: Recorded, world: World) -> None:
        assert isinstance(record.event, PermissionAsked)
        self._asked = record.event
        self._id = record.id
        self._world = world

    async def run(self) -> Outcome:
        """Ask; without anybody to ask, the answer is no."""
        asker = self._world.asker
        if asker is None:
            return self._answer(PermissionAnswered(call=self._asked.call, allowed=False, nobody=True))
        call = next(call for call in self._world.state.progress.calls if call.id == self._asked.call)
        args = msgspec.json.decode(call.args, type=dict[str, object])
        answer = await asker(
            Question(session=self._world.session, call=call.id, tool=call.name, args=args, reason=self._asked.detail)
        )
        event = PermissionAnswered(
            call=call.id,
            allowed=answer.allowed and not answer.nobody,
            grant=answer.grant,
            nobody=answer.nobody,
            message=answer.message,
        )
        return self._answer(event, by_person=not answer.nobody)

    def stopped(self) -> Outcome:
        """The question is withdrawn."""
        return Outcome()

    def failed(self, fault: Fault) -> Outcome:
        """Whoever was to be asked broke: what cannot be decided is refused."""
        message = f"asking failed: {fault.kind}: {fault.message}"
        return self._answer(PermissionAnswered(call=self._asked.call, allowed=False, nobody=True, message=message))

    def _answer(self, event: PermissionAnswered, *, by_person: bool = False) -> Outcome:
        return Outcome((Draft(event=event, by="user" if by_person else "system", cause=self._id),))
