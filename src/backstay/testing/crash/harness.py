"""The crash harness: kill a session's process at every append, go on, and see whether anything was lost or done twice.

    scenario = Scenario(name="mine", options=lambda stage: Options(model=..., tools=[...]), act=act)
    report = await crash_everywhere(scenario, folder=tmp_path)
    assert report.problems == (), report.words()

`act(stage)` opens sessions with `stage.open()` and uses them as a program would. A tool enters each effect into the
ledger with `stage.did(name, context.key)`; the check of a reconcilable tool looks there with `stage.happened`. The
harness runs the scenario once to count its appends, then once more for each append, each side of it and each way to go
on, on a new store each time; then it cuts the finished log after each event and goes on from there. It checks that

- every acknowledged event is still in the log, which has no gap;
- no `once` and no `reconcilable` effect happened twice;
- every finished result is still there and reaches the model with the next request;
- no request breaks the shape rules of any provider;
- a session at rest is what its log says;
- every call has one result, every input was taken once, every turn ended.

It runs on any event loop. `backstay.testing.event_loop.run_virtually` gives it one on which waiting takes no time.
"""

import random
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from backstay.logic.stored_content import find_cited_blobs
from backstay.ports import Clock
from backstay.system.machine import SystemClock
from backstay.testing.crash.process import Blow, When
from backstay.testing.crash.recovery import RESUME, WAYS, Way, judge, judge_dead, log_of
from backstay.testing.crash.stage import SESSION, STORES, OpenStore, Scenario, Stage, Trial
from backstay.vocab import events
from backstay.vocab.event import Recorded
from backstay.vocab.specs import Owner

__all__ = ["Blow", "BrokenPromise", "CrashPoint", "CrashReport", "Scenario", "Stage", "Way", "crash_everywhere"]

Kind = Literal["append", "pair", "prefix", "rehearsal", "await"]
"""What sort of point was tried."""
KINDS: Final[tuple[Kind, ...]] = ("append", "pair", "prefix")
SIDES: tuple[When, When] = ("before", "after")


class BrokenPromise(Struct, frozen=True):
    """A promise that was broken, and where."""

    point: str
    wrong: str

    def __str__(self) -> str:
        """Return the problem in words."""
        return f"{self.point}: {self.wrong}"


class CrashReport(Struct, frozen=True, kw_only=True):
    """Report of a crash test: the points that were tried, and what failed."""

    points: Mapping[tuple[str, str, Kind], int] = field(default_factory=dict)
    """How many points were tried, by scenario, store and kind."""
    problems: tuple[BrokenPromise, ...] = ()

    def __add__(self, other: "CrashReport") -> "CrashReport":
        """Both together."""
        return CrashReport(points=Counter(self.points) + Counter(other.points), problems=self.problems + other.problems)

    @property
    def tried(self) -> int:
        """How many points were tried in all."""
        return sum(self.points.values())

    def words(self) -> str:
        """Return the report as a person reads it."""
        lines = [f"{name:<12} {store:<8} {kind:<8} {n:>6}" for (name, store, kind), n in sorted(self.points.items())]
        lines.append(f"{self.tried} points tried, {len(self.problems)} problems")
        return "\n".join([*lines, *map(str, self.problems[:20])])


class Rehearsal(Struct, frozen=True, kw_only=True):
    """A run of a scenario in which nothing goes wrong."""

    appends: int
    log: tuple[Recorded, ...]
    blobs: Mapping[str, bytes]


async def crash_everywhere(
    scenario: Scenario,
    *,
    folder: Path,
    stores: Mapping[str, OpenStore] = STORES,
    ways: Sequence[Way] = WAYS,
    kinds: Collection[Kind] = KINDS,
    pairs: int = 20,
    share: float = 1.0,
    seed: int = 0,
    clock: Callable[[], Clock] = SystemClock,
) -> CrashReport:
    """Crash a scenario at every append, before and after it is durable, and go on in every way.

    `kinds` says what is tried: each `append`, some `pair`s of crashes of which the second hits the recovery (`pairs` of
    them), and each `prefix` of the log. With a `share` below 1 only that part of all points is tried. `seed` chooses.
    """
    report = CrashReport()
    for name, open_store in stores.items():
        site = CrashSite(scenario=scenario, store=name, open_store=open_store, folder=folder, clock=clock)
        rehearsal, found = await site.rehearse()
        report += found
        chance = random.Random(f"{scenario.name} {name} {seed}")
        for point in _points(rehearsal, ways, pairs, chance):
            if point.kind in kinds and chance.random() < share:
                report += await site.attempt(point, rehearsal)
    return report


class CrashPoint(Struct, frozen=True, kw_only=True):
    """One place to crash at."""

    kind: Kind
    way: Way
    blows: tuple[Blow, ...] = ()
    """Where the first process dies, then the second, ..."""
    events: int = 0
    """For a prefix: how many events are left."""

    def __str__(self) -> str:
        """Return the point in words."""
        place = f"the first {self.events} events" if self.kind == "prefix" else ", then ".join(map(str, self.blows))
        return f"{place}, then {self.way.name}"


class CrashSite(Struct, frozen=True, kw_only=True):
    """Where points are tried: a scenario on a kind of store."""

    scenario: Scenario
    store: str
    open_store: OpenStore
    folder: Path
    clock: Callable[[], Clock] = SystemClock

    async def rehearse(self) -> tuple[Rehearsal, CrashReport]:
        """Run the scenario without a crash, to know what there is to crash."""
        found: list[Rehearsal] = []

        async def play(trial: Trial) -> None:
            stage = await trial.run(self.scenario.act)
            log = await log_of(trial.store, SESSION)
            await judge(trial, (), stage, RESUME)
            cited = {sha for record in log for sha in find_cited_blobs(record.event)}
            blobs = {sha: await trial.store.blob(sha) for sha in sorted(cited)}
            found.append(Rehearsal(appends=stage.store.appends, log=log, blobs=blobs))

        report = await self._try("rehearsal", "no crash", play)
        return found[0], report

    async def attempt(self, point: CrashPoint, rehearsal: Rehearsal) -> CrashReport:
        """Try one point."""

        async def play(trial: Trial) -> None:
            if point.kind == "prefix":
                await _cut(trial, rehearsal, point.events)
            for number, blow in enumerate(point.blows):
                await trial.run(point.way.act if number else self.scenario.act, blow=blow)
                await judge_dead(trial)
            before = await log_of(trial.store, SESSION)
            recovery = await trial.run(point.way.act)
            await judge(trial, before, recovery, point.way)

        return await self._try(point.kind, str(point), play)

    async def _try(self, kind: Kind, where: str, play: Callable[[Trial], Awaitable[None]]) -> CrashReport:
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            folder, clock = Path(name), self.clock()
            living: set[str] = set()
            store = await self.open_store(folder, clock, lambda owner: owner.id not in living)
            trial = Trial(scenario=self.scenario, store=store, folder=folder, clock=clock, living=living)
            try:
                await play(trial)
            finally:
                await store.close()
        place = f"{self.scenario.name} on {self.store}, {where}"
        problems = tuple(BrokenPromise(place, wrong) for wrong in dict.fromkeys(trial.wrong))
        return CrashReport(points={(self.scenario.name, self.store, kind): 1}, problems=problems)


def _points(rehearsal: Rehearsal, ways: Sequence[Way], pairs: int, chance: random.Random) -> Iterator[CrashPoint]:
    blows = [Blow(append=number, when=when) for number in range(1, rehearsal.appends + 1) for when in SIDES]
    for blow in blows:
        yield from (CrashPoint(kind="append", way=way, blows=(blow,)) for way in ways)
    for _ in range(pairs if blows else 0):
        second = Blow(append=chance.randint(1, 6), when=chance.choice(SIDES))
        yield CrashPoint(kind="pair", way=chance.choice(ways), blows=(chance.choice(blows), second))
    for length in range(1, len(rehearsal.log) + 1):
        yield from (CrashPoint(kind="prefix", way=way, events=length) for way in ways)


async def _cut(trial: Trial, rehearsal: Rehearsal, length: int) -> None:
    """Leave the first `length` events of the rehearsed log, as if a process had died just there, its open calls done."""
    await trial.run(_die)
    log = rehearsal.log[:length]
    owner = Owner(id="rehearsal", host="crash", boot="crash", pid=1, started=1)
    lease = await trial.store.lease(SESSION, owner)
    first = _of_store(log[0], trial.store.identity)
    await trial.store.append(lease, 0, (first, *log[1:]), rehearsal.blobs)
    trial.ledger.acknowledged[SESSION] += (first, *log[1:])
    for record in log:
        if isinstance(record.event, events.ToolStarted):
            trial.ledger.effects[record.event.name, record.event.key] = 1


async def _die(stage: Stage) -> None:
    """Stand for the process that wrote the log, so that the next one is not the first."""


def _of_store(record: Recorded, identity: str) -> Recorded:
    assert isinstance(record.event, events.Started)
    return replace(record, event=replace(record.event, store=identity))
