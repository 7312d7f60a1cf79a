"""T2: the power fails at random instants; what may be left on the disk is opened and compared with what was acknowledged."""

from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

import msgspec

from tests.torture.progress import Progress
from tests.torture.separate import ask, scratch

Kind = Literal["sqlite", "sqlite-normal"]
IMAGES: Final[dict[Kind, int]] = {"sqlite": 10_000, "sqlite-normal": 2_000}
"""At full size."""
BATCH: Final = 250
"""Images of one recording."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What `cuts.py` is asked to do."""

    kind: Kind
    seed: str
    images: int
    folder: str


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """What `cuts.py` answers; its fields are documented there."""

    images: int
    events: int
    losing: int
    worst: int
    wrongs: dict[str, list[str]]


def run(report: Callable[[str], None], *, scale: float = 1.0, seed: int = 0, state_dir: Path) -> bool:
    """Take images until there were enough of each kind."""
    progress = Progress(state_dir, "power_loss", seed)
    for kind, most in IMAGES.items():
        wanted = max(1, round(most * scale))
        while (done := progress.done(f"{kind}: images")) < wanted:
            cut(kind, min(BATCH, wanted - done), progress)
            progress.save()
            report(f"{kind} {progress.done(f'{kind}: images')} of {wanted}: {progress.line()}")
    progress.save(over=True)
    return progress.sound


def cut(kind: Kind, images: int, progress: Progress) -> None:
    """Make one recording, take some images of it, and count what they show."""
    number = progress.done(f"{kind}: recordings")
    seed = f"{progress.seed}:{kind}:{number}"
    with scratch() as folder:
        task = Task(kind=kind, seed=seed, images=images, folder=f"{folder}/cuts")
        found = ask(task, Findings, "tests.torture.tapped", "cuts")
    progress.count(f"{kind}: recordings")
    progress.count(f"{kind}: images", found.images)
    progress.count(f"{kind}: events acknowledged", found.events)
    if kind == "sqlite-normal":  # documented: a power cut may take the newest acknowledged events
        progress.count(f"{kind}: images that lost an event", found.losing)
    else:
        progress.fault(f"{kind}: images that lost an event", found.losing, f"seed {seed}: worst {found.worst}")
    progress.faulted({f"{kind}: {name}": each for name, each in found.wrongs.items()}, f"seed {seed}")
