"""The conversation along the active path: the messages a model would see, and the entries of the full history.

Kept incrementally: an event costs the same however long the history is. After a jump (a rewind, an abandoned turn) the path is walked once.
A transcript that was restored from a fold snapshot has its messages but not the paths left behind: `complete` says so, and a caller that
needs those folds the log again.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

import msgspec

from backstay.logic.compaction import apply as shortened
from backstay.logic.compaction import frame_summary
from backstay.logic.state.entries import Beside, Entry, EntryFold
from backstay.vocab import events
from backstay.vocab.event import Event, Recorded
from backstay.vocab.messages import (
    DurablePart,
    InputPart,
    Role,
    SessionMessage,
    Text,
    TextRef,
    ToolCall,
    ToolResult,
    text_of,
)

NODES: Final[frozenset[type[Event]]] = frozenset(
    {
        events.TurnStarted,
        events.InputTaken,
        events.ModelReplied,
        events.ToolFinished,
        events.ChildFinished,
        events.MessageInjected,
        events.HookFinished,
        events.TodosWritten,
        events.EntryAdded,
        events.HistoryCleared,
        events.Compacted,
        events.CompactionUndone,
        events.TurnCompleted,
    }
)


class Branches:
    """The tree of a session's nodes and the newest node of the active path."""

    __slots__ = ("_before_turn", "parents", "tip")

    def __init__(self) -> None:
        self.parents: dict[str, str] = {}
        self.tip = ""
        self._before_turn = ""

    def apply(self, record: Recorded) -> bool:
        """Take an event in; return whether the path jumped, so that its folds must walk it anew."""
        event = record.event
        kind = type(event)
        if kind is events.Rewound:
            self.tip = event.to if isinstance(event, events.Rewound) else ""
            return True
        if kind not in NODES:
            return False
        if kind is events.TurnStarted:
            self._before_turn = self.tip
        self.parents[record.id] = self.tip
        if isinstance(event, events.TurnCompleted) and event.outcome == "abandoned":
            self.tip = self._before_turn
            return True
        self.tip = record.id
        return False

    def path(self, to: str | None = None) -> list[str]:
        """Return the nodes from the beginning to `to` (the tip, when left out), in order."""
        node = self.tip if to is None else to
        nodes: list[str] = []
        while node:
            nodes.append(node)
            node = self.parents[node]
        nodes.reverse()
        return nodes


BESIDE: Final[frozenset[type[Event]]] = frozenset(
    {
        events.Started,
        events.InputReceived,
        events.ToolStarted,
        events.ChildStarted,
        events.PermissionAnswered,
        events.FileKept,
        events.MemoryNoted,
    }
)
"""Events that are no nodes of a path and add something to it."""
FOLDS_ON: Final[frozenset[type[Event]]] = NODES | BESIDE | {events.Rewound}
"""The events that a transcript folds."""


class TranscriptSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A transcript without the paths left behind."""

    session: str
    tip: str
    messages: list[SessionMessage]
    turn_ids: list[str]
    waiting: dict[str, tuple[InputPart, ...]]
    compacted: events.Compacted | None
    opaques: dict[str, events.Opaque]
    todos: tuple[events.Todo, ...]
    memory: list[events.MemoryNoted] = []


class Transcript:
    """The conversation of a session, by its active path."""

    __slots__ = (
        "_beside",
        "_inputs",
        "_nodes",
        "branches",
        "compacted",
        "complete",
        "epoch",
        "memory",
        "messages",
        "opaques",
        "session",
        "todos",
        "turn_ids",
    )

    def __init__(self, snapshot: TranscriptSnapshot | None = None) -> None:
        self.branches = Branches()
        self.session = ""
        self.messages: list[SessionMessage] = []
        """What a model would be sent, oldest first."""
        self.turn_ids: list[str] = []
        """The turns on the path, in order."""
        self.epoch = 0
        """Changes when `messages` was not merely appended to."""
        self.compacted: events.Compacted | None = None
        """The compaction that `messages` begin with."""
        self.opaques: dict[str, events.Opaque] = {}
        """What only its provider can read, by the message it belongs to."""
        self.todos: tuple[events.Todo, ...] = ()
        """What is to be done, as the path has it."""
        self.memory: list[events.MemoryNoted] = []
        """What became of memories, on all paths: a rewind takes none of it back."""
        self.complete = snapshot is None
        self._beside = Beside()
        self._nodes: dict[str, Recorded] = {}
        self._inputs: dict[str, tuple[InputPart, ...]] = {}
        if snapshot is not None:
            self.session, self.messages, self.turn_ids = snapshot.session, snapshot.messages, snapshot.turn_ids
            self.branches.tip = snapshot.tip
            self._inputs = dict(snapshot.waiting)
            self.compacted, self.opaques, self.todos = snapshot.compacted, snapshot.opaques, snapshot.todos
            self.memory = snapshot.memory

    def apply(self, record: Recorded) -> None:
        """Take an event in."""
        event = record.event
        if type(event) in BESIDE:
            self._take_beside(record, event)
            return
        if isinstance(event, events.HookFinished) and event.args and event.event in ("PreToolUse", "PermissionRequest"):
            self._beside.args.setdefault(event.subject, event.args)
        jumped = self.branches.apply(record)
        if record.id in self.branches.parents:
            self._nodes[record.id] = record
            if not jumped:
                self._show(record)
        if jumped:
            self._walk()

    def snapshot(self, waiting: Iterable[str]) -> TranscriptSnapshot:
        """Return the transcript without the paths left behind; `waiting` names the inputs that are still queued."""
        return TranscriptSnapshot(
            session=self.session,
            tip=self.branches.tip,
            messages=self.messages,
            turn_ids=self.turn_ids,
            waiting={one: self._inputs[one] for one in waiting if one in self._inputs},
            compacted=self.compacted,
            opaques=self.opaques,
            todos=self.todos,
            memory=self.memory,
        )

    def path(self, to: str | None = None) -> list[Recorded]:
        """Return the nodes of the active path, or of the one that ends at `to`."""
        return [self._nodes[node] for node in self.branches.path(to)]

    def walk_nodes(self) -> Iterator[tuple[Recorded, SessionMessage | None]]:
        """Yield every node of the path, with the message that it is: also those that a summary stands for."""
        for record in self.path():
            yield record, self._message(record, record.event)

    def entries(self, before: Mapping[str, str] | None = None) -> tuple[Entry, ...]:
        """Return the full history of the path: messages and events, oldest first.

        `before` says what files held before the calls that changed them, as far as it is known: see `kept`.
        """
        path = self.path()
        messages = {record.id: message for record in path if (message := self._message(record, record.event))}
        return tuple(EntryFold(self._beside, before or {}).entries(path, messages))

    def file_captures(self) -> Mapping[str, str]:
        """Return the calls that changed a file, and the blob with what it held before; empty when there was no file."""
        return self._beside.kept

    def turn_end(self, turn: str) -> str | None:
        """Return the node that ends `turn`; None when no ended turn of any path is called that."""
        for node, record in self._nodes.items():
            if (
                isinstance(record.event, events.TurnCompleted)
                and record.event.turn == turn
                and record.event.outcome != "abandoned"
            ):
                return node
        return None

    def is_turn(self, node: str) -> bool:
        """Return whether `node` is the beginning of a turn."""
        return node in self._nodes and isinstance(self._nodes[node].event, events.TurnStarted)

    def was_abandoned(self, turn: str) -> bool:
        """Return whether `turn` was given up after a crash."""
        ends = (record.event for record in self._nodes.values())
        return any(
            isinstance(end, events.TurnCompleted) and end.turn == turn and end.outcome == "abandoned" for end in ends
        )

    def before_turn(self, turn: str) -> str | None:
        """Return the node that `turn` grew from (empty at the beginning); None when there is no such turn."""
        return self.branches.parents[turn] if self.is_turn(turn) else None

    def turns_up_to(self, node: str) -> int:
        """Return how many turns the path to `node` holds."""
        return sum(isinstance(record.event, events.TurnStarted) for record in self.path(node))

    def at(self, node: str) -> "Transcript":
        """Return the conversation as it is at `node`, on any path."""
        there = Transcript()
        there.session, there._nodes, there._inputs = self.session, self._nodes, self._inputs
        there._beside, there.memory = self._beside, self.memory
        there.branches.parents, there.branches.tip = self.branches.parents, node
        there._walk()
        return there

    def without(self, compaction: str) -> "Transcript":
        """Return the conversation as if a compaction had not been."""
        there = self.at(self.branches.tip)
        there._walk(frozenset((compaction,)))
        return there

    def newest_compaction(self) -> str:
        """Return the id of the compaction that is in force; empty when none is."""
        path = self.path()
        undone = {record.event.compaction for record in path if isinstance(record.event, events.CompactionUndone)}
        made = (r.id for r in reversed(path) if isinstance(r.event, events.Compacted) and r.id not in undone)
        return next(made, "")

    def _take_beside(self, record: Recorded, event: Event) -> None:
        """Take in what is beside the path."""
        match event:
            case events.InputReceived():
                self._inputs[event.input] = event.parts
                if event.display:
                    self._beside.displays[event.input] = event.display
            case events.ToolStarted() | events.ChildStarted():
                self._beside.starts.append(record)
            case events.PermissionAnswered(allowed=True, args=args) if args:
                self._beside.args[event.call] = args
            case events.FileKept() if event.call and (event.kind == "absent" or event.sha256):
                self._beside.kept[event.call] = event.sha256
            case events.MemoryNoted():
                self.memory.append(event)
            case events.Started():
                self.session = event.session
            case _:
                pass

    def _walk(self, without: frozenset[str] = frozenset()) -> None:
        self.messages, self.turn_ids, self.compacted, self.opaques, self.todos = [], [], None, {}, ()
        self.epoch += 1
        path = self.path()
        undone = {record.event.compaction for record in path if isinstance(record.event, events.CompactionUndone)}
        for record in path:
            if record.id not in undone | without and not isinstance(record.event, events.CompactionUndone):
                self._show(record)

    def _show(self, record: Recorded) -> None:
        event = record.event
        if isinstance(event, events.TurnStarted):
            self.turn_ids.append(record.id)
        elif isinstance(event, events.HistoryCleared):
            self.messages, self.compacted, self.opaques, self.todos = [], None, {}, ()
            self.epoch += 1
        elif isinstance(event, events.Compacted):
            self._compact(record, event)
        elif isinstance(event, events.CompactionUndone):
            self._walk()
        elif isinstance(event, events.TodosWritten):
            self.todos = event.todos
        elif isinstance(event, events.HookFinished):
            self._replace_result(event)
        elif message := self._message(record, event):
            self.messages.append(message)
            if isinstance(event, events.ModelReplied) and event.opaque is not None:
                self.opaques[record.id] = event.opaque

    def _compact(self, record: Recorded, event: events.Compacted) -> None:
        summary = SessionMessage(
            id=record.id,
            session=self.session,
            number=record.seq,
            role="user",
            content=frame_summary(event),
            at=record.at,
        )
        self.messages = shortened(event, summary, self.messages)
        self.compacted = event if summary.content else None
        kept = {message.id for message in self.messages}
        self.opaques = {message: opaque for message, opaque in self.opaques.items() if message in kept}
        self.epoch += 1

    def _replace_result(self, event: events.HookFinished) -> None:
        """Show the model what a hook made of a tool's output."""
        if event.output is None:
            return
        for at in range(len(self.messages) - 1, -1, -1):
            part = self.messages[at].content[0]
            if isinstance(part, ToolResult) and part.call == event.subject:
                changed = ToolResult(call=part.call, content=(Text(text=event.output),), is_error=part.is_error)
                self.messages[at] = msgspec.structs.replace(self.messages[at], content=(changed,))
                self.epoch += 1
                return

    def _message(self, record: Recorded, event: Event) -> SessionMessage | None:
        match event:
            case events.InputTaken():
                parts = tuple(part for one in event.inputs for part in self._inputs.get(one, ()))
                return self._make_message(record, "user", parts)
            case events.ModelReplied():
                state: Literal["complete", "interrupted"] = "interrupted" if event.stop == "interrupted" else "complete"
                return self._make_message(record, "assistant", event.parts, model=event.model, state=state)
            case events.ToolFinished():
                result = ToolResult(call=event.call, content=event.content, is_error=event.outcome != "ok")
                return self._make_message(record, "tool", (result,))
            case events.ChildFinished():
                report = Text(text=events.child_report(event))
                if event.skill:
                    return self._make_message(record, "user", (report,))
                result = ToolResult(call=event.call, content=(report,), is_error=event.outcome != "completed")
                return self._make_message(record, "tool", (result,))
            case events.MessageInjected():
                return self._make_message(record, event.role, event.parts)
            case _:
                return None

    def _make_message(
        self,
        record: Recorded,
        role: Role,
        parts: tuple[DurablePart, ...],
        *,
        model: str = "",
        state: Literal["complete", "interrupted"] = "complete",
    ) -> SessionMessage | None:
        for part in parts:
            if isinstance(part, Text) and not part.text:
                parts = tuple(part for part in parts if not isinstance(part, Text) or part.text)
                break
        if not parts:
            return None
        return SessionMessage(
            id=record.id,
            session=self.session,
            number=record.seq,
            role=role,
            content=parts,
            model=model,
            at=record.at,
            state=state,
        )


def transcript_of(records: Iterable[Recorded]) -> Transcript:
    """Return the transcript of a log."""
    transcript = Transcript()
    for record in records:
        transcript.apply(record)
    return transcript


# --- turns -----------------------------------------------------------------------------------------------------------------------


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that belong together."""

    messages: tuple[SessionMessage, ...]
    inputs: tuple[SessionMessage, ...]
    """Those of them that a person or program sent; the other user messages are ours."""
    completed: bool

    @property
    def asked(self) -> str:
        """The text of what was sent."""
        return "\n\n".join(filter(None, (text_of(message.content) for message in self.inputs)))

    @property
    def answer(self) -> str:
        """The final text; empty when the turn is not completed."""
        return text_of(self.messages[-1].content) if self.completed else ""

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools it called, each once, in order."""
        calls = (part for m in self.messages for part in m.content if isinstance(part, ToolCall))
        return tuple(dict.fromkeys(call.name for call in calls))


NodeMessage = tuple[Recorded, SessionMessage | None]
"""A node of a path, and the message that it is."""


def segment(transcript: Transcript) -> tuple[Turn, ...]:
    """Cut a conversation into turns, also those that a summary stands for. What was cleared is left out."""
    walk_nodes = list(transcript.walk_nodes())
    cleared = max(
        (at for at, (record, _) in enumerate(walk_nodes) if isinstance(record.event, events.HistoryCleared)), default=-1
    )
    return tuple(segments(walk_nodes[cleared + 1 :]))


def segments(walk_nodes: Iterable[NodeMessage]) -> Iterator[Turn]:
    """Cut what was spoken into turns. Messages between turns belong to none.

    Input to which nothing was said at all goes with the next: what comes then answers both.
    """
    turn: Turn | None = None
    messages: list[SessionMessage] = []
    inputs: list[SessionMessage] = []
    for record, message in walk_nodes:
        event = record.event
        if isinstance(event, events.TurnStarted):
            messages, inputs = [], []
            if turn is not None and turn.messages == turn.inputs:
                messages, inputs = [*turn.messages], [*turn.inputs]
            elif turn is not None:
                yield turn
            turn = None
        elif isinstance(event, events.TurnCompleted):
            done = event.outcome == "completed" and is_answered(messages)
            turn = Turn(messages=tuple(messages), inputs=tuple(inputs), completed=done)
        elif message is not None:
            messages.append(message)
            inputs += [message] if isinstance(event, events.InputTaken) else []
    if turn is not None:
        yield turn


def is_answered(messages: Sequence[SessionMessage]) -> bool:
    """Return whether the last message is an assistant's with text and without an open call."""
    if not messages or messages[-1].role != "assistant" or messages[-1].state == "interrupted":
        return False
    last = messages[-1]
    has_text = bool(text_of(last.content).strip()) or any(isinstance(part, TextRef) for part in last.content)
    return has_text and not open_calls(messages)


def open_calls(messages: Iterable[SessionMessage]) -> tuple[str, ...]:
    """Return the calls among `messages` that have no result there."""
    calls: dict[str, None] = {}
    for message in messages:
        for part in message.content:
            if isinstance(part, ToolCall):
                calls[part.id] = None
            elif isinstance(part, ToolResult):
                calls.pop(part.call, None)
    return tuple(calls)
