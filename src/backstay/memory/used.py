"""What of the memory a model was told in a session: a fold of its events."""

from collections.abc import Iterable

import msgspec

from backstay.vocab.event import Event, Recorded
from backstay.vocab.event_memory import MemoryNoted


class UsedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The index and the topics that were told, each once, in the order of their first use."""

    references: tuple[str, ...] = ()
    """`index`, or `topic:NAME`."""


NOTHING_USED = UsedMemory()


def fold_used(state: UsedMemory, event: Event) -> UsedMemory:
    """Take one event in."""
    if not isinstance(event, MemoryNoted) or event.act != "used" or event.memory in state.references:
        return state
    return UsedMemory(references=(*state.references, event.memory))


def used_in(records: Iterable[Recorded]) -> UsedMemory:
    """What was used in a log. A rewind does not take it back: the model was told."""
    state = NOTHING_USED
    for record in records:
        state = fold_used(state, record.event)
    return state
