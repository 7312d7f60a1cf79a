"""The events of a session: facts in the past tense, frozen, stored for ever.

Its name on the wire is its class in snake case. A change of shape raises its number in `VERSIONS` and adds an upcaster in `wire/upcast.py`.
"""

from typing import Final

import msgspec

from backstay.vocab.errors import ErrorKind
from backstay.vocab.event import Decision, Delivery, Event, Grant, Stop, ToolOutcome, TurnOutcome
from backstay.vocab.events import files, limits, tools
from backstay.vocab.events.files import *  # noqa: F403 - one name for all events
from backstay.vocab.events.instructions import *  # noqa: F403 - one name for all events
from backstay.vocab.events.limits import *  # noqa: F403 - one name for all events
from backstay.vocab.events.tools import *  # noqa: F403 - one name for all events
from backstay.vocab.events.tools import CallFacts
from backstay.vocab.messages import InputPart, MediaRef, Role, StoredPart, Text, TextRef, ToolCall
from backstay.vocab.specs import Effect, Mode, OnCrash, Origin, SessionContext, Taint, Usage


class Started(Event, frozen=True, kw_only=True):
    """The session began: the first event of every log."""

    session: str
    context: SessionContext
    store: str
    """The identity of the store that writes the session."""
    model: str
    mode: Mode = "default"
    project: str = ""
    name: str = ""
    agent: str = ""
    origin: Origin | None = None
    parent: str = ""
    """The session whose call opened this one."""
    version: str = ""
    taint: tuple[Taint, ...] = ()
    """What the session that opened this one had met by then."""
    scope_implied: bool = False
    """The scope of the context was not named: it follows the mode of each opening."""


class Opened(Event, frozen=True, kw_only=True):
    """A process took the log over. What the process before it had in flight is lost."""

    on_crash: OnCrash = "continue"
    version: str = ""


class Closed(Event, frozen=True, kw_only=True):
    """The session was closed by its holder."""

    reason: str = ""


class SecretsErased(Event, frozen=True, kw_only=True):
    """Secrets that stood in earlier events and blobs were replaced by marks. The marks say where, this says how many."""

    count: int
    """Secrets that are gone, counted as `secrets scan` counts them: a mark stands for each, but for those in contents that are given up."""
    kinds: dict[str, int] = {}
    """What they were, and how many of each."""
    blobs: int = 0
    """Blobs that have other content, and another name, now."""
    contents: int = 0
    """Contents of files that were kept for a restore and are kept no longer."""
    reason: str = ""
    """Why it was done, in the words of the person who did it."""


class Renamed(Event, frozen=True, kw_only=True):
    """The session got a name."""

    name: str


class ModeChanged(Event, frozen=True, kw_only=True):
    """The permission mode changed, for calls judged from now on."""

    mode: Mode


class ModelChanged(Event, frozen=True, kw_only=True):
    """Another model answers from now on."""

    model: str


class StoreChanged(Event, frozen=True, kw_only=True):
    """The session was moved: another store holds it from now on."""

    store: str
    came_from: str


class Exported(Event, frozen=True, kw_only=True):
    """The session was written out as a document."""

    format: str
    sha256: str
    """Of the document."""


class SlotWritten(Event, frozen=True, kw_only=True):
    """An extension put its state away. The shape is its own affair."""

    owner: str
    version: str
    content: str


class FaultCaught(Event, frozen=True, kw_only=True):
    """An error of ours or of an extension was caught behind the barrier."""

    where: str
    kind: str
    message: str


class ResultIgnored(Event, frozen=True, kw_only=True):
    """A result came for an intent that was no longer open; it changed nothing."""

    kind: str
    """The wire name of the result."""
    summary: str = ""
    cost: int | None = None
    """What it cost all the same; micro-cents."""


# --- input and turns -------------------------------------------------------------------------------------------------------------


class InputReceived(Event, frozen=True, kw_only=True):
    """Input arrived; it waits for a safe point."""

    input: str
    """Idempotency key: unique in the session."""
    parts: tuple[InputPart, ...]
    delivery: Delivery = "queue"
    display: str = ""
    """What to show instead of the text, when they differ."""
    raw: str = ""
    """What hooks see instead of the text: what a person typed."""


class InputDropped(Event, frozen=True, kw_only=True):
    """Queued input was taken back before it entered the conversation."""

    inputs: tuple[str, ...]
    """Their ids. A draft may say `*`: all that is queued when it is written."""


class TurnStarted(Event, frozen=True, kw_only=True):
    """A turn began. The event's id is the turn's id."""

    number: int


class InputTaken(Event, frozen=True, kw_only=True):
    """Queued input entered the conversation, at a point where no call was open."""

    inputs: tuple[str, ...]


class TurnCompleted(Event, frozen=True, kw_only=True):
    """The turn is over, one way or another."""

    turn: str
    outcome: TurnOutcome
    stop_reason: str = ""
    code: str = ""
    """For a failed turn: an error kind, or `turn_limit`."""
    message: str = ""


class Interrupted(Event, frozen=True, kw_only=True):
    """A stop was requested. Open intents are stopping from here on."""

    reason: str = ""


class StopDeadlinePassed(Event, frozen=True, kw_only=True):
    """A performer that was told to stop did not answer in time; its intents are closed without it."""


# --- the model -------------------------------------------------------------------------------------------------------------------


class ModelAsked(Event, frozen=True, kw_only=True):
    """Intent: one model call. Cites everything beside the history that shapes the request."""

    turn: str
    round: int
    model: str
    instructions: str = ""
    """Hash of the blob with the system prompt."""
    tools: str = ""
    """Hash of the blob with the tool schemas."""
    parameters: dict[str, object] = {}
    tokens: int = 0
    """How many tokens the request was thought to have."""
    reserved: int = 0
    """Micro-cents set aside for the call; spent, as an estimate, when its process dies."""


class Opaque(msgspec.Struct, frozen=True, kw_only=True):
    """State only its provider can read (signatures, encrypted reasoning), as a blob."""

    provider: str
    sha256: str


class ModelReplied(Event, frozen=True, kw_only=True):
    """The model answered, or had said this much when it was interrupted."""

    parts: tuple[StoredPart, ...]
    stop: Stop = "end"
    model: str = ""
    usage: Usage | None = None
    cost: int | None = None
    """Micro-cents; None when the model has no known price."""
    opaque: Opaque | None = None
    problem: str = ""
    """Why the answer cannot be taken as it is: it does not fit the schema that was asked for."""


class ModelFailed(Event, frozen=True, kw_only=True):
    """The model call failed."""

    kind: ErrorKind
    message: str
    retry_after_s: float | None = None
    parts: tuple[StoredPart, ...] = ()
    """What it had said before, which may have been shown: then it is not asked again. The conversation does not hold it."""
    usage: Usage | None = None
    cost: int | None = None


class ModelNoted(Event, frozen=True, kw_only=True):
    """Something about a model call is worth knowing, and stopped nothing."""

    note: str


# --- tools -----------------------------------------------------------------------------------------------------------------------


class CallProposed(Event, frozen=True, kw_only=True):
    """Intent: inspect a call before it is judged. Written only when the facts did not come with the reply."""

    call: str


class CallInspected(Event, frozen=True, kw_only=True):
    """What the policy needs to know about a call."""

    call: str
    problem: str = ""
    """Why the call cannot run at all: an unknown tool, malformed arguments."""
    facts: CallFacts | None = None


class CallJudged(Event, frozen=True, kw_only=True):
    """The policy's verdict on a call."""

    call: str
    decision: Decision
    reason: str
    """The kind of reason: `rule`, `mode`, `path`, `shell`, ..."""
    detail: str = ""
    rules: str = ""
    """Digest of the rules that were in force."""
    offers: tuple[str, ...] = ()
    """Rules that would have allowed it, as narrow as what is shown."""
    remedies: tuple[str, ...] = ()
    """Where none is offered: rules that would have allowed it if the person had written them."""
    unasked: bool = False
    """It is denied because the mode never asks."""
    taints: tuple[Taint, ...] = ()
    """What the call brings into the session when it runs."""


class PermissionAsked(Event, frozen=True, kw_only=True):
    """Intent: a person decides about a call."""

    call: str
    detail: str = ""
    args: str = ""
    """The call's arguments, where they are no longer those that the model wrote."""


class PermissionAnswered(Event, frozen=True, kw_only=True):
    """The answer. `nobody` when there was no one to ask."""

    call: str
    allowed: bool
    grant: Grant = "once"
    rules: tuple[str, ...] = ()
    """What else is allowed from now on, for as long as `grant` says; without rules, exactly this call."""
    args: str = ""
    """The call's arguments as the person wants them: JSON text, judged again."""
    nobody: bool = False
    message: str = ""


class GrantsCleared(Event, frozen=True, kw_only=True):
    """What was allowed for the session is asked again."""


class ToolStarted(Event, frozen=True, kw_only=True):
    """Intent: run a tool."""

    call: str
    name: str
    effect: Effect
    key: str
    """Idempotency key: the same for every run of this call."""
    again: bool = False
    """A run of this call was lost in a crash; a `reconcilable` tool is checked first."""


class ProcessStarted(Event, frozen=True, kw_only=True):
    """A running tool has a process group; a resume stops it before anything else."""

    call: str
    group: int
    boot: str
    started: int


class ToolFinished(Event, frozen=True, kw_only=True):
    """A call has its result: exactly one for each call."""

    call: str
    outcome: ToolOutcome
    content: tuple[Text | TextRef | MediaRef, ...] = ()
    code: str = ""
    """For a call that did not go well: `unknown_tool`, `bad_arguments`, `denied`, `raised`, `restart`, ..."""


class SkillRun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A skill that a person runs in a child session, and how that session is opened."""

    name: str
    display: str = ""
    """What the person typed."""
    model: str = ""
    """The model that answers; empty for the parent's."""
    allowed: tuple[str, ...] | None = None
    """Rules that name the only tools of the child; None for all of its parent's."""
    denied: tuple[str, ...] = ()
    """Rules that name tools that the child does not have."""


class ChildStarted(Event, frozen=True, kw_only=True):
    """Intent: a child session answers a prompt. Committed before the child's first event."""

    call: str
    """The model's call, or an id of its own when a person runs a skill."""
    child: str
    prompt: str
    """The prompt of the child; only the beginning when `whole` has it all."""
    budget: dict[str, object] = {}
    skill: SkillRun | None = None
    """The skill that a person runs, between turns; None for a call of the model."""
    whole: TextRef | None = None


class ChildFinished(Event, frozen=True, kw_only=True):
    """The child is done; its own log holds the rest."""

    call: str
    child: str
    outcome: TurnOutcome
    text: str = ""
    spent: Usage | None = None
    cost: int | None = None
    """Micro-cents that the child has spent in all, as its own log says."""
    taint: tuple[Taint, ...] = ()
    """What the child has met: its answer brings it along."""
    skill: str = ""
    """The skill that a person ran; empty for a call of the model, whose result this is."""


# --- history ---------------------------------------------------------------------------------------------------------------------


class MessageInjected(Event, frozen=True, kw_only=True):
    """A message entered the history without a model call."""

    role: Role
    parts: tuple[StoredPart, ...]


class EntryAdded(Event, frozen=True, kw_only=True):
    """A prebuilt entry of the full history: shown, never sent to a model."""

    kind: str
    content: str
    """JSON text."""


class HistoryCleared(Event, frozen=True, kw_only=True):
    """The conversation starts over; the log keeps what was."""


class Rewound(Event, frozen=True, kw_only=True):
    """The conversation goes on from an earlier event; empty means from the beginning."""

    to: str
    turns: int = 0
    """Turns on the path up to there."""
    tokens: int = 0
    """About how many tokens the conversation has up to there."""
    messages: int = 0


EVENTS: Final[tuple[type[Event], ...]] = tuple(sorted(Event.__subclasses__(), key=lambda cls: cls.__name__))
"""Every event type."""

INTENTS: Final = (
    *(ModelAsked, CallProposed, PermissionAsked, ToolStarted, ChildStarted),
    limits.WaitStarted,
    limits.CompactionStarted,
    limits.BudgetAsked,
    tools.HookStarted,
    files.RestoreStarted,
)
"""Events that performers carry out."""

VERSIONS: Final[dict[type[Event], int]] = dict.fromkeys(EVENTS, 1)
"""The current number of each shape."""


def calls_of(reply: ModelReplied) -> tuple[ToolCall, ...]:
    """Return the tool calls of a reply, in order."""
    return tuple([part for part in reply.parts if isinstance(part, ToolCall)])


def child_report(event: ChildFinished) -> str:
    """Return what the conversation has of a child session; empty for a skill of a person that did not complete."""
    if not event.skill:
        return event.text or f"(the child session ended: {event.outcome})"
    if event.outcome != "completed":
        return ""
    return f"[The skill {event.skill!r} ran in a session of its own, {event.child}. It reports:]\n{event.text}"
