"""History validity at its full size: 20,000 worlds of 40 acts, and what every provider would say to every request.

`python -m tests.torture history` runs it on every processor; it can be stopped and goes on where it was.
"""

import gc
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final

from tests.history_world import OFTEN, happen
from tests.torture.progress import Progress

WORLDS: Final = 20_000
ACTS: Final = 40
CHUNK: Final = 20
"""Worlds that are finished before anything is written down."""

Found = tuple[Counter[str], Counter[str], list[str]]
"""Requests by model, events by kind, and what was wrong with which seed."""


def run(report: Callable[[str], None], *, scale: float = 1.0, seed: int = 0, state_dir: Path) -> bool:
    """Let every world happen that has not happened yet; return whether no provider would refuse anything."""
    progress = Progress(state_dir, "history", seed)
    progress.fault("requests that a provider would refuse")
    worlds = max(CHUNK, round(WORLDS * scale))
    first = seed * 10_000_000
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        starts = range(first + progress.done("worlds"), first + worlds, CHUNK)
        for requests, events, wrong in processes.map(_chunk, starts):
            progress.count("worlds", CHUNK)
            for name, times in _figures(requests, events):
                progress.count(name, times)
            progress.fault("requests that a provider would refuse", len(wrong))
            progress.failures += wrong
            progress.save()
            for each in wrong[:3]:
                report(each)
            if progress.done("worlds") % (CHUNK * 25) == 0:
                report(progress.line())
    progress.save(over=True)
    report(progress.line())
    return progress.sound


def _figures(requests: Counter[str], events: Counter[str]) -> Iterator[tuple[str, int]]:
    for model, times in requests.items():
        yield f"requests to {model}", times
    for kind in ("Compacted", "Rewound", "Interrupted", "Opened", "FallbackTaken", "ModelChanged", "ChildFinished"):
        yield f"events {kind}", events[kind]


def _chunk(first: int) -> Found:
    requests: Counter[str] = Counter()
    events: Counter[str] = Counter()
    wrong: list[str] = []
    for seed in range(first, first + CHUNK):
        dice = random.Random(seed)
        seen = happen(seed, [dice.choice(OFTEN) for _ in range(ACTS)])
        requests += seen.requests
        events += seen.events
        wrong += [f"seed {seed}: {each[:2000]}" for each in seen.wrong]
    gc.collect()
    return requests, events, wrong
