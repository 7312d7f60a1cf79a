"""T4: a small disk runs full before each event of a session, and becomes read-only at the end."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from tests.torture.progress import Progress
from tests.torture.separate import ask, scratch


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What `full.py` is asked to do."""

    folder: str
    restarts: tuple[bool, ...] = (False, True)


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """What `full.py` answers; its fields are documented there."""

    how: str
    points: int
    refused: int
    waited: int
    raised: int
    wrongs: dict[str, list[str]]


def run(report: Callable[[str], None], *, scale: float = 1.0, seed: int = 0, state_dir: Path) -> bool:
    """Fill the disk before every event; a small scale leaves out the restarts on a full disk."""
    progress = Progress(state_dir, "disk_full", seed)
    if not progress.done("stores"):
        fill((False, True) if scale >= 1 else (False,), progress)
        progress.count("stores")
        progress.save()
        report(progress.line())
    progress.save(over=True)
    return progress.sound


def fill(restarts: tuple[bool, ...], progress: Progress) -> None:
    """Try every event of a session on one store, and count."""
    with scratch() as folder:
        found = ask(Task(folder=folder, restarts=restarts), Findings, "tests.torture.full")
    progress.count(f"points, on {found.how}", found.points)
    progress.count("points without room", found.refused)
    progress.count("points that waited and said so", found.waited)
    progress.count("points where the caller was told", found.raised)
    progress.faulted(found.wrongs, "see above")
