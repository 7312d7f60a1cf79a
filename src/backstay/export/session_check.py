"""Is a session whole? Its log is read a page at a time, so that one of a million events can be checked."""

import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from backstay.catalog import sessions
from backstay.catalog.load import pages
from backstay.cli.log_validate import Validity
from backstay.export.diagnostic.check import CallsSeen, Issue, in_words
from backstay.export.diagnostic.lines import LANDMARKS, LogOutline, Material
from backstay.logic.text.plural import pluralise
from backstay.ports import EventStore
from backstay.stores.trace.files import trace_folder
from backstay.stores.trace.trace import TraceSlice, read_trace
from backstay.vocab.event import Recorded


class SessionCheck(Struct, frozen=True, kw_only=True):
    """What came of checking a session."""

    events: int
    wrong: tuple[str, ...]
    issues: tuple[Issue, ...]
    """Of `wrong`, what is wrong with model calls and tools."""
    notes: tuple[str, ...]


async def check_session(store: EventStore, session: str) -> SessionCheck:
    """Check the bytes, the numbers, the pairs, the blobs and the payloads of a session."""
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
    seen = await _seen(store, Material(session=session, records=records, trace=trace, text=_no_text))
    issues = tuple(
        replace(issue, event_index=None) for issue in seen.issues()
    )  # lines that nobody wrote have no numbers
    return SessionCheck(
        events=validity.events,
        wrong=(*wrong, *validity.problems, *in_words(issues)),
        issues=issues,
        notes=(*_lost(trace), *_others(seen)),
    )


async def _seen(store: EventStore, material: Material) -> CallsSeen:
    outline, seen, index = LogOutline(material), CallsSeen(in_order=True), 0
    async for part in pages(store, material.session):
        for line in outline.take(part.records):
            seen.take(index, line)
            index += 1
    for line in outline.rest():
        seen.take(index, line)
        index += 1
    return seen


def _no_text(sha256: str) -> None:
    """Nobody reads the lines."""


def _lost(trace: TraceSlice | None) -> tuple[str, ...]:
    lost = trace.lost if trace is not None else 0
    return (f"Lost from the trace: {pluralise(lost, 'line')}; the log does not need them.",) if lost else ()


def _others(seen: CallsSeen) -> tuple[str, ...]:
    return tuple(note for note in seen.notes() if not note.startswith("Lost from the trace"))
