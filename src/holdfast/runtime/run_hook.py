"""Performs `HookStarted`: hears the handlers of a hook event, and lets other performers wait for them."""

from msgspec.structs import replace

from holdfast.logic.hooks.events import EVENTS
from holdfast.runtime.barrier import Fault
from holdfast.runtime.world import Outcome, World
from holdfast.vocab.event import Draft, Recorded
from holdfast.vocab.event_tools import HookFinished, HookStarted


class RunHook:
    """One round of handlers."""

    def __init__(self, record: Recorded, world: World) -> None:
        assert isinstance(record.event, HookStarted)
        self._started = record.event
        self._id = record.id
        self._world = world

    async def run(self) -> Outcome:
        """Hear them."""
        if self._world.hear_hooks is None:
            return self._finish(HookFinished(event=self._started.event, subject=self._started.subject))
        return self._finish(await self._world.hear_hooks(self._started, self._world))

    def stopped(self) -> Outcome:
        """They did not answer: where a step may not go on without their word, it is refused."""
        nothing = self._nothing("stopped before they had answered")
        guards = EVENTS[self._started.event].on_failure == "block" if self._started.event in EVENTS else False
        denies = guards and EVENTS[self._started.event].decides == "call"
        return self._finish(
            replace(
                nothing, decision="deny" if denies else None, blocked=guards, reason=nothing.notes[0] if guards else ""
            )
        )

    def failed(self, fault: Fault) -> Outcome:
        """What was to hear them broke: what decides is refused, as if a handler had said so."""
        words = f"hooks could not be run: {fault.kind}: {fault.message}"
        event = self._nothing(words)
        return self._finish(
            HookFinished(
                event=event.event,
                subject=event.subject,
                decision="deny" if event.event in ("PreToolUse", "PermissionRequest") else None,
                blocked=event.event in ("UserPromptSubmit", "PreCompact"),
                reason=words,
                notes=event.notes,
                agent=event.agent,
            )
        )

    def _nothing(self, note: str) -> HookFinished:
        started = self._started
        return HookFinished(event=started.event, subject=started.subject, notes=(note,), agent=started.agent)

    def _finish(self, event: HookFinished) -> Outcome:
        return Outcome((Draft(event=event, by="hook", cause=self._id),))
