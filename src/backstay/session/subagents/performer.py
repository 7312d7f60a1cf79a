"""Performs `ChildStarted`: a child session with a log of its own answers a call of the model, or runs a skill of a person."""

from typing import Final

from backstay.runtime.barrier import Fault
from backstay.runtime.fire_hooks import fire_and_wait
from backstay.runtime.services import Outcome, Services
from backstay.vocab.errors import NoSession
from backstay.vocab.event import Draft, Recorded, TurnOutcome
from backstay.vocab.events import ChildFinished, ChildStarted, ToolFinished
from backstay.vocab.events.limits import ChildPaused
from backstay.vocab.messages import Text
from backstay.vocab.specs import Taint, Usage

AGENT: Final = "general-purpose"
"""What hooks know a child by that has no agent's name."""
_LOST: Final = (
    "was started, then the process died before it reported back, and its log is not in this store. What it was told to do may have "
    "happened wholly, partly or not at all, and it was not run again. Find out before relying on either."
)


class RunChild:
    """One child session. Its id is derived from the call, so that a resume finds its log."""

    def __init__(self, record: Recorded, services: Services) -> None:
        assert isinstance(record.event, ChildStarted)
        self._started = record.event
        self._id = record.id
        self._services = services
        self._spent: Usage | None = None
        self._cost: int | None = None
        self._taint: tuple[Taint, ...] = ()

    async def run(self) -> Outcome:
        """Run the child to its end."""
        if self._services.open_child is None:
            return self._finish(self._ended("failed", "This session cannot open child sessions."))
        if await self._is_lost():
            return self._finish(self._unknown_outcome())
        await fire_and_wait(self._services, "SubagentStart", self._started.child, matcher_value=AGENT)
        finished = await self._services.open_child(self._started, self._tell)
        await fire_and_wait(self._services, "SubagentStop", self._started.child, matcher_value=AGENT)
        return self._finish(finished)

    def stopped(self) -> Outcome:
        """The child was stopped with its parent."""
        return self._finish(self._ended("interrupted", "The child session was stopped with its parent."))

    def failed(self, fault: Fault) -> Outcome:
        """The child could not be run."""
        return self._finish(self._ended("failed", f"{fault.kind}: {fault.message}"))

    def _tell(self, spent: Usage, cost: int, taint: tuple[Taint, ...]) -> None:
        self._spent, self._cost, self._taint = spent, cost, taint

    def _ended(self, outcome: TurnOutcome, text: str) -> ChildFinished:
        call, child = self._started.call, self._started.child
        skill = self._started.skill.name if self._started.skill is not None else ""
        spent, cost, taint = self._spent, self._cost, self._taint
        return ChildFinished(
            call=call, child=child, outcome=outcome, text=text, spent=spent, cost=cost, taint=taint, skill=skill
        )

    async def _is_lost(self) -> bool:
        """Whether the child may have run before and its log is not there: begun anew, it could do everything a second time."""
        progress = self._services.state.progress
        begun = any(call.id == self._started.call and (call.lost or call.share) for call in progress.calls)
        if not begun and (progress.skill is None or not progress.skill.lost):
            return False
        try:
            return (await self._services.store.meta(self._started.child)).seq == 0
        except NoSession:
            return True

    def _finish(self, event: ChildFinished | ChildPaused | ToolFinished) -> Outcome:
        if isinstance(event, ChildPaused) and self._started.skill is not None:
            self._tell(event.spent or Usage(), event.cost or 0, self._taint)
            event = self._ended("failed", f"It has spent its share; session {event.child} waits.")
        return Outcome((Draft(event=event, by="child", cause=self._id),))

    def _unknown_outcome(self) -> ChildFinished | ToolFinished:
        """Say that nobody can know what a child did whose log is gone."""
        text = f"Outcome unknown: the child session {self._started.child} {_LOST}"
        if self._started.skill is not None:
            return self._ended("failed", text)
        return ToolFinished(call=self._started.call, outcome="unknown", code="restart", content=(Text(text=text),))
