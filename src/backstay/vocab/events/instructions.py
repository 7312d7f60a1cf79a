"""Events of what a session is told besides the conversation: its instructions, the notes of folders, and memories."""

from typing import Literal

import msgspec

from backstay.vocab.event import Event


class InstructionPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One named part of the instructions."""

    name: str
    """`base`, `agent-instructions`, `project-notes`, `memory`, `skills`, ..."""
    sources: tuple[str, ...] = ()
    """The files that it comes from; none when it is made."""
    sha256: str = ""
    """Of the part's text."""
    size: int = 0
    """Bytes that the model sees."""
    cut: bool = False
    """Whether there was more than the part's limit."""


class InstructionsRead(Event, frozen=True, kw_only=True):
    """The instructions were put together; requests have them from here on."""

    sha256: str
    """Of the whole, which is a blob."""
    parts: tuple[InstructionPart, ...]
    why: str = "start"
    """`start`, `changed` (a file did), `compacted`, `resumed`, or `asked` (on request)."""
    problems: tuple[str, ...] = ()
    """What was left out, with file and line."""


class NotesShown(Event, frozen=True, kw_only=True):
    """The notes of a folder were shown with the result of the call that first went there."""

    path: str
    """The file, as people call it: below the project's root."""
    sha256: str
    """Of its text."""
    call: str


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
