"""All benchmarks by name, each run in a folder and, if wanted, in a process of its own."""

import tempfile
import traceback
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from benchmarks import (
    append,
    first_delta,
    kit,
    listing,
    memory,
    opening,
    requests,
    scrubber,
    search,
    size,
    startup,
    streaming,
    turn,
)
from benchmarks.frame import Bench, Benchmark, Row
from benchmarks.peers import Peers

BENCHMARKS: Final[dict[str, Benchmark]] = {
    "startup": startup.measure,
    "append": append.measure,
    "kit": kit.measure,
    "opening": opening.measure,
    "listing": listing.measure,
    "turn": turn.measure,
    "requests": requests.measure,
    "first-delta": first_delta.measure,
    "size": size.measure,
    "streaming": streaming.measure,
    "memory": memory.measure,
    "search": search.measure,
    "scrubber": scrubber.measure,
}
SCRATCH: Final = Path(__file__).parents[1] / "build" / "bench"
"""On the disk of the checkout: a temporary folder is memory on many machines, which syncs in no time."""


def run(name: str, peers: Peers, *, quick: bool) -> list[Row]:
    """Measure in a folder that is removed afterwards. A quick run holds nothing to its aim: its sizes mean nothing."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        rows = list(BENCHMARKS[name](Bench(folder=Path(folder), peers=peers, quick=quick)))
    return [replace(row, aim=None) for row in rows] if quick else rows


def run_apart(name: str, peers: Peers, *, quick: bool) -> list[Row]:
    """Measure in a process of its own, so that one benchmark's memory is no burden on the next, and its failure no loss."""
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        measured = pool.submit(run, name, peers, quick=quick)
    failure = measured.exception()
    if failure is None:
        return measured.result()
    traceback.print_exception(failure)
    return [Row(what=name, note=f"FAILED: {type(failure).__name__}: {failure}", failed=True)]
