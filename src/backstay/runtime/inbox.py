"""The inbox: everything that enters a session (prompts, answers, interrupts, results of performers) waits here for the next step."""

from collections.abc import Iterable, Mapping
from typing import Final

import anyio
from msgspec import Struct, field

from backstay.ports import Clock
from backstay.vocab.errors import BackstayError
from backstay.vocab.event import Draft

NOTE_DELAY_S: Final = 0.2
"""How long a note may wait for a commit that happens anyway."""


class InboxItem(Struct):
    """Events that arrived together, the blobs they cite, and the caller that waits until they are durable."""

    drafts: tuple[Draft, ...]
    blobs: Mapping[str, bytes] = field(default_factory=dict)
    wakes: bool = True
    """Whether it writes the pending opening, so that the session goes on."""
    committed: anyio.Event | None = None
    error: BackstayError | None = None

    async def wait(self) -> None:
        """Return when the events are durable; raise what kept them from it."""
        assert self.committed is not None
        await self.committed.wait()
        if self.error is not None:
            raise self.error

    def answer(self, error: BackstayError | None = None) -> None:
        """Wake the caller that waits."""
        self.error = error
        if self.committed is not None:
            self.committed.set()


class Inbox:
    """Items that arrived and were not written yet."""

    def __init__(self) -> None:
        self._items: list[InboxItem] = []
        self._wake = anyio.Event()
        self._noted = anyio.Event()
        self._closed: BackstayError | None = None

    def post(self, *drafts: Draft, blobs: Mapping[str, bytes] | None = None) -> None:
        """Leave events for the next step."""
        self._put(InboxItem(drafts, blobs or {}))

    async def deliver(self, *drafts: Draft, blobs: Mapping[str, bytes] | None = None, wakes: bool = True) -> None:
        """Leave events for the next step and return when they are durable."""
        item = InboxItem(drafts, blobs or {}, wakes=wakes, committed=anyio.Event())
        self._put(item)
        await item.wait()

    def note(self, draft: Draft) -> None:
        """Leave an event that travels with the next commit; it causes one only when none comes for a while."""
        self._items.append(InboxItem((draft,)))
        self._noted.set()

    async def flush_notes(self, clock: Clock) -> None:
        """See to it that no note waits for long. Runs as long as the session is open."""
        while True:
            await self._noted.wait()
            await clock.sleep(NOTE_DELAY_S)
            self._noted = anyio.Event()
            self.wake()

    def drain(self) -> list[InboxItem]:
        """Take everything."""
        items, self._items = self._items, []
        return items

    async def wait(self) -> None:
        """Return when there is something to drain."""
        await self._wake.wait()
        self._wake = anyio.Event()

    def wake(self) -> None:
        """Make `wait` return."""
        self._wake.set()

    def close(self, error: BackstayError) -> None:
        """Answer everything, now and later, with `error`."""
        self._closed = error
        self.fail(self.drain(), error)
        self.wake()

    @staticmethod
    def fail(items: Iterable[InboxItem], error: BackstayError) -> None:
        """Give `error` to the callers that wait for `items`."""
        for item in items:
            item.answer(error)

    def _put(self, item: InboxItem) -> None:
        if self._closed is not None:
            item.answer(self._closed)
            return
        self._items.append(item)
        self._wake.set()
