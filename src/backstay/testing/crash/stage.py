"""One trial of a scenario: a store, an outside world, and the processes that live and die on them."""

import functools
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from backstay.ports import Clock, EventStore, Model, Tool
from backstay.session.assemble import open_with
from backstay.session.options import Options
from backstay.session.session import Session
from backstay.stores.memory import MemoryStore
from backstay.stores.sqlite.store import SqliteStore
from backstay.stores.trace import NoTrace
from backstay.system.machine import SystemClock
from backstay.testing.checked_model import CheckedModel
from backstay.testing.crash.process import Blow, EffectLedger, MortalModel, MortalProcess, MortalStore, MortalTool
from backstay.vocab.errors import UserError
from backstay.vocab.specs import Owner

SESSION: Final = "crashed"
"""The id of the session that scenarios open unless they say otherwise."""

IsDead = Callable[[Owner], bool]
OpenStore = Callable[[Path, Clock, IsDead], Awaitable[EventStore]]
"""Opens an empty store in a folder of its own."""


async def memory_store(folder: Path, clock: Clock, is_dead: IsDead) -> EventStore:
    """Return a store in memory."""
    return await MemoryStore.open(clock=clock, is_dead=is_dead)


async def sqlite_store(folder: Path, clock: Clock, is_dead: IsDead) -> EventStore:
    """Return a SQLite store as programs use it, with its writer thread."""
    return await SqliteStore.open(folder / "sessions.db", clock=clock, is_dead=is_dead)


async def inline_sqlite_store(folder: Path, clock: Clock, is_dead: IsDead) -> EventStore:
    """Return a SQLite store without threads: the same tables, quicker and the same each time."""
    return await SqliteStore.open(folder / "inline.db", clock=clock, is_dead=is_dead, inline=True, synchronous="normal")


STORES: Final[Mapping[str, OpenStore]] = {"memory": memory_store, "sqlite": sqlite_store}
"""The stores that Backstay comes with."""


class Scenario(Struct, frozen=True, kw_only=True):
    """A piece of a session's work, to be interrupted by crashes."""

    name: str
    options: Callable[["Stage"], Options]
    """How sessions are opened: with a model object and all the tools there are. Called once in each process."""
    act: Callable[["Stage"], Awaitable[None]]
    """What the first process does: opens sessions with `stage.open()` and uses them."""


class Trial(Struct, eq=False, kw_only=True, weakref=True):
    """One store and everything that happens around it."""

    scenario: Scenario
    store: EventStore
    folder: Path
    clock: Clock = field(default_factory=SystemClock)
    ledger: EffectLedger = field(default_factory=EffectLedger)
    living: set[str] = field(default_factory=set)
    """The owners that are alive."""
    wrong: list[str] = field(default_factory=list)
    """Every promise that was broken so far."""
    stages: list["Stage"] = field(default_factory=list)

    async def run(
        self, act: Callable[["Stage"], Awaitable[None]], *, blow: Blow | None = None, meet: "Meet | None" = None
    ) -> "Stage":
        """Let one more process do `act`; `meet` is told of its stage before it begins."""
        stage = Stage(self, len(self.stages), blow)
        self.stages.append(stage)
        if meet is not None:
            meet(stage)
        self.living.add(stage.process.owner.id)
        fault = await stage.process.live(lambda: act(stage))
        self.living.discard(stage.process.owner.id)
        found = [*stage.wrong, *(f"a provider would refuse: {each}" for each in stage.refusals())]
        self.wrong += [f"process {stage.attempt}: {each}" for each in found]
        if fault is not None:
            self.wrong.append(f"process {stage.attempt}: {fault.kind}: {fault.message}\n{fault.trace}")
        return stage

    @property
    def once(self) -> frozenset[str]:
        """The tools whose effects must not happen twice."""
        tools = [each for stage in self.stages for each in stage.tools]
        return frozenset(each.spec.name for each in tools if each.spec.effect in ("once", "reconcilable"))


Meet = Callable[["Stage"], None]


class Stage:
    """The session, store and tools that a scenario may use in one process."""

    def __init__(self, trial: Trial, attempt: int, blow: Blow | None) -> None:
        self.attempt = attempt
        """0 in the first process, then one more after each crash."""
        self.process = MortalProcess(f"process-{attempt}")
        self.store = MortalStore(trial.store, self.process, trial.ledger, blow)
        self.clock = trial.clock
        self.sessions: list[Session] = []
        """Every session that was opened, the newest last."""
        self.tools: list[Tool] = []
        self.models: list[CheckedModel] = []
        self.wrong: list[str] = []
        """What the scenario itself found wrong."""
        self._trial = trial

    def open(
        self, **more: Any
    ) -> AbstractAsyncContextManager[Session]:  # Any: each field of `Options` has its own type
        """Open a session as the scenario says, with `more` fields of `Options`."""
        options = replace(self._options, **more)
        if options.resume is None and options.session_id is None:
            options = replace(options, session_id=SESSION)
        return _Noted(self.sessions, open_with(options))

    @functools.cached_property
    def _options(self) -> Options:
        options = self._trial.scenario.options(self)
        if options.model is None or isinstance(options.model, str):
            raise UserError(f"The scenario {self._trial.scenario.name!r} needs a model object in its options.")
        self.tools.extend(options.tools or ())
        return replace(
            options,
            model=self._mortal(options.model),
            fallback_models=[self._mortal(each) for each in options.fallback_models if not isinstance(each, str)],
            tools=[MortalTool(each, self.process) for each in self.tools],
            only_tools=True,
            store=self.store,
            trace=NoTrace(),
            clock=self.clock,
            owner=self.process.owner,
            cwd=self._trial.folder,
        )

    def _mortal(self, model: Model) -> Model:
        checked = CheckedModel(model)
        self.models.append(checked)
        return MortalModel(checked, self.process)

    def did(self, tool: str, key: str) -> None:
        """Enter into the ledger that a tool had its effect for the call with that key."""
        self.process.check()
        self._trial.ledger.effects[tool, key] += 1

    def happened(self, tool: str, key: str) -> bool:
        """Return whether the ledger knows of that effect: what a reconcilable tool's check looks at."""
        return self._trial.ledger.effects[tool, key] > 0

    def refusals(self) -> list[str]:
        """Return what a provider would have refused."""
        return [wrong for model in self.models for wrong in model.broken]


class _Noted:
    """A session's block that notes the session when it is entered."""

    def __init__(self, sessions: list[Session], block: AbstractAsyncContextManager[Session]) -> None:
        self._sessions = sessions
        self._block = block

    async def __aenter__(self) -> Session:
        session = await self._block.__aenter__()
        self._sessions.append(session)
        return session

    async def __aexit__(self, *exc: object) -> bool | None:
        return await self._block.__aexit__(*exc)  # type: ignore[arg-type]  # what the block was left with, as it came
