"""Performs `ChildStarted`: a child session with a log of its own answers a call of the model, or runs a skill of a person."""

from typing import Final

from backstay.runtime.barrier import Fault
from backstay.runtime.fire_hooks import fire_and_wait
from backstay.runtime.services import Outcome, Performer, Services
from backstay.vocab.errors import NoSession
from backstay.vocab.event import Recorded, TurnOutcome
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


class RunChild(Performer[ChildStarted]):
    """One child session. Its id is derived from the call, so that a resume finds its log."""

    by = "child"

    def __init__(self, record: Recorded, services: Services) -> None:
        super().__init__(record, services)
        self._spent: Usage | None = None
        self._cost: int | None = None
        self._taint: tuple[Taint, ...] = ()

    async def run(self) -> Outcome:
        """Run the child to its end. In a turn, it may change any file, so the folders are kept before it begins."""
        if self._services.files is not None and self._services.state.progress.turn is not None:
            await self._services.files.keep_trees(self._intent.call, self._id)
        if await self._is_lost():
            return self._close(self._unknown_outcome())
        await fire_and_wait(self._services, "SubagentStart", self._intent.child, matcher_value=AGENT)
        finished = await self._services.open_child(self._intent, self._note_spending, self._services)
        await fire_and_wait(self._services, "SubagentStop", self._intent.child, matcher_value=AGENT)
        return self._close(finished)

    def report_stop(self) -> Outcome:
        """Return what the child had spent: it was stopped with its parent."""
        return self._close(self._end("interrupted", "The child session was stopped with its parent."))

    def report_fault(self, fault: Fault) -> Outcome:
        """Return the failure of a child that could not be run."""
        return self._close(self._end("failed", f"{fault.kind}: {fault.message}"))

    def _note_spending(self, spent: Usage, cost: int, taint: tuple[Taint, ...]) -> None:
        self._spent, self._cost, self._taint = spent, cost, taint

    def _end(self, outcome: TurnOutcome, text: str) -> ChildFinished:
        call, child = self._intent.call, self._intent.child
        skill = self._intent.skill.name if self._intent.skill is not None else ""
        spent, cost, taint = self._spent, self._cost, self._taint
        return ChildFinished(
            call=call, child=child, outcome=outcome, text=text, spent=spent, cost=cost, taint=taint, skill=skill
        )

    async def _is_lost(self) -> bool:
        """Whether the child may have run before and its log is not there: begun anew, it could do everything a second time."""
        progress = self._services.state.progress
        begun = any(call.id == self._intent.call and (call.lost or call.share) for call in progress.calls)
        if not begun and (progress.skill is None or not progress.skill.lost):
            return False
        try:
            return (await self._services.store.meta(self._intent.child)).seq == 0
        except NoSession:
            return True

    def _close(self, event: ChildFinished | ChildPaused | ToolFinished) -> Outcome:
        if isinstance(event, ChildPaused) and self._intent.skill is not None:
            self._note_spending(event.spent or Usage(), event.cost or 0, self._taint)
            event = self._end("failed", f"It has spent its share; session {event.child} waits.")
        return self._finish(event)

    def _unknown_outcome(self) -> ChildFinished | ToolFinished:
        """Say that nobody can know what a child did whose log is gone."""
        text = f"Outcome unknown: the child session {self._intent.child} {_LOST}"
        if self._intent.skill is not None:
            return self._end("failed", text)
        return ToolFinished(call=self._intent.call, outcome="unknown", code="restart", content=(Text(text=text),))
