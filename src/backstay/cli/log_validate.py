"""Check a log: the numbers, ids and times of its events, intents and results, blobs, and payloads of model calls."""

from collections.abc import Iterable, Iterator

import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from backstay.catalog import sessions
from backstay.catalog.paged_log import pages
from backstay.export.diagnostic.check import CallsSeen, Issue, in_words
from backstay.export.diagnostic.lines import LANDMARKS, DiagnosticSource, LogOutline
from backstay.logic.state.conversation import SeenIds
from backstay.logic.text import pluralise
from backstay.ports import EventStore
from backstay.stores.stored_trace import TraceSlice, read_trace
from backstay.stores.trace import trace_folder
from backstay.vocab import events
from backstay.vocab.event import Event, Recorded


def problems(log: Iterable[Recorded]) -> tuple[str, ...]:
    """Return everything that is wrong with a log, in words."""
    return Validity().take(log).problems


class Validity:
    """Check a log, some events at a time."""

    def __init__(self) -> None:
        self.events = 0
        """The number of events that were checked."""
        self._wrong_places: list[str] = []
        self._wrong_pairs: list[str] = []
        self._ids = SeenIds()
        self._at = 0
        self._pairs = _Pairs()

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong so far, in words."""
        return (*self._wrong_places, *self._wrong_pairs)

    def take(self, records: Iterable[Recorded]) -> "Validity":
        """Check the next events."""
        for record in records:
            self.events += 1
            self._wrong_places += self._place(record)
            self._wrong_pairs += self._pairs.take(record)
        return self

    def _place(self, record: Recorded) -> Iterator[str]:
        """Check that numbers have no gaps, ids are unique, times never go back, and the log begins with its start."""
        is_start = isinstance(record.event, events.Started)
        if self.events == 1 and not is_start:
            yield f"The log begins with {_name(record.event)}, not with its start."
        if record.seq != self.events:
            yield f"Event {record.seq} stands at position {self.events}."
        if not self._ids.add(record.id):
            yield f"Event {record.seq} has the id {record.id!r} of an earlier one."
        if record.at < self._at:
            yield f"Event {record.seq} is older than the one before it."
        if self.events > 1 and is_start:
            yield f"Event {record.seq} starts the session again."
        self._at = record.at


class _Pairs:
    """Check that every intent and call has one result and every turn one end, unless a crash or the end of the log cut it off."""

    def __init__(self) -> None:
        self._asked: dict[str, int] = {}
        self._calls: dict[str, str] = {}
        self._started: dict[str, int] = {}
        self._turn: tuple[str, int] | None = None
        self._open_operations: set[str] = set()
        """Compactions and waits in progress."""
        self._skill = ""
        """The call of the skill that a person runs, while it runs."""
        self._forked = False
        """A fork copies the result of a compaction and not its start."""

    def take(self, record: Recorded) -> Iterator[str]:
        """Yield each mismatch. What is open at the end may still be answered."""
        event, seq = record.event, record.seq
        match event:
            case events.Started():
                self._forked = event.origin is not None
            case events.CompactionStarted() | events.WaitStarted():
                self._open_operations.add(record.id)
            case events.Compacted() | events.CompactionFailed() | events.WaitEnded():
                if record.cause not in self._open_operations and not self._forked:
                    yield f"{_name(event)} at {seq} answers {record.cause!r}, which is not under way."
                self._open_operations.discard(record.cause)
            case events.Opened():
                self._asked.clear()  # what the process before had in flight is lost, and reported so
                self._started.clear()
            case events.TurnStarted():
                if self._turn is not None:
                    yield f"Turn {record.id!r} begins at {seq}, and turn {self._turn[0]!r} has not ended."
                self._turn = record.id, seq
            case events.TurnCompleted():
                yield from self._end_turn(event, seq)
            case events.ModelAsked():
                if self._asked:
                    yield f"The model is asked at {seq} while another question is open."
                self._asked[record.id] = seq
            case events.ModelReplied() | events.ModelFailed():
                if self._asked.pop(record.cause, None) is None:
                    yield f"The reply at {seq} answers {record.cause!r}, which is not an open question."
                if isinstance(event, events.ModelReplied):
                    self._calls.update({call.id: call.name for call in events.calls_of(event)})
            case events.ToolStarted():
                if event.call not in self._calls:
                    yield f"A tool is started at {seq} for the call {event.call!r}, which is not open."
                if event.call in self._started:
                    yield f"The call {event.call!r} is started again at {seq}."
                self._started[event.call] = seq
            case events.ChildStarted(skill=events.SkillRun()):
                self._skill = event.call
            case events.ChildFinished(skill=str() as skill) if skill:
                if self._skill != event.call:
                    yield f"The end at {seq} is of the skill {skill!r}, which is not running."
                self._skill = ""
            case events.ToolFinished() | events.ChildFinished():
                if self._calls.pop(event.call, None) is None:
                    yield f"The result at {seq} is for the call {event.call!r}, which is not open."
                self._started.pop(event.call, None)
            case _:
                pass

    def _end_turn(self, event: events.TurnCompleted, seq: int) -> Iterator[str]:
        if self._turn is None or self._turn[0] != event.turn:
            yield f"Turn {event.turn!r} ends at {seq}, and it is not open."
        if event.outcome != "abandoned":
            for call, name in self._calls.items():
                yield f"The turn that ends at {seq} leaves {name} (call {call!r}) without a result."
            for question in self._asked:
                yield f"The turn that ends at {seq} leaves the question {question!r} without an answer."
        self._turn = None
        self._calls.clear()
        self._asked.clear()
        self._started.clear()


def _name(event: Event) -> str:
    return type(event).__name__


class SessionCheck(Struct, frozen=True, kw_only=True):
    """The outcome of checking a session."""

    events: int
    wrong: tuple[str, ...]
    issues: tuple[Issue, ...]
    """The problems of model calls and tools; `wrong` has them in words."""
    notes: tuple[str, ...]


async def check_session(store: EventStore, session: str) -> SessionCheck:
    """Check the readability, numbers, intents and results, blobs and payloads of a session."""
    wrong = await sessions.verify(store, session)
    validity = Validity()
    landmarks: list[Recorded] = []
    last: tuple[Recorded, ...] = ()
    async for part in pages(store, session):
        validity.take(part.records)
        landmarks += [record for record in part.records if isinstance(record.event, LANDMARKS)]
        last = part.records[-1:] or last
    folder = trace_folder(store.url)
    trace = None if folder is None else await anyio.to_thread.run_sync(read_trace, folder, session)
    records = tuple(landmarks) if landmarks[-1:] == list(last) else (*landmarks, *last)
    seen = await _check_calls(store, DiagnosticSource(session=session, records=records, trace=trace, text=_no_text))
    # the lines are not written to a file, so they have no numbers
    issues = tuple(replace(issue, event_index=None) for issue in seen.issues())
    return SessionCheck(
        events=validity.events,
        wrong=(*wrong, *validity.problems, *in_words(issues)),
        issues=issues,
        notes=(*_loss_notes(trace), *_other_notes(seen)),
    )


async def _check_calls(store: EventStore, source: DiagnosticSource) -> CallsSeen:
    outline, seen, index = LogOutline(source), CallsSeen(in_order=True), 0
    async for part in pages(store, source.session):
        for line in outline.take(part.records):
            seen.take(index, line)
            index += 1
    for line in outline.rest():
        seen.take(index, line)
        index += 1
    return seen


def _no_text(sha256: str) -> None:
    """Stand in for the reader of kept texts: the check counts lines and prints none, so it needs no text."""


def _loss_notes(trace: TraceSlice | None) -> tuple[str, ...]:
    lost = trace.lost if trace is not None else 0
    return (f"Lost from the trace: {pluralise(lost, 'line')}; the log does not need them.",) if lost else ()


def _other_notes(seen: CallsSeen) -> tuple[str, ...]:
    return tuple(note for note in seen.notes() if not note.startswith("Lost from the trace"))
