"""Layer 3: the roles that adapters play: stores, models, tools, clocks, askers. Protocols and the values they exchange."""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, Protocol, runtime_checkable

import msgspec

from backstay.vocab.deltas import Delta
from backstay.vocab.event import Event, Grant, Recorded, Stop
from backstay.vocab.messages import InFlightPart, Message
from backstay.vocab.specs import Lease, ModelFacts, Owner, SessionMeta, ToolSpec, Usage
from backstay.vocab.specs import Trouble as Trouble  # noqa: PLC0414

# --- time and chance -------------------------------------------------------------------------------------------------------------


class Clock(Protocol):
    """Time and chance: the only source of both, so that a test can own them."""

    def now(self) -> int:
        """Return microseconds since 1970."""

    def nonce(self) -> str:
        """Return a short random word, lower case, fit for ids."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""


# --- stores ----------------------------------------------------------------------------------------------------------------------

NO_BLOBS: Final[Mapping[str, bytes]] = MappingProxyType({})


class LogSlice(msgspec.Struct, frozen=True, kw_only=True):
    """Events read from a log, in order, and what stopped the reading, if anything did."""

    records: tuple[Recorded, ...]
    trouble: Trouble | None = None


class FoldSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A cached state of the folds after the event `tip`. May be deleted or ignored at any time."""

    tip: str
    seq: int
    digest: str
    """Of the code that made it."""
    content: bytes


class SessionQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions to list, newest first."""

    project: str | None = None
    name: str | None = None
    include_empty: bool = True
    include_children: bool = False
    limit: int | None = None


class SearchHit(msgspec.Struct, frozen=True, kw_only=True):
    """A place where a searched text stands."""

    session: str
    seq: int
    snippet: str
    meta: SessionMeta


class EventStore(Protocol):
    """The store of sessions. Every method may wait; none blocks the event loop.

    `append` is one transaction: all records, their blobs and the metadata projection become durable before it returns, or nothing does.
    It raises `LeaseLost` when `token` is not the newest one of the session, `SeqConflict` when the log's last seq is not `expected_seq`,
    `StoreFull` or `StoreReadOnly` when the disk says so, and `StoreUnavailable` otherwise.
    """

    @property
    def identity(self) -> str:
        """A name that stays with this store for ever, wherever its files are."""

    @property
    def url(self) -> str:
        """How to open this store again."""

    async def append(
        self, lease: Lease, expected_seq: int, records: Sequence[Recorded], blobs: Mapping[str, bytes] = NO_BLOBS
    ) -> None:
        """Make `records` and `blobs` (by SHA-256) durable, or raise and change nothing."""

    async def read(self, session: str, after: int = 0, limit: int | None = None) -> LogSlice:
        """Return the events after seq `after`. Raise `NoSession` when there is no such session."""

    async def lease(self, session: str, owner: Owner, ttl_s: float = 15.0) -> Lease:
        """Take the right to write a session, new or old. Raise `SessionBusy` when a living owner holds it."""

    async def heartbeat(self, owner: Owner, ttl_s: float = 15.0) -> None:
        """Renew the leases of `owner`."""

    async def release(self, lease: Lease) -> None:
        """Release a lease; nothing happens when it is lost already."""

    async def holder(self, session: str) -> Lease | None:
        """Return the lease of the session, if a living owner holds it."""

    async def meta(self, session: str) -> SessionMeta:
        """Return the metadata of one session; `NoSession` when there is none."""

    async def list(self, query: SessionQuery = ...) -> tuple[SessionMeta, ...]:
        """Return the metadata of sessions, newest first. A damaged one never hides the others."""

    async def search(self, text: str, limit: int = 20) -> tuple[SearchHit, ...]:
        """Return where `text` was said or shown, newest first."""

    async def delete(self, session: str) -> None:
        """Forget a session and the blobs only it cites. Nothing happens when it is missing."""

    async def blob(self, sha256: str) -> bytes:
        """Return the bytes of a blob, checked against its hash. Raise `BlobMissing`."""

    async def snapshot(self, session: str, digest: str) -> FoldSnapshot | None:
        """Return the newest cached fold state made by the code `digest`."""

    async def keep_snapshot(self, session: str, snapshot: FoldSnapshot) -> None:
        """Cache a fold state, replacing the one before."""

    async def verify(self, session: str) -> tuple[str, ...]:
        """Read everything of a session back and name what is wrong; empty when nothing is."""

    async def repair(self, session: str) -> str:
        """Make a damaged log writable again: keep its readable prefix, put the damaged bytes aside, say where."""

    async def close(self) -> None:
        """Finish what was accepted and close the files."""


class ChangedPast(msgspec.Struct, frozen=True, kw_only=True):
    """The records that replace a part of a session's log."""

    changed: Sequence[Recorded]
    """These stand in the place of the events with their numbers."""
    added: Recorded
    """This stands behind the last event."""
    blobs: Mapping[str, bytes]
    gone: Collection[str]
    """The blobs that no event cites any more."""


@runtime_checkable
class Rewritable(Protocol):
    """A store whose past can be changed, which is done for one reason only: a secret was written down.

    What was there before is on no disk any more when `scour` has returned. A process that dies in between leaves a log that is the old
    one or the new one, and a store that is not `clean`; to do it again finishes it.
    """

    async def rewrite(self, lease: Lease, past: ChangedPast) -> None:
        """Put `past` in the place of what a session's log says."""

    async def aside(self, session: str) -> tuple[str, ...]:
        """Return what repairs put aside of a session."""

    async def change_aside(self, session: str, change: Callable[[str], str]) -> int:
        """Change what repairs put aside of a session; return how many pieces of it are different now."""

    async def is_clean(self) -> bool:
        """Return whether nothing is left of what was replaced."""

    async def scour(self) -> None:
        """Remove from the files all that is no part of a log any more."""


class Trace(Protocol):
    """The diagnostic stream beside the log. May lose its tail in a crash; never breaks anything."""

    def write(self, session: str, kind: str, content: Mapping[str, object]) -> None:
        """Buffer one line; never waits."""

    def position(self, session: str, after: int, token: int) -> None:
        """Say where in the log the lines that follow belong."""

    async def flush(self) -> None:
        """Bring what is buffered to the file."""

    async def close(self) -> None:
        """Flush and close the files."""


# --- models ----------------------------------------------------------------------------------------------------------------------


Tap = Callable[[str, Mapping[str, object]], None]
"""Takes one line for the trace: its kind and what it says. Never waits. The kinds are `provider_request`,
`provider_native_raw_payload` and `provider_response_raw`."""

PARAMETERS: Final[Mapping[str, str]] = {
    "max_output": "the most tokens that the answer may have",
    "temperature": "a number",
    "top_p": "a number",
    "seed": "a number",
    "stop": "a list of texts that end the answer",
    "effort": "low, medium or high: how much the model is to think",
    "schema": "the JSON Schema that the answer must fit",
    "tool_choice": "auto, none, required, or the name of a tool",
    "web_search": "true: the provider may search the web by itself",
    "extra": "an object that is merged into the request's body as it is",
}
"""What may shape an answer besides the conversation."""


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One question to a model."""

    model: str
    messages: tuple[Message, ...]
    instructions: str = ""
    tools: tuple[ToolSpec, ...] = ()
    parameters: dict[str, object] = {}
    """Neutral names, those of `PARAMETERS`; an adapter says them in its provider's words and leaves out what the model cannot do."""
    position: int = 0
    """Replies and failed attempts in the session's whole log before this one."""
    place: int | None = None
    """Those of them that were this model's own, where several models take part."""
    purpose: Literal["turn", "summary"] = "turn"
    """Whether a turn asks or a compaction does."""
    tap: Tap | None = None
    """Takes the payloads as they travel, for the trace."""


class ModelReply(msgspec.Struct, frozen=True, kw_only=True):
    """The last item of a finished stream."""

    parts: tuple[InFlightPart, ...]
    stop: Stop = "end"
    usage: Usage | None = None
    cost: int | None = None
    """Micro-cents, when they are known otherwise than from the model's prices."""
    model: str = ""
    opaque: bytes = b""
    """The reply as the provider wrote it (JSON), when `parts` cannot say everything."""
    provider: str = ""
    """Who can read `opaque`: the provider, and where it was asked. Unless said, the one in the model's name."""
    notes: tuple[str, ...] = ()
    """What was odd about it and is worth a line in the log: an unknown kind of block, a usage that is missing."""


class Model(Protocol):
    """A model. Streams deltas, then exactly one `ModelReply`; raises `ProviderError` when it cannot.

    A stream that ends without a reply counts as cut, never as finished.
    """

    @property
    def name(self) -> str:
        """As it is written in the log: `provider:model`."""

    @property
    def format(self) -> str:
        """The wire format whose shape rules its requests obey: anthropic, openai-responses, openai-chat or google."""

    @property
    def facts(self) -> ModelFacts:
        """What is known of it."""

    def ask(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        """Answer one request."""


@runtime_checkable
class Closable(Protocol):
    """A model that holds connections or processes."""

    async def aclose(self) -> None:
        """Close them."""


# --- tools -----------------------------------------------------------------------------------------------------------------------


class Sandbox(Protocol):
    """The sandbox of a program that a tool starts."""

    @property
    def name(self) -> str:
        """What keeps it: `bubblewrap`, `landlock`, or `none`."""

    @property
    def words(self) -> str:
        """What is kept from the program, in one line for the model; empty when nothing is."""

    def close(self) -> None:
        """Take away what was put up for it; nothing starts behind it any more."""

    def command(self, argv: Sequence[str], *, cwd: str) -> tuple[list[str], Callable[[], None] | None]:
        """Return the command to start instead of `argv`, and what the new process runs before it becomes that. The latter may not wait."""


class ToolContext(Protocol):
    """The interface of the session that a running tool may use."""

    @property
    def call(self) -> str:
        """The id of the call."""

    @property
    def key(self) -> str:
        """The idempotency key: the same for every run of this call."""

    @property
    def cwd(self) -> str:
        """The working folder of the session."""

    @property
    def links(self) -> Mapping[str, str]:
        """The absolute paths of the call as written, and where each led when the call was judged."""

    @property
    def sandbox(self) -> Sandbox | None:
        """What programs are started behind; None for nothing."""

    def version_of(self, path: str) -> str:
        """Return a file's version (see `FileSeen`) when the session last read or wrote it; empty when it never did. `path` has no links."""

    def show(self, text: str) -> None:
        """Stream a piece of output to subscribers."""

    def note(self, event: Event) -> None:
        """Write an event with the next commit, a fifth of a second from now at the latest."""

    async def emit(self, event: Event) -> None:
        """Write an event; return when it is durable."""


class ToolOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a tool. `failed` results go to the model as errors."""

    text: str = ""
    media: tuple["InFlightPart", ...] = ()
    failed: bool = False
    code: str = ""


class Tool(Protocol):
    """A tool that can be called."""

    @property
    def spec(self) -> ToolSpec:
        """What the model and the policy know of it."""

    def problem(self, args: dict[str, object]) -> str:
        """Return why these arguments cannot be used; empty when they can."""

    async def run(self, args: dict[str, object], context: ToolContext) -> ToolOutput:
        """Run one call."""

    async def check(self, args: dict[str, object], context: ToolContext) -> ToolOutput | None:
        """Return the result of a `reconcilable` tool when the call happened, None when it did not."""


# --- people and machines ---------------------------------------------------------------------------------------------------------


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A call that a person must decide about."""

    session: str
    call: str
    tool: str
    args: dict[str, object]
    reason: str
    kind: str = ""
    """The kind of reason: `rule`, `mode`, `path`, `shell` ..."""
    offers: tuple[str, ...] = ()
    """Rules that would have allowed the call, as narrow as what is shown: what an answer may grant."""
    exact: str = ""
    """The rule that allows exactly this call: what an answer without rules keeps for longer than the session. Empty when no rule can."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The decision."""

    allowed: bool
    grant: Grant = "once"
    rules: tuple[str, ...] = ()
    """With a grant for more than this call: the rules that are granted; without them, exactly this call."""
    args: dict[str, object] | None = None
    """The call with other arguments: it is judged again, and needs no second yes."""
    message: str = ""
    nobody: bool = False
    """There was no one who could decide: then nothing is allowed."""


Asker = Callable[[Question], Awaitable[Answer]]
"""Asks a person, and returns the answer."""


class Machine(Protocol):
    """A state machine that can drive a session. Its state is a slot in the log, whose shape only it knows."""

    @property
    def id(self) -> str:
        """The name that its slot is kept under."""

    @property
    def version(self) -> str:
        """The version of its slot."""

    def attach(self, slot: "Slot | None") -> None:
        """Take the stored slot before anything else happens; raise `MachineMismatch` when it cannot be used."""


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """An extension's state as it was put away."""

    owner: str
    version: str
    content: str


class MachineMismatch(Exception):
    """A machine cannot use its slot. It stops; the conversation goes on."""
