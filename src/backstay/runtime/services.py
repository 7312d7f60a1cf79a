"""The services that performers use, the outcomes that they return, and how they fire hooks and wait for them."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import ClassVar, Final, Generic, Protocol, TypeVar, cast

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from msgspec import Struct, field

from backstay.hooks.gates import hook_intent
from backstay.hooks.merge import finish_unanswered
from backstay.logic.decide.policy import Policy
from backstay.logic.state.progress import Progress
from backstay.logic.state.request_messages import Outgoing
from backstay.logic.state.resume import PendingOpen
from backstay.logic.state.session_state import State
from backstay.ports import Asker, Clock, EventStore, Model, Sandbox, Tool
from backstay.runtime.barrier import Fault
from backstay.runtime.bus import DeltaStream
from backstay.runtime.inbox import Inbox
from backstay.runtime.mask_events import Mask
from backstay.vocab import events
from backstay.vocab.deltas import Delta
from backstay.vocab.errors import StoreError
from backstay.vocab.event import By, Draft, Event, Grant, Recorded
from backstay.vocab.messages import DurablePart, Text, TextRef
from backstay.vocab.specs import Mode, Owner, Taint, ToolSpec, Usage

ReportSpending = Callable[[Usage, int, tuple[Taint, ...]], None]
"""Takes the usage, the cost and the taint of a child session when it is closed, however it ended."""

OpenChild = Callable[
    [events.ChildStarted, ReportSpending, "Services"], Awaitable[events.ChildFinished | events.ChildPaused]
]
"""Runs a child session, from where its own log stands, to its end or until it has spent its share."""

ResolveModel = Callable[[str], Awaitable[Model]]
"""Returns a model by its name in the log; raises `UserError` when there is none."""

ResolvePaths = Callable[[str, Mapping[str, object]], Awaitable[events.CallFacts | None]]
"""Returns where the paths of a call lead, by the tool's name and its arguments; None when it names no path."""

ReadFolderNotes = Callable[[Sequence[str], str], Awaitable[tuple[str, tuple[events.NotesShown, ...]]]]
"""Returns the notes of folders that a call went to, by its paths and its id: those that the model has not, and the events that say so."""

StoreGrants = Callable[[Sequence[str], Grant], Awaitable[str]]
"""Stores granted rules for later sessions; returns why when it cannot."""

DispatchHooks = Callable[[events.HookStarted, "Services"], Awaitable[events.HookFinished]]
"""Runs the handlers of a hook event and merges their answers."""


class Tools(Protocol):
    """The tools of a session."""

    def get(self, name: str) -> Tool | None:
        """Return the tool called `name`."""

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the specifications of all tools, for the model."""

    def inspect(self, name: str, args_text: str) -> tuple[str, str, dict[str, object]]:
        """Return a problem's code and message, both empty when the call could run, and its arguments."""


class Files(Protocol):
    """Keeps what files hold before calls change them."""

    @property
    def roots(self) -> tuple[bytes, ...]:
        """The folders that are kept; none when nothing is."""

    async def before(self, spec: ToolSpec, call: str, places: Iterable[str], cause: str) -> None:
        """Keep what a call of a tool may change. `places` are its paths, every link followed."""

    async def keep_trees(self, call: str, cause: str) -> None:
        """Keep what all folders hold, once a turn."""

    def forget(self) -> None:
        """Rely on nothing that was kept so far."""


class HookWaiter(Struct):
    """A performer that waits for the handlers of a hook event."""

    done: anyio.Event = field(default_factory=anyio.Event)
    verdict: events.HookFinished | None = None
    """What they answered. The state may have forgotten it by the time that the waiter runs: a turn ended in the same step."""


class InForce(Struct, kw_only=True):
    """The policy, instructions and hooks in force, which may change while the session is open. The runner owns it."""

    policy: Policy
    instructions: str
    """The system prompt from the next request on."""
    resolve_paths: ResolvePaths
    dispatch_hooks: DispatchHooks | None = None
    opening: PendingOpen = PendingOpen()
    """The opening that is not written yet."""
    end_reason: str = "other"
    """Why the session ends, as `SessionEnd` hooks read it."""


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
    mask: Mask
    """Hides known keys in what is written and shown."""
    open_child: OpenChild
    start_sandbox: Callable[[], Sandbox | None]
    """Return the sandbox that programs are started in; may take a moment."""
    warnings: list[str]
    """Warnings for the person that came up while the session was open."""
    tasks: TaskGroup
    """Runs hooks that no performer waits for, as long as the session is open."""
    outgoing: Outgoing = field(default_factory=Outgoing)
    """The history as requests have it."""
    asker: Asker | None = None
    read_folder_notes: ReadFolderNotes | None = None
    store_grants: StoreGrants | None = None
    hook_waiters: dict[tuple[str, str], HookWaiter] = field(default_factory=dict)
    """The performers that wait for hooks, by event and subject."""
    include_calls: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The inclusions of texts that hooks are asked about, by subject: the tool that would read it, and its arguments."""
    save_extension_state: Callable[[], Awaitable[Sequence[Draft]]] | None = None
    """Returns the events with the state of extensions, for the commit that ends a turn."""
    stop_extensions: Callable[[], Awaitable[None]] | None = None
    """Stops extensions when the last event of the session is written."""
    files: Files | None = None
    """Keeps what files hold before calls change them; None when nothing is kept."""
    idle_timeout_s: float | None = 120.0
    """How long a model may stay silent."""
    tool_timeout_s: float | None = 900.0
    """How long a tool may run."""

    def stream(self, delta: Delta) -> None:
        """Show a delta to all subscribers; never waits."""
        self.deltas.show(delta)

    def tap(self, kind: str, content: Mapping[str, object]) -> None:
        """Write a line into the trace; never waits."""
        self.deltas.tap(kind, content)

    @property
    def policy(self) -> Policy:
        """The policy that is in force now."""
        return self.in_force.policy

    @property
    def instructions(self) -> str:
        """The system prompt that is in force now."""
        return self.in_force.instructions

    @property
    def progress(self) -> Progress:
        """Where the session stands, with what its opening says, also before that is written."""
        return self.in_force.opening.progress_with(self.state.progress)

    @property
    def mode(self) -> Mode:
        """The mode that is in force now. An open turn that keeps one of its own does not go on before the opening is written."""
        after = self.policy.mode_after_turn if self.in_force.opening else None
        return after or self.progress.mode


class Outcome(Struct):
    """The result of a performer, which it leaves in the inbox."""

    drafts: tuple[Draft, ...] = ()
    blobs: Mapping[str, bytes] = field(default_factory=dict)


IntentT_co = TypeVar("IntentT_co", bound=Event, covariant=True)


class Performer(ABC, Generic[IntentT_co]):
    """Carries out one intent and returns its result as an event whose `cause` is the intent's id."""

    by: ClassVar[By] = "system"
    """Who the result comes from."""

    def __init__(self, record: Recorded, services: Services) -> None:
        self._record = record
        self._intent = cast("IntentT_co", record.event)
        self._id = record.id
        self._services = services

    @abstractmethod
    async def run(self) -> Outcome:
        """Carry the intent out."""

    def report_stop(self) -> Outcome:
        """Return what is known when the performer was told to stop: nothing, where the interrupt says it all. Never waits."""
        return Outcome()

    @abstractmethod
    def report_fault(self, fault: Fault) -> Outcome:
        """Return the result of an intent whose performer broke."""

    def _finish(self, *events: Event, by: By | None = None, blobs: Mapping[str, bytes] | None = None) -> Outcome:
        return Outcome(tuple(Draft(event=event, by=by or self.by, cause=self._id) for event in events), blobs or {})


Perform = Callable[[Recorded, Services], Performer[Event]]

HEARTBEAT_S: Final = 3.0


async def keep_alive(store: EventStore, owner: Owner, clock: Clock, ttl_s: float) -> None:
    """Renew the lease of `owner` every few seconds. A heartbeat that fails is tried again: only a higher token can end the lease."""
    while True:
        await clock.sleep(min(HEARTBEAT_S, ttl_s / 4))
        try:
            await store.heartbeat(owner, ttl_s)
        except StoreError:
            continue  # the append that matters will meet the same store and say what is wrong


Fetch = Callable[[str], Awaitable[bytes]]
"""Returns a blob by its hash."""


async def fetch_text(parts: Iterable[DurablePart], fetch: Fetch) -> str:
    """Return the plain text of `parts`, long texts included."""
    found: list[str] = []
    for part in parts:
        if isinstance(part, TextRef):
            found.append((await fetch(part.sha256)).decode("utf-8", "replace"))
        elif isinstance(part, Text):
            found.append(part.text)
    return "".join(found)


T = TypeVar("T")

LONG: Final = 2_000
"""Characters of arguments from which a call is inspected and judged in a thread: about 10 ms of judging."""


async def run_offloaded(work: Callable[[], T], size: int) -> T:
    """Return the result of `work`, done in a thread when its input has more than `LONG` characters."""
    return await run_in_thread(work) if size > LONG else work()


async def run_in_thread(work: Callable[[], T]) -> T:
    """Return the result of `work`, done in a thread, and left behind there when the caller is cancelled."""
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)


PATIENCE_S: Final = 5.0
"""How long to wait for handlers beyond their own time: their processes may have to be killed."""


async def fire_and_wait(
    services: Services, event: str, subject: str, *, matcher_value: str = "", args: str = ""
) -> events.HookFinished | None:
    """Run the handlers of `event` and return their verdict; None when there are none. The log has it like any other.

    Handlers that do not answer in time, and those whose answer came too late to be taken, give the verdict of `finish_unanswered`.
    """
    draft = hook_intent(services.policy, event, subject, matcher_value=matcher_value, args=args)
    if draft is None:
        return None
    waiting = services.hook_waiters.setdefault((event, subject), HookWaiter())
    await services.inbox.deliver(draft)
    assert isinstance(draft.event, events.HookStarted)
    hooks = services.policy.hooks
    longest = max(hook.timeout for hook in hooks if hook.id in draft.event.handlers)
    with anyio.move_on_after(longest + PATIENCE_S):
        await waiting.done.wait()
    services.hook_waiters.pop((event, subject), None)
    return waiting.verdict or finish_unanswered(draft.event, "hooks did not answer in time", hooks)


async def wait_for_running_hooks(services: Services) -> None:
    """Wait for handlers that are still running, for a while."""
    with anyio.move_on_after(PATIENCE_S):
        while open_hooks := services.state.progress.hooks.open:
            first = open_hooks[0]
            await services.hook_waiters.setdefault((first.event, first.subject), HookWaiter()).done.wait()
            services.hook_waiters.pop((first.event, first.subject), None)


def fire(services: Services, event: str, subject: str, *, matcher_value: str = "") -> None:
    """Run the handlers of `event`, and do not wait for them."""
    draft = hook_intent(services.policy, event, subject, matcher_value=matcher_value)
    if draft is not None:
        services.inbox.post(draft)
