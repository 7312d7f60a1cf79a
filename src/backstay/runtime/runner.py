"""The loop: drain the inbox, settle, write, publish, perform.

One step is one commit. Nothing but deltas is visible before its commit, and no intent is performed before it. The loop lives as long as its
session is open; it sleeps while there is nothing to do.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from backstay.hooks.gates import SESSION
from backstay.logic.decide.policy import Policy
from backstay.logic.decide.step import Step, settle
from backstay.logic.state.lifecycle import Lifecycle, move
from backstay.logic.state.progress import Progress
from backstay.logic.state.resume import PendingOpen
from backstay.logic.state.session_state import State
from backstay.runtime.admit_items import admit_items, as_stored
from backstay.runtime.barrier import Fault, run_guarded
from backstay.runtime.bus import Item, Subscription
from backstay.runtime.inbox import InboxItem
from backstay.runtime.services import (
    Outcome,
    Perform,
    Performer,
    Services,
    fire_and_wait,
    run_offloaded,
    wait_for_running_hooks,
)
from backstay.vocab import events
from backstay.vocab.deltas import Notice, StoreWaiting
from backstay.vocab.errors import BackstayError, IllegalTransition, StoreFull, StoreUnavailable, UserError
from backstay.vocab.event import Draft, Event, Recorded
from backstay.vocab.specs import Lease, ModelFacts

STOP_DEADLINE_S: Final = 5.0
"""How long a performer that was told to stop may take to answer."""


class Runner:
    """Drives one session."""

    def __init__(
        self,
        services: Services,
        *,
        performers: Mapping[type[Event], Perform],
        lease: Lease,
        nonce: str,
        policy_blobs: Mapping[str, bytes],
        patience_s: float = 30.0,
    ) -> None:
        self.services = services
        self._performers = performers
        self.in_force = services.in_force
        self.policy_blobs = policy_blobs
        self.bus = services.deltas.bus
        self.failure: BackstayError | None = None
        """Why the loop ended before `end` was called."""
        self.wrote = False
        """Whether this opening has written anything."""
        self._piggybacked: tuple[Draft, ...] = ()
        self._lease = lease
        self.nonce = nonce
        self._patience_s = patience_s
        self._running: dict[str, tuple[Performer[Event], anyio.CancelScope]] = {}
        self._ending = False
        self._ended = anyio.Event()
        self.closed = False
        """Whether `close` is over: nothing is accepted any more."""
        self._end_hook_fired = False
        self._close_notices: tuple[Notice, ...] = ()
        """The notices to publish when the session has released everything."""
        self._step_items: list[InboxItem] = []
        """The items of the step under way."""

    async def drive(self) -> None:
        """Step until `end` is called or the session is lost."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.services.inbox.flush_notes, self.services.clock)
                while not self._ending:
                    await self._step(tasks)
                    if not self._ending:
                        await self.services.inbox.wait()
                tasks.cancel_scope.cancel()
        except* BackstayError as group:
            self.failure = _first(group)
        finally:
            error = self.failure or UserError(f"Session {self.services.session!r} is closed.")
            self.services.inbox.fail(self._step_items, error)
            self.services.inbox.close(error)
            self.bus.close()
            self._ended.set()

    @property
    def policy(self) -> Policy:
        """The policy that is in force."""
        return self.in_force.policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self.in_force.policy = policy

    @property
    def opening(self) -> PendingOpen:
        """The pending opening, written in front of the first step that goes on with the session."""
        return self.in_force.opening

    @property
    def starts_turns(self) -> bool:
        """Whether queued input will start a turn."""
        return self.policy.starts_turns and not self.opening

    def stop_starting_turns(self) -> None:
        """Start no turn any more; queued input waits for the next opening."""
        self.policy = replace(self.policy, starts_turns=False)

    def add_model_facts(self, model: str, facts: ModelFacts) -> None:
        """Add the facts about a model to the policy."""
        self.policy = replace(self.policy, facts={**self.policy.facts, model: facts})

    def set_instructions(self, text: str, sha256: str, overhead: int) -> None:
        """Set the system prompt from the next request on."""
        self.in_force.instructions = text = self.services.mask.mask_instructions(text)
        sha256 = self.services.mask.name_of(sha256)
        self.policy = replace(self.policy, instructions=sha256, overhead=overhead)
        self.policy_blobs = {**self.policy_blobs, sha256: text.encode()}

    @property
    def piggybacked(self) -> tuple[Draft, ...]:
        """Drafts written with the next step that writes anything."""
        return self._piggybacked

    @piggybacked.setter
    def piggybacked(self, drafts: Sequence[Draft]) -> None:
        self._piggybacked = self.services.mask.mask_drafts(drafts)

    async def deliver(self, *drafts: Draft, blobs: Mapping[str, bytes] | None = None, wakes: bool = True) -> None:
        """Leave events for the next step and return when they are durable. Refuse them once the session is closed.

        With `wakes` the opening is written too, and what is due after it begins.
        """
        if self.closed:
            session = self.services.session
            raise IllegalTransition(
                f"Session {session!r} is closed. Open it again with open_session(resume={session!r})."
            )
        await self.services.inbox.deliver(*drafts, blobs=blobs, wakes=wakes)

    def subscribe(self, *, after: int | None = None, only: type[Item] | None = None) -> Subscription:
        """Listen to everything from now on, or to what comes after seq `after`, or to one kind of item."""
        return self.bus.subscribe(after=self.services.state.progress.seq if after is None else after, only=only)

    async def finish(self, is_open: Callable[[State], object]) -> None:
        """Perform to its end what a dead process left open; nothing happens when `is_open` finds nothing."""
        state, subscription = self.services.state, self.subscribe()
        try:
            if is_open(state):
                await self.deliver()
            while is_open(state):
                await anext(subscription)
        except StopAsyncIteration:
            raise self.ended_with from None
        finally:
            subscription.close()

    async def read_events(self, after: int = 0) -> tuple[Recorded, ...]:
        """Read the log after seq `after`."""
        return (await self.services.store.read(self.services.session, after)).records

    @property
    def ended_with(self) -> BackstayError:
        """The error for callers that wait for an event that will not come."""
        return self.failure or UserError(f"Session {self.services.session!r} was closed.")

    def end(self) -> None:
        """Stop the loop after the step that is under way; what is being performed is cut off."""
        self._ending = True
        self.services.inbox.wake()

    @property
    def life(self) -> Lifecycle:
        """The lifecycle, the opening included that is only written with the first step."""
        return self.opening.life_with(self.services.state.life)

    @property
    def alive(self) -> bool:
        """Whether the loop still runs."""
        return not self._ended.is_set()

    @property
    def streamed(self) -> str:
        """The text of the model in the call that is running."""
        return self.services.deltas.text

    async def _end_hooks(self) -> None:
        """Wait for hooks that still run, and run those of the end, once."""
        await wait_for_running_hooks(self.services)
        if not self._end_hook_fired:
            self._end_hook_fired = True
            await fire_and_wait(self.services, "SessionEnd", SESSION, matcher_value=self.in_force.end_reason)

    async def close(self, reason: str) -> None:
        """Write that the session is closed, when anything was written at all; stop extensions, publish the end, and end the loop."""
        if self.alive and self.wrote:
            if self.policy.hooks or self.services.state.progress.hooks.open:
                await self._end_hooks()
            with anyio.move_on_after(STOP_DEADLINE_S):  # the loop may be waiting for space
                await self.services.inbox.deliver(Draft(event=events.Closed(reason=reason)))
        elif self.alive:
            self._close_notices = move(self.life, "close", after=self.services.state.progress.seq)[1]
        with anyio.CancelScope(shield=True):  # what is begun here has its own limits, and is not begun twice
            if self.services.stop_extensions is not None:
                await self.services.stop_extensions()
            self.bus.publish(self._close_notices)
            self.end()
            await self._ended.wait()
        self.closed = True

    # --- one step ----------------------------------------------------------------------------------------------------------------

    async def _step(self, tasks: TaskGroup) -> None:
        state, mask = self.services.state, self.services.mask
        items = self._step_items = admit_items(self.services.inbox.drain(), state, mask, opening=bool(self.opening))
        step = await self._with_extension_state(items, await self._settle(items))
        if step.records:
            try:
                await self._write(step, self._blobs(items, step), patience_s=self._patience(items))
            except (StoreFull, StoreUnavailable) as exc:
                if _unrepeatable(items):
                    raise
                self.services.inbox.fail(items, exc)
                self._step_items = []
                return
            self._publish(step)
            self._drop_committed(step)
        for item in items:
            item.answer()
        self._step_items = []
        self._perform_intents(step, tasks)

    async def _with_extension_state(self, items: list[InboxItem], step: Step) -> Step:
        """Settle a step that ends a turn once more, with the state of extensions in it."""
        save_state = self.services.save_extension_state
        if save_state is None or not any(isinstance(record.event, events.TurnCompleted) for record in step.records):
            return step
        return await self._settle(items, tuple(map(as_stored, await save_state())))

    async def _settle(self, items: list[InboxItem], more: Sequence[Draft] = ()) -> Step:
        drafts = [*(draft for item in items for draft in item.drafts), *more]
        wakes = not self.opening or any(item.wakes for item in items)
        if wakes and (drafts or self.opening):
            drafts = [*self.opening.drafts, *self.piggybacked, *drafts]
        policy = self.policy if wakes else None
        progress, now = self.services.state.progress, self.services.clock.now()
        work = partial(settle, progress, drafts, policy, nonce=self.nonce, now=now)
        return await run_offloaded(work, _arguments(progress, drafts))

    async def _write(self, step: Step, blobs: Mapping[str, bytes], *, patience_s: float) -> None:
        """Make a step durable. Only the store can say that it is: what can be read back may still be lost with the power."""
        waited, pause = 0.0, 0.05
        while True:
            try:
                with anyio.CancelScope(shield=True):
                    await self.services.store.append(self._lease, self.services.state.progress.seq, step.records, blobs)
                return
            except (StoreFull, StoreUnavailable) as exc:
                # space returns; a store that fails otherwise may have to be opened again, which does not happen while we wait
                limit = patience_s if isinstance(exc, StoreFull) else min(patience_s, self._patience_s)
                if waited >= limit or self._ending:
                    raise
                self.services.stream(StoreWaiting(problem=str(exc)))
            await self.services.clock.sleep(pause)
            waited, pause = waited + pause, min(pause * 2, 2.0)

    def _patience(self, items: list[InboxItem]) -> float:
        """Return how long to wait for space: for ever with the result of a tool, not at all for what its sender can send again."""
        drafts = _unrepeatable(items)
        if any(isinstance(draft.event, events.ToolFinished | events.ChildFinished) for draft in drafts):
            return math.inf
        return self._patience_s if drafts else 0.0

    def _blobs(self, items: list[InboxItem], step: Step) -> Mapping[str, bytes]:
        blobs = {sha: content for item in items for sha, content in item.blobs.items()}
        if self.policy_blobs and any(
            isinstance(record.event, events.ModelAsked | events.InstructionsRead) for record in step.records
        ):
            blobs |= self.policy_blobs
        return blobs

    def _drop_committed(self, step: Step) -> None:
        """Drop drafts and blobs that this step has committed."""
        committed = [record.event for record in step.records]
        if any(isinstance(event, events.ModelAsked) for event in committed):
            self.policy_blobs = {}
        self.piggybacked = tuple(draft for draft in self.piggybacked if draft.event not in committed)

    def _publish(self, step: Step) -> None:
        state = self.services.state
        hooks_before = state.progress.hooks.open
        state.progress = step.progress
        state.outline(step.records)
        items: list[Item] = []
        for record in step.records:
            items.append(record)
            items.extend(self._filter_notices(record, state.follow(record)))
            if isinstance(record.event, events.ModeChanged):
                self.policy = replace(self.policy, mode_after_turn=None)
            self.in_force.opening = self.opening.after(record.event)
            if isinstance(record.event, events.HookFinished):
                self._settle_hook(record.event.event, record.event.subject, record.event)
            elif isinstance(record.event, events.ResultIgnored):
                for hook in [each for each in hooks_before if each.intent == record.cause]:
                    self._settle_hook(hook.event, hook.subject, None)
        self.wrote = True
        ends_reply = events.ModelAsked | events.ModelReplied | events.ModelFailed | events.TurnCompleted
        self.services.deltas.note_commit(text=any(isinstance(record.event, ends_reply) for record in step.records))
        self.services.deltas.trace.position(self.services.session, step.progress.seq, self._lease.token)
        self.bus.publish(items)

    def _settle_hook(self, event: str, subject: str, verdict: events.HookFinished | None) -> None:
        waiting = self.services.hook_waiters.get((event, subject))
        if waiting is not None:
            waiting.verdict = verdict
            waiting.done.set()

    def _filter_notices(self, record: Recorded, notices: tuple[Notice, ...]) -> tuple[Notice, ...]:
        """Leave out `SessionResumeStarted`, which went out when the session was opened, and keep the notices of the end for the end."""
        if isinstance(record.event, events.Closed):
            self._close_notices = notices
            return ()
        if isinstance(record.event, events.Opened):
            return tuple(notice for notice in notices if notice.notice != "SessionResumeStarted")
        return notices

    # --- performing --------------------------------------------------------------------------------------------------------------

    def _perform_intents(self, step: Step, tasks: TaskGroup) -> None:
        for record in step.records:
            if isinstance(record.event, events.Interrupted):
                for _, scope in self._running.values():
                    scope.cancel()
                tasks.start_soon(self._declare_stopped, record.id)
        for record in step.intents:  # after the interrupt: one step may end a turn and begin the next
            performer = self._performers[type(record.event)](record, self.services)  # it sees what was decided on
            scope = anyio.CancelScope()
            self._running[record.id] = performer, scope
            where = f"{type(record.event).__name__} {record.id}"
            tasks.start_soon(self._perform, where, performer, record, scope, name=where)

    async def _perform(
        self, where: str, performer: Performer[Event], record: Recorded, scope: anyio.CancelScope
    ) -> None:
        outcome = None
        with scope:
            outcome = await run_guarded(where, lambda: _run_checked(performer))
        del self._running[record.id]
        if outcome is None:
            outcome = performer.report_stop()
        elif isinstance(outcome, Fault):
            self.services.inbox.post(
                Draft(event=events.FaultCaught(where=where, kind=outcome.kind, message=outcome.trace[-2000:]))
            )
            outcome = performer.report_fault(outcome)
        self.services.inbox.post(*outcome.drafts, blobs=outcome.blobs)

    async def _declare_stopped(self, interrupt: str) -> None:
        """Wait no longer for what does not stop: what it has shown until now is all that is known of it."""
        await self.services.clock.sleep(STOP_DEADLINE_S)
        progress = self.services.state.progress
        if progress.stopping == interrupt:
            for intent in (progress.asking, *(call.intent for call in progress.calls if call.phase == "running")):
                if intent in self._running:
                    known = self._running[intent][0].report_stop()
                    self.services.inbox.post(*known.drafts, blobs=known.blobs)
        self.services.inbox.post(Draft(event=events.StopDeadlinePassed(), cause=interrupt))


async def _run_checked(performer: Performer[Event]) -> Outcome:
    """Run a performer, and check that its result can be stored: else that is its fault."""
    outcome = await performer.run()
    return replace(outcome, drafts=tuple(map(as_stored, outcome.drafts)))


def _arguments(progress: Progress, drafts: Sequence[Draft]) -> int:
    """Count the characters of the arguments of the calls that a step may judge."""
    proposed = (
        call.args
        for draft in drafts
        if isinstance(draft.event, events.ModelReplied)
        for call in events.calls_of(draft.event)
    )
    return sum(map(len, (*proposed, *(call.args for call in progress.calls))))


def _unrepeatable(items: list[InboxItem]) -> list[Draft]:
    """Return the drafts that cannot be sent again: results of performers, for which no caller waits."""
    return [draft for item in items if item.committed is None for draft in item.drafts]


def _first(group: BaseExceptionGroup[BackstayError]) -> BackstayError:
    leaf: BaseException = group
    while isinstance(leaf, BaseExceptionGroup):
        leaf = leaf.exceptions[0]
    assert isinstance(leaf, BackstayError)
    return leaf
