"""T3, small: a turn meets a failing disk at each of its calls."""

from pathlib import Path

import pytest

from tests.torture.io_errors import Error, Kind, fail
from tests.torture.progress import Progress


@pytest.mark.parametrize(("kind", "error"), [("sqlite", "EIO"), ("jsonl", "ENOSPC")])
def test_a_failing_call_is_shown_or_survived_and_harms_nothing(kind: Kind, error: Error, tmp_path: Path) -> None:
    progress = Progress(tmp_path, "io_errors", seed=1)

    fail(kind, error, False, progress)

    assert progress.failures == []
    assert progress.faults == dict.fromkeys(progress.faults, 0)
    assert progress.done(f"{kind}: calls that failed") > 50
