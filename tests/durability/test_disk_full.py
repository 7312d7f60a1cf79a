"""T4, small: the disk runs full before each event, and becomes read-only."""

from pathlib import Path

from tests.torture.disk_full import fill
from tests.torture.progress import Progress


def test_a_full_disk_loses_nothing_and_the_session_says_so_and_goes_on(tmp_path: Path) -> None:
    progress = Progress(tmp_path, "disk_full", seed=1)

    fill((False,), progress)

    assert progress.failures == []
    assert progress.faults == dict.fromkeys(progress.faults, 0)
    assert progress.done("points without room") > 5
