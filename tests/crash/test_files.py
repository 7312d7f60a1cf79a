"""The process dies at every append of a session that keeps, changes and puts back files; afterwards every turn can be gone back to."""

from pathlib import Path

import pytest

from backstay.testing.crash.harness import CrashReport, crash_everywhere
from backstay.testing.crash.stage import memory_store
from backstay.testing.event_loop import run_virtually
from tests.crash.scenarios.files import FILES, REWINDING


@pytest.mark.contract("RB-57")
def test_rb_w28_a_crash_at_any_append_loses_nothing_that_was_kept_and_every_turn_can_be_gone_back_to(
    tmp_path: Path,
) -> None:
    async def crash() -> CrashReport:
        return await crash_everywhere(
            FILES,
            folder=tmp_path,
            stores={"memory": memory_store},
            ways=(REWINDING,),
            kinds=("append", "pair"),
            pairs=12,
        )

    report = run_virtually(crash)

    assert report.problems == (), report.words()
    assert report.tried > 60
