"""Events of what is remembered beyond a session: an audit of every change and every use."""

from typing import Literal

from backstay.vocab.event import Event

MemoryAct = Literal["queued", "saved", "approved", "rejected", "skipped", "used"]


class MemoryNoted(Event, frozen=True, kw_only=True):
    """Something became of a memory. The memory itself is in a file that a person can read."""

    act: MemoryAct
    memory: str
    """Its id."""
    kind: str = ""
    """`user`, `feedback`, `project` or `reference`."""
    topic: str = ""
    text: str = ""
    """Empty when it was refused because it looks like a secret."""
    reason: str = ""
    """Why it was skipped or rejected."""
    origin: str = ""
    """Where it came from: `user`, `model`, and the turn."""
