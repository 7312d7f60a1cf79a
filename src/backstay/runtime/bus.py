"""The bus: what is committed, and the deltas between commits, to whoever listens.

A subscriber has a bounded ring. One that is too slow loses what it did not take, is told so (`Lagged`) and reads the log again from there;
it never makes the loop wait. Subscribers are woken once a batch.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

import anyio

from backstay.vocab.deltas import Delta, Lagged, Notice
from backstay.vocab.event import Recorded

Item = Recorded | Delta | Notice
CAPACITY: Final = 16_384


class Subscription:
    """One listener's view of the stream: an async iterator that ends when the bus closes."""

    def __init__(self, bus: "Bus", capacity: int, after: int, only: type[Item] | None) -> None:
        self._bus = bus
        self._only = only
        self._ring: deque[Item] = deque()
        self._capacity = capacity
        self._sleeping: anyio.Event | None = None
        self._seen = after
        self._missed = 0
        self._closed = False

    def __aiter__(self) -> "Subscription":
        return self

    async def __anext__(self) -> Item | Lagged:
        while True:
            if (item := self.take()) is not None:
                return item
            if self._closed:
                raise StopAsyncIteration
            self._sleeping = anyio.Event()
            await self._sleeping.wait()

    def take(self) -> Item | Lagged | None:
        """The next item if one is there; never waits."""
        if self._missed:
            missed, self._missed = self._missed, 0
            return Lagged(after=self._seen, missed=missed)
        while self._ring:
            item = self._ring.popleft()
            if isinstance(item, Delta) and item.after < self._seen:
                continue  # the event that it led to was read from the log meanwhile
            if not isinstance(item, Recorded):
                return item
            if item.seq > self._seen:
                self._seen = item.seq
                return item
        return None

    def caught_up(self, seq: int) -> None:
        """Say that everything up to `seq` was read from the log; what the ring still holds of it is left out."""
        self._seen = max(self._seen, seq)

    def push(self, items: Iterable[Item]) -> None:
        """Add items; forget everything waiting when there is no room."""
        if self._only is not None:
            items = [item for item in items if isinstance(item, self._only)]
            if not items:
                return
        self._ring.extend(items)
        if len(self._ring) > self._capacity:
            self._missed += len(self._ring)
            self._ring.clear()
        if self._sleeping is not None:
            self._rouse(self._sleeping)

    def end(self) -> None:
        """Let the listener finish what it has and stop."""
        self._closed = True
        if self._sleeping is not None:
            self._rouse(self._sleeping)

    def close(self) -> None:
        """Stop listening."""
        self._bus.remove(self)
        self.end()

    def _rouse(self, sleeping: anyio.Event) -> None:
        """Wake the listener: once, however many items come before it runs."""
        self._sleeping = None
        sleeping.set()


class Bus:
    """Fans items out to subscriptions."""

    def __init__(self) -> None:
        self._subscriptions: list[Subscription] = []
        self._closed = False

    def subscribe(self, *, after: int = 0, capacity: int = CAPACITY, only: type[Item] | None = None) -> Subscription:
        """Listen from now on; `after` is the last seq the listener knows. With `only`, nothing else wakes it."""
        subscription = Subscription(self, capacity, after, only)
        if self._closed:
            subscription.end()
        else:
            self._subscriptions.append(subscription)
        return subscription

    def publish(self, items: Iterable[Item]) -> None:
        """Hand `items` to every listener; never waits."""
        if self._subscriptions:
            batch = tuple(items)
            for subscription in self._subscriptions:
                subscription.push(batch)

    def remove(self, subscription: Subscription) -> None:
        """Forget a listener; nothing happens when it is gone already."""
        self._subscriptions = [one for one in self._subscriptions if one is not subscription]

    def close(self) -> None:
        """End every subscription."""
        self._closed = True
        for subscription in self._subscriptions:
            subscription.end()
        self._subscriptions = []
