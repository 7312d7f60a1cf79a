"""The deterministic simulation at its full size: 100,000 worlds of 20 turns.

`python -m tests.torture simulate` runs it on every processor; it can be stopped and goes on where it was.
"""

import gc
import json
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final

from backstay.testing.crash.stage import inline_sqlite_store
from tests.simulation.simulate import simulate

WORLDS: Final = 100_000
CHUNK: Final = 100
"""Worlds that are finished before anything is written down."""
ON_SQLITE: Final = 5
"""Of these, worlds that happen once more on SQLite."""

Found = tuple[int, int, list[str]]
"""Worlds, events, and the words of those that broke a promise."""


def run(report: Callable[[str], None], *, scale: float = 1.0, seed: int = 0, state_dir: Path) -> bool:
    """Let every world happen that has not happened yet; return whether none of them broke a promise."""
    state_dir.mkdir(parents=True, exist_ok=True)
    kept = state_dir / f"simulate-{seed}.json"
    done: dict[str, Found] = json.loads(kept.read_text()) if kept.exists() else {}
    chunks = max(1, round(WORLDS * scale / CHUNK))
    firsts = [seed * 10_000_000 + number * CHUNK for number in range(chunks)]
    left = [first for first in firsts if str(first) not in done]
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        for first, found in zip(left, processes.map(_happen, left), strict=True):
            done[str(first)] = found
            kept.write_text(json.dumps(done))
            for words in found[2]:
                report(words)
            if len(done) % 50 == 0:
                report(f"simulation: {len(done) * CHUNK} worlds")
    worlds = sum(done[str(first)][0] for first in firsts)
    events = sum(done[str(first)][1] for first in firsts)
    broken = sum(len(done[str(first)][2]) for first in firsts)
    report(f"simulation: {worlds} worlds, {events} events, {broken} broke a promise")
    return not broken


def main(arguments: Sequence[str] = ()) -> int:
    """Run it alone: `python -m tests.torture.simulate [SCALE]`."""
    scale = float(arguments[0]) if arguments else 1.0
    return 0 if run(print, scale=scale, state_dir=Path(".torture") / "simulate") else 1


def _happen(first: int) -> Found:
    verdicts = [simulate(seed) for seed in range(first, first + CHUNK)]
    verdicts += [simulate(seed, open_store=inline_sqlite_store) for seed in range(first, first + ON_SQLITE)]
    gc.collect()
    return len(verdicts), sum(each.events for each in verdicts), [each.words() for each in verdicts if each.wrong]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
