"""The harness itself: it sees what it is there to see."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from backstay.ports import NO_BLOBS, Clock, EventStore, ToolContext
from backstay.providers.scripted import ScriptedModel
from backstay.session.options import Options
from backstay.testing.crash.harness import CrashReport, Kind, Scenario, Stage, crash_everywhere
from backstay.testing.crash.process import WrappedStore
from backstay.testing.crash.stage import IsDead, OpenStore, memory_store
from backstay.testing.event_loop import Stuck, run_virtually
from backstay.tools.define import tool
from backstay.vocab.event import Recorded
from backstay.vocab.specs import Lease
from tests.crash.scenarios.turns import SERIAL

APPENDS: tuple[Kind, ...] = ("append",)
PAID: dict[str, object] = {"text": "Paid."}


class ForgetfulStore(WrappedStore):
    """Acknowledges every append and keeps it for itself until the next one: a disk that lies."""

    def __init__(self, inner: EventStore) -> None:
        super().__init__(inner)
        self._held: list[tuple[Lease, int, Sequence[Recorded], Mapping[str, bytes]]] = []

    async def append(
        self, lease: Lease, expected_seq: int, records: Sequence[Recorded], blobs: Mapping[str, bytes] = NO_BLOBS
    ) -> None:
        if self._held and self._held[0][0] == lease:
            await self.inner.append(*self._held.pop())
        self._held = [(lease, expected_seq, records, blobs)]


async def forgetful_store(folder: Path, clock: Clock, is_dead: IsDead) -> EventStore:
    return ForgetfulStore(await memory_store(folder, clock, is_dead))


def crash(scenario: Scenario, folder: Path, open_store: OpenStore = memory_store) -> CrashReport:
    async def everywhere() -> CrashReport:
        return await crash_everywhere(scenario, folder=folder, stores={"test": open_store}, kinds=APPENDS)

    return run_virtually(everywhere)


def paying(*, honest: bool) -> Scenario:
    """A program of a third party: one reconcilable tool, whose check is honest or not."""

    def options(stage: Stage) -> Options:
        async def check(context: ToolContext) -> str | None:
            return "paid" if honest and stage.happened("pay", context.key) else None

        @tool(effect="reconcilable", check=check)
        async def pay(context: ToolContext) -> str:
            """Pay."""
            stage.did("pay", context.key)
            await anyio.lowlevel.checkpoint()
            return "paid"

        return Options(model=ScriptedModel.of([{"calls": [{"name": "pay"}]}, PAID, PAID, PAID]), tools=[pay])

    async def act(stage: Stage) -> None:
        async with stage.open() as session:
            await session.run("Pay the bill.")

    return Scenario(name="paying", options=options, act=act)


def test_a_program_of_ones_own_can_be_crashed(tmp_path: Path) -> None:
    report = crash(paying(honest=True), tmp_path)

    assert report.problems == ()
    assert report.points == {("paying", "test", "rehearsal"): 1, ("paying", "test", "append"): 6 * 2 * 4}


def test_an_effect_that_happens_twice_is_seen(tmp_path: Path) -> None:
    report = crash(paying(honest=False), tmp_path)

    assert any("happened twice: pay" in problem.wrong for problem in report.problems)


def test_a_store_that_forgets_what_it_acknowledged_is_seen(tmp_path: Path) -> None:
    report = crash(paying(honest=True), tmp_path, forgetful_store)

    assert any("was acknowledged" in problem.wrong for problem in report.problems)


def test_a_problem_says_where_it_is(tmp_path: Path) -> None:
    report = crash(paying(honest=False), tmp_path)

    assert str(report.problems[0]).startswith("paying on test, ")
    assert "append" in str(report.problems[0])


def test_a_scenario_that_breaks_by_itself_is_a_problem(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        raise RuntimeError("I am wrong")

    report = crash(Scenario(name="wrong", options=SERIAL.options, act=act), tmp_path)

    assert "RuntimeError: I am wrong" in report.words()


def test_waiting_for_nothing_is_seen_and_said() -> None:
    async def wait() -> None:
        await anyio.Event().wait()

    with pytest.raises(Stuck, match=r"wait:\d+"):
        run_virtually(wait)


def test_virtual_time_passes_without_waiting() -> None:
    async def sleep() -> tuple[float, int]:
        began = anyio.current_time()
        await anyio.sleep(3600)
        with anyio.move_on_after(60):
            await anyio.sleep_forever()
        return anyio.current_time() - began, await anyio.to_thread.run_sync(lambda: 7)

    assert run_virtually(sleep) == (pytest.approx(3660), 7)


def test_the_seed_decides_the_order_of_what_is_ready() -> None:
    def order(seed: int | None) -> list[int]:
        async def race() -> list[int]:
            ran: list[int] = []

            async def run(number: int) -> None:
                await anyio.lowlevel.checkpoint()
                ran.append(number)

            async with anyio.create_task_group() as tasks:
                for number in range(8):
                    tasks.start_soon(run, number)
            return ran

        return run_virtually(race, seed=seed)

    assert order(None) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert order(1) == order(1)
    assert len({tuple(order(seed)) for seed in range(10)}) > 5
