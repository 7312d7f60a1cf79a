"""Every event of a session in order, however slow the listener, with the deltas between them while it keeps up.

What a `Subscription` lost is taken from a second one that holds events alone: a stream of deltas cannot crowd them out, and nothing has to
be read from a store.
"""

from collections.abc import AsyncIterator, Iterator

from holdfast.runtime.bus import Bus, Item
from holdfast.vocab.deltas import Lagged
from holdfast.vocab.event import Recorded


class Feed:
    """What happens after the event `after`, from the moment at which this is made."""

    def __init__(self, bus: Bus, *, after: int) -> None:
        self._all = bus.subscribe(after=after)
        self._events = bus.subscribe(after=after, only=Recorded)

    async def items(self) -> AsyncIterator[Item | Lagged]:
        """Everything until the bus closes; `Lagged` only when events are lost too, and the log alone has them."""
        async for item in self._all:
            if isinstance(item, Lagged):
                for lost in self._lost():
                    yield lost
                continue
            if isinstance(item, Recorded):
                self._events.take()  # the same one
            yield item

    def _lost(self) -> Iterator[Item | Lagged]:
        while (item := self._events.take()) is not None:
            if isinstance(item, Recorded):
                self._all.caught_up(item.seq)
            yield item
