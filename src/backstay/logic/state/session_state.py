"""The state of a session: all its folds together, advanced an event at a time, and their snapshot."""

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

from backstay.logic import budget
from backstay.logic.budget import UsageTotals
from backstay.logic.state import lifecycle, results, transcript
from backstay.logic.state.entries import Entry, entry_of
from backstay.logic.state.lifecycle import Lifecycle
from backstay.logic.state.outline import project
from backstay.logic.state.progress import Progress, fold, fold_all
from backstay.logic.state.results import Inputs, Results, TurnResult
from backstay.logic.state.transcript import Transcript, TranscriptSnapshot
from backstay.vocab import events
from backstay.vocab.deltas import Notice
from backstay.vocab.event import Event, Recorded
from backstay.vocab.messages import SessionMessage, iso
from backstay.vocab.specs import OnCrash, SessionMeta, ToolSpec

_KEEPS: Final = frozenset(
    (events.SlotWritten, events.FileSeen, events.OutputKept, events.InstructionsRead, events.NotesShown)
)
"""Events whose newest word on a thing counts."""
_FORGETS: Final = frozenset((events.Compacted, events.CompactionUndone, events.HistoryCleared, events.Rewound))
"""Events after which it is not known which notes the model still has."""


class StateSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A state that can be put away."""

    progress: Progress
    life: Lifecycle
    usage: UsageTotals
    meta: SessionMeta
    slots: dict[str, events.SlotWritten]
    seen: dict[str, str]
    outputs: dict[str, str]
    instructions: str
    notes: dict[str, str]
    turns: dict[str, TurnResult]
    inputs: Inputs
    open_turn: str
    transcript: TranscriptSnapshot


class State:
    """The folds of a session."""

    __slots__ = (
        "instructions",
        "life",
        "meta",
        "notes",
        "outputs",
        "progress",
        "results",
        "seen",
        "slots",
        "slots_before",
        "transcript",
        "usage",
    )

    def __init__(self) -> None:
        self.progress = Progress()
        self.life = Lifecycle()
        self.meta = SessionMeta(id="")
        self.usage = UsageTotals()
        self.transcript = Transcript()
        self.results = Results()
        self.slots: dict[str, events.SlotWritten] = {}
        self.slots_before: dict[str, events.SlotWritten] = {}
        """The slots when the newest turn began: those that count when it is given up."""
        self.seen: dict[str, str] = {}
        """The version of each file when the session last read or wrote it."""
        self.outputs: dict[str, str] = {}
        """Whole outputs that were put away: the names that the model knows, and the hashes of their blobs."""
        self.instructions = ""
        """Hash of the instructions that were written down last."""
        self.notes: dict[str, str] = {}
        """Notes of folders that the conversation has: the names of their files, and the hash of each."""

    def apply(self, record: Recorded, *, transcribe: bool = True) -> tuple[Notice, ...]:
        """Take an event in; return what is to be announced."""
        self.progress = fold(self.progress, record)
        return self.follow(record, transcribe=transcribe)

    def follow(self, record: Recorded, *, transcribe: bool = True) -> tuple[Notice, ...]:
        """Take an event in whose progress is known already. Without `transcribe` the transcript stays empty."""
        notices: tuple[Notice, ...] = ()
        kind = type(record.event)
        if kind in lifecycle.FOLDS_ON:
            self.life, notices = lifecycle.advance(self.life, record)
        if kind in budget.USAGE_EVENTS:
            self.usage.apply(record)
        if transcribe and kind in transcript.FOLDS_ON:
            self.transcript.apply(record)
        if kind in results.FOLDS_ON:
            self.results.apply(record)
        if kind in _KEEPS:
            self._keep(record.event)
        elif kind is events.TurnStarted:
            self.slots_before = dict(self.slots)
        elif kind in _FORGETS:
            self.notes = {}
        elif _is_abandoned(record):
            self.notes, self.slots = {}, self.slots_before
        return notices

    def _keep(self, event: Event) -> None:
        match event:
            case events.SlotWritten():
                self.slots[event.owner] = event
            case events.FileSeen():
                self.seen[event.path] = event.version
            case events.OutputKept():
                self.outputs[event.output] = event.sha256
            case events.InstructionsRead():
                self.instructions = event.sha256
            case events.NotesShown():
                self.notes[event.path] = event.sha256
            case _:
                raise AssertionError(event)

    def slots_for(self, on_crash: OnCrash) -> dict[str, events.SlotWritten]:
        """Return the slots that count when the turn that is open goes on, or is given up."""
        return self.slots_before if self.progress.busy and on_crash == "abandon" else self.slots

    def outline(self, records: Iterable[Recorded]) -> None:
        """Bring the outline up to date."""
        self.meta = project(self.meta, records)

    def snapshot(self) -> bytes:
        """Return the state as bytes, without the paths left behind."""
        kept = StateSnapshot(
            progress=self.progress,
            life=self.life,
            usage=self.usage,
            meta=self.meta,
            slots=self.slots,
            seen=self.seen,
            outputs=self.outputs,
            instructions=self.instructions,
            notes=self.notes,
            turns=self.results.turns,
            inputs=self.results.inputs,
            open_turn=self.results.open,
            transcript=self.transcript.snapshot(waiting.input for waiting in self.progress.queue),
        )
        return msgspec.msgpack.encode(kept)

    def plain(self) -> dict[str, object]:
        """Return the state as plain JSON-like data: equal for a live session and its replay."""
        return {
            "progress": msgspec.to_builtins(self.progress, order="deterministic"),
            "lifecycle": self.life.state,
            "outline": msgspec.to_builtins(self.meta),
            "usage": msgspec.to_builtins(self.usage, order="deterministic"),
            "messages": msgspec.to_builtins(self.transcript.messages),
            "turns": msgspec.to_builtins(list(self.results.turns.values())),
            "inputs": msgspec.to_builtins(self.results.inputs.turn_of, order="deterministic"),
            "todos": msgspec.to_builtins(self.transcript.todos),
            "seen": dict(sorted(self.seen.items())),
            "outputs": dict(sorted(self.outputs.items())),
            "instructions": self.instructions,
            "notes": dict(sorted(self.notes.items())),
            "slots": msgspec.to_builtins(self.slots, order="deterministic"),
        }


def state_of(session: str, records: Iterable[Recorded], start: State | None = None) -> State:
    """Fold a log into a state, from the beginning or from a restored state."""
    state = start or State()
    if start is None:
        state.meta = SessionMeta(id=session)
    batch = tuple(records)
    state.progress = fold_all(batch, state.progress)
    for record in batch:
        state.follow(record)
    state.outline(batch)
    return state


def restore(content: bytes) -> State:
    """Return the state of a snapshot. Raise `msgspec.DecodeError` when it cannot be used."""
    kept = msgspec.msgpack.decode(content, type=StateSnapshot)
    state = State()
    state.progress, state.life, state.usage, state.meta = kept.progress, kept.life, kept.usage, kept.meta
    state.slots, state.seen, state.outputs = kept.slots, kept.seen, kept.outputs
    state.slots_before = dict(kept.slots)  # no snapshot is taken within a turn
    state.instructions, state.notes = kept.instructions, kept.notes
    state.results = Results(kept.turns, kept.inputs, kept.open_turn)
    state.transcript = Transcript(kept.transcript)
    return state


def needs_whole_log(records: Iterable[Recorded]) -> bool:
    """Return whether `records` lead back to a path that a restored state does not have."""
    return any(isinstance(r.event, events.Rewound | events.CompactionUndone) or _is_abandoned(r) for r in records)


def _is_abandoned(record: Recorded) -> bool:
    """Return whether a turn ends here that the conversation does not keep."""
    return isinstance(record.event, events.TurnCompleted) and record.event.outcome == "abandoned"


class SessionRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Everything about a session in one place."""

    id: str
    cwd: str
    created_at: str
    updated_at: str
    messages: tuple[SessionMessage, ...]
    history: tuple[Entry, ...] = ()
    name: str = ""
    system_prompt: str = ""
    """As it was sent last: kept beside the messages to make diagnosis easy."""
    tool_schemas: tuple[ToolSpec, ...] = ()
    memory_events: tuple[events.MemoryNoted, ...] = ()
    """What became of memories in it."""
    used_memory_references: tuple[str, ...] = ()
    """The ids of the memories that were used, each once."""


def record_of(state: State, *, system_prompt: str = "", tool_schemas: tuple[ToolSpec, ...] = ()) -> SessionRecord:
    """Return the record of a session."""
    meta = state.meta
    return SessionRecord(
        id=meta.id,
        cwd=meta.cwd,
        created_at=iso(meta.created),
        updated_at=iso(meta.updated),
        messages=tuple(state.transcript.messages),
        history=state.transcript.entries(),
        name=meta.name,
        system_prompt=system_prompt,
        tool_schemas=tool_schemas,
        memory_events=tuple(state.transcript.memory),
        used_memory_references=list_used_memories(state.transcript.memory),
    )


def list_used_memories(noted: Iterable[events.MemoryNoted]) -> tuple[str, ...]:
    """Return the ids of the memories that were used, each once."""
    return tuple(dict.fromkeys(each.memory for each in noted if each.act == "used"))


def backfill(record: SessionRecord) -> SessionRecord:
    """Return `record` with a history, made from its messages when it has none. Doing it twice changes nothing."""
    if record.history or not record.messages:
        return record
    return replace(record, history=tuple(map(entry_of, record.messages)))
