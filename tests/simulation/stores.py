"""The stores of a simulated world: one that keeps books for everybody, and one for each process that fails it."""

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import anyio

from backstay.logic.state.session_state import state_of
from backstay.ports import NO_BLOBS, Clock, EventStore, FoldSnapshot
from backstay.testing.crash.process import Blow, EffectLedger, MortalProcess, MortalStore, WrappedStore
from backstay.vocab.errors import LeaseLost, SeqConflict, StoreFull, StoreUnavailable
from backstay.vocab.event import Recorded
from backstay.vocab.ids import base36
from backstay.vocab.specs import Lease, Owner

T = TypeVar("T")

START: Final = 1_767_225_600_000_000
"""When every world begins: 2026-01-01, in microseconds."""


class Universe:
    """A clock whose time is that of the virtual loop, and the dice for everything that happens by chance.

    Different matters roll different dice, so that one more roll here does not change what happens there.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.calm = False
        """Whether nothing goes wrong any more."""
        self.notes: list[str] = []
        """What happened, in words."""
        self._dice: dict[str, random.Random] = {}

    def now(self) -> int:
        """Microseconds since 1970."""
        return START + round(anyio.current_time() * 1_000_000)

    def nonce(self) -> str:
        """Five digits in base 36."""
        return base36(self.dice("nonce").randrange(36**4, 36**5))

    async def sleep(self, seconds: float) -> None:
        """Wait, in no time."""
        await anyio.sleep(seconds)

    def dice(self, matter: str) -> random.Random:
        """The dice of a matter."""
        if matter not in self._dice:
            self._dice[matter] = random.Random(f"{self.seed} {matter}")
        return self._dice[matter]

    def happens(self, matter: str, probability: float) -> bool:
        """Whether something that goes wrong with that probability goes wrong now."""
        return self.dice(matter).random() < probability and not self.calm

    def pick(self, matter: str, choices: Sequence[tuple[T, float]]) -> T:
        """One of the choices, by weight."""
        weights = [weight for _, weight in choices]
        return self.dice(matter).choices([choice for choice, _ in choices], weights)[0]

    async def dawdle(self, matter: str, most_s: float) -> None:
        """Wait for some time up to `most_s`, often for none."""
        dice = self.dice(matter)
        if dice.random() < 0.5:
            await anyio.sleep(dice.random() * most_s)

    def note(self, text: str) -> None:
        """Write down what happened."""
        self.notes.append(f"{anyio.current_time():9.3f}  {text}")


if TYPE_CHECKING:
    _: Clock = Universe(0)

FAILS: Final[Mapping[str, float]] = {"append": 0.02, "lease": 0.01, "read": 0.003, "blob": 0.01, "heartbeat": 0.05}
"""How often each call fails without having done anything."""


class AuditedStore(WrappedStore):
    """The store itself, watched: only the newest token of a session may write."""

    def __init__(self, inner: EventStore, universe: Universe) -> None:
        super().__init__(inner)
        self._universe = universe
        self.wrong: list[str] = []
        self._newest: dict[str, int] = {}

    async def lease(self, session: str, owner: Owner, ttl_s: float = 15.0) -> Lease:
        """Take a session; note a token that is not new."""
        lease = await self.inner.lease(session, owner, ttl_s)
        if lease.token <= self._newest.get(session, 0):
            self.wrong.append(f"session {session}: the token {lease.token} was given twice")
        self._newest[session] = lease.token
        return lease

    async def append(
        self, lease: Lease, expected_seq: int, records: Sequence[Recorded], blobs: Mapping[str, bytes] = NO_BLOBS
    ) -> None:
        """Append; note a token that should have been refused."""
        await self.inner.append(lease, expected_seq, records, blobs)
        if lease.token != self._newest.get(lease.session):
            self.wrong.append(f"session {lease.session}: the token {lease.token} wrote, the newest is {self._newest}")

    async def snapshot(self, session: str, digest: str) -> FoldSnapshot | None:
        """A snapshot of some moment at which the session was at rest, as if it had been taken then."""
        dice = self._universe.dice("snapshot")
        if dice.random() < 0.6:
            return None
        log = (await self.inner.read(session)).records
        state = state_of(session, log[: dice.randint(1, len(log))])
        if state.progress.busy:
            return None
        tip, seq = state.progress.tip, state.progress.seq
        return FoldSnapshot(tip=tip, seq=seq, digest=digest, content=state.snapshot())


class FailingStore(MortalStore):
    """A process's way to the store: slow, failing before or after the fact, repeating itself, or frozen."""

    def __init__(
        self, inner: EventStore, process: MortalProcess, ledger: EffectLedger, blow: Blow | None, universe: Universe
    ) -> None:
        super().__init__(inner, process, ledger, blow)
        self._universe = universe
        self._thawed = anyio.Event()
        self._thawed.set()
        self.shaken = False
        """Whether anything happened after which a session may be lost."""
        self._doubtful = ""
        """The first event of an append that failed after it had happened."""

    def freeze(self) -> None:
        """Let no call through from now on."""
        self.shaken = True
        self._thawed = anyio.Event()

    def thaw(self) -> None:
        """Let every call through again."""
        self._thawed.set()

    async def through(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        """Do a call, late or not at all."""
        await self._universe.dawdle("store", 0.02)
        await self._thawed.wait()
        self._fail(name, FAILS.get(name, 0.0))
        result = await super().through(name, call)
        await self._thawed.wait()
        if name == "append":
            await self._repeat(call)
        return result

    async def append(
        self, lease: Lease, expected_seq: int, records: Sequence[Recorded], blobs: Mapping[str, bytes] = NO_BLOBS
    ) -> None:
        """Append. One that failed after the fact may be tried again, as every store allows."""
        if self._doubtful == records[0].id:
            tail = await self.inner.read(lease.session, expected_seq)
            if tail.records == tuple(records):
                self._doubtful = ""
                self._ledger.acknowledged[lease.session].extend(records)
                return
        await super().append(lease, expected_seq, records, blobs)

    def on_append(self, records: Sequence[Recorded]) -> None:
        """Forget to tell, sometimes."""
        if self._universe.happens("store", 0.01):
            self._doubtful, self.shaken = records[0].id, True
            self._universe.note("append fails after the fact")
            raise StoreUnavailable("The store fails on purpose: nobody knows whether it happened. Try the same again.")

    def _fail(self, name: str, probability: float) -> None:
        if self._universe.happens("store", probability):
            error = self._universe.dice("store").choice((StoreFull, StoreUnavailable))
            self._universe.note(f"{name} fails with {error.__name__}")
            raise error(f"The store fails on purpose: {name}.")

    async def _repeat(self, call: Callable[[], Awaitable[object]]) -> None:
        """Send the same once more, as a network does. Nothing may come of it."""
        if self._universe.happens("store", 0.02):
            try:
                await call()
            except (LeaseLost, SeqConflict):
                return
            raise AssertionError("the same append was taken twice")
