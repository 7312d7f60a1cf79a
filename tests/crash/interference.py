"""Crash, interrupt or steer a scenario at every await, and see whether everything holds."""

import random
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, Literal

import anyio

from backstay.session.session import Session
from backstay.system.machine import SystemClock
from backstay.testing.crash.harness import BrokenPromise, CrashReport
from backstay.testing.crash.recovery import RESUME, judge, judge_dead, log_of
from backstay.testing.crash.stage import SESSION, OpenStore, Scenario, Stage, Trial, memory_store
from backstay.testing.event_loop import run_virtually
from backstay.vocab.errors import BackstayError, Bug

Action = Literal["crash", "interrupt", "steer"]
ACTIONS: Final[tuple[Action, ...]] = ("crash", "interrupt", "steer")


def interfere_everywhere(
    scenario: Scenario,
    *,
    folder: Path,
    actions: Sequence[Action] = ACTIONS,
    share: float = 1.0,
    pairs: int = 0,
    seed: int = 0,
    open_store: OpenStore = memory_store,
) -> CrashReport:
    """Do each of `actions` at every await of a scenario, then go on and see whether everything holds.

    With a `share` below 1 only that part of the steps is tried, and `pairs` adds that many runs in which two things
    happen at two steps; `seed` chooses both.
    """
    site = _Site(scenario, folder, open_store)
    steps = site.count()
    chance = random.Random(f"{scenario.name} {seed}")
    report = CrashReport()
    for step in range(1, steps + 1):
        for action in actions:
            if chance.random() < share:
                report += site.attempt({step: action})
    for _ in range(pairs):
        first, second = sorted(chance.sample(range(1, steps + 1), 2))
        report += site.attempt({first: chance.choice(("interrupt", "steer")), second: chance.choice(actions)})
    return report


class _Site:
    """A scenario whose steps are counted."""

    def __init__(self, scenario: Scenario, folder: Path, open_store: OpenStore) -> None:
        self._scenario = scenario
        self._folder = folder
        self._open_store = open_store

    def count(self) -> int:
        """How many steps the scenario takes when nothing happens."""
        poke = _Poke({})
        run_virtually(lambda: self._play(poke), watch=poke.watch)
        return poke.steps

    def attempt(self, plan: dict[int, Action]) -> CrashReport:
        """Do things at some steps."""
        poke = _Poke(plan)
        trial = run_virtually(lambda: self._play(poke), watch=poke.watch)
        words = ", ".join(f"{action} at step {step}" for step, action in plan.items())
        place = f"{self._scenario.name}, {words}"
        return CrashReport(
            points={(self._scenario.name, "memory", "await"): 1},
            problems=tuple(BrokenPromise(place, wrong) for wrong in dict.fromkeys(trial.wrong)),
        )

    async def _play(self, poke: "_Poke") -> Trial:
        clock = SystemClock()
        living: set[str] = set()
        store = await self._open_store(self._folder, clock, lambda owner: owner.id not in living)
        trial = Trial(scenario=self._scenario, store=store, folder=self._folder, clock=clock, living=living)
        await trial.run(lambda stage: poke.accompany(stage, self._scenario.act), meet=poke.meet)
        poke.stage = None
        await judge_dead(trial)
        before = await log_of(store, SESSION)
        recovery = await trial.run(RESUME.act)
        await judge(trial, before, recovery, RESUME)
        await store.close()
        return trial


class _Poke:
    """Counts the steps of the first process and does things between them."""

    def __init__(self, plan: dict[int, Action]) -> None:
        self.steps = 0
        self.stage: Stage | None = None
        self._plan = plan
        self._due: list[Action] = []
        self._called = anyio.Event()

    def meet(self, stage: Stage) -> None:
        """Begin to count."""
        self.stage = stage

    def watch(self, _: str) -> None:
        """Count a step; crash at once, or call the task that does the rest."""
        if self.stage is None or not self.stage.process.alive:
            return
        self.steps += 1
        action = self._plan.get(self.steps)
        if action == "crash":
            self.stage.process.kill()
        elif action is not None:
            self._due.append(action)
            self._called.set()

    async def accompany(self, stage: Stage, act: Callable[[Stage], Awaitable[None]]) -> None:
        """Do `act`, and beside it what is called for. What `act` meets because of that is no problem."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._serve, stage)
            try:
                await act(stage)
            except BackstayError as exc:
                if isinstance(exc, Bug):
                    raise
            tasks.cancel_scope.cancel()

    async def _serve(self, stage: Stage) -> None:
        while True:
            await self._called.wait()
            self._called = anyio.Event()
            while self._due:
                action = self._due.pop(0)
                for session in stage.sessions[-1:]:
                    await _do(action, session)


async def _do(action: Action, session: Session) -> None:
    try:
        if action == "interrupt":
            await session.abort("interfered")
        else:
            await session.steer("Never mind, this instead.")
    except BackstayError as exc:
        if isinstance(exc, Bug):
            raise
