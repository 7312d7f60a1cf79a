"""T3: one turn meets a failing disk at its n-th call, for every n."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

import msgspec

from tests.torture.progress import Progress
from tests.torture.separate import ask, scratch

Error = Literal["EIO", "ENOSPC"]
WAYS: Final[tuple[tuple[Error, bool], ...]] = tuple(itertools.product(("EIO", "ENOSPC"), (False, True)))
"""Error, and whether the disk stays broken until somebody mends it."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What `faults.py` is asked to do."""

    error: Error
    stays: bool
    folder: str


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """What `faults.py` answers; its fields are documented there."""

    calls: int
    shown: int
    survived: int
    held: int
    wrongs: dict[str, list[str]]


def run(report: Callable[[str], None], *, scale: float = 1.0, seed: int = 0, state_dir: Path) -> bool:
    """Try all ways in which a disk can fail; a small scale tries fewer ways, each at every call."""
    progress = Progress(state_dir, "io_errors", seed)
    ways = WAYS[:: 1 if scale >= 1 else 2]
    while (done := progress.done("ways to fail")) < len(ways):
        fail(*ways[done], progress)
        progress.count("ways to fail")
        progress.save()
        report(f"{done + 1} of {len(ways)} ways: {progress.line()}")
    progress.save(over=True)
    return progress.sound


def fail(error: Error, stays: bool, progress: Progress) -> None:
    """Try every call of a turn in one way, and count."""
    with scratch() as folder:
        task = Task(error=error, stays=stays, folder=folder)
        found = ask(task, Findings, "tests.torture.tapped", "faults")
    progress.count("calls that failed", found.calls)
    progress.count("errors shown", found.shown)
    progress.count("turns that went on", found.survived)
    progress.count("leases that had to run out", found.held)
    progress.faulted(found.wrongs, f"{error} stays={stays}")
