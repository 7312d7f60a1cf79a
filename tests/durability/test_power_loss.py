"""T2, small: the power fails at random instants."""

from pathlib import Path

import pytest

from tests.torture.power_loss import Kind, cut
from tests.torture.progress import Progress


@pytest.mark.parametrize(("kind", "recordings"), [("sqlite", 3), ("sqlite-normal", 1)])
def test_a_power_cut_leaves_every_acknowledged_event(kind: Kind, recordings: int, tmp_path: Path) -> None:
    progress = Progress(tmp_path, "power_loss", seed=1)

    for _ in range(recordings):
        cut(kind, 200, progress)

    assert progress.failures == []
    assert progress.faults == dict.fromkeys(progress.faults, 0)
    assert progress.done(f"{kind}: images") == recordings * 200


def test_without_a_sync_at_every_commit_the_images_do_lose_events(tmp_path: Path) -> None:
    """The simulation must be able to fail: NORMAL is the store without the promise."""
    progress = Progress(tmp_path, "power_loss", seed=2)

    cut("sqlite-normal", 50, progress)

    assert progress.done("sqlite-normal: images that lost an event") > 0
