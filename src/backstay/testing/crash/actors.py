"""Who plays in the scenarios of the crash matrix: a model that keeps to its lines, and tools of every kind."""

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import anyio
import anyio.lowlevel
from msgspec import Struct
from msgspec.structs import replace

from backstay.ports import Asker, Model, ModelReply, ModelRequest, Tool, ToolContext, ToolOutput
from backstay.providers.scripted import ScriptedModel
from backstay.session.options import Options
from backstay.session.session import Session
from backstay.stores.clock import SystemClock
from backstay.testing.crash.harness import CrashReport, Problem
from backstay.testing.crash.recovery import RESUME, judge, judge_dead, log_of
from backstay.testing.crash.stage import SESSION, OpenStore, Scenario, Stage, Trial, memory_store
from backstay.testing.simulation.event_loop import run_virtually
from backstay.vocab.deltas import Delta, TextDelta
from backstay.vocab.errors import BackstayError, Bug
from backstay.vocab.messages import Text
from backstay.vocab.specs import Effect, ModelFacts, ToolSpec, Usage

Reply = Mapping[str, object]
LONG: Final = "a long answer " * 3_000
"""More than an event holds: it becomes a blob."""


PLAIN: Final = ModelFacts(summarises=False)
"""What is known of a model of which nothing special is known."""


def rehearsed(
    replies: Sequence[Reply], stage: Stage, *, facts: ModelFacts = PLAIN, name: str = "scripted:rehearsed"
) -> Model:
    """A model that plays `replies` and has a last word for whatever comes after them.

    Replies that hang do so only in the first process. Whoever wants a summary gets one, unless the facts say otherwise.
    """
    if stage.attempt:
        replies = [{key: value for key, value in reply.items() if key != "hang"} for reply in replies]
    return _Rehearsed(replies, facts, name)


def played(replies: Sequence[Reply], asker: Asker | None = None) -> Callable[[Stage], Options]:
    """The options of a scenario in which one model plays `replies`."""
    return lambda stage: Options(model=rehearsed(replies, stage), tools=tools_of(stage), asker=asker)


def call(name: str, **args: object) -> Reply:
    """A tool call of a reply."""
    return {"name": name, "args": args}


def tools_of(stage: Stage) -> list[Tool]:
    """One tool of each effect, one that breaks, one that hangs until it is stopped, and one that opens child sessions."""

    async def look(n: int, context: ToolContext) -> str:
        await anyio.lowlevel.checkpoint()
        return LONG if n < 0 else f"saw {n}"

    async def count(n: int, context: ToolContext) -> str:
        return f"counted {n}"

    async def put(n: int, context: ToolContext) -> str:
        stage.did("put", context.key)
        await anyio.lowlevel.checkpoint()
        return f"put {n}"

    async def book(n: int, context: ToolContext) -> str:
        await anyio.lowlevel.checkpoint()
        stage.did("book", context.key)
        await anyio.lowlevel.checkpoint()
        return f"booked {n}"

    async def pay(n: int, context: ToolContext) -> str:
        context.show("paying ")
        await anyio.lowlevel.checkpoint()
        stage.did("pay", context.key)
        await anyio.lowlevel.checkpoint()
        return f"paid {n}"

    async def order(n: int, context: ToolContext) -> str:
        stage.did("order", context.key)
        return f"ordered {n}"

    async def ring(n: int, context: ToolContext) -> str:
        stage.did("ring", context.key)
        context.show("ringing ")
        if stage.attempt == 0:
            await anyio.sleep_forever()
        return f"rang {n}"

    async def stumble(n: int, context: ToolContext) -> str:
        stage.did("stumble", context.key)
        raise ValueError(f"stumbled over {n}")

    works: tuple[Work, ...] = (look, count, put, book, pay, order, ring, stumble)
    return [*(_Piece(SPECS[work.__name__], work, stage) for work in works), _Piece(SPECS["delegate"], count, stage)]


Work = Callable[[int, ToolContext], Coroutine[object, object, str]]


def _spec(name: str, effect: Effect = "once") -> ToolSpec:
    schema: dict[str, object] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    return ToolSpec(name=name, description=f"{name.capitalize()}.", schema=schema, effect=effect)


SPECS: Final = {
    spec.name: spec
    for spec in (
        replace(_spec("look", "pure"), concurrent=True),
        _spec("count", "pure"),
        _spec("put", "idempotent"),
        _spec("book", "reconcilable"),
        _spec("pay"),
        replace(_spec("order"), asks=True),
        _spec("ring"),
        _spec("stumble"),
        replace(_spec("delegate"), child=True),
    )
}
"""The tools of the scenarios. `delegate` takes a prompt, the others take a number `n`."""


class _Piece(Struct, frozen=True):
    """A tool of a scenario."""

    spec: ToolSpec
    work: Work
    stage: Stage

    def problem(self, args: dict[str, object]) -> str:
        wanted = ("prompt", str) if self.spec.child else ("n", int)
        return "" if isinstance(args.get(wanted[0]), wanted[1]) else f"{wanted[0]!r} is missing."

    async def run(self, args: dict[str, object], context: ToolContext) -> ToolOutput:
        return ToolOutput(text=await self.work(int(str(args["n"])), context))

    async def check(self, args: dict[str, object], context: ToolContext) -> ToolOutput | None:
        happened = self.stage.happened(self.spec.name, context.key)
        return ToolOutput(text=f"had done {self.spec.name} {args['n']}") if happened else None


class _Rehearsed:
    def __init__(self, replies: Sequence[Reply], facts: ModelFacts, name: str) -> None:
        self._script = ScriptedModel.of(replies)
        self._length = len(replies)
        self._facts = facts
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    @property
    def format(self) -> str:
        return "anthropic"

    @property
    def facts(self) -> ModelFacts:
        """What is known of it."""
        return self._facts

    async def ask(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        if request.purpose == "summary":
            await anyio.lowlevel.checkpoint()
            yield ModelReply(parts=(Text(text="They did this and that."),), usage=Usage(input=40, output=6))
            return
        if request.position >= self._length:
            await anyio.lowlevel.checkpoint()
            yield TextDelta(text="That is all.")
            yield ModelReply(parts=(Text(text="That is all."),))
            return
        async for item in self._script.ask(
            replace(request, place=None)
        ):  # all the models of a scenario play one script
            yield item


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
            problems=tuple(Problem(place, wrong) for wrong in dict.fromkeys(trial.wrong)),
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
