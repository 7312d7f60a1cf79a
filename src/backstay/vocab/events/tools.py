"""Events of tools at work: what the session has seen of files, what is to be done, and the hooks around it."""

import msgspec

from backstay.vocab.event import Decision, Event
from backstay.vocab.specs import FsScope, Taint


class CallFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What the file system says about the paths of a call."""

    links: dict[str, str] = {}
    """Absolute paths as written, and where each leads."""
    globs: dict[str, tuple[str, ...]] = {}
    """Patterns, and what they match."""


class FileSeen(Event, frozen=True, kw_only=True):
    """The session read or wrote a file; a later change by another program can be noticed."""

    path: str
    """Absolute, every link followed."""
    version: str
    """Size, time of change and inode; empty when the file was removed."""


class OutputKept(Event, frozen=True, kw_only=True):
    """The whole of an output that the model saw in part was put away; it can be read page by page."""

    output: str
    """What the model calls it."""
    sha256: str
    size: int


class ScopeChanged(Event, frozen=True, kw_only=True):
    """Commands and files reach farther, or less far, from now on."""

    scope: FsScope
    implied: bool = False
    """It was not named: it follows the mode of the opening, and ends with it."""


class TaintMet(Event, frozen=True, kw_only=True):
    """Something came into the conversation otherwise than by a call: words of a server that the person asked for."""

    taints: tuple[Taint, ...]
    source: str = ""


class Todo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing to do."""

    content: str
    status: str
    """`pending`, `in_progress` or `completed`."""
    active_form: str = ""


class TodosWritten(Event, frozen=True, kw_only=True):
    """The list of things to do was replaced."""

    todos: tuple[Todo, ...]


class HookStarted(Event, frozen=True, kw_only=True):
    """Intent: run the handlers of a hook event that match."""

    event: str
    """`PreToolUse`, `Stop`, ..."""
    subject: str
    """What it is about: a call, an input, a turn, the session."""
    handlers: tuple[str, ...]
    """The ids of those that run."""
    agent: str = ""
    """Whose session it is: the session's id, and the agent's name when it has one."""


class HookFinished(Event, frozen=True, kw_only=True):
    """What the handlers said, together. A replay reads this and runs nothing."""

    event: str
    subject: str
    decision: Decision | None = None
    """For events that decide about a call: the strictest answer."""
    blocked: bool = False
    """For events that can be stopped: a handler did."""
    reason: str = ""
    args: str = ""
    """The call's arguments as a handler wants them: JSON text, to be judged like any other."""
    context: str = ""
    """Text for the model."""
    output: str | None = None
    """What the model sees instead of the tool's output."""
    notes: tuple[str, ...] = ()
    """Text for the person: failures, messages, what matched nothing."""
    stops: bool = False
    """Whether the turn ends here."""
    agent: str = ""
