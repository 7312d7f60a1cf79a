"""What performers may touch, and what they give back."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct, field

from backstay.logic.decide.policy import Policy
from backstay.logic.state.progress import Progress
from backstay.logic.state.request_messages import Outgoing
from backstay.logic.state.resume import PendingOpen
from backstay.logic.state.session_state import State
from backstay.ports import Asker, Clock, Confinement, EventStore, Model, Tool
from backstay.runtime.barrier import Fault
from backstay.runtime.bus import DeltaStream
from backstay.runtime.file_keeper import Files
from backstay.runtime.inbox import Inbox
from backstay.runtime.mask_events import Mask
from backstay.vocab.deltas import Delta
from backstay.vocab.errors import StoreError
from backstay.vocab.event import Draft, Grant, Recorded
from backstay.vocab.events import ChildFinished, ChildStarted
from backstay.vocab.events.instructions import NotesShown
from backstay.vocab.events.limits import ChildPaused
from backstay.vocab.events.tools import CallFacts, HookFinished, HookStarted
from backstay.vocab.messages import DurablePart, Text, TextRef
from backstay.vocab.specs import Mode, Owner, Taint, ToolSpec, Usage

ReportSpending = Callable[[Usage, int, tuple[Taint, ...]], None]
"""Takes what a child session has used, spent and met in all, when it is left, however that came about."""

OpenChild = Callable[[ChildStarted, ReportSpending], Awaitable[ChildFinished | ChildPaused]]
"""Runs a child session, from wherever its own log stands, to its end or until it has spent its share."""

ResolveModel = Callable[[str], Awaitable[Model]]
"""Finds a model by its name in the log; raises `UserError` when there is none."""


ResolvePaths = Callable[[str, Mapping[str, object]], Awaitable[CallFacts | None]]
"""Looks at the paths of a call: the tool's name and its arguments."""

ReadFolderNotes = Callable[[Sequence[str], str], Awaitable[tuple[str, tuple[NotesShown, ...]]]]
"""Finds the notes of folders that a call went to, by its paths and its id: what the model was not told yet, and the events that say so."""

StoreGrants = Callable[[Sequence[str], Grant], Awaitable[str]]
"""Writes granted rules where later sessions find them; says why when it cannot."""

DispatchHooks = Callable[[HookStarted, "Services"], Awaitable[HookFinished]]
"""Runs the handlers of a hook event and puts their answers together."""


class Tools(Protocol):
    """The tools of a session."""

    def get(self, name: str) -> Tool | None:
        """The tool called `name`."""

    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model is told of them."""

    def inspect(self, name: str, args_text: str) -> tuple[str, str, dict[str, object]]:
        """A problem's code and message, both empty when a call could run, and its arguments."""


async def _resolve_nothing(name: str, args: Mapping[str, object]) -> CallFacts | None:
    """Nobody looks."""
    return None


class HookWaiter(Struct):
    """Somebody waits for the handlers of a hook event."""

    over: anyio.Event = field(default_factory=anyio.Event)
    verdict: HookFinished | None = None
    """What they said. The state may have forgotten it by the time that somebody looks: a turn ended in the same step."""


class InForce(Struct):
    """What is in force now and changes while the session is open. The runner owns it."""

    policy: Policy
    instructions: str = ""
    """What the model is told from the next request on."""
    resolve_paths: ResolvePaths = _resolve_nothing
    dispatch_hooks: DispatchHooks | None = None
    opening: PendingOpen = PendingOpen()
    """The opening that is not written yet."""
    end_reason: str = "other"
    """Why the session ends, as `SessionEnd` hooks are told."""


class Services(Struct, frozen=True, kw_only=True):
    """Everything outside a session that its performers use. Assembly builds it last, and nothing of it is changed afterwards."""

    session: str
    cwd: str
    store: EventStore
    clock: Clock
    tools: Tools
    resolve_model: ResolveModel
    state: State
    inbox: Inbox
    in_force: InForce
    deltas: DeltaStream
    """Shows and traces what is not in the log."""
    mask: Mask = field(default_factory=Mask)
    """Hides known keys in what is written and shown."""
    outgoing: Outgoing = field(default_factory=Outgoing)
    """The history as requests have it."""
    asker: Asker | None = None
    read_folder_notes: ReadFolderNotes | None = None
    store_grants: StoreGrants | None = None
    start_sandbox: Callable[[], Confinement | None] | None = None
    """Gives what programs are started behind; may take a moment."""
    tasks: TaskGroup
    """Where hooks go on that nobody waits for, as long as the session is open."""
    hook_waiters: dict[tuple[str, str], HookWaiter] = field(default_factory=dict)
    """Who waits for the handlers of a hook event about a subject."""
    include_calls: dict[str, tuple[str, str]] = field(default_factory=dict)
    """What texts include and hooks are heard about, by subject: the tool that would bring it, and its arguments."""
    save_extension_state: Callable[[], Awaitable[Sequence[Draft]]] | None = None
    """Gives what extensions put away in the commit that ends a turn."""
    stop_extensions: Callable[[], Awaitable[None]] | None = None
    """Ends what lives with the session, when its last event is written."""
    open_child: OpenChild | None = None
    files: Files | None = None
    """Keeps what files hold before calls change them; None when nothing is kept."""
    idle_timeout_s: float | None = 120.0
    """How long a model may stay silent."""
    tool_timeout_s: float | None = 900.0
    """How long a tool may run."""

    def stream(self, delta: Delta) -> None:
        """Show a delta to whoever listens; never waits."""
        self.deltas.show(delta)

    def tap(self, kind: str, content: Mapping[str, object]) -> None:
        """Write a line into the trace; never waits."""
        self.deltas.tap(kind, content)

    def policy(self) -> Policy:
        """Return the policy that is in force now."""
        return self.in_force.policy

    @property
    def instructions(self) -> str:
        """What the model is told now."""
        return self.in_force.instructions

    @property
    def progress(self) -> Progress:
        """Where the session stands, with what its opening says, also before that is written."""
        return self.in_force.opening.progress_with(self.state.progress)

    @property
    def mode(self) -> Mode:
        """The mode that is in force now. An open turn that keeps one of its own does not go on before the opening is written."""
        after = self.policy().mode_after_turn if self.in_force.opening else None
        return after or self.progress.mode


class Outcome(Struct):
    """What a performer leaves in the inbox."""

    drafts: tuple[Draft, ...] = ()
    blobs: Mapping[str, bytes] = field(default_factory=dict)


class Performer(Protocol):
    """Does what one intent says."""

    async def run(self) -> Outcome:
        """Do it, and say what came of it."""

    def stopped(self) -> Outcome:
        """Say what had come of it when it was told to stop. Never waits."""

    def failed(self, fault: Fault) -> Outcome:
        """Say how it went wrong."""


Perform = Callable[[Recorded, Services], Performer]

BEAT_S: Final = 3.0


async def beat(store: EventStore, owner: Owner, clock: Clock, ttl_s: float) -> None:
    """Say every few seconds that `owner` lives. A beat that fails is tried again: only a higher token can end the lease."""
    while True:
        await clock.sleep(min(BEAT_S, ttl_s / 4))
        try:
            await store.heartbeat(owner, ttl_s)
        except StoreError:
            continue  # the append that matters will meet the same store and say what is wrong


Fetch = Callable[[str], Awaitable[bytes]]
"""Gets a blob by its hash."""


async def whole_text(parts: Iterable[DurablePart], fetch: Fetch) -> str:
    """The plain text of `parts`, long texts included."""
    found: list[str] = []
    for part in parts:
        if isinstance(part, TextRef):
            found.append((await fetch(part.sha256)).decode("utf-8", "replace"))
        elif isinstance(part, Text):
            found.append(part.text)
    return "".join(found)
