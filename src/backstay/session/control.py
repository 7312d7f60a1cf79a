"""What can be changed about an open session besides talking to it: its name, model, mode, budget, and how long its conversation is."""

from typing import Literal

import anyio.to_thread
from msgspec.structs import replace

from backstay.checkpoints.points import Checkpoint, RestoreReport, checkpoints_of, point_of
from backstay.logic.budget import check_priced
from backstay.logic.context.tokens import estimate
from backstay.logic.decide.model_call import expected_cost
from backstay.logic.decide.policy import compaction_share
from backstay.logic.state.transcript import Transcript, transcript_of
from backstay.runtime.bus import Item, Subscription
from backstay.runtime.compact import what_to_shorten
from backstay.runtime.file_keeper import Files, Ready
from backstay.runtime.fire_hooks import fire, fire_and_wait
from backstay.runtime.follow import follow
from backstay.session.view import Reading
from backstay.vocab.deltas import Lagged
from backstay.vocab.errors import IllegalTransition, UserError
from backstay.vocab.event import Draft, OnExceed, Recorded
from backstay.vocab.events import (
    GrantsCleared,
    HistoryCleared,
    ModeChanged,
    ModelChanged,
    Renamed,
    Rewound,
    SlotWritten,
)
from backstay.vocab.events.files import CheckpointsPurged, RestoreFinished, RestoreStarted
from backstay.vocab.events.limits import BudgetSet, Compacted, CompactionFailed, CompactionStarted, CompactionUndone
from backstay.vocab.specs import MODES, Mode


class Changing(Reading):
    """The changes that leave an event and need nothing else."""

    async def rename(self, name: str) -> None:
        """Give the session a name."""
        await self._deliver(Draft(event=Renamed(name=name), by="user"), goes_on=False)

    async def set_permission_mode(self, mode: Mode) -> None:
        """Judge calls in another mode from now on, those that have not begun too."""
        if mode not in MODES:
            raise UserError(f"{mode!r} is not a permission mode. The modes are {', '.join(MODES)}.")
        if why := self._runner.policy.why_not(mode):
            raise UserError(f"The mode stays {self.permission_mode!r}: {why}.")
        await self._deliver(Draft(event=ModeChanged(mode=mode), by="user"), goes_on=False)

    async def set_model(self, model: str) -> None:
        """Let another model answer from now on."""
        found = await self._world.model(model)
        if self._world.state.progress.purse.limit is not None and not self._runner.policy.allow_unpriced:
            check_priced({model: found.facts})
        verdict = await fire_and_wait(self._world, "PreModelSwitch", model)
        if verdict is not None and verdict.blocked:
            raise UserError(f"A hook refused the model {model!r}: {verdict.reason or 'it gave no reason'}")
        self._runner.learn(model, found.facts)
        await self._deliver(Draft(event=ModelChanged(model=model), by="user"), goes_on=False)
        fire(self._world, "PostModelSwitch", model)

    async def set_budget(self, microcents: int | None, on_exceed: OnExceed | None = None) -> None:
        """Say what the session and its children may cost in all. A paused turn goes on when it is raised."""
        if microcents is not None and microcents < 0:
            raise UserError(f"A budget of {microcents} micro-cents cannot be kept. Give a number from 0 on, or None.")
        policy = self._runner.policy
        if microcents is not None and not policy.allow_unpriced:
            check_priced({name: policy.facts_of(name) for name in policy.chain(self.model)})
        event = BudgetSet(limit=microcents, on_exceed=on_exceed or self._world.state.progress.purse.on_exceed)
        limit = self._world.state.progress.purse.limit
        raised = microcents is None or (limit is not None and microcents > limit)
        await self._deliver(Draft(event=event, by="user"), goes_on=self.is_paused and raised)

    async def clear_approvals(self) -> None:
        """Ask again for what was allowed for the session."""
        await self._deliver(Draft(event=GrantsCleared(), by="user"), goes_on=False)

    async def write_slot(self, owner: str, version: str, content: str) -> None:
        """Put an extension's state away."""
        await self._deliver(Draft(event=SlotWritten(owner=owner, version=version, content=content)), goes_on=False)

    def hold(self) -> None:
        """Begin no turn any more: what is queued waits for the next opening."""
        self._runner.hold()

    async def compact(self, instructions: str = "", *, model: str = "") -> Compacted | None:
        """Make the conversation shorter now, by `model` or by the session's own. Return what came of it.

        None, and nothing is written, when there is nothing that could be shortened. Raise `UserError` when nothing was gained, or when
        there is no such model.
        """
        if model:
            await self._world.model(model)
        progress, policy = self._world.state.progress, self._runner.policy
        own = progress.trying.choose(policy.chain(self.model), progress.at)
        started = CompactionStarted(
            trigger="manual",
            model=model or own,
            used=progress.fill.used(policy.overhead),
            window=policy.facts_of(own).window,
            overhead=policy.overhead,
            reserved=expected_cost(progress, own, policy) if progress.purse.limit is not None else 0,
            instructions=instructions or policy.compact_instructions,
        )
        if not progress.busy and what_to_shorten(started, self._world.state) is None:
            return None
        subscription = self.subscribe()
        try:
            await self._deliver(Draft(event=started, by="user"))
            async for item in follow(subscription, self._world.store, self.id):
                match item:
                    case Recorded(event=Compacted() as done):
                        return done
                    case Recorded(event=CompactionFailed(message=why)):
                        raise UserError(f"The conversation stays as it is: {why}")
                    case Recorded(event=Rewound() | HistoryCleared() | CompactionUndone()):
                        raise UserError("The conversation became another one while it was being compacted.")
                    case _:
                        pass
        finally:
            subscription.close()
        raise self._runner.failure or UserError(f"Session {self.id!r} was closed.")

    def set_auto_compact(self, share: float | Literal[False] | None) -> None:
        """Make the conversation shorter at another share of the window from now on; False for never, None for the default."""
        self._runner.policy = replace(self._runner.policy, auto_compact=compaction_share(share))

    async def undo_compaction(self) -> None:
        """Bring back what the newest compaction took out of the conversation."""
        transcript = await self._whole_transcript()
        newest = transcript.newest_compaction()
        if not newest:
            raise UserError(f"The conversation of session {self.id!r} is not compacted.")
        there = transcript.without(newest).messages
        undone = CompactionUndone(compaction=newest, guess=sum(map(estimate, there)), messages=len(there))
        await self._deliver(Draft(event=undone, by="user"), goes_on=False)

    # --- files ---------------------------------------------------------------------------------------------------------------------

    @property
    def is_restoring(self) -> bool:
        """Whether files are being put back, or were when the process died: then that comes first when the session goes on."""
        return self._world.state.progress.restore is not None

    async def checkpoints(self) -> tuple[Checkpoint, ...]:
        """The turns of the session as points to which its files can be put back; none when nothing is kept of files."""
        kept = self._world.files is not None and self._world.files.roots
        return checkpoints_of(await self.events()) if kept else ()

    async def restore_files(
        self, *, to: str = "", before: str = "", undo: str = "", along: tuple[Draft, ...] = ()
    ) -> RestoreReport:
        """Put the files back as they were at the end of the turn `to`, at the start of the turn `before`, or before the restore `undo`.

        `undo` is the id of a restore, or `latest`. Nothing is lost: what the files hold now is kept first, whoever changed them, and the
        report says how to come back. `along` is written in the same commit: with a `Rewound` the conversation goes back too.
        Raise `IllegalTransition` while a turn is going on, and `UserError` when there is no such point.
        """
        keeping = self._world.files
        if keeping is None or not keeping.roots:
            raise UserError(f"Nothing is kept of the files of session {self.id!r}: open it with checkpoints.")
        if sum(map(bool, (to, before, undo))) != 1:
            raise UserError("Say one of `to=TURN` (its end), `before=TURN` (its start) or `undo='latest'`.")
        async with keeping.restoring:
            return await self._restore_to(keeping, along, to=to, before=before, undo=undo)

    async def finish_restore(self) -> None:
        """Finish putting files back where a process that died left off; nothing happens when none did."""
        subscription = self.subscribe()
        try:
            if self.is_restoring:
                await self._deliver()
            while self.is_restoring:
                await anext(subscription)
        except StopAsyncIteration:
            raise self._runner.failure or UserError(f"Session {self.id!r} was closed.") from None
        finally:
            subscription.close()

    async def purge_checkpoints(self) -> None:
        """Give up what was kept of files so far: they cannot be put back to any point before this."""
        await self._deliver(Draft(event=CheckpointsPurged(), by="user"), goes_on=False)
        if self._world.files is not None:
            self._world.files.forget()

    async def _restore_to(
        self, keeping: Files, along: tuple[Draft, ...], *, to: str, before: str, undo: str
    ) -> RestoreReport:
        if self._world.state.progress.turn is not None:
            raise IllegalTransition(
                f"A turn of session {self.id!r} is going on. Wait for it, abort it, or finish it first."
            )
        await self.finish_restore()
        begun = self._world.state.progress.begun
        records = await self.events()
        point = point_of(records, to=to, before=before, undo=undo)
        rewinds = any(isinstance(draft.event, Rewound) for draft in along)
        ready = await keeping.ready(records, point, with_conversation=rewinds)
        if self._world.state.progress.begun != begun:
            raise IllegalTransition(f"A turn of session {self.id!r} began while its files were looked at. Try again.")
        if not ready.drafts:
            await self._deliver(*along, goes_on=False)
            return ready.report
        report = await self._restore(ready, along)
        keeping.written(ready.blobs)
        return report

    async def _restore(self, ready: Ready, along: tuple[Draft, ...]) -> RestoreReport:
        subscription = self.subscribe()
        restore = ""
        try:
            await self._deliver(*ready.drafts, *along, blobs=dict(ready.blobs))
            async for item in follow(subscription, self._world.store, self.id):
                match item:
                    case Recorded(event=RestoreStarted()):
                        restore = item.id
                    case Recorded(event=RestoreFinished() as done, cause=cause) if cause == restore:
                        return replace(
                            ready.report,
                            restore=restore,
                            written=done.written,
                            removed=done.removed,
                            problems=done.problems,
                        )
                    case _:
                        pass
        finally:
            subscription.close()
        raise self._runner.failure or UserError(f"Session {self.id!r} was closed.")

    def subscribe(self, *, after: int | None = None, only: type[Item] | None = None) -> Subscription:
        """Listen to everything from now on, or to one kind of item: `Recorded`, a delta, `Notice`.

        A listener that is too slow gets a `Lagged` and reads `events` from there.
        """
        return self._runner.bus.subscribe(after=self.seq if after is None else after, only=only)

    async def events(self, after: int = 0) -> tuple[Recorded, ...]:
        """The log after seq `after`."""
        return (await self._world.store.read(self.id, after)).records

    # --- how -----------------------------------------------------------------------------------------------------------------------

    async def _deliver(self, *drafts: Draft, blobs: dict[str, bytes] | None = None, goes_on: bool = True) -> None:
        if self._closed:
            raise IllegalTransition(
                f"Session {self.id!r} is closed. Open it again with open_session(resume={self.id!r})."
            )
        await self._world.inbox.deliver(*drafts, blobs=blobs, goes_on=goes_on)

    async def _whole_transcript(self) -> Transcript:
        """The transcript with the paths that a snapshot left out. What is committed while the log is folded is not lost."""
        state = self._world.state
        while not state.transcript.complete:
            since, subscription = self.seq, self.subscribe()
            try:
                whole = await anyio.to_thread.run_sync(transcript_of, (await self.events())[:since])
                missed = list(iter(subscription.take, None))
            finally:
                subscription.close()
            if not any(isinstance(item, Lagged) for item in missed):
                for item in missed:
                    if isinstance(item, Recorded):
                        whole.apply(item)
                state.transcript = whole
        return state.transcript
