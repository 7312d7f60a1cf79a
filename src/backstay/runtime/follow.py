"""Following a session: every event in order, however slow the follower, with the deltas between them while it keeps up."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from backstay.ports import EventStore
from backstay.runtime.bus import Item, Subscription
from backstay.vocab.deltas import Lagged, Notice, ReasoningDelta, TextDelta, ToolArgsDelta, ToolOutputDelta
from backstay.vocab.event import Recorded
from backstay.vocab.events import InputDropped, InputTaken, TurnCompleted
from backstay.vocab.events.limits import BudgetAnswered

_STREAMED: Final = (TextDelta, ReasoningDelta, ToolArgsDelta, ToolOutputDelta)
Tell = Callable[[Lagged], Awaitable[None]]


async def follow(
    subscription: Subscription, store: EventStore, session: str, tell: Tell | None = None
) -> AsyncIterator[Item]:
    """Everything from the subscription; what it lost is read from the log, deltas excepted, after `tell` was told so."""
    async for item in subscription:
        if not isinstance(item, Lagged):
            yield item
            continue
        if tell is not None:
            await tell(item)
        for record in (await store.read(session, item.after)).records:
            subscription.caught_up(record.seq)
            yield record


async def follow_input(
    subscription: Subscription, store: EventStore, session: str, input_id: str, turn: str = "", *, behind: bool = False
) -> AsyncIterator[Item]:
    """Everything until the turn that answers `input_id` is over, the notices of its end included.

    `turn` is that turn when the input was taken before, perhaps by a process that died. What is streamed `behind` whose turn it waits
    is not for whoever asked.
    """
    async for item in follow(subscription, store, session):
        if behind and not turn and isinstance(item, _STREAMED):
            continue
        yield item
        match item:
            case Recorded(event=InputTaken(inputs=inputs)) if input_id in inputs:
                turn = item.cause
            case Recorded(event=InputDropped(inputs=inputs), by="hook") if input_id in inputs:
                turn = item.cause
            case Recorded(event=InputDropped(inputs=inputs)) if input_id in inputs:
                return
            case Recorded(event=TurnCompleted(turn=ended)) if ended == turn:
                break
            case Recorded(event=BudgetAnswered(nobody=True)):
                return  # the turn waits for money, and nobody is there to say so
            case _:
                pass
    while isinstance(notice := subscription.take(), Notice):
        yield notice
