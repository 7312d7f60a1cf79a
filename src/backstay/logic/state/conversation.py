"""A conversation read from its log, from the beginning as often as is needed: one turn of it is in memory at a time.

`Transcript` keeps a conversation that goes on. This one is for exports and lists, and takes the same memory for any length.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Final

from msgspec import Struct

from backstay.logic.compaction import apply as shortened
from backstay.logic.compaction import frame_summary, trim
from backstay.logic.state.transcript import BESIDE, NODES, Transcript
from backstay.vocab import events
from backstay.vocab.event import Event, Recorded
from backstay.vocab.ids import base36
from backstay.vocab.messages import SessionMessage

Node = int | str
"""The seq of a node; its id until its place is looked up; 0 before the first node."""


class PathRuns(Struct, frozen=True):
    """The stretches of a log that its active path runs through, oldest first."""

    runs: tuple[tuple[int, int], ...]

    def holds(self, record: Recorded) -> bool:
        """Return whether `record` is a node of the path."""
        if type(record.event) not in NODES:
            return False
        at = bisect_right(self.runs, record.seq, key=lambda run: run[0]) - 1
        return at >= 0 and record.seq <= self.runs[at][1]


class PathFold:
    """Follows the path of a log an event at a time, as `Branches` does, without keeping its nodes."""

    def __init__(self) -> None:
        self._forks: list[tuple[int, Node]] = []
        """Nodes that do not grow from the one before them, and what they grow from."""
        self._tip: Node = 0
        self._before_turn: Node = 0
        self._jumped = True

    def apply(self, record: Recorded) -> None:
        """Take an event in."""
        event = record.event
        if isinstance(event, events.Rewound):
            self._tip, self._jumped = event.to or 0, True
        elif type(event) in NODES:
            if isinstance(event, events.TurnStarted):
                self._before_turn = self._tip
            if self._jumped:
                self._forks.append((record.seq, self._tip))
            self._tip, self._jumped = record.seq, False
            if isinstance(event, events.TurnCompleted) and event.outcome == "abandoned":
                self._tip, self._jumped = self._before_turn, True

    def runs(self, log: Iterable[Recorded]) -> PathRuns:
        """Return the path. The log is read once more when it was ever rewound."""
        wanted = {node for node in (self._tip, *(parent for _, parent in self._forks)) if isinstance(node, str)}
        seqs: dict[Node, int] = {each.id: each.seq for each in log if each.id in wanted} if wanted else {}
        runs: list[tuple[int, int]] = []
        node = seqs.get(self._tip, self._tip)
        while node:
            assert isinstance(node, int)
            first, parent = self._forks[bisect_right(self._forks, node, key=lambda fork: fork[0]) - 1]
            runs.append((first, node))
            node = seqs.get(parent, parent)
        return PathRuns(tuple(reversed(runs)))


_CHANGES: Final = (events.Compacted, events.CompactionUndone, events.HistoryCleared)
"""Events after which a model sees something else of what was said before."""


class ConversationFold:
    """Collects what must be known of a whole log before its conversation can be read turn by turn."""

    def __init__(self) -> None:
        self._path = PathFold()
        self._wanted: set[str] = set()
        """Messages that a compaction names."""
        self._undone: list[Recorded] = []

    def apply(self, record: Recorded) -> None:
        """Take an event in."""
        self._path.apply(record)
        if isinstance(record.event, events.Compacted):
            self._wanted |= {record.event.first_kept, *record.event.trimmed}
        elif isinstance(record.event, events.CompactionUndone):
            self._undone.append(record)

    def over(self, log: Iterable[Recorded], session: str) -> "Conversation":
        """Return the conversation of `log`, all of which was taken in; it is read once or twice more."""
        path = self._path.runs(log)
        undone = {
            r.event.compaction for r in self._undone if path.holds(r) and isinstance(r.event, events.CompactionUndone)
        }
        return Conversation(log, session, path, undone, self._wanted)


class Conversation:
    """The conversation of a log along its active path."""

    def __init__(
        self, log: Iterable[Recorded], session: str, path: PathRuns, undone: set[str], wanted: set[str]
    ) -> None:
        self.path = path
        self.todos: tuple[events.Todo, ...] = ()
        self.cleared = 0
        """The seq at which the history was cleared last."""
        self._log = log
        self._session = session
        self._first: list[SessionMessage] = []
        """What the messages begin with since the last compaction: its summary, and what the system said."""
        self._start = 0
        """The seq from which on all messages follow."""
        self._trimmed: dict[int, int] = {}
        """How often messages are cut."""
        self._see(undone, wanted)

    def turns(self) -> Iterator[list[Recorded]]:
        """Yield the events of the path, and what stands beside it, a turn at a time; first what came before the first turn.

        An input stands with the turn that takes it.
        """
        waiting: dict[str, Recorded] = {}
        turn: list[Recorded] = []
        for record in self._log:
            event = record.event
            if isinstance(event, events.InputReceived):
                waiting[event.input] = record
            elif type(event) in BESIDE:
                turn.append(record)
            elif self.path.holds(record):
                if isinstance(event, events.TurnStarted):
                    yield turn
                    turn = []
                if isinstance(event, events.InputTaken):
                    turn += [waiting.pop(each) for each in event.inputs if each in waiting]
                turn.append(record)
        yield turn

    def transcripts(self) -> Iterator[Transcript]:
        """Yield the transcript of each turn, with all that was said, whether the model still has it or not."""
        return (self._transcript(turn) for turn in self.turns())

    def messages(self) -> Iterator[SessionMessage]:
        """Yield the messages that a model would be sent, oldest first."""
        yield from self._first
        for turn in self.turns():
            if turn[-1:] and turn[-1].seq >= self._start:
                said = self._transcript([record for record in turn if not isinstance(record.event, _CHANGES)])
                for message in said.messages:
                    if message.number >= self._start:
                        yield _cut(message, self._trimmed.get(message.number, 0))

    def _transcript(self, turn: Iterable[Recorded]) -> Transcript:
        transcript = Transcript()
        transcript.session = self._session
        for record in turn:
            transcript.apply(record)
            if isinstance(record.event, events.TurnCompleted) and record.event.outcome == "abandoned":
                transcript = transcript.at(
                    record.id
                )  # a rewind went back to a turn that was given up: it is on the path again
        return transcript

    def _see(self, undone: set[str], wanted: set[str]) -> None:
        """Find what the messages begin with, what is cut of them, and what is to be done."""
        seqs: dict[str, int] = {}
        system: list[SessionMessage] = []
        for record in filter(self.path.holds, self._log):
            event = record.event
            if record.id in wanted:
                seqs[record.id] = record.seq
            if isinstance(event, events.HistoryCleared):
                self._first, self._start, self.todos, self.cleared, system = [], record.seq, (), record.seq, []
            elif isinstance(event, events.TodosWritten):
                self.todos = event.todos
            elif isinstance(event, events.MessageInjected) and event.role == "system":
                system += self._transcript([record]).messages
            elif isinstance(event, events.Compacted) and record.id not in undone:
                self._shorten(record, event, seqs, system)
                system = [message for message in system if message.number >= self._start]

    def _shorten(
        self, record: Recorded, event: events.Compacted, seqs: dict[str, int], system: list[SessionMessage]
    ) -> None:
        kept = {message.id for message in self._first}
        start = seqs.get(event.first_kept, -1)
        if event.first_kept in kept:
            start = self._start
        elif start < self._start:
            start = record.seq
        before = [*self._first, *(message for message in system if self._start <= message.number < start)]
        summary = SessionMessage(
            id=record.id,
            session=self._session,
            number=record.seq,
            role="user",
            content=frame_summary(event),
            at=record.at,
        )
        self._first, self._start = shortened(event, summary, before), start
        for id in event.trimmed:
            if id not in kept and seqs.get(id, -1) >= start:
                self._trimmed[seqs[id]] = self._trimmed.get(seqs[id], 0) + 1


def _cut(message: SessionMessage, times: int) -> SessionMessage:
    for _ in range(times):
        message = trim(message)
    return message


class VisibleTranscript(Transcript):
    """The messages of a log that is read from its beginning, without the paths left behind: a jump reads `log` again."""

    def __init__(self, log: Iterable[Recorded]) -> None:
        super().__init__()
        self._log = log
        self._taken: list[str] = []
        self._before_turn: tuple[list[SessionMessage], int] = ([], 0)

    def apply(self, record: Recorded) -> None:
        """Take an event in."""
        event = record.event
        if isinstance(event, events.InputReceived | events.Started):
            self._take_beside(record, event)
        elif isinstance(event, events.Rewound | events.CompactionUndone):
            self._read_again(record.seq)
        elif isinstance(event, events.TurnCompleted) and event.outcome == "abandoned":
            messages, count = self._before_turn
            self.messages = messages[:count]
        elif type(event) in NODES:
            self._follow(record, event)

    def _follow(self, record: Recorded, event: Event) -> None:
        if isinstance(event, events.TurnStarted):
            self._before_turn = self.messages, len(self.messages)
        self._show(record)
        if isinstance(event, events.InputTaken):
            self._taken += event.inputs
        elif isinstance(event, events.TurnCompleted):
            for input in self._taken:
                self._inputs.pop(input, None)
            self._taken.clear()

    def _read_again(self, last: int) -> None:
        log, fold = _Until(self._log, last), ConversationFold()
        for record in log:
            fold.apply(record)
        self.messages = list(fold.over(log, self.session).messages())


class _Until(Struct, frozen=True):
    log: Iterable[Recorded]
    last: int

    def __iter__(self) -> Iterator[Recorded]:
        return takewhile(lambda record: record.seq <= self.last, self.log)


class SeenIds:
    """The ids that were added."""

    def __init__(self) -> None:
        self._runs: dict[str, tuple[list[int], list[int]]] = {}
        """For each opening the first and the last numbers of its runs."""
        self._others: set[str] = set()

    def add(self, id: str) -> bool:
        """Add an id; return whether it is new."""
        opening, _, written = id.rpartition(".")
        number = _number(written)
        if number is None:
            new = id not in self._others
            self._others.add(id)
            return new
        firsts, lasts = self._runs.setdefault(opening, ([], []))
        at = bisect_right(firsts, number) - 1
        if at >= 0 and number <= lasts[at]:
            return False
        if at >= 0 and number == lasts[at] + 1:
            lasts[at] = number
        else:
            firsts.insert(at + 1, number)
            lasts.insert(at + 1, number)
        return True


def _number(written: str) -> int | None:
    try:
        number = int(written, 36)
    except ValueError:
        return None
    return number if number >= 0 and base36(number) == written else None
