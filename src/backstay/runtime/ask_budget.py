"""Performs `BudgetAsked`: asks whether more may be spent."""

from typing import Final

from backstay.logic.pricing import dollars
from backstay.ports import Question
from backstay.runtime.barrier import Fault
from backstay.runtime.world import Outcome, World
from backstay.vocab.event import Draft, Recorded
from backstay.vocab.event_limits import BudgetAnswered, BudgetAsked

BUDGET = "Budget"
"""What stands in a question where else the name of a tool stands."""


ONE_DOLLAR: Final = 100_000_000


class AskBudget:
    """One question about money. Who agrees allows as much again as was allowed first."""

    def __init__(self, record: Recorded, world: World) -> None:
        assert isinstance(record.event, BudgetAsked)
        self._asked = record.event
        self._id = record.id
        self._world = world

    async def run(self) -> Outcome:
        """Ask; when there is nobody, the session stays paused."""
        asker = self._world.asker
        if asker is None:
            return self._answer(BudgetAnswered(allowed=False, nobody=True))
        spent, limit = self._asked.spent, self._asked.limit
        more = limit or ONE_DOLLAR
        reason = f"{dollars(spent)} of {dollars(limit)} are spent. Allow {dollars(more)} more?"
        answer = await asker(
            Question(
                session=self._world.session,
                call=self._id,
                tool=BUDGET,
                args={"spent_usd": spent / 1e8, "limit_usd": limit / 1e8},
                reason=reason,
            )
        )
        if answer.nobody:
            return self._answer(BudgetAnswered(allowed=False, nobody=True, message=answer.message))
        raised = max(spent, limit) + more if answer.allowed else None
        event = BudgetAnswered(allowed=answer.allowed, limit=raised, message=answer.message)
        return self._answer(event, by_person=True)

    def stopped(self) -> Outcome:
        """The question is withdrawn."""
        return Outcome()

    def failed(self, fault: Fault) -> Outcome:
        """Whoever was to be asked broke: the session stays paused."""
        message = f"asking failed: {fault.kind}: {fault.message}"
        return self._answer(BudgetAnswered(allowed=False, nobody=True, message=message))

    def _answer(self, event: BudgetAnswered, *, by_person: bool = False) -> Outcome:
        return Outcome((Draft(event=event, by="user" if by_person else "system", cause=self._id),))
