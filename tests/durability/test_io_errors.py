"""T3, small: a turn meets a failing disk at each of its calls."""

from pathlib import Path

import pytest

from tests.torture.io_errors import Error, fail
from tests.torture.progress import Progress


@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
def test_a_failing_call_is_shown_or_survived_and_harms_nothing(error: Error, tmp_path: Path) -> None:
    progress = Progress(tmp_path, "io_errors", seed=1)

    fail(error, False, progress)

    assert progress.failures == []
    assert progress.faults == dict.fromkeys(progress.faults, 0)
    assert progress.done("calls that failed") > 50
