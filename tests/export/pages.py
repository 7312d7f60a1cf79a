"""Sessions for the tests of pages: a log is given, and the page that is made of it comes back."""

from collections.abc import Mapping, Sequence

from backstay import open_store
from backstay.catalog.paged_log import with_log
from backstay.export.formats import PageKind, page
from backstay.logic.secrets.redact import PLAIN, Redactor
from backstay.ports import EventStore
from backstay.stores.owners import this_process
from backstay.system.machine import SystemClock
from backstay.testing.builders import recorded, started
from backstay.vocab.event import Event, Recorded
from backstay.vocab.events import InputReceived, InputTaken, ModelReplied, Started, TurnCompleted, TurnStarted
from backstay.vocab.ids import event_id
from backstay.vocab.messages import InputPart, StoredPart, Text


async def stored(records: Sequence[Recorded], blobs: Mapping[str, bytes] | None = None) -> EventStore:
    """A store that holds a log."""
    store = await open_store("memory:", clock=SystemClock())
    lease = await store.lease("s1", this_process("test"))
    await store.append(lease, 0, records, blobs or {})
    await store.release(lease)
    return store


async def page_of(
    kind: PageKind, *events: Event, blobs: Mapping[str, bytes] | None = None, redactor: Redactor = PLAIN, **of: str
) -> str:
    """The page of a session with these events after its start; `of` are fields of the start."""
    typed = (InputReceived, Started)
    records = [
        recorded(event, seq, by="user" if isinstance(event, typed) else "system")
        for seq, event in enumerate((started(**of), *events), 1)
    ]
    store = await stored(records, blobs)
    try:
        return await page_in(store, kind, redactor)
    finally:
        await store.close()


async def page_in(store: EventStore, kind: PageKind, redactor: Redactor = PLAIN) -> str:
    """The page of the session in a store."""
    return await with_log(store, "s1", lambda log: "".join(page(log, kind, redactor=redactor)))


class Turns:
    """Writes turns down, and knows their ids."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.turn = ""

    def asked(self, *parts: InputPart | str, display: str = "") -> "Turns":
        """A turn begins."""
        number = sum(isinstance(event, TurnStarted) for event in self.events) + 1
        given = tuple(Text(text=part) if isinstance(part, str) else part for part in parts)
        self.events.append(InputReceived(input=f"in-{number}", parts=given, display=display))
        self.turn = event_id("t0", len(self.events) + 2)
        self.events += (TurnStarted(number=number), InputTaken(inputs=(f"in-{number}",)))
        return self

    def said(self, *parts: StoredPart | str, **of: object) -> "Turns":
        """The model answers."""
        given = tuple(Text(text=part) if isinstance(part, str) else part for part in parts)
        self.events.append(ModelReplied(parts=given, **{"model": "scripted:test", **of}))  # type: ignore[arg-type]  # as `started`
        return self

    def happened(self, *events: Event) -> "Turns":
        """Something else happens."""
        self.events += events
        return self

    def over(self, outcome: str = "completed", **of: str) -> "Turns":
        """The turn ends."""
        self.events.append(TurnCompleted(turn=self.turn, outcome=outcome, **of))  # type: ignore[arg-type]  # as above
        return self
