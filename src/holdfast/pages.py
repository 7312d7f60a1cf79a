"""A log in pages, so that a long one is never in memory as a whole."""

from collections.abc import AsyncIterator
from typing import Final

from holdfast.ports import EventStore, LogSlice

PAGE: Final = 4_096
"""Events of a page."""


async def pages(store: EventStore, session: str, after: int = 0) -> AsyncIterator[LogSlice]:
    """The events after seq `after`, a page at a time; at least one page. Trouble ends the log, and stands with the last page.

    A folder of JSON lines is read in one page: it is read from the beginning of a file, however little is wanted of its end.
    """
    limit = None if store.url.startswith("jsonl:") else PAGE
    while True:
        part = await store.read(session, after, limit)
        yield part
        if limit is None or len(part.records) < limit or part.trouble is not None:
            return
        after = part.records[-1].seq
