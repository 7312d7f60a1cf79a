"""T10: random histories of lease, append, heartbeat, release, crash, expiry, reopening, copy and delete, against a small model."""

import shutil
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, TypeVar

import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule, run_state_machine_as_test

from backstay.logic.stored_content import digest, find_cited_blobs
from backstay.ports import EventStore, SessionQuery
from backstay.stores.memory import MemoryStore
from backstay.stores.sqlite.store import SqliteStore
from backstay.testing.builders import recorded, started
from backstay.vocab.errors import BackstayError, BlobMissing, LeaseLost, NoSession, SeqConflict, SessionBusy
from backstay.vocab.event import Recorded
from backstay.vocab.events import MessageInjected, Renamed
from backstay.vocab.messages import TextRef
from backstay.vocab.specs import Lease, Owner
from tests.torture.progress import Progress
from tests.torture.separate import quick_folder

StoreKind = Literal["memory", "sqlite"]
KINDS: Final[tuple[StoreKind, ...]] = ("memory", "sqlite")
EXAMPLES: Final = 50_000
"""Over all stores, at full size."""
BATCH: Final = 250
STEPS: Final = 30
TTL: Final = 15_000_000
SESSIONS: Final = ("a", "b", "c")
T = TypeVar("T")


# --- the model -------------------------------------------------------------------------------------------------------------------


@dataclass
class Log:
    """A session as it must be."""

    records: list[Recorded] = field(default_factory=list)
    lease: Lease | None = None
    """The newest one: the only one that may write."""
    held: bool = False
    blobs: set[str] = field(default_factory=set)
    """What was given with its events, and what they cite."""


@dataclass
class Shelf:
    """All sessions as they must be."""

    logs: dict[str, Log] = field(default_factory=dict)
    until: dict[str, int] = field(default_factory=dict)
    dead: set[str] = field(default_factory=set)
    now: int = 1_000_000_000

    def log(self, session: str) -> Log:
        """A session, new or old."""
        return self.logs.setdefault(session, Log())

    def holder(self, session: str) -> Lease | None:
        """Who holds a session, if its owner lives and has said so in time."""
        log = self.log(session)
        if log.lease is None or not log.held or log.lease.owner.id in self.dead:
            return None
        return log.lease if self.until[log.lease.owner.id] > self.now else None

    def refusal(self, lease: Lease, expected: int) -> type[Exception] | None:
        """Why an append must be refused."""
        log = self.log(lease.session)
        if log.lease != lease:
            return LeaseLost
        return SeqConflict if expected != len(log.records) else None

    def cites(self, sha: str) -> bool:
        """Whether any session needs a blob."""
        return any(sha in log.blobs for log in self.logs.values())


# --- the machine -----------------------------------------------------------------------------------------------------------------


class LogMachine(RuleBasedStateMachine):
    """Does the same to a store and to the model, and compares them after each step."""

    kind: ClassVar[StoreKind]
    inline: ClassVar[bool] = True
    owners = Bundle("owners")
    leases = Bundle("leases")

    def __init__(self) -> None:
        super().__init__()
        self.shelf = Shelf()
        self.blobs: set[str] = set()
        self.tokens: dict[str, int] = {}
        self._folder = Path(tempfile.mkdtemp(prefix="backstay-model-", dir=quick_folder()))
        self._cm = start_blocking_portal()
        self._portal = self._cm.__enter__()
        self._count = 0
        self.store = self._run(self._open)

    def teardown(self) -> None:
        """Leave nothing behind."""
        self._run(self.store.close)
        self._cm.__exit__(None, None, None)
        shutil.rmtree(self._folder)

    @rule(target=owners)
    def arrive(self) -> Owner:
        """A process that may hold sessions."""
        self._count += 1
        return Owner(id=f"o{self._count}", host="elsewhere", boot="b", pid=self._count, started=1, label="test")

    @rule(target=leases, owner=owners, session=st.sampled_from(SESSIONS))
    def take(self, owner: Owner, session: str) -> object:
        """Take a session, unless a living owner holds it."""
        if owner.id in self.shelf.dead:
            return multiple()
        if self.shelf.holder(session) is not None:
            self._refused(SessionBusy, self.store.lease, session, owner)
            return multiple()
        lease: Lease = self._run(self.store.lease, session, owner)
        assert lease.token > self.tokens.get(session, 0)
        self.tokens[session] = lease.token
        self.shelf.until[owner.id] = self.shelf.now + TTL
        log = self.shelf.log(session)
        log.lease, log.held = lease, True
        return lease

    @rule(lease=leases, count=st.integers(1, 3), off=st.sampled_from((0, 0, 0, 0, 1, -1)), blob=st.integers(0, 4))
    def append(self, lease: Lease, count: int, off: int, blob: int) -> None:
        """Write some events with a lease, the newest one or not, at the right place or not."""
        expected = max(0, len(self.shelf.log(lease.session).records) + off)
        if lease.owner.id in self.shelf.dead:
            return
        records = [self._event(lease, expected + number, blob) for number in range(1, count + 1)]
        sha = digest(_content(blob))
        refusal = self.shelf.refusal(lease, expected)
        if refusal is not None:
            self._refused(refusal, self.store.append, lease, expected, records, {sha: _content(blob)})
            return
        self._run(self.store.append, lease, expected, records, {sha: _content(blob)})
        self.shelf.log(lease.session).records += records
        self.shelf.log(lease.session).blobs.add(sha)
        self.blobs.add(sha)

    @rule(owner=owners)
    def beat(self, owner: Owner) -> None:
        """Say that an owner lives."""
        if owner.id not in self.shelf.dead:
            self._run(self.store.heartbeat, owner)
            self.shelf.until[owner.id] = self.shelf.now + TTL

    @rule(lease=leases)
    def release(self, lease: Lease) -> None:
        """Give a lease back, lost or not."""
        if lease.owner.id not in self.shelf.dead:
            self._run(self.store.release, lease)
            log = self.shelf.log(lease.session)
            log.held = log.held and log.lease != lease

    @rule(owner=owners)
    def crash(self, owner: Owner) -> None:
        """The process of an owner dies."""
        self.shelf.dead.add(owner.id)

    @rule(seconds=st.sampled_from((1, 10, 14, 15, 16, 60)))
    def wait(self, seconds: int) -> None:
        """Time passes; leases run out."""
        self.shelf.now += seconds * 1_000_000

    @rule()
    def reopen(self) -> None:
        """Close the store and open it again."""
        self._run(self.store.close)
        self.store = self._run(self._open)

    @rule(session=st.sampled_from(SESSIONS))
    def delete(self, session: str) -> None:
        """Forget a session; whoever held it can write no more."""
        self._run(self.store.delete, session)
        self.shelf.logs.pop(session, None)

    @rule(owner=owners, source=st.sampled_from(SESSIONS), to=st.sampled_from(SESSIONS))
    def copy(self, owner: Owner, source: str, to: str) -> None:
        """Copy a log into a new session, as a fork does."""
        records = list(self.shelf.log(source).records)
        alive = owner.id not in self.shelf.dead
        if not records or self.shelf.log(to).records or self.shelf.holder(to) is not None or not alive:
            return
        read = self._run(self.store.read, source).records
        lease = self._run(self.store.lease, to, owner)
        self.tokens[to] = lease.token
        self._run(self.store.append, lease, 0, read)
        self._run(self.store.release, lease)
        self.shelf.until[owner.id] = self.shelf.now + TTL
        cited = {sha for record in records for sha in find_cited_blobs(record.event)}
        self.shelf.logs[to] = Log(records=records, lease=lease, blobs=cited)

    @invariant()
    def everything_is_as_it_must_be(self) -> None:
        """What is read, listed, held and kept is what the model says."""
        self._run(self._compare)

    async def _compare(self) -> None:
        for session in SESSIONS:
            log = self.shelf.log(session)
            if log.records:
                part = await self.store.read(session)
                assert (list(part.records), part.trouble) == (log.records, None)
                assert (await self.store.meta(session)).seq == len(log.records)
            else:
                assert await _lacks(NoSession, self.store.read(session))
            assert await self.store.holder(session) == self.shelf.holder(session)
        listed = await self.store.list(SessionQuery(include_children=True))
        assert {meta.id for meta in listed} == {name for name in SESSIONS if self.shelf.log(name).records}
        for sha in self.blobs:
            if self.shelf.cites(sha):
                assert digest(await self.store.blob(sha)) == sha
            else:
                assert await _lacks(BlobMissing, self.store.blob(sha))

    def _event(self, lease: Lease, seq: int, blob: int) -> Recorded:
        self._count += 1
        name = f"t{self._count}.{seq}"
        if seq == 1:
            return recorded(started(lease.session), seq, id=name)
        if blob == 0:
            return recorded(Renamed(name=name), seq, id=name)
        ref = TextRef(sha256=digest(_content(blob)), chars=1, tokens=1)
        return recorded(MessageInjected(role="user", parts=(ref,)), seq, id=name)

    def _run(self, work: Callable[..., Coroutine[Any, Any, T]], *args: object) -> T:  # Any: as coroutines are typed
        found: T = self._portal.call(work, *args)
        return found

    def _refused(self, error: type[Exception], work: Callable[..., Coroutine[Any, Any, T]], *args: object) -> None:
        with pytest.raises(error):
            self._portal.call(work, *args)

    async def _open(self) -> EventStore:
        clock, path = _Clock(self.shelf), self._folder / "store"
        match self.kind:
            case "memory":
                return await MemoryStore.open(self._folder.name, clock=clock, is_dead=self._is_dead)
            case "sqlite":
                return await SqliteStore.open(path, clock=clock, is_dead=self._is_dead, inline=self.inline)

    def _is_dead(self, owner: Owner) -> bool:
        return owner.id in self.shelf.dead


async def _lacks(error: type[Exception], asking: Coroutine[Any, Any, object]) -> bool:  # Any: as coroutines are typed
    """Whether asking ends in that error. What `pytest.raises` raises would end the portal, and hide the history."""
    try:
        await asking
    except error:
        return True
    return False


class _Clock:
    """The model's time."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def now(self) -> int:
        return self._shelf.now

    def nonce(self) -> str:
        return "t0"

    async def sleep(self, seconds: float) -> None:
        self._shelf.now += int(seconds * 1_000_000)


def _content(blob: int) -> bytes:
    return f"blob {blob}".encode() * (1 if blob < 4 else 200_000)


# --- running it ------------------------------------------------------------------------------------------------------------------


def try_histories(
    kind: StoreKind, examples: int, *, number: int | str, inline: bool = True, steps: int = STEPS
) -> None:
    """Play random histories on one kind of store; raise when one of them differs from the model."""
    machine = seed(f"{kind} {number}")(type("Machine", (LogMachine,), {"kind": kind, "inline": inline}))
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=chosen)


def run(report: Callable[[str], None], *, scale: float = 1.0, seed: int = 0, state_dir: Path) -> bool:
    """Play histories until there were enough on each store."""
    progress = Progress(state_dir, "log_model", seed)
    wanted = max(1, round(EXAMPLES * scale / len(KINDS)))
    for kind in KINDS:
        while (done := progress.done(f"{kind}: histories")) < wanted:
            count, batch = min(BATCH, wanted - done), progress.done(f"{kind}: batches")
            try:
                try_histories(kind, count, number=f"{seed}:{batch}", inline=batch % 4 != 3)
            except (AssertionError, BackstayError, BaseExceptionGroup, pytest.fail.Exception) as exc:
                progress.fault("histories that differ", 1, f"{kind} seed {seed}:{batch}: {exc}")
            progress.fault("histories that differ")
            progress.count(f"{kind}: histories", count)
            progress.count(f"{kind}: batches")
            progress.save()
            report(progress.line())
    progress.save(over=True)
    return progress.sound
