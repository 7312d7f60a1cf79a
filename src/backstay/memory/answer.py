"""What a question about the memory, or a change of it, comes to."""

import msgspec

from backstay.vocab.event_memory import MemoryNoted


class MemoryAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer in words, the same for programs, and the events that whoever has a session writes into its log."""

    message: str
    """Safe to give to whoever asked; for a model, what files say is framed in it."""
    success: bool = True
    data: dict[str, object] = {}
    """For programs and people. Never for a model: the words of files stand in it as they are."""
    events: tuple[MemoryNoted, ...] = ()


def refused(message: str, *events: MemoryNoted) -> MemoryAnswer:
    """An answer that says no."""
    return MemoryAnswer(message=message, success=False, events=events)
