"""Events about limits: retries and fallbacks, compaction, budget."""

from backstay.vocab.errors import ErrorKind
from backstay.vocab.event import CompactionTrigger, Event, OnExceed
from backstay.vocab.messages import InputPart, Text, TextRef
from backstay.vocab.specs import Usage

# --- retries --------------------------------------------------------------------------------------------------------------------


class WaitStarted(Event, frozen=True, kw_only=True):
    """Intent: wait before a model is asked again."""

    until: int
    """Microseconds since 1970."""
    model: str
    attempt: int
    """The attempt that comes after the wait; the first one was 1."""
    attempts: int
    """The most that there may be."""
    kind: ErrorKind


class WaitEnded(Event, frozen=True, kw_only=True):
    """The wait is over, or was cut short."""


class FallbackTaken(Event, frozen=True, kw_only=True):
    """The next model of the chain answers, because the one before it could not."""

    came_from: str
    to: str
    kind: ErrorKind
    until: int = 0
    """The model that failed is left alone until then; microseconds since 1970."""


# --- the context -----------------------------------------------------------------------------------------------------------------


class CompactionStarted(Event, frozen=True, kw_only=True):
    """Intent: make the conversation shorter."""

    trigger: CompactionTrigger
    model: str
    """Who summarises."""
    used: int
    """Tokens of the next request, as far as is known."""
    window: int
    overhead: int = 0
    """Tokens of the instructions and the tools."""
    reserved: int = 0
    """Micro-cents set aside for the summary; spent, as an estimate, when its process dies."""
    instructions: str = ""
    """Instructions for the summary."""
    keep: int = 0
    """For `trim`: how many messages may stay."""


class Compacted(Event, frozen=True, kw_only=True):
    """The conversation begins with a summary from here on. Nothing is deleted: undoing it brings the originals back."""

    trigger: CompactionTrigger
    first_kept: str
    """The id of the first message that stays as it was; empty when none does."""
    summary: Text | TextRef | None = None
    verbatim: tuple[Text | TextRef, ...] = ()
    """What the person pasted, or said at length, word for word."""
    request: tuple[InputPart, ...] = ()
    """What is being answered, whole, when it is not among what stays."""
    trimmed: tuple[str, ...] = ()
    """Messages that stay but whose long tool output is cut to its beginning and end."""
    before: int = 0
    after: int = 0
    """Tokens of the next request before and after; `after` is an estimate."""
    window: int = 0
    guess: int = 0
    """The estimate for the conversation alone, without instructions and tools."""
    messages: int = 0
    """How many messages the conversation has now."""
    model: str = ""
    """Who wrote the summary; empty when it was put together without a model."""
    usage: Usage | None = None
    cost: int | None = None


class CompactionFailed(Event, frozen=True, kw_only=True):
    """The conversation stays as it was."""

    message: str
    usage: Usage | None = None
    cost: int | None = None
    """What was spent on a summary that was not finished."""


class CompactionUndone(Event, frozen=True, kw_only=True):
    """The conversation has its originals again."""

    compaction: str
    guess: int = 0
    messages: int = 0


# --- money -----------------------------------------------------------------------------------------------------------------------


class BudgetSet(Event, frozen=True, kw_only=True):
    """The budget of the session and its children was set. None: no limit."""

    limit: int | None
    """Micro-cents."""
    on_exceed: OnExceed = "fail"


class BudgetWarned(Event, frozen=True, kw_only=True):
    """The budget is spent; the session goes on."""

    spent: int
    limit: int


class BudgetAsked(Event, frozen=True, kw_only=True):
    """Intent: a person decides whether more may be spent. The turn waits, also over a restart."""

    spent: int
    limit: int


class BudgetAnswered(Event, frozen=True, kw_only=True):
    """The answer. When there was no asker, the session stays paused until the budget is raised."""

    allowed: bool
    limit: int | None = None
    """The new limit in micro-cents; None when it stays."""
    nobody: bool = False
    message: str = ""


class ChildSpent(Event, frozen=True, kw_only=True):
    """What a child session has spent, read from its own log: it was running when the process of its parent died."""

    child: str
    spent: Usage | None = None
    cost: int | None = None


class ChildPaused(Event, frozen=True, kw_only=True):
    """A child session has spent its share and waits. When there is more, it is run again from where it stands."""

    call: str
    child: str
    share: int
    """What it might have spent in all; micro-cents."""
    spent: Usage | None = None
    cost: int | None = None
    """What it has spent in all, as its own log says."""
