"""Money over a tree of sessions: a parent and three children share 0.01 USD, whatever they use and however often they die.

Two promises are held against the logs themselves, not against the folds: when a call is made, less is spent than is allowed, so the
budget is never exceeded by more than one call; and after every event the purse says what the log's own figures add up to.
"""

import os
import random
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Literal

import anyio
import msgspec
import pytest

from backstay import Session, TurnFailed, open_session, tool
from backstay.logic.budget import DOLLAR, cost
from backstay.logic.state.progress import Progress, fold
from backstay.logic.state.retries import Retries
from backstay.ports import ModelReply, ModelRequest, SessionQuery
from backstay.session.subagents import child_tool
from backstay.stores.memory import MemoryStore
from backstay.testing.clock import ObedientClock
from backstay.testing.crash.process import Blow, EffectLedger, MortalModel, MortalProcess, MortalStore
from backstay.vocab.deltas import Delta, TextDelta
from backstay.vocab.errors import ProviderError, TurnPaused
from backstay.vocab.event import Recorded
from backstay.vocab.events import ChildFinished, ModelAsked, ModelFailed, ModelReplied, Opened, ResultIgnored
from backstay.vocab.events.limits import (
    BudgetAnswered,
    BudgetSet,
    ChildPaused,
    ChildSpent,
    Compacted,
    CompactionFailed,
    CompactionStarted,
)
from backstay.vocab.messages import Text, ToolCall
from backstay.vocab.specs import ModelFacts, Prices, Usage

SEEDS = int(os.environ.get("BACKSTAY_BUDGET_SEEDS", "16"))
CENT = DOLLAR // 100
PRICES = Prices(input=3 * DOLLAR, output=15 * DOLLAR)
ROOT = "root"

Way = Literal["fail", "pause_for_approval"]


@tool(effect="pure")
async def look(at: int) -> str:
    """Look at something."""
    return f"saw {at}"


class Spender:
    """Uses as many tokens as chance says. The parent delegates to three children; each child looks around, then is done."""

    name = "spender:one"
    format = "anthropic"
    facts = ModelFacts(known=True, prices=PRICES)

    def __init__(self, world: "World") -> None:
        self._services = world

    async def ask(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        """Answer, break off, or fail, as chance says."""
        world = self._services
        world.calls += 1
        chance = random.Random(f"{world.seed}/{world.calls}")
        spent, limit = await world.spent(), world.limit
        if spent >= limit:
            world.wrong.append(f"call {world.calls} was made with {spent} of {limit} spent")
        await anyio.lowlevel.checkpoint()
        if chance.random() < 0.1:
            raise ProviderError("overloaded", "try again")
        if chance.random() < 0.05:
            yield TextDelta(text="I beg")
            raise ProviderError("transport", "cut")
        usage = Usage(input=chance.randint(100, 500), output=chance.randint(5, 80), cache_read=chance.randint(0, 90))
        parts = self._parts(request, chance)
        yield ModelReply(parts=parts, stop="tool_calls" if isinstance(parts[0], ToolCall) else "end", usage=usage)

    @staticmethod
    def _parts(request: ModelRequest, chance: random.Random) -> tuple[Text | ToolCall, ...]:
        rounds = sum(message.role == "assistant" for message in request.messages)
        if any(spec.child for spec in request.tools):
            if rounds:
                return (Text(text="all done"),)
            prompts = [msgspec.json.encode({"prompt": f"part {n}"}).decode() for n in range(3)]
            return tuple(ToolCall(id="", name="delegate", args=prompt, provider_id="p") for prompt in prompts)
        if rounds < 4 and chance.random() < 0.75:
            return (ToolCall(id="", name="look", args=f'{{"at": {rounds}}}', provider_id="p"),)
        return (Text(text="part done"),)


@dataclass
class World:
    """A store, and the processes that live and die on it."""

    seed: int
    way: Way
    store: MemoryStore
    clock: ObedientClock
    limit: int = CENT
    calls: int = 0
    lives: int = 0
    crashes: int = 0
    pauses: int = 0
    aside: int = 0
    """The most that was set aside for a call: what it costs when a crash cuts it off."""
    wrong: list[str] = field(default_factory=list)

    async def spent(self) -> int:
        """What the logs of the whole tree say was spent, each log by its own figures alone."""
        metas = await self.store.list(SessionQuery(include_children=True))
        return sum([own_spending(await self.log(meta.id)) for meta in metas])

    async def log(self, session: str) -> tuple[Recorded, ...]:
        """A session's log."""
        return (await self.store.read(session)).records

    async def live(self, blow: Blow | None) -> str:
        """One process: take the turn up and see how far it gets."""
        self.lives += 1
        process = MortalProcess(f"life-{self.lives}")
        found = ["died"]

        async def act() -> None:
            async with open_session(
                model=MortalModel(Spender(self), process),
                store=MortalStore(self.store, process, EffectLedger(), blow),
                clock=self.clock,
                owner=process.owner,
                session_id=ROOT,
                only_tools=True,
                tools=[child_tool(), look],
                permission_mode="bypassPermissions",
                system_prompt="Spend.",
                budget_microcents=self.limit,
                on_exceed=self.way,
                retries=Retries(first_wait_s=0.0),
            ) as session:
                found[0] = await _outcome(session)

        fault = await process.live(act)
        if fault is not None:
            self.wrong.append(f"{fault.kind}: {fault.message} {fault.trace[-600:]}")
            return "broken"
        self.crashes += process.killed
        return "died" if process.killed else found[0]


async def _outcome(session: Session) -> str:
    try:
        await session.run("go", input_id="go")
    except TurnPaused:
        return "paused"
    except TurnFailed as exc:
        return exc.reason
    return "completed"


def own_spending(log: Iterable[Recorded]) -> int:
    """What one log says that its own calls cost; a call that a crash cut off costs what was set aside for it."""
    spent = reserved = 0
    for record in log:
        match record.event:
            case ModelAsked(reserved=aside) | CompactionStarted(reserved=aside):
                reserved = aside
            case ModelReplied(cost=paid) | ModelFailed(cost=paid) | Compacted(cost=paid) | CompactionFailed(cost=paid):
                spent, reserved = spent + (paid or 0), 0
            case ResultIgnored(cost=paid):
                spent += paid or 0
            case Opened():
                spent, reserved = spent + reserved, 0
            case _:
                pass
    return spent


def check_purse(log: Iterable[Recorded]) -> Iterable[str]:
    """Where the purse does not say what the log's own figures add up to."""
    progress, so_far = Progress(), []
    children: dict[str, int] = {}
    for record in log:
        progress = fold(progress, record)
        so_far.append(record)
        if isinstance(record.event, ChildFinished | ChildPaused | ChildSpent) and record.event.cost:
            children[record.event.child] = record.event.cost
        expected = own_spending(so_far) + sum(children.values())
        if progress.budget.spent != expected:
            yield f"seq {record.seq}: the purse has {progress.budget.spent}, the log {expected}"


async def run_world(seed: int) -> World:
    """Let one world happen: crashes at first, then pauses that are raised, until the turn is over."""
    chance = random.Random(f"world {seed}")
    clock = ObedientClock(seed=seed)
    way: Way = "fail" if seed % 3 == 0 else "pause_for_approval"
    world = World(
        seed=seed, way=way, store=await MemoryStore.open(clock=clock, is_dead=lambda owner: True), clock=clock
    )
    outcome = "died"
    for _ in range(60):
        crash = chance.random() < (0.7 if world.crashes < 4 else 0.0)
        blow = Blow(append=chance.randint(1, 14), when=chance.choice(("before", "after"))) if crash else None
        outcome = await world.live(blow)
        if outcome == "paused":
            world.pauses += 1
            if chance.random() < 0.7:  # sometimes it is only opened again, and waits on
                world.limit += CENT
        elif outcome != "died":
            break
    if outcome not in ("completed", "budget", "transport", "overloaded"):
        world.wrong.append(f"it ended as {outcome!r}")
    for meta in await world.store.list(SessionQuery(include_children=True)):
        log = await world.log(meta.id)
        world.wrong += [f"{meta.id}: {each}" for each in check_purse(log)]
        world.aside = max([world.aside, *(r.event.reserved for r in log if isinstance(r.event, ModelAsked))])
    return world


@pytest.mark.contract("RV-B7", "RV-B8")
async def test_a_cent_over_a_parent_and_three_children_is_never_exceeded_by_more_than_one_call() -> None:
    worlds = [await run_world(seed) for seed in range(SEEDS)]
    assert [(world.seed, world.wrong) for world in worlds if world.wrong] == []
    assert sum(world.crashes for world in worlds) > SEEDS // 2
    assert sum(world.pauses for world in worlds) > SEEDS // 2
    dearest = max(cost(Usage(input=500, output=80), PRICES) or 0, *(world.aside for world in worlds))
    for world in worlds:
        assert await world.spent() <= world.limit + dearest
    print(
        f"{len(worlds)} worlds, {sum(w.calls for w in worlds):,} calls, {sum(w.lives for w in worlds)} processes, "
        f"{sum(w.crashes for w in worlds)} crashes, {sum(w.pauses for w in worlds)} pauses"
    )


@pytest.mark.contract("RV-B7")
async def test_paused_restarted_raised_and_finished() -> None:
    world = await run_world(32)
    assert (world.crashes, world.pauses, world.wrong) == (0, 2, [])
    log = await world.log(ROOT)
    kinds = [type(r.event) for r in log if isinstance(r.event, BudgetAnswered | BudgetSet | Opened | ChildFinished)]
    assert kinds.index(BudgetAnswered) < kinds.index(Opened)  # it waited over a restart
    assert kinds.count(BudgetSet) == 1 + (world.limit - CENT) // CENT > 1
    assert kinds.count(ChildFinished) == 3
    assert (await world.store.meta(ROOT)).answer == "all done"
