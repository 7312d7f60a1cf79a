"""Read a log a page at a time: as an async iterator, or from a thread."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final, TypeVar

import anyio
import anyio.from_thread
import anyio.to_thread

from backstay.ports import EventStore, LogSlice
from backstay.vocab.errors import BlobMissing
from backstay.vocab.event import Recorded
from backstay.vocab.messages import TextRef
from backstay.vocab.specs import Trouble

T = TypeVar("T")
PAGE: Final = 1_024
"""Events of a page."""


async def pages(store: EventStore, session: str, after: int = 0, last: int | None = None) -> AsyncIterator[LogSlice]:
    """Yield the events after seq `after`, up to `last`, a page at a time; at least one page. Trouble stands with the last one."""
    while True:
        limit = PAGE if last is None else max(1, min(PAGE, last - after))
        part = await store.read(session, after, limit)
        yield part
        if len(part.records) < limit or part.trouble is not None or part.records[-1].seq == last:
            return
        after = part.records[-1].seq


class PagedLog:
    """A log that a thread reads a page at a time, as often as it likes, each time up to the event that was its last the first time."""

    def __init__(self, store: EventStore, session: str, last: int | None = None) -> None:
        self.session = session
        self.trouble: Trouble | None = None
        """Why it goes no further, once it was read to its end."""
        self._store = store
        self._last = last

    def __iter__(self) -> Iterator[Recorded]:
        return self.after(0)

    def after(self, seq: int) -> Iterator[Recorded]:
        """Yield the events after `seq`."""
        for records in self.pages(seq):
            yield from records

    def pages(self, seq: int = 0) -> Iterator[tuple[Recorded, ...]]:
        """Yield the events after `seq`, some at a time."""
        while self._last is None or seq < self._last:
            limit = PAGE if self._last is None else min(PAGE, self._last - seq)
            part = anyio.from_thread.run(self._store.read, self.session, seq, limit)
            self.trouble = self.trouble or part.trouble
            yield part.records
            seq = part.records[-1].seq if part.records else seq
            if len(part.records) < limit or part.trouble is not None:
                self._last = seq

    def text(self, ref: TextRef) -> str:
        """Return a long text, whole; what is known of it when the rest is missing."""
        try:
            return self.blob(ref.sha256).decode("utf-8", "replace")
        except BlobMissing:
            return f"{ref.head}… [the rest of {ref.chars:,} characters is missing]"

    def blob(self, sha256: str) -> bytes:
        """Return the bytes of a blob. Raise `BlobMissing`."""
        return anyio.from_thread.run(self._store.blob, sha256)


async def with_log(store: EventStore, session: str, work: Callable[[PagedLog], T], last: int | None = None) -> T:
    """Run `work` on a log in a thread, and return its result."""
    # a place of its own: threads that wait for the store must not keep others from the threads that the store works in
    limiter = anyio.CapacityLimiter(1)
    return await anyio.to_thread.run_sync(work, PagedLog(store, session, last), limiter=limiter)
