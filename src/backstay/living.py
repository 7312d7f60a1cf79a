"""What goes on beside the conversation of an open session: extensions that live with it, and instructions that are kept true."""

from collections.abc import Sequence
from contextlib import suppress

from msgspec.structs import replace

from backstay.extensions.lifecycle import ExtensionContext, Extensions, Started
from backstay.logic.report import ResumeReport
from backstay.opening import Prepared
from backstay.options import Options
from backstay.replay import Snapshots
from backstay.runtime.world import World
from backstay.session import Session
from backstay.vocab.errors import IllegalTransition, StoreFull, StoreUnavailable
from backstay.vocab.event import Draft, Recorded
from backstay.vocab.event_limits import Compacted
from backstay.vocab.events import TurnCompleted
from backstay.workspaces.project import data_dir


class Living:
    """The extensions of a session, from before it is open until it is closed."""

    def __init__(self) -> None:
        self._extensions = Extensions()
        self._started = Started()

    async def start(self, options: Options, prepared: Prepared) -> None:
        """Start what was given. Whatever is wrong with an extension, the session opens."""
        state = prepared.state
        slots = state.slots_for(options.on_crash)
        if not options.extensions and not slots:
            return
        context = ExtensionContext(
            session=prepared.session,
            cwd=prepared.state.meta.cwd,
            project=prepared.state.meta.project,
            resumed=prepared.report is not None,
            data=str(data_dir() / "extensions"),
        )
        self._started = await self._extensions.start(tuple(options.extensions), slots, context)

    async def stop(self) -> tuple[str, ...]:
        """Let go of them; say what went wrong. Once is enough."""
        return await self._extensions.stop()

    def belongs_to(self, world: World) -> None:
        """Put the state of extensions away in the commit that ends a turn, and let go of them when the last event is written."""
        if not self._extensions.active:
            return

        async def put_away() -> tuple[Draft, ...]:
            return await self._extensions.drafts(world.state.slots)

        async def let_go() -> None:
            for problem in await self.stop():
                world.tap("extension_failed", {"problem": problem})

        world.put_away, world.let_go = put_away, let_go

    def reported(self, report: ResumeReport | None) -> ResumeReport | None:
        """The report of a resume, with those that are missing or failed."""
        return None if report is None else replace(report, absent=(*report.absent, *self._started.absent))

    def warnings(self, *, resumed: bool) -> Sequence[str]:
        """What whoever opens a new session should know; a resume has it in its report."""
        return () if resumed else self._started.notes

    async def attend(self, session: Session, snapshots: Snapshots) -> None:
        """Put a snapshot away after each turn, and the instructions together again after each compaction."""
        await session.note(*(Draft(event=fault) for fault in self._started.faults))
        session.on_close(lambda: self._put_away(session))
        subscription = session.subscribe(only=Recorded)
        try:
            async for item in subscription:
                if isinstance(item, Recorded) and isinstance(item.event, TurnCompleted):
                    await snapshots.rest()
                elif isinstance(item, Recorded) and isinstance(item.event, Compacted) and session.kit is not None:
                    await session.kit.renew()
        except IllegalTransition:  # it was closed between two looks
            return
        finally:
            subscription.close()

    async def _put_away(self, session: Session) -> None:
        with suppress(StoreFull, StoreUnavailable):  # what is not in the log yet is put away after the next turn
            await session.note(*await self._extensions.drafts(session.slots))
