"""Generated commands that are allowed are run under a tracer, and planted faults are found."""

import json
from collections.abc import Callable
from pathlib import Path

from tests.needs import lacking_for_traced_sandbox
from tests.proof.campaign import Campaign
from tests.proof.faults import find_all, read_faults

JUDGED = 4_000_000
RUN = 200_000


def run(report: Callable[[str], None], *, scale: float = 1.0, seed: int = 0, state_dir: Path) -> bool:
    """Judge and run commands; then find every fault, when the size is whole."""
    if lacking := lacking_for_traced_sandbox():
        report(f"left out: {lacking}")
        return True
    count = max(1_000, int(JUDGED * scale))
    with Campaign(seed) as campaign:
        hits = campaign.go(count, max(100, int(RUN * scale)), lambda violation: report(f"VIOLATION: {violation}"))
        lines = campaign.counts.lines()
    for line in lines:
        report(line)
    (state_dir / "proof.json").write_text(
        json.dumps({"seed": seed, "violations": hits, "counts": lines}), encoding="utf-8"
    )
    return (scale < 1 or find_all(read_faults(), seed, report)) and hits == 0
