"""Crash, interrupt or steer between any two steps of the driver and of everything beside it: a share of the awaits.

`make torture` tries every one of them.
"""

from pathlib import Path

import pytest

from backstay.testing.crash.stage import Scenario
from tests.crash.interference import Action, interfere_everywhere
from tests.crash.scenarios import SCENARIOS

every_scenario = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)


@every_scenario
@pytest.mark.parametrize("action", ["crash", "interrupt", "steer"])
@pytest.mark.contract("RV-9")
def test_a_session_holds_whatever_happens_at_any_await(scenario: Scenario, action: Action, tmp_path: Path) -> None:
    report = interfere_everywhere(scenario, folder=tmp_path, actions=(action,), share=0.07)

    assert report.problems == (), report.words()
    assert report.tried > 3


@every_scenario
def test_a_session_holds_when_two_things_happen(scenario: Scenario, tmp_path: Path) -> None:
    report = interfere_everywhere(scenario, folder=tmp_path, share=0.0, pairs=8)

    assert report.problems == (), report.words()
