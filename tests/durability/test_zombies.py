"""T8, small: an owner sleeps past its lease, is replaced, and wakes up."""

from pathlib import Path

from tests.torture.forks import Forks
from tests.torture.progress import Progress
from tests.torture.zombies import play

ROUNDS = 10


def test_an_owner_that_slept_past_its_lease_writes_nothing_more(tmp_path: Path) -> None:
    progress = Progress(tmp_path, "zombies", seed=1)

    with Forks() as forks:
        play(forks, ROUNDS, progress, tmp_path)

    assert progress.failures == []
    assert progress.faults == dict.fromkeys(progress.faults, 0)
    assert progress.done("rounds") > 0
