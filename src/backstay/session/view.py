"""What can be read of an open session without waiting."""

from collections.abc import Mapping

from backstay.logic.context.tokens import ContextState, context_state
from backstay.logic.state.results import TurnResult, UsageSnapshot, usage_snapshot
from backstay.logic.state.session_state import used_memories
from backstay.ports import EventStore
from backstay.runtime.runner import Runner
from backstay.vocab.deltas import LifecycleState
from backstay.vocab.events import Renamed, SlotWritten
from backstay.vocab.events.memory import MemoryNoted
from backstay.vocab.events.tools import Todo
from backstay.vocab.messages import SessionMessage, text_of
from backstay.vocab.specs import Mode, ModelFacts, Taint, Usage


class Reading:
    """The folds of a session, as properties."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._world = runner.world
        self._closed = False

    @property
    def history(self) -> tuple[SessionMessage, ...]:
        """The conversation: messages only."""
        return tuple(self._world.state.transcript.messages)

    @property
    def messages(self) -> tuple[SessionMessage, ...]:
        """The same as `history`."""
        return self.history

    @property
    def id(self) -> str:
        """The session's id."""
        return self._world.session

    @property
    def seq(self) -> int:
        """The last event's number."""
        return self._world.state.progress.seq

    @property
    def store(self) -> EventStore:
        """The store that holds the session."""
        return self._world.store

    @property
    def name(self) -> str:
        """The session's name; empty when it has none. A name given at the opening counts before it is written."""
        changes = [draft.event.name for draft in self._runner.opening if isinstance(draft.event, Renamed)]
        return changes[-1] if changes else self._world.state.meta.name

    @property
    def model(self) -> str:
        """The model that answers, also when the opening that says so is not written yet."""
        return self._world.progress.model

    @property
    def permission_mode(self) -> Mode:
        """The mode that calls are judged in, also when the opening that says so is not written yet."""
        return self._world.progress.mode

    @property
    def state(self) -> LifecycleState:
        """Where the session is in its life."""
        return "Closed" if self._closed else self._runner.life.state or "Idle"

    @property
    def is_running(self) -> bool:
        """Whether a turn is going on."""
        return self._world.state.progress.busy and not self._runner.opening

    @property
    def is_executing(self) -> bool:
        """Whether anything goes on by itself: a turn that is not paused, a compaction, queued input that is about to begin a turn."""
        begins = bool(self.pending_inputs) and self._runner.begins and not self.is_running
        return (self.is_running and not self.is_paused) or self.is_compacting or begins

    @property
    def message_count(self) -> int:
        """How many turns were completed."""
        return self._world.state.progress.completed

    @property
    def pending_inputs(self) -> tuple[str, ...]:
        """The inputs that wait for their turn."""
        return tuple(waiting.input for waiting in self._world.state.progress.queue)

    @property
    def pending_prompts(self) -> tuple[str, ...]:
        """What waits for its turn, as it is shown; of a very long text only the head."""
        inputs = self._world.state.results.inputs
        return tuple(inputs.displays.get(one) or text_of(inputs.parts.get(one, ())) for one in self.pending_inputs)

    @property
    def pending_prompt(self) -> str | None:
        """What comes next, as it is shown; None when nothing waits."""
        return next(iter(self.pending_prompts), None)

    @property
    def active_tools(self) -> tuple[str, ...]:
        """The names of the tools that are running."""
        return tuple(call.name for call in self._world.state.progress.calls if call.phase == "running")

    @property
    def streaming_text(self) -> str:
        """What the model has said so far in the call that is going on."""
        return self._runner.streamed

    @property
    def context_state(self) -> ContextState:
        """How full the context is."""
        policy, progress = self._runner.policy, self._world.state.progress
        model = progress.trying.model or progress.model
        used = progress.fill.used(policy.overhead) if progress.fill.messages else 0
        return context_state(used, policy.facts_of(model).window, exact=progress.fill.exact)

    @property
    def usage(self) -> Usage:
        """The tokens that the whole session used."""
        return self._world.state.usage.total

    @property
    def usage_snapshot(self) -> UsageSnapshot | None:
        """What the newest turn used and cost, and how full the context is; None before the first."""
        turns = self._world.state.results.turns
        return usage_snapshot(turns[next(reversed(turns))], self.context_state) if turns else None

    @property
    def model_facts(self) -> Mapping[str, ModelFacts]:
        """What is known of the models that may answer, by name."""
        return self._runner.policy.facts

    @property
    def cost(self) -> int:
        """Micro-cents that the session and its children cost, as far as their models have a price."""
        return self._world.state.progress.purse.spent

    @property
    def budget(self) -> int | None:
        """Micro-cents that the session and its children may cost; None when nobody set a limit."""
        return self._world.state.progress.purse.limit

    @property
    def is_paused(self) -> bool:
        """Whether a turn is open and waits until the budget is raised."""
        return self._world.state.progress.paused

    @property
    def is_compacting(self) -> bool:
        """Whether the conversation is being made shorter."""
        return bool(self._world.state.progress.compacting) and not self._runner.opening

    @property
    def turns(self) -> tuple[TurnResult, ...]:
        """Every turn of the log, in order."""
        return tuple(self._world.state.results.turns.values())

    def input_result(self, input_id: str) -> TurnResult | None:
        """What became of an input; None when its turn has not begun."""
        results = self._world.state.results
        return results.turns.get(results.inputs.turn_of.get(input_id, ""))

    @property
    def approved_tools(self) -> tuple[str, ...]:
        """The tools with a call, or a rule about their calls, that is allowed for the whole session."""
        consent = self._world.state.progress.consent
        calls, rules = (
            (grant.partition("#")[0] for grant in consent.grants),
            (rule.partition("(")[0] for rule in consent.rules),
        )
        return tuple(sorted({*calls, *rules}))

    @property
    def approved_rules(self) -> tuple[str, ...]:
        """The rules that were granted for the whole session, as people write them."""
        return self._world.state.progress.consent.rules

    @property
    def taint(self) -> tuple[Taint, ...]:
        """What the session has met: words of strangers, private data, a way out."""
        return tuple(sorted(self._world.state.progress.consent.taint))

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools, in the order in which the model is told of them."""
        return tuple(spec.name for spec in self._world.tools.specs())

    @property
    def todos(self) -> tuple[Todo, ...]:
        """What is to be done."""
        return self._world.state.transcript.todos

    @property
    def memory_events(self) -> tuple[MemoryNoted, ...]:
        """What became of memories in this session, oldest first; a rewind takes none of it back."""
        return tuple(self._world.state.transcript.memory)

    @property
    def used_memory(self) -> tuple[str, ...]:
        """The ids of the memories that were used, each once."""
        return used_memories(self.memory_events)

    @property
    def slots(self) -> Mapping[str, SlotWritten]:
        """The newest slot of each owner."""
        return self._world.state.slots

    def slot(self, owner: str) -> SlotWritten | None:
        """The state that an extension put away."""
        return self._world.state.slots.get(owner)

    def plain_state(self) -> dict[str, object]:
        """Everything the log means, as plain data."""
        return self._world.state.plain()
