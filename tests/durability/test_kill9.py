"""T1, small: a real process is killed in the middle of its sessions, and nothing that it acknowledged is lost."""

from pathlib import Path

from tests.torture.forks import Forks
from tests.torture.kill9 import torment
from tests.torture.progress import Progress

KILLS = 50


def test_a_killed_process_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    progress = Progress(tmp_path, "kill9", seed=1)

    with Forks() as forks:
        torment(forks, KILLS, progress, tmp_path, report=lambda _: None)

    assert progress.failures == []
    assert progress.faults == dict.fromkeys(progress.faults, 0)
    assert progress.done("kills") == KILLS
    assert progress.done("kills right after ToolStarted") == KILLS // 2


def test_the_kills_are_counted_on_after_a_break(tmp_path: Path) -> None:
    before = Progress(tmp_path, "kill9", seed=1)
    before.count("kills", 400)
    before.fault("gaps", 1, "seed 1")
    before.save()

    after = Progress(tmp_path, "kill9", seed=1)

    assert after.done("kills") == 400
    assert not after.sound
    assert Progress(tmp_path, "kill9", seed=2).done("kills") == 0
