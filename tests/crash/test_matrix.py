"""The crash matrix: at every append, on both sides of it, in every way to go on. Points are enumerated, never sampled.

That is so on the memory store. The other stores and the cut logs get a share here; `make torture` enumerates them too.
"""

from pathlib import Path

import anyio
import pytest

from backstay.testing.crash.harness import CrashReport, Kind, Scenario, crash_everywhere
from backstay.testing.crash.stage import inline_sqlite_store, memory_store, sqlite_store
from backstay.testing.event_loop import run_virtually
from tests.crash.scenarios import SCENARIOS

every_scenario = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)


def crash_in_memory(scenario: Scenario, folder: Path, *kinds: Kind, share: float = 1.0) -> CrashReport:
    """Crash a scenario on a memory store, in virtual time."""

    async def crash() -> CrashReport:
        return await crash_everywhere(
            scenario, folder=folder, stores={"memory": memory_store}, kinds=kinds, share=share, pairs=20
        )

    report = run_virtually(crash)
    print(report.words())
    return report


@every_scenario
@pytest.mark.contract("RV-10", "RV-12", "ST-15", "ST-31", "RV-B1", "RB-47")
def test_nothing_is_lost_or_done_twice_after_a_crash_at_any_append(scenario: Scenario, tmp_path: Path) -> None:
    report = crash_in_memory(scenario, tmp_path, "append", "pair")

    assert report.problems == (), report.words()
    assert report.tried > 100


@every_scenario
def test_every_prefix_of_a_log_can_be_gone_on_from(scenario: Scenario, tmp_path: Path) -> None:
    report = crash_in_memory(scenario, tmp_path, "prefix", share=0.05)

    assert report.problems == (), report.words()


@every_scenario
def test_the_sqlite_store_loses_nothing_in_a_crash(scenario: Scenario, tmp_path: Path) -> None:
    async def crash() -> CrashReport:
        return await crash_everywhere(
            scenario, folder=tmp_path, stores={"sqlite": inline_sqlite_store}, share=0.02, pairs=20
        )

    report = run_virtually(crash)

    assert report.problems == (), report.words()


@every_scenario
async def test_the_store_of_programs_loses_nothing_in_a_crash(scenario: Scenario, tmp_path: Path) -> None:
    with anyio.fail_after(50):
        report = await crash_everywhere(
            scenario, folder=tmp_path, stores={"sqlite": sqlite_store}, share=0.015, pairs=20
        )

    assert report.problems == (), report.words()
