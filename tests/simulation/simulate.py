"""The deterministic simulation: a whole world of processes, faults and people that follows from one seed.

    python -m tests.simulation --seed 7 -v       what happens in the world of seed 7
    python -m tests.simulation --seeds 0:2000    many worlds; the seeds of those that break a promise

One client carries out a plan of some turns, on processes that crash at any await, freeze until another process has
taken their session over, and reach their store late, never, or twice; the model and the tools fail in every way they
know. Whatever happens, in the end every session is opened once more, finished, and checked: every acknowledged event
and input is there exactly once, no `once` effect happened twice, no token wrote after a newer one was given, no request
broke a provider's shape, every call has one result, every turn ended, and the log says what the session said.
"""

import argparse
import gc
import hashlib
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from pathlib import Path
from typing import Final

import anyio
from msgspec import Struct, field
from msgspec.structs import replace

from backstay.catalog import load, sessions
from backstay.ports import EventStore, SessionQuery
from backstay.session.assemble import open_with
from backstay.session.options import Options
from backstay.session.session import Session
from backstay.stores.trace import NoTrace
from backstay.testing.checked_model import CheckedModel
from backstay.testing.crash.invariants import find_lost, wrong_with
from backstay.testing.crash.process import Blow, EffectLedger, MortalModel, MortalProcess, MortalTool
from backstay.testing.crash.recovery import log_of, misleading_requests
from backstay.testing.crash.stage import OpenStore, inline_sqlite_store, memory_store
from backstay.testing.event_loop import Stuck, run_virtually
from backstay.vocab.errors import BackstayError, Bug, StoreError, TurnError
from backstay.vocab.event import Recorded
from backstay.vocab.events import ChildStarted, InputReceived, ToolFinished, ToolStarted
from backstay.wire.codec import encode
from tests.simulation.actors import ONCE, OTHER, FakeModel, answer, fake_hooks, fake_tools
from tests.simulation.client import Client
from tests.simulation.stores import AuditedStore, FailingStore, Universe

TURNS: Final = 20
TTL_S: Final = 15.0
_EVERYTHING: Final = SessionQuery(include_children=True)


class Verdict(Struct, frozen=True, kw_only=True):
    """What became of a world."""

    seed: int
    wrong: tuple[str, ...]
    """The promises that were broken."""
    digest: str
    """Of every event of every session: the same seed gives the same."""
    events: int
    turns: int
    """Turns that the client began."""
    plan: int
    """Turns that it was to begin."""
    processes: int
    notes: tuple[str, ...] = ()

    def words(self, *, notes: bool = False) -> str:
        """The verdict as a person reads it, and how to see it again."""
        lines = [*self.notes] if notes else []
        lines.append(
            f"seed {self.seed}: {self.turns} turns, {self.processes} processes, {self.events} events, {self.digest[:12]}"
        )
        lines += [f"  BROKEN: {each}" for each in self.wrong]
        if self.wrong:
            lines.append(f"  again: python -m tests.simulation --seed {self.seed} --turns {self.plan} -v")
        return "\n".join(lines)


def simulate(seed: int, *, turns: int = TURNS, open_store: OpenStore = memory_store) -> Verdict:
    """Let one world happen. In memory, the same seed always gives the same verdict."""
    collected = gc.isenabled()
    gc.disable()  # what a collection finalizes would depend on everything that happened before in this program
    world = _World(Universe(seed), turns)
    try:
        with tempfile.TemporaryDirectory() if open_store is not memory_store else nullcontext("/") as folder:
            return run_virtually(lambda: world.happen(open_store, Path(folder)), seed=seed)
    except Stuck as exc:
        return world.verdict(str(exc))
    finally:
        if collected:
            gc.enable()


class _World:
    """One world."""

    def __init__(self, universe: Universe, turns: int) -> None:
        self._universe = universe
        self._client = Client(universe=universe, turns=turns, session_id="sim")
        self._ledger = EffectLedger()
        self._wrong: list[str] = []
        self._processes: list[_Life] = []
        self._living: set[str] = set()

    async def happen(self, open_store: OpenStore, folder: Path) -> Verdict:
        """Let the client carry out its plan, then look at what is left."""
        store = AuditedStore(
            await open_store(folder, self._universe, lambda owner: owner.id not in self._living), self._universe
        )
        async with anyio.create_task_group() as tasks:
            while not self._client.done:
                life = self._life(store)
                tasks.start_soon(life.run, self._client)
                await life.over.wait()
            self._universe.calm = True
            for life in self._processes:
                life.store.thaw()
        events, digest = await self._judge(store)
        await store.close()
        return self.verdict(*store.wrong, events=events, digest=digest)

    def verdict(self, *wrong: str, events: int = 0, digest: str = "") -> Verdict:
        """What became of it."""
        return Verdict(
            seed=self._universe.seed,
            wrong=tuple(dict.fromkeys((*self._wrong, *wrong))),
            digest=digest,
            events=events,
            turns=self._client.said,
            plan=self._client.turns,
            processes=len(self._processes),
            notes=tuple(self._universe.notes),
        )

    def _life(self, store: EventStore) -> "_Life":
        process = MortalProcess(f"process-{len(self._processes)}")
        dice = self._universe.dice("fate")
        blow = Blow(append=dice.randint(1, 30), when=dice.choice(("before", "after"))) if dice.random() < 0.4 else None
        calm_blow = None if self._universe.calm else blow
        life = _Life(
            process=process,
            store=FailingStore(store, process, self._ledger, calm_blow, self._universe),
            universe=self._universe,
            ledger=self._ledger,
            wrong=self._wrong,
            living=self._living,
        )
        self._processes.append(life)
        return life

    def _without_cause(self, session: str, log: Sequence[Recorded]) -> Iterator[str]:
        """Calls whose outcome is said to be unknown although nothing happened to the process that ran them."""
        shaken = {life.process.owner.id for life in self._processes if life.process.killed or life.store.shaken}
        started: dict[str, str] = {}
        for record in log:
            if isinstance(record.event, ToolStarted | ChildStarted):
                started[record.event.call] = self._ledger.writers.get((session, record.seq), "")
            elif isinstance(record.event, ToolFinished) and record.event.outcome == "unknown":
                process = started[record.event.call]
                copied = process == self._ledger.writers.get((session, record.seq))  # by a fork
                if process and not copied and process not in shaken:
                    yield f"the outcome of {record.event.call} is unknown, and {process} did not crash"

    async def _judge(self, store: EventStore) -> tuple[int, str]:
        """Finish every session and look at all of them."""
        total, events = hashlib.sha256(), 0
        for meta in sorted(await store.list(_EVERYTHING), key=lambda meta: meta.id):
            life = self._life(store)
            await life.finish(meta.id)
        logs = {meta.id: await log_of(store, meta.id) for meta in await store.list(_EVERYTHING)}
        asked = [request for life in self._processes for model in life.models for request in model.requests]
        self._wrong += await misleading_requests(store, logs.values(), asked)
        for session, log in sorted(logs.items()):
            found = [*wrong_with(log), *find_lost(self._ledger.acknowledged[session], log)]
            found += await sessions.verify(store, session)
            inputs = {record.event.input for record in log if isinstance(record.event, InputReceived)}
            found += [f"the input {one} is gone" for one in self._client.acknowledged.get(session, set()) - inputs]
            found += self._without_cause(session, log)
            self._wrong += [f"session {session}: {each}" for each in found]
            events += len(log)
            for record in log:
                total.update(encode(record))
        self._wrong += [f"happened twice: {call}" for call in self._ledger.find_repeated(ONCE)]
        return events, total.hexdigest()


class _Life(Struct, eq=False, kw_only=True):
    """One process of the world, from its start to its end."""

    process: MortalProcess
    store: FailingStore
    universe: Universe
    ledger: EffectLedger
    wrong: list[str]
    living: set[str]
    models: list[CheckedModel] = field(default_factory=list)
    over: anyio.Event = field(default_factory=anyio.Event)
    """Set when the client goes on elsewhere: it ended, was killed, or is frozen and was given up."""

    async def run(self, client: Client) -> None:
        """Let the client use the process, and fate have its way with it."""

        async def use() -> None:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._fate)
                await self._use(client)
                tasks.cancel_scope.cancel()

        await self._live(use)

    async def finish(self, session_id: str) -> None:
        """Open a session in a world that is calm now, finish it and see whether it is what its log says."""

        async def work() -> None:
            async with self._open(Options(resume=session_id)) as session:
                with suppress(TurnError):
                    await session.finish()
                await self._compare(session)

        await self._live(work)

    async def _live(self, work: "Work") -> None:
        name = self.process.owner.id
        self.living.add(name)
        fault = await self.process.live(work)
        self.living.discard(name)
        self.over.set()
        self.wrong += [f"{name}: a provider would refuse: {each}" for model in self.models for each in model.broken]
        if fault is not None:
            self.wrong.append(f"{name}: {fault.kind}: {fault.message}\n{fault.trace}")

    async def _use(self, client: Client) -> None:
        dice = self.universe.dice("client")
        exists = await sessions.exists(self.store.inner, client.session_id)
        options = Options(resume=client.session_id) if exists else Options(session_id=client.session_id)
        if exists and dice.random() < 0.3:
            options = replace(options, on_crash="abandon") if dice.random() < 0.8 else replace(options, fork=True)
        try:
            async with self._open(options) as session:
                self.universe.note(f"{self.process.owner.id} opens {session.id} at {session.seq}")
                if options.fork:
                    client.move_to(session.id)
                await client.use(session, lambda: not self.over.is_set())
                await self._compare(session)
        except BackstayError as exc:
            if isinstance(exc, Bug) or not isinstance(exc, StoreError):
                raise
            self.universe.note(f"{self.process.owner.id}: {type(exc).__name__}: {exc}")
            await anyio.sleep(1.0)

    async def _fate(self) -> None:
        dice = self.universe.dice("fate")
        luck = dice.random()
        await anyio.sleep(dice.random() ** 2 * 40)
        if self.universe.calm or luck > 0.5:
            return
        if luck > 0.1:
            self.universe.note(f"{self.process.owner.id} is killed")
            self.process.kill()
            return
        self.universe.note(f"{self.process.owner.id} freezes")
        self.store.freeze()
        try:
            await anyio.sleep(TTL_S + 1)
            self.over.set()
            await anyio.sleep(dice.random() * 60)
        finally:
            self.universe.note(f"{self.process.owner.id} thaws")
            self.store.thaw()

    async def _compare(self, session: Session) -> None:
        """See whether the session is what its log says, unless it was lost or is not at rest."""
        if self.over.is_set() or session.is_running or session.pending_inputs:
            return
        seq, live = session.seq, session.plain_state()
        replayed = await load.replay(
            self.store.inner, session.id, at=seq
        )  # a later step may be durable and not yet known
        differing = {key: (live[key], replayed[key]) for key in live if live[key] != replayed[key]}
        if differing:
            self.wrong.append(f"{self.process.owner.id}: live and replayed state differ: {differing!r:.2000}")

    def _open(self, options: Options) -> AbstractAsyncContextManager[Session]:
        models = {each.name: each for each in (FakeModel(self.universe), FakeModel(self.universe, OTHER))}
        checked = {name: CheckedModel(model) for name, model in models.items()}
        self.models += checked.values()
        mortal = {name: MortalModel(model, self.process) for name, model in checked.items()}
        tools = fake_tools(self.universe, self.process, self.ledger)
        complete = replace(
            options,
            model=None if options.resume else mortal["simulated:model"],
            find=mortal.__getitem__,
            fallback_models=[mortal[OTHER]],
            tools=[MortalTool(each, self.process) for each in tools],
            only_tools=True,
            hooks=fake_hooks(self.universe),
            asker=lambda question: answer(self.universe, question),
            store=self.store,
            trace=NoTrace(),
            clock=self.universe,
            owner=self.process.owner,
            cwd="/",
            lease_ttl_s=TTL_S,
            max_rounds=8,
            idle_timeout_s=20.0,
            tool_timeout_s=30.0,
        )
        return open_with(complete)


Work = Callable[[], Awaitable[None]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 1 means that a world broke a promise."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation",
        description="Let simulated worlds happen and say which of them break a promise.",
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=int, help="one world")
    which.add_argument("--seeds", metavar="FIRST:END", help="the worlds from FIRST up to, not including, END")
    parser.add_argument("--turns", type=int, default=TURNS, help="turns of each world (%(default)s)")
    parser.add_argument("--sqlite", action="store_true", help="on SQLite instead of in memory")
    parser.add_argument("-v", "--verbose", action="store_true", help="tell what happens")
    given = parser.parse_args(arguments)
    first, _, end = str(given.seeds or f"{given.seed}:{given.seed + 1}").partition(":")
    broken = 0
    for seed in range(int(first), int(end)):
        verdict = simulate(seed, turns=given.turns, open_store=inline_sqlite_store if given.sqlite else memory_store)
        broken += bool(verdict.wrong)
        if given.verbose or verdict.wrong:
            print(verdict.words(notes=given.verbose))
    print(f"{int(end) - int(first)} worlds, {broken} broke a promise")
    return 1 if broken else 0
