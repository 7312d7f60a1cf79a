"""Simulated processes for crash tests; killing one leaves the test running.

A killed process is cancelled, and from that moment nothing it does counts: its store refuses, its tools and its model
do nothing, its entries in the ledger are not made. Its memory is dropped; what it had written is what the next process
finds.
"""

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeVar, cast

import anyio
import msgspec

from backstay.ports import (
    NO_BLOBS,
    EventStore,
    FoldSnapshot,
    LogSlice,
    Model,
    ModelReply,
    ModelRequest,
    SearchHit,
    SessionQuery,
    Tool,
    ToolContext,
    ToolOutput,
)
from backstay.providers.wrapper import ModelAround
from backstay.runtime.barrier import Fault, run_guarded
from backstay.vocab.deltas import Delta
from backstay.vocab.event import Recorded
from backstay.vocab.specs import Lease, Owner, SessionMeta, ToolSpec

T = TypeVar("T")


class WrappedStore:
    """Passes everything on to `inner`. Override `through` to change what happens on the way."""

    def __init__(self, inner: EventStore) -> None:
        self.inner = inner

    async def through(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        """Do the call of that name."""
        return await call()

    @property
    def identity(self) -> str:
        """The identity of the wrapped store."""
        return self.inner.identity

    @property
    def url(self) -> str:
        """The URL of the wrapped store."""
        return self.inner.url

    async def append(
        self, lease: Lease, expected_seq: int, records: Sequence[Recorded], blobs: Mapping[str, bytes] = NO_BLOBS
    ) -> None:
        """Make records durable."""
        await self.through("append", lambda: self.inner.append(lease, expected_seq, records, blobs))

    async def read(self, session: str, after: int = 0, limit: int | None = None) -> LogSlice:
        """Read a log."""
        return await self.through("read", lambda: self.inner.read(session, after, limit))

    async def lease(self, session: str, owner: Owner, ttl_s: float = 15.0) -> Lease:
        """Take a session."""
        return await self.through("lease", lambda: self.inner.lease(session, owner, ttl_s))

    async def heartbeat(self, owner: Owner, ttl_s: float = 15.0) -> None:
        """Say that an owner lives."""
        await self.through("heartbeat", lambda: self.inner.heartbeat(owner, ttl_s))

    async def release(self, lease: Lease) -> None:
        """Give a session back."""
        await self.through("release", lambda: self.inner.release(lease))

    async def holder(self, session: str) -> Lease | None:
        """Say who holds a session."""
        return await self.through("holder", lambda: self.inner.holder(session))

    async def meta(self, session: str) -> SessionMeta:
        """Return the metadata of a session."""
        return await self.through("meta", lambda: self.inner.meta(session))

    async def list(self, query: SessionQuery = SessionQuery()) -> tuple[SessionMeta, ...]:  # noqa: B008  # frozen
        """List sessions."""
        return await self.through("list", lambda: self.inner.list(query))

    async def search(self, text: str, limit: int = 20) -> tuple[SearchHit, ...]:
        """Search sessions."""
        return await self.through("search", lambda: self.inner.search(text, limit))

    async def delete(self, session: str) -> None:
        """Forget a session."""
        await self.through("delete", lambda: self.inner.delete(session))

    async def blob(self, sha256: str) -> bytes:
        """Return the bytes of a blob."""
        return await self.through("blob", lambda: self.inner.blob(sha256))

    async def snapshot(self, session: str, digest: str) -> FoldSnapshot | None:
        """Return the cached fold state of a session."""
        return await self.through("snapshot", lambda: self.inner.snapshot(session, digest))

    async def keep_snapshot(self, session: str, snapshot: FoldSnapshot) -> None:
        """Cache a fold state."""
        await self.through("keep_snapshot", lambda: self.inner.keep_snapshot(session, snapshot))

    async def verify(self, session: str) -> tuple[str, ...]:
        """Say what is wrong with a session."""
        return await self.through("verify", lambda: self.inner.verify(session))

    async def repair(self, session: str) -> str:
        """Mend a session."""
        return await self.through("repair", lambda: self.inner.repair(session))

    async def close(self) -> None:
        """Close the wrapped store."""
        await self.inner.close()


if TYPE_CHECKING:
    _: EventStore = WrappedStore(cast("EventStore", None))

When = Literal["before", "after"]
"""Around an append: before it is durable, or after it is durable and before anybody is told."""

LONGEST_S: Final = 3600.0
"""A process that lives longer than this hangs: far more than any deadline of a session."""


class Killed(Exception):
    """The process is dead."""


class Blow(msgspec.Struct, frozen=True, kw_only=True):
    """Where a process is killed: around its `append`-th append, counted from 1."""

    append: int
    when: When

    def __str__(self) -> str:
        """Return the blow in words."""
        return f"{self.when} append {self.append}"


class MortalProcess:
    """One pretended process."""

    def __init__(self, name: str) -> None:
        self.owner = Owner(id=name, host="crash", boot="crash", pid=1, started=1, label=name)
        self.alive = True
        self.killed = False
        self._scope = anyio.CancelScope()

    def kill(self) -> None:
        """End it, here and now."""
        self.alive, self.killed = False, True
        self._scope.cancel()

    def check(self) -> None:
        """Raise `Killed` when it is dead."""
        if not self.alive:
            raise Killed(f"{self.owner.id} is dead.")

    async def live(self, work: Callable[[], Awaitable[None]]) -> Fault | None:
        """Do `work` until it ends or the process is killed; return what went wrong while it lived."""
        try:
            with anyio.fail_after(LONGEST_S):
                fault = await run_guarded(self.owner.id, lambda: self._run_in_scope(work))
        except TimeoutError:
            fault = Fault(where=self.owner.id, kind="Hung", message="It never came to an end.", trace="")
        self.alive = False
        return None if self.killed else fault

    async def _run_in_scope(self, work: Callable[[], Awaitable[None]]) -> None:
        with self._scope:
            try:
                await work()
            except Exception:
                if not self.killed:  # what the dead say as they go down, nobody hears
                    raise


class EffectLedger:
    """The world outside: what really happened, however often anybody crashed."""

    def __init__(self) -> None:
        self.effects: Counter[tuple[str, str]] = Counter()
        """How often each call (tool, key) had its effect."""
        self.acknowledged: defaultdict[str, list[Recorded]] = defaultdict(list)
        """What each session's processes were told is durable."""
        self.writers: dict[tuple[str, int], str] = {}
        """By session and seq: the process that wrote the event."""

    def find_repeated(self, once: frozenset[str]) -> tuple[str, ...]:
        """Return the calls of `once` tools that happened more than once."""
        return tuple(f"{tool} {key}" for (tool, key), times in self.effects.items() if tool in once and times > 1)


class MortalStore(WrappedStore):
    """A process's view of a store: dies with it, kills it at a given append, and remembers what was acknowledged."""

    def __init__(
        self, inner: EventStore, process: MortalProcess, ledger: EffectLedger, blow: Blow | None = None
    ) -> None:
        super().__init__(inner)
        self.appends = 0
        self._process = process
        self._ledger = ledger
        self._blow = blow

    async def through(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        """Do a call as long as the process lives."""
        self._process.check()
        result = await call()
        self._process.check()
        return result

    async def append(
        self, lease: Lease, expected_seq: int, records: Sequence[Recorded], blobs: Mapping[str, bytes] = NO_BLOBS
    ) -> None:
        """Append, or die on the way."""
        self._process.check()
        self.appends += 1
        self._strike("before")
        await super().append(lease, expected_seq, records, blobs)
        self._ledger.writers |= {(lease.session, record.seq): self._process.owner.id for record in records}
        self._strike("after")
        self.on_append(records)
        self._ledger.acknowledged[lease.session].extend(records)

    def on_append(self, records: Sequence[Recorded]) -> None:
        """Hear of an append just before it is acknowledged; a store that raises here has done it all the same."""

    async def close(self) -> None:
        """Leave the store open: the next process uses it."""

    def _strike(self, when: When) -> None:
        if self._blow is not None and (self._blow.append, self._blow.when) == (self.appends, when):
            self._process.kill()
        self._process.check()


class MortalModel(ModelAround):
    """A model that a dead process cannot ask."""

    def __init__(self, inner: Model, process: MortalProcess) -> None:
        super().__init__(inner)
        self._process = process

    async def ask(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        """Answer as the wrapped model does."""
        self._process.check()
        async with self._open_stream(request) as stream:
            async for item in stream:
                self._process.check()
                yield item


class MortalTool:
    """A tool that a dead process cannot run."""

    def __init__(self, inner: Tool, process: MortalProcess) -> None:
        self._inner = inner
        self._process = process

    @property
    def spec(self) -> ToolSpec:
        """What the model and the policy know of the tool."""
        return self._inner.spec

    def problem(self, args: dict[str, object]) -> str:
        """Return why these arguments cannot be used; empty when they can."""
        return self._inner.problem(args)

    async def run(self, args: dict[str, object], context: ToolContext) -> ToolOutput:
        """Do it."""
        self._process.check()
        return await self._inner.run(args, context)

    async def check(self, args: dict[str, object], context: ToolContext) -> ToolOutput | None:
        """Find out whether it happened."""
        self._process.check()
        return await self._inner.check(args, context)
