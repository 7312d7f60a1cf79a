"""T4, small: the disk runs full before each event, and becomes read-only."""

from pathlib import Path

import pytest

from tests.torture.disk_full import Kind, fill
from tests.torture.progress import Progress


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_a_full_disk_loses_nothing_and_the_session_says_so_and_goes_on(kind: Kind, tmp_path: Path) -> None:
    progress = Progress(tmp_path, "disk_full", seed=1)

    fill(kind, (False,), progress)

    assert progress.failures == []
    assert progress.faults == dict.fromkeys(progress.faults, 0)
    assert progress.done(f"{kind}: points without room") > 5
