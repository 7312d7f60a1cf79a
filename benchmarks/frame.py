"""What a benchmark gets and what it gives back."""

import gc
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from benchmarks.peers import Peers

T = TypeVar("T")


@dataclass(frozen=True)
class Figure:
    """Measurements of one thing: shown as their median and the range that eight of ten lie in."""

    values: tuple[float, ...]
    unit: str

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.values)

    def __str__(self) -> str:
        """Such as `1.2 ms (1.1-1.5)`."""
        if len(self.values) == 1:
            return f"{short(self.median)} {self.unit}"
        ordered = sorted(self.values)
        cut = len(ordered) // 10
        return f"{short(self.median)} {self.unit} ({short(ordered[cut])}-{short(ordered[-1 - cut])})"


@dataclass(frozen=True, kw_only=True)
class Aim:
    """What a figure's median is held to."""

    most: float | None = None
    least: float | None = None

    def is_met(self, figure: Figure) -> bool:
        """Whether the median is within."""
        return (self.most is None or figure.median <= self.most) and (self.least is None or figure.median >= self.least)

    def __str__(self) -> str:
        """Such as `at most 150`."""
        return f"at most {self.most:,g}" if self.most is not None else f"at least {self.least:,g}"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table."""

    what: str
    figure: Figure | None = None
    """None when it cannot be measured here; `note` says why."""
    aim: Aim | None = None
    beside: Mapping[str, Figure] = field(default_factory=dict)
    """The same for what a user would pick instead, or for the floor below it."""
    note: str = ""
    failed: bool = False
    """Whether the benchmark broke."""

    @property
    def met(self) -> bool | None:
        """Whether the aim is met; None without one."""
        return None if self.aim is None or self.figure is None else self.aim.is_met(self.figure)


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What a benchmark may use."""

    folder: Path
    """Empty, on a real disk, removed afterwards."""
    peers: Peers
    quick: bool = False
    """Whether it only shows that it still works."""

    def pick(self, full: T, quick: T) -> T:
        """A size."""
        return quick if self.quick else full


Benchmark = Callable[[Bench], Iterator[Row]]


def repeat(times: int, work: Callable[[], object], unit: str = "ms") -> Figure:
    """Call `work` a few times; how long each call took."""
    taken: list[float] = []
    for _ in range(times):
        with clocked(taken):
            work()
    return Figure(tuple(taken), unit)


@contextmanager
def clocked(taken: list[float], busy: list[float] | None = None) -> Iterator[None]:
    """Add the milliseconds that the block takes, and those of CPU, with the garbage of what came before out of the way."""
    gc.collect()
    start, cpu = time.perf_counter(), time.process_time()
    yield
    taken.append((time.perf_counter() - start) * 1000)
    if busy is not None:
        busy.append((time.process_time() - cpu) * 1000)


def figures(measured: Mapping[str, Iterable[float]], unit: str = "ms") -> dict[str, Figure]:
    """What a peer measured."""
    return {name: Figure(tuple(values), unit) for name, values in measured.items()}


def short(number: float) -> str:
    """`number` with three digits that matter."""
    if abs(number) >= 100:
        return f"{number:,.0f}"
    return f"{number:.3g}" if abs(number) >= 1e-3 or number == 0 else f"{number:.1e}"
