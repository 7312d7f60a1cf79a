"""The bus: passes committed events, and the deltas between them, to all subscribers.

A subscriber has a bounded ring. One that is too slow loses what it did not take, is told so (`Lagged`) and reads the log again from there;
it never makes the loop wait. Subscribers are woken once a batch. `follow` does the reading: every event in order, however slow the
follower.
"""

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Final

import anyio
from msgspec.structs import replace

from backstay.logic.state.session_state import State
from backstay.ports import EventStore, Trace
from backstay.runtime.mask_events import Mask
from backstay.vocab import events
from backstay.vocab.deltas import Delta, Lagged, Notice, ReasoningDelta, TextDelta, ToolArgsDelta, ToolOutputDelta
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
        """Return the next item if one is there; never waits."""
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

    def mark_read(self, seq: int) -> None:
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


# --- deltas ----------------------------------------------------------------------------------------------------------------------


class DeltaStream:
    """The deltas of one session, each placed behind the newest event and numbered from there."""

    def __init__(self, session: str, state: State, mask: Mask, bus: Bus, trace: Trace) -> None:
        self._session = session
        self._state = state
        self._mask = mask
        self.bus = bus
        self.trace = trace
        self._shown = 0
        self._texts: list[str] = []

    @property
    def text(self) -> str:
        """The text of the model in the call that is running."""
        return "".join(self._texts)

    def show(self, delta: Delta) -> None:
        """Show a delta to all subscribers, and trace it; never waits."""
        if isinstance(delta, TextDelta):
            self._texts.append(delta.text)
        self._shown += 1
        placed = replace(self._mask.mask_delta(delta), after=self._state.progress.seq, n=self._shown)
        self.bus.publish((placed,))
        self.trace.write(self._session, type(delta).__name__, {"delta": placed})

    def tap(self, kind: str, content: Mapping[str, object]) -> None:
        """Write a line into the trace; never waits."""
        self.trace.write(self._session, kind, content)

    def note_commit(self, *, text: bool) -> None:
        """Number from the newest event on; with `text`, forget what the model said: its call is over."""
        self._shown = 0
        if text:
            self._texts.clear()


# --- following a session ---------------------------------------------------------------------------------------------------------


_STREAMED: Final = (TextDelta, ReasoningDelta, ToolArgsDelta, ToolOutputDelta)
OnLag = Callable[[Lagged], Awaitable[None]]


async def follow(
    subscription: Subscription, store: EventStore, session: str, on_lag: OnLag | None = None
) -> AsyncIterator[Item]:
    """Yield everything from the subscription; what it lost is read from the log, deltas excepted, after `on_lag` was awaited."""
    async for item in subscription:
        if not isinstance(item, Lagged):
            yield item
            continue
        if on_lag is not None:
            await on_lag(item)
        for record in (await store.read(session, item.after)).records:
            subscription.mark_read(record.seq)
            yield record


async def follow_input(
    subscription: Subscription, store: EventStore, session: str, input_id: str, turn: str = "", *, behind: bool = False
) -> AsyncIterator[Item]:
    """Yield everything until the turn that answers `input_id` is over, the notices of its end included.

    `turn` is that turn when the input was taken before, perhaps by a process that died. What is streamed `behind` whose turn it waits
    is not for this caller.
    """
    async for item in follow(subscription, store, session):
        if behind and not turn and isinstance(item, _STREAMED):
            continue
        yield item
        match item:
            case Recorded(event=events.InputTaken(inputs=inputs)) if input_id in inputs:
                turn = item.cause
            case Recorded(event=events.InputDropped(inputs=inputs), by="hook") if input_id in inputs:
                turn = item.cause
            case Recorded(event=events.InputDropped(inputs=inputs)) if input_id in inputs:
                return
            case Recorded(event=events.TurnCompleted(turn=ended)) if ended == turn:
                break
            case Recorded(event=events.BudgetAnswered(nobody=True)):
                return  # the turn waits for money, and there is no asker
            case _:
                pass
    while isinstance(notice := subscription.take(), Notice):
        yield notice
