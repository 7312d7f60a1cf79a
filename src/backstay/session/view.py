"""Read an open session: folds of its log, and the log itself. Nothing here changes the session."""

from collections.abc import AsyncIterator, Mapping
from typing import Final

import anyio.to_thread

from backstay.checkpoints.points import Checkpoint, checkpoints_of
from backstay.commands.registry import CommandSpec
from backstay.hooks.spec import HookSpec
from backstay.logic.context_usage import ContextState, context_state
from backstay.logic.secrets.redact import Redactor
from backstay.logic.state.entries import Entry
from backstay.logic.state.results import TurnResult, UsageSnapshot, usage_snapshot
from backstay.logic.state.resume import ResumeReport
from backstay.logic.state.session_state import list_used_memories
from backstay.logic.state.transcript import Transcript, transcript_of
from backstay.ports import EventStore
from backstay.runtime.bus import Item, Subscription, follow
from backstay.runtime.runner import Runner
from backstay.session.project.project_context import ProjectContext
from backstay.vocab import events
from backstay.vocab.deltas import Lagged, LifecycleState
from backstay.vocab.errors import BlobMissing
from backstay.vocab.event import Recorded
from backstay.vocab.messages import SessionMessage, text_of
from backstay.vocab.rules import Rule
from backstay.vocab.specs import Mode, ModelFacts, Taint, Usage

MOST_BEFORE: Final = 200
"""Files whose earlier content is fetched to show what became of it; the newest ones."""
LARGEST_BEFORE: Final = 1_048_576
"""Bytes of such a content; of a larger one no difference is shown."""


class SessionView:
    """An open session, to be read and followed."""

    def __init__(
        self,
        runner: Runner,
        *,
        report: ResumeReport | None = None,
        opened: tuple[Item, ...] = (),
        warnings: tuple[str, ...] = (),
        project: ProjectContext | None = None,
    ) -> None:
        self._runner = runner
        self._services = runner.services
        self.project = project
        """What was found around the session; None when it looked at nothing."""
        self._warnings = warnings
        self.report = report
        """What opening it again found; None for a new session."""
        self.opened: tuple[Item, ...] = opened
        """What happened while it was opened, before anybody could subscribe."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for the caller: those of the opening, then those that came up since."""
        return tuple(dict.fromkeys((*self._warnings, *self._services.warnings)))

    @property
    def history(self) -> tuple[SessionMessage, ...]:
        """The conversation: messages only."""
        return tuple(self._services.state.transcript.messages)

    @property
    def messages(self) -> tuple[SessionMessage, ...]:
        """The same as `history`."""
        return self.history

    @property
    def id(self) -> str:
        """The session's id."""
        return self._services.session

    @property
    def seq(self) -> int:
        """The last event's number."""
        return self._services.state.progress.seq

    @property
    def store(self) -> EventStore:
        """The store that holds the session."""
        return self._services.store

    @property
    def name(self) -> str:
        """The session's name; empty when it has none. A name given at the opening counts before it is written."""
        return self._runner.opening.name_after(self._services.state.meta.name)

    @property
    def model(self) -> str:
        """The model that answers, also when the opening that says so is not written yet."""
        return self._services.progress.model

    @property
    def permission_mode(self) -> Mode:
        """The mode that calls are judged in, also when the opening that says so is not written yet."""
        return self._services.progress.mode

    @property
    def state(self) -> LifecycleState:
        """The state of the session in its lifecycle."""
        return "Closed" if self._runner.closed else self._runner.life.state or "Idle"

    @property
    def is_running(self) -> bool:
        """Whether a turn is going on."""
        return self._services.state.progress.busy and not self._runner.opening

    @property
    def is_executing(self) -> bool:
        """Whether anything goes on by itself: a turn that is not paused, a compaction, a skill of a person, or queued input that is
        about to begin a turn."""
        begins = bool(self.pending_inputs) and self._runner.starts_turns and not self.is_running
        return (self.is_running and not self.is_paused) or self.is_compacting or self.is_running_skill or begins

    @property
    def message_count(self) -> int:
        """The number of completed turns."""
        return self._services.state.progress.completed

    @property
    def pending_inputs(self) -> tuple[str, ...]:
        """The inputs that wait for their turn."""
        return tuple(waiting.input for waiting in self._services.state.progress.queue)

    @property
    def pending_prompts(self) -> tuple[str, ...]:
        """The queued prompts, as they are shown; of a very long text only the head."""
        inputs = self._services.state.results.inputs
        return tuple(inputs.displays.get(one) or text_of(inputs.parts.get(one, ())) for one in self.pending_inputs)

    @property
    def pending_prompt(self) -> str | None:
        """The next queued prompt, as it is shown; None when none waits."""
        return next(iter(self.pending_prompts), None)

    @property
    def active_tools(self) -> tuple[str, ...]:
        """The names of the tools that are running."""
        return tuple(call.name for call in self._services.state.progress.calls if call.phase == "running")

    @property
    def streaming_text(self) -> str:
        """The text of the model so far in the call that is running."""
        return self._runner.streamed

    @property
    def context_state(self) -> ContextState:
        """The usage of the context."""
        policy, progress = self._runner.policy, self._services.state.progress
        model = progress.retries.model or progress.model
        used = progress.context.request_tokens(policy.overhead) if progress.context.messages else 0
        return context_state(used, policy.facts_of(model).window, exact=progress.context.exact)

    @property
    def usage(self) -> Usage:
        """The tokens that the whole session used."""
        return self._services.state.usage.total

    @property
    def usage_snapshot(self) -> UsageSnapshot | None:
        """What the newest turn used and cost, and how full the context is; None before the first."""
        turns = self._services.state.results.turns
        return usage_snapshot(turns[next(reversed(turns))], self.context_state) if turns else None

    @property
    def model_facts(self) -> Mapping[str, ModelFacts]:
        """The facts of the models that may answer, by name."""
        return self._runner.policy.facts

    @property
    def cost(self) -> int:
        """Micro-cents that the session and its children cost, as far as their models have a price."""
        return self._services.state.progress.budget.spent

    @property
    def budget(self) -> int | None:
        """Micro-cents that the session and its children may cost; None when there is no limit."""
        return self._services.state.progress.budget.limit

    @property
    def is_paused(self) -> bool:
        """Whether a turn is open and waits until the budget is raised."""
        return self._services.state.progress.paused

    @property
    def is_compacting(self) -> bool:
        """Whether the conversation is being made shorter."""
        return bool(self._services.state.progress.compacting) and not self._runner.opening

    @property
    def open_skill(self) -> str:
        """The skill that a person runs in a child session, or ran when the process died; empty when there is none."""
        open_skill = self._services.state.progress.skill
        run = open_skill.started.skill if open_skill is not None else None
        return run.name if run is not None else ""

    @property
    def is_running_skill(self) -> bool:
        """Whether a skill of a person is running in a child session."""
        return bool(self.open_skill) and not self._runner.opening

    @property
    def turns(self) -> tuple[TurnResult, ...]:
        """Every turn of the log, in order."""
        return tuple(self._services.state.results.turns.values())

    def input_result(self, input_id: str) -> TurnResult | None:
        """Return what became of an input; None when its turn has not begun."""
        results = self._services.state.results
        return results.turns.get(results.inputs.turn_of.get(input_id, ""))

    @property
    def approved_tools(self) -> tuple[str, ...]:
        """The tools with a call, or a rule about their calls, that is allowed for the whole session."""
        grants = self._services.state.progress.grants
        calls, rules = (
            (grant.partition("#")[0] for grant in grants.grants),
            (rule.partition("(")[0] for rule in grants.rules),
        )
        return tuple(sorted({*calls, *rules}))

    @property
    def approved_rules(self) -> tuple[str, ...]:
        """The rules that were granted for the whole session, as people write them."""
        return self._services.state.progress.grants.rules

    @property
    def taint(self) -> tuple[Taint, ...]:
        """The taint of the session: untrusted input, private data, a way out."""
        return tuple(sorted(self._services.state.progress.grants.taint))

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools, in the order in which the model is told of them."""
        return tuple(spec.name for spec in self._services.tools.specs())

    @property
    def todos(self) -> tuple[events.Todo, ...]:
        """The list of things to do."""
        return self._services.state.transcript.todos

    @property
    def memory_events(self) -> tuple[events.MemoryNoted, ...]:
        """The events of memories in this session, oldest first; a rewind takes none of it back."""
        return tuple(self._services.state.transcript.memory)

    @property
    def used_memory(self) -> tuple[str, ...]:
        """The ids of the memories that were used, each once."""
        return list_used_memories(self.memory_events)

    @property
    def slots(self) -> Mapping[str, events.SlotWritten]:
        """The newest slot of each owner."""
        return self._services.state.slots

    def slot(self, owner: str) -> events.SlotWritten | None:
        """Return the state that an extension put away."""
        return self._services.state.slots.get(owner)

    def plain_state(self) -> dict[str, object]:
        """Return everything the log means, as plain data."""
        return self._services.state.plain()

    @property
    def is_restoring(self) -> bool:
        """Whether files are being put back, or were when the process died: then that comes first when the session goes on."""
        return self._services.state.progress.restore is not None

    @property
    def redactor(self) -> Redactor:
        """The redactor of texts that are shown to others: it removes known keys, secrets by their shape, and secret variables."""
        return self._services.mask.shown

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules that calls are judged by."""
        return self._runner.policy.rules

    @property
    def hooks(self) -> tuple[HookSpec, ...]:
        """The hooks that are heard."""
        return self._runner.policy.hooks

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the person about the project context: what was skipped, held back, wrong, or changed meanwhile."""
        return (*self.project.settings_notices, *self.project.notices) if self.project is not None else ()

    def list_commands(self) -> tuple[CommandSpec, ...]:
        """Return the commands that a person can use, by name."""
        return self.project.commands.specs() if self.project is not None else ()

    # --- reading the log ----------------------------------------------------------------------------------------------------------------

    def subscribe(self, *, after: int | None = None, only: type[Item] | None = None) -> Subscription:
        """Listen to everything from now on, or to one kind of item: `Recorded`, a delta, `Notice`.

        A listener that is too slow gets a `Lagged` and reads `events` from there.
        """
        return self._runner.subscribe(after=after, only=only)

    async def events(self, after: int = 0) -> tuple[Recorded, ...]:
        """Return the log after seq `after`."""
        return await self._runner.read_events(after)

    async def follow(self, after: int | None = None) -> AsyncIterator[Item]:
        """Yield everything from now on, or after seq `after`, until the session ends. A slow listener gets what it missed from the log."""
        subscription = self.subscribe(after=self.seq)
        try:
            for record in await self.events(after) if after is not None and after < self.seq else ():
                subscription.mark_read(record.seq)
                yield record
            async for item in follow(subscription, self._services.store, self.id):
                yield item
        finally:
            subscription.close()

    async def full_history(self) -> tuple[Entry, ...]:
        """Return the conversation with the events between its messages: tools with what they changed, summaries, added entries."""
        transcript = await self._whole_transcript()
        return transcript.entries(await self._contents_before(transcript))

    async def checkpoints(self) -> tuple[Checkpoint, ...]:
        """Return the turns of the session as points to which its files can be put back; none when nothing is kept of files."""
        kept = self._services.files is not None and self._services.files.roots
        return checkpoints_of(await self.events()) if kept else ()

    # --- how ----------------------------------------------------------------------------------------------------------------------------

    async def _whole_transcript(self) -> Transcript:
        """Return the transcript with the paths that a snapshot left out, and with what is committed while the log is folded."""
        state = self._services.state
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

    async def _contents_before(self, transcript: Transcript) -> Mapping[str, str]:
        """Return what files held before calls changed them; what is gone, too large or no text is left out."""
        held: dict[str, str] = {}
        for call, sha256 in tuple(transcript.file_captures().items())[-MOST_BEFORE:]:
            try:
                content = await self._services.store.blob(sha256) if sha256 else b""
                if len(content) <= LARGEST_BEFORE:
                    held[call] = content.decode()
            except (BlobMissing, UnicodeDecodeError):
                continue
        return held
