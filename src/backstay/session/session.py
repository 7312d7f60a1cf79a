"""An open session: send prompts, run commands, change settings, rewind, fork, restore files, and close it.

Every method posts an event to the inbox or reads a fold of the log; a feature that seems to need a branch here
needs an event instead. `SessionView` has what is read; what a feature does in several steps is a function of the feature.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal, Protocol, get_args

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from backstay.checkpoints import restore
from backstay.checkpoints.points import RestoreReport
from backstay.commands.registry import CommandCall, CommandResult, Submission
from backstay.logic.budget import check_priced, dollars
from backstay.logic.context_usage import estimate
from backstay.logic.decide.policy import compaction_share
from backstay.logic.state.entries import InvokedBy, SkillMode, SkillStatus, entry_added, skill_entry
from backstay.logic.state.prompt_variables import fill_variables
from backstay.logic.state.results import ExecutionResult, TurnResult, usage_snapshot
from backstay.logic.state.resume import ResumeReport
from backstay.logic.stored_content import LONG, make_durable, replace_surrogates, to_stored_text
from backstay.runtime.barrier import Fault, run_guarded
from backstay.runtime.bus import Item, follow_input
from backstay.runtime.callbacks import Callback, Callbacks
from backstay.runtime.compact import request_compaction
from backstay.runtime.runner import STOP_DEADLINE_S, Runner
from backstay.runtime.services import fetch_text, fire, fire_and_wait
from backstay.session.project.project_context import ProjectContext
from backstay.session.view import SessionView
from backstay.vocab import events
from backstay.vocab.errors import (
    IllegalTransition,
    InputConflict,
    StoreFull,
    StoreUnavailable,
    TurnFailed,
    TurnInterrupted,
    TurnPaused,
    UserError,
)
from backstay.vocab.event import By, Delivery, Draft, OnExceed
from backstay.vocab.messages import InFlightPart, InputPart, MediaLink, MediaRef, Text, TextRef
from backstay.vocab.specs import MODES, Mode

if TYPE_CHECKING:
    from backstay.skills.skill import Skill

Prompt = str | tuple[InFlightPart, ...]
Fork = Callable[[str], Awaitable[str]]
RunSkill = Callable[["Skill", str, str], Awaitable[str]]
"""Runs a skill with a text, in a child session, and returns its report. The last argument is shown for it."""
EndReason = Literal["clear", "resume", "logout", "prompt_input_exit", "bypass_permissions_disabled", "other"]
"""Why a session ends, in the words that `SessionEnd` hooks know."""

EVERYTHING: Final = "*"
"""Instead of the ids of inputs: all that wait."""
QUEUE_LIMIT: Final = 32
"""Inputs that may wait for their turn."""
SHOWN: Final = 2_000
"""Characters of a display text that are kept."""


class Attachable(Protocol):
    """A transport, which is given the session."""

    def attach(self, session: "Session") -> None:
        """Take the session."""


class Session(SessionView):
    """An open session. Made by `open_session`."""

    def __init__(
        self,
        runner: Runner,
        tasks: TaskGroup,
        *,
        report: ResumeReport | None,
        fork: Fork,
        opened: tuple[Item, ...],
        variables: Mapping[str, str],
        run_skill: RunSkill,
        warnings: tuple[str, ...] = (),
        project: ProjectContext | None = None,
    ) -> None:
        super().__init__(runner, report=report, opened=opened, warnings=warnings, project=project)
        self._tasks = tasks
        self._fork = fork
        self._run_skill = run_skill
        self._variables = variables
        self._inputs = 0
        self._arriving = 0
        """Inputs that are on their way into the queue."""
        self._newest = ""
        """The input that was sent last, if it waits for a turn of its own."""
        self.queue_limit = QUEUE_LIMIT
        """Inputs that may wait for their turn; one more is refused."""
        self._ending = False
        self._closers: list[Callable[[], Awaitable[None]]] = []
        self._closing = anyio.Lock()
        self._callbacks: Callbacks | None = None

    # --- talking ------------------------------------------------------------------------------------------------------------------------

    async def run(self, prompt: Prompt, *, input_id: str | None = None, display: str = "", raw: str = "") -> str:
        """Send a prompt, wait for its turn to end, and return the final text.

        Raise `TurnFailed` or `TurnInterrupted` after the event that says so is durable; the session stays usable.
        """
        return (await self.result(prompt, input_id=input_id, display=display, raw=raw)).text

    async def execute(
        self, prompt: Prompt, *, input_id: str | None = None, display: str = "", raw: str = ""
    ) -> ExecutionResult:
        """Run a prompt as `run` does, and return the answer with the history, the tools, the context and the usage."""
        turn = await self.result(prompt, input_id=input_id, display=display, raw=raw)
        return ExecutionResult(
            response=turn.text,
            history=await self.full_history(),
            tool_summaries=turn.tools,
            context_state=self.context_state,
            usage=usage_snapshot(turn, self.context_state) if turn.priced + turn.unpriced else None,
        )

    async def result(
        self, prompt: Prompt, *, input_id: str | None = None, display: str = "", raw: str = ""
    ) -> TurnResult:
        """Run a prompt as `run` does, and return everything about the turn."""
        name = replace_surrogates(input_id or self._next_input())
        async for _ in self.send(prompt, input_id=name, display=display, raw=raw):
            pass
        if self._callbacks is not None:
            await self._callbacks.wait_until(self.seq)
        if self._runner.failure is not None:
            raise self._runner.failure
        result = self.input_result(name)
        if result is None and self.is_paused:
            raise self._pause_error()
        if result is None:
            raise self._no_turn_error(name)
        if result.outcome == "abandoned":
            why = "Its turn was given up after a crash, so there is no answer. Send it again under another input id."
            raise TurnInterrupted(why, turn=result.turn, text=result.text)
        return self._raise_if_unfinished(await self._with_text(result))

    async def send(
        self,
        prompt: Prompt,
        *,
        delivery: Delivery = "queue",
        input_id: str | None = None,
        display: str = "",
        raw: str = "",
        replaces: bool = False,
    ) -> AsyncIterator[Item]:
        """Send a prompt and yield what happens: events, deltas and notices, until the turn that answers is over.

        The model gets `prompt`; people are shown `display` and `UserPromptSubmit` hooks `raw`, where they are given. While a turn runs,
        inputs wait in the order in which they came, at most `queue_limit` of them; with `replaces`, this one takes the place of the
        one that waits last. What a model or a tool says meanwhile, in the turn before, is left out; its events are not.
        """
        if self.project is not None and not self.is_running:
            await self.project.refresh_if_stale()
        event, blobs = self._make_input(prompt, delivery, input_id, display, raw)
        name = event.input
        known = self._services.state.results.inputs
        subscription = self._runner.bus.subscribe(after=self.seq)
        waits = self.is_running and self.is_paused
        behind = self.is_running and event.delivery == "queue"
        try:
            if name not in known.parts:
                await self._queue_input(event, blobs, replaces=replaces)
            elif name in known.dropped or (
                (result := self.input_result(name)) is not None and result.outcome is not None
            ):
                return
            else:
                await self._deliver()
            if waits and self.is_paused:  # it is queued behind a turn that nothing happens in
                return
            turn = known.turn_of.get(name, "")
            async for item in follow_input(subscription, self._services.store, self.id, name, turn, behind=behind):
                yield item
        finally:
            subscription.close()

    async def submit(
        self,
        prompt: Prompt,
        *,
        delivery: Delivery = "queue",
        input_id: str | None = None,
        display: str = "",
        raw: str = "",
        replaces: bool = False,
    ) -> str:
        """Send a prompt and return its input id once it is durable; `input_result` has its result later. See `send`."""
        event, blobs = self._make_input(prompt, delivery, input_id, display, raw)
        if event.input in self._services.state.results.inputs.parts:
            await self._deliver()
        else:
            await self._queue_input(event, blobs, replaces=replaces)
        return event.input

    async def steer(self, prompt: Prompt) -> None:
        """Add a prompt to the running turn: it is taken at the next point where no call is open."""
        await self.submit(prompt, delivery="steer")

    async def abort(self, reason: str = "", *, by: By = "user") -> None:
        """Stop the running turn and drop what is queued; nothing happens when the session is idle. `by` names who asked for it."""
        stopped = Draft(event=events.Interrupted(reason=reason), by=by)
        dropped = Draft(event=events.InputDropped(inputs=(EVERYTHING,)), by=by)
        await self._deliver(stopped, dropped, wakes=self._services.state.progress.busy)

    async def drop_queued(self) -> None:
        """Drop the queued prompts; the running turn goes on."""
        await self._deliver(Draft(event=events.InputDropped(inputs=(EVERYTHING,)), by="user"), wakes=False)

    async def finish(self) -> TurnResult | None:
        """Finish what was open when the session was opened, a turn or a skill, and what was queued. Return the last turn, if any."""
        state = self._services.state
        turn = state.progress.turn
        waiting = state.progress.queue
        if self.is_restoring:
            await self.finish_restore()
        if turn is None and not waiting and not self.open_skill:
            return None
        await self._deliver()
        await self.until_idle()
        if self._runner.failure is not None:
            raise self._runner.failure
        newest = waiting[-1].input if waiting else ""
        over = state.results.inputs.turn_of.get(newest) or (turn.id if turn else "")
        if self.is_paused and state.progress.turn is not None:
            over = state.progress.turn.id
        return (
            self._raise_if_unfinished(await self._with_text(state.results.turns[over]))
            if over in state.results.turns
            else None
        )

    async def until_idle(self) -> None:
        """Return when nothing goes on by itself any more: see `is_executing`."""
        subscription = self.subscribe()
        try:
            while self.is_executing:
                await anext(subscription)
        except StopAsyncIteration:
            return
        finally:
            subscription.close()

    def on(self, name: str, callback: Callback) -> Callable[[], None]:
        """Call `callback` for each `name` (`text_delta`, `tool_start`, `complete`, any event's name, `*`); returns what ends it."""
        if self._callbacks is None:
            services = self._services
            self._callbacks = Callbacks(
                self._runner.bus, services.store, services.inbox, services.state, lambda: self.context_state
            )
        end = self._callbacks.add(name, callback)
        if not self._callbacks.running:
            self._callbacks.running = True
            self._tasks.start_soon(self._callbacks.run)
        return end

    # --- commands -----------------------------------------------------------------------------------------------------------------------

    async def command(self, name: str, args: str = "", *, by: By = "user") -> CommandResult | None:
        """Run a command; None when there is none of that name. One that speaks to the model waits for the answer."""
        project = self.project
        return None if project is None else await project.commands.run(self._call(project, name, args, by))

    async def interpret(self, text: str) -> Submission | CommandResult | None:
        """Return what a person means by a line that begins with a slash: something to say to the model, or a command's result.

        None when it names no command. Raise `UserError` when what it would say cannot be had.
        """
        if self.project is None or not text.startswith("/"):
            return None
        name, _, args = text[1:].partition(" ")
        found = self.project.commands.find(name)
        if found is None or not found.spec.user_invocable:
            return None
        call = self._call(self.project, found.spec.name, args, "user")
        if found.expand is not None:
            return await found.expand(call)
        return await self.project.commands.run(call)

    async def note(self, *drafts: Draft) -> None:
        """Write events that change nothing else."""
        if drafts:
            await self._deliver(*drafts, wakes=False)

    async def fork_skill(self, skill: "Skill", prompt: str, display: str) -> str:
        """Run a skill in a child session, and return its report, which the conversation has then too.

        A turn that is asked for meanwhile begins afterwards. Cancelling this stops the skill; a process that dies leaves it to the next
        one, which finishes it. Raise `UserError` when the child could not finish, and `IllegalTransition` while a turn is going on.
        """
        return await self._run_skill(skill, prompt, display)

    # --- settings -----------------------------------------------------------------------------------------------------------------------

    async def rename(self, name: str) -> None:
        """Give the session a name."""
        await self._deliver(Draft(event=events.Renamed(name=name), by="user"), wakes=False)

    async def set_permission_mode(self, mode: Mode) -> None:
        """Judge calls in another mode from now on, those that have not begun too."""
        if mode not in MODES:
            raise UserError(f"{mode!r} is not a permission mode. The modes are {', '.join(MODES)}.")
        if why := self._runner.policy.why_not(mode):
            raise UserError(f"The mode stays {self.permission_mode!r}: {why}.")
        await self._deliver(Draft(event=events.ModeChanged(mode=mode), by="user"), wakes=False)

    async def set_model(self, model: str) -> None:
        """Use another model from now on."""
        found = await self._services.resolve_model(model)
        if self._services.state.progress.budget.limit is not None and not self._runner.policy.allow_unpriced:
            check_priced({model: found.facts})
        verdict = await fire_and_wait(self._services, "PreModelSwitch", model)
        if verdict is not None and verdict.blocked:
            raise UserError(f"A hook refused the model {model!r}: {verdict.reason or 'it gave no reason'}")
        self._runner.add_model_facts(model, found.facts)
        await self._deliver(Draft(event=events.ModelChanged(model=model), by="user"), wakes=False)
        fire(self._services, "PostModelSwitch", model)

    async def set_budget(self, microcents: int | None, on_exceed: OnExceed | None = None) -> None:
        """Set what the session and its children may cost in all. A paused turn goes on when it is raised."""
        if microcents is not None and microcents < 0:
            raise UserError(f"A budget of {microcents} micro-cents cannot be kept. Give a number from 0 on, or None.")
        policy = self._runner.policy
        if microcents is not None and not policy.allow_unpriced:
            check_priced({name: policy.facts_of(name) for name in policy.chain(self.model)})
        event = events.BudgetSet(
            limit=microcents, on_exceed=on_exceed or self._services.state.progress.budget.on_exceed
        )
        limit = self._services.state.progress.budget.limit
        raised = microcents is None or (limit is not None and microcents > limit)
        await self._deliver(Draft(event=event, by="user"), wakes=self.is_paused and raised)

    async def clear_approvals(self) -> None:
        """Ask again for what was allowed for the session."""
        await self._deliver(Draft(event=events.GrantsCleared(), by="user"), wakes=False)

    async def write_slot(self, owner: str, version: str, content: str) -> None:
        """Store the state of an extension."""
        await self._deliver(Draft(event=events.SlotWritten(owner=owner, version=version, content=content)), wakes=False)

    def hold(self) -> None:
        """Begin no turn any more: what is queued waits for the next opening."""
        self._runner.stop_starting_turns()

    # --- the conversation ---------------------------------------------------------------------------------------------------------------

    async def inject(self, role: Literal["system", "user", "assistant"], content: str) -> None:
        """Add a message to the history without asking the model."""
        if role not in ("system", "user", "assistant"):
            raise UserError(f"A message of role {role!r} cannot be injected. Use 'system', 'user' or 'assistant'.")
        part, blobs = to_stored_text(content)
        await self._deliver(
            Draft(event=events.MessageInjected(role=role, parts=(part,)), by="user"), blobs=blobs, wakes=False
        )

    async def add_entry(self, kind: str, content: dict[str, object]) -> None:
        """Add an entry to the full history; no model sees it."""
        await self._deliver(Draft(event=entry_added(kind, content), by="user"), wakes=False)

    async def note_skill(
        self,
        name: str,
        display: str = "",
        mode: SkillMode = "inject",
        by: InvokedBy = "user",
        status: SkillStatus = "started",
    ) -> None:
        """Add a `skill-invocation` entry: the skill `name` was used, and `display` is shown for it."""
        entry = skill_entry(name, display, mode=mode, by=by, status=status)
        await self._deliver(Draft(event=entry, by=by), wakes=False)

    async def clear_history(self) -> None:
        """Start the conversation over, the context's token count included. The log keeps what was."""
        await self._deliver(Draft(event=events.HistoryCleared(), by="user"), wakes=False)

    async def compact(self, instructions: str = "", *, model: str = "") -> events.Compacted | None:
        """Make the conversation shorter now, by `model` or by the session's own. Return what came of it.

        None, and nothing is written, when there is nothing that could be shortened. Raise `UserError` when nothing was gained, or when
        there is no such model.
        """
        return await request_compaction(self._runner, instructions, model=model)

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
        undone = events.CompactionUndone(compaction=newest, guess=sum(map(estimate, there)), messages=len(there))
        await self._deliver(Draft(event=undone, by="user"), wakes=False)

    async def rewind(
        self, *, to: str | None = None, before: str | None = None, files: bool = False
    ) -> RestoreReport | None:
        """Continue the conversation from the end of turn `to`, or from just before turn `before`. Nothing is deleted.

        With `files` the files go back too, in the same commit, and the report says what became of them.
        """
        if (to is None) == (before is None):
            raise UserError("Say either `to=TURN` (the last turn to keep) or `before=TURN`.")
        transcript = await self._whole_transcript()
        node = transcript.before_turn(before) if before is not None else transcript.turn_end(to or "")
        if node is None:
            raise UserError(
                f"There is no turn {before or to!r} to rewind to in session {self.id!r}; `turns` lists them."
            )
        there = transcript.at(node).messages
        event = events.Rewound(
            to=node,
            turns=transcript.turns_up_to(node) if node else 0,
            tokens=sum(map(estimate, there)),
            messages=len(there),
        )
        rewound = Draft(event=event, by="user")
        if files:
            return await self.restore_files(to=to or "", before=before or "", along=(rewound,))
        await self._deliver(rewound, wakes=False)
        return None

    async def fork(self, *, at: str = "") -> "ForkedSession":
        """Copy the conversation, up to turn `at` or to here, into a new session and return its id. This one is untouched."""
        return ForkedSession(await self._fork(at))

    # --- files --------------------------------------------------------------------------------------------------------------------------

    async def restore_files(
        self, *, to: str = "", before: str = "", undo: str = "", along: tuple[Draft, ...] = ()
    ) -> RestoreReport:
        """Put the files back as they were at the end of the turn `to`, at the start of the turn `before`, or before the restore `undo`.

        `undo` is the id of a restore, or `latest`. Nothing is lost: what the files hold now is kept first, and the
        report says how to come back. `along` is written in the same commit: with a `Rewound` the conversation goes back too.
        Raise `IllegalTransition` while a turn is going on, and `UserError` when there is no such point.
        """
        return await restore.restore_files(self._runner, to=to, before=before, undo=undo, along=along)

    async def finish_restore(self) -> None:
        """Finish putting files back where a process that died left off; nothing happens when none did."""
        await restore.finish_restore(self._runner)

    async def purge_checkpoints(self) -> None:
        """Give up the checkpoints of files so far: files cannot be put back to any point before this."""
        await self._deliver(Draft(event=events.CheckpointsPurged(), by="user"), wakes=False)
        if self._services.files is not None:
            self._services.files.forget()

    # --- the end ------------------------------------------------------------------------------------------------------------------------

    def attach_transport(self, transport: Attachable) -> None:
        """Attach this session to a transport. That does not start it."""
        transport.attach(self)

    async def close(self, reason: str = "", *, drain_s: float = 0.0) -> None:
        """Close the session: let the running turn finish within `drain_s` seconds, else interrupt it. Further calls do nothing."""
        self._ending = True
        async with self._closing:
            if not self._runner.closed:
                await self._close(reason, drain_s)

    async def shutdown(self, reason: EndReason = "other", message: str = "") -> None:
        """End now: refuse new prompts, stop the turn, drop the queue, release resources, close. Further calls do nothing.

        `SessionEnd` hooks are told the reason; the log keeps the message.
        """
        if reason not in get_args(EndReason):
            raise UserError(f"{reason!r} is no reason to end. The reasons are {', '.join(get_args(EndReason))}.")
        self._ending = True
        if self._runner.closed:
            return
        self._services.in_force.end_reason = reason
        if self._runner.alive:
            with suppress(StoreFull, StoreUnavailable):
                await self.abort(message or reason)
        await self.close(message or reason)

    def on_close(self, work: Callable[[], Awaitable[None]]) -> None:
        """Call `work` when the session is closed, after its turn and before the end is written; the newest first.

        It has a few seconds; what it raises is written down and ends nothing else.
        """
        self._closers.append(work)

    async def _close(self, reason: str, drain_s: float) -> None:
        if self._runner.alive:
            self._runner.stop_starting_turns()
            with anyio.move_on_after(drain_s + STOP_DEADLINE_S * 2):
                with suppress(StoreFull, StoreUnavailable):  # its sender gets the error
                    await self._services.inbox.deliver(wakes=False)  # what was on its way in is in now
                with anyio.move_on_after(drain_s):
                    await self.until_idle()
                if (self.is_running and not self.is_paused) or self.is_compacting or self.is_running_skill:
                    self._services.inbox.post(Draft(event=events.Interrupted(reason=reason), by="user"))
                await self.until_idle()
        while self._closers:
            await self._run_closer(self._closers.pop())
        await self._runner.close(reason)

    async def _run_closer(self, work: Callable[[], Awaitable[None]]) -> None:
        async def in_time() -> None:
            with anyio.fail_after(STOP_DEADLINE_S):
                await work()

        fault = await run_guarded("what was to be done at the end", in_time)
        if isinstance(fault, Fault) and self._runner.wrote:
            caught = events.FaultCaught(where=fault.where, kind=fault.kind, message=fault.trace[-2000:])
            self._services.inbox.post(Draft(event=caught))

    # --- how ----------------------------------------------------------------------------------------------------------------------------

    async def _deliver(self, *drafts: Draft, blobs: dict[str, bytes] | None = None, wakes: bool = True) -> None:
        await self._runner.deliver(*drafts, blobs=blobs, wakes=wakes)

    def _call(self, project: ProjectContext, name: str, args: str, by: By) -> "SessionCall":
        return CommandCall(session=self, project=project, name=name, args=args, by=by)

    def _next_input(self) -> str:
        self._inputs += 1
        return f"{self._runner.nonce}-in-{self._inputs}"

    def _make_input(
        self, prompt: Prompt, delivery: Delivery, input_id: str | None, display: str, raw: str
    ) -> tuple[events.InputReceived, dict[str, bytes]]:
        parts, blobs = self._input(prompt)
        name = replace_surrogates(input_id or self._next_input())
        if name == EVERYTHING:
            raise UserError(f"{EVERYTHING!r} cannot be the id of an input: it stands for all of them.")
        if self._services.state.results.inputs.parts.get(name, parts) != parts:
            raise InputConflict(f"The input id {name!r} was used for another text in session {self.id!r}.")
        if len(raw) > LONG:  # cut, it would hide its end from the hooks that decide by it
            raise UserError(
                f"The raw text has {len(raw)} characters, and {LONG} may be. Leave it out: hooks see the prompt."
            )
        shown = display if len(display) <= SHOWN else f"{display[:SHOWN]}…"
        return events.InputReceived(input=name, parts=parts, delivery=delivery, display=shown, raw=raw), blobs

    async def _queue_input(self, event: events.InputReceived, blobs: dict[str, bytes], *, replaces: bool) -> None:
        if self._ending and not self._runner.closed:
            raise IllegalTransition(f"Session {self.id!r} is being shut down and takes no more prompts.")
        drafts = [Draft(event=event, by="user")]
        tail = self._tail() if replaces else ""
        if tail == event.input:  # it is sent again: it does not take its own place
            tail = ""
        if tail:
            drafts.insert(0, Draft(event=events.InputDropped(inputs=(tail,)), by="user"))
        begins = 0 if self.is_running else 1  # one of them does not wait at all
        waiting = len(self.pending_inputs) + self._arriving - begins
        if not tail and waiting >= self.queue_limit:
            raise UserError(
                f"{waiting} inputs wait in session {self.id!r} already, and {self.queue_limit} may. "
                "Wait for the turn that runs, or take them back with drop_queued()."
            )
        self._newest = event.input if event.delivery == "queue" else ""
        self._arriving += 1
        try:
            await self._deliver(*drafts, blobs=blobs)
        finally:
            self._arriving -= 1

    def _tail(self) -> str:
        """Return the input that waits last, if it waits for a turn of its own."""
        queue = self._services.state.progress.queue
        if self._arriving:
            return self._newest
        return queue[-1].input if queue and queue[-1].delivery == "queue" else ""

    def _input(self, prompt: Prompt) -> tuple[tuple[InputPart, ...], dict[str, bytes]]:
        given = (Text(text=prompt),) if isinstance(prompt, str) else prompt
        parts, blobs = make_durable(
            Text(text=self._fill(replace_surrogates(part.text))) if isinstance(part, Text) else part for part in given
        )
        kept = tuple(part for part in parts if isinstance(part, Text | TextRef | MediaRef | MediaLink))
        if not any(not isinstance(part, Text) or part.text.strip() for part in kept):
            raise UserError("The prompt is empty. Say something.")
        return kept, blobs

    def _fill(self, text: str) -> str:
        return fill_variables(text, self._variables) if self._variables else text

    async def _with_text(self, result: TurnResult) -> TurnResult:
        if not result.said:
            return result
        return replace(result, text=await fetch_text(result.said, self._services.store.blob), said=())

    def _raise_if_unfinished(self, result: TurnResult) -> TurnResult:
        match result.outcome:
            case "completed" | "abandoned":
                return result
            case None if self.is_paused:
                raise self._pause_error(result)
            case "failed":
                raise TurnFailed(result.message, turn=result.turn, reason=result.code, text=result.text)
            case _:
                raise TurnInterrupted(result.message or "The turn was interrupted.", turn=result.turn, text=result.text)

    def _no_turn_error(self, name: str) -> TurnInterrupted:
        if name in self._services.state.results.inputs.dropped:
            return TurnInterrupted("The input was dropped before its turn began.", turn="")
        return TurnInterrupted(
            f"The session was closed before the turn of input {name!r} began. The input is kept: it runs when the session is opened "
            "again. Whoever sends it again under the same id sends it once.",
            turn="",
        )

    def _pause_error(self, result: TurnResult | None = None) -> TurnPaused:
        budget = self._services.state.progress.budget
        return TurnPaused(
            f"The turn is paused: {dollars(budget.spent)} are spent and the budget is {dollars(budget.limit or 0)}. "
            "Raise the budget and finish the turn.",
            turn=result.turn if result is not None else "",
            text=result.text if result is not None else "",
        )


class ForkedSession(str):
    """The id of a fork."""

    __slots__ = ()

    @property
    def id(self) -> str:
        """The id."""
        return str(self)


SessionCall = CommandCall[Session, ProjectContext]
"""A use of a command, as its functions take it."""
