"""A clock for tests: its time moves only when the test moves it, and its random numbers come from a seed."""

import heapq
import math
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio
import anyio.lowlevel

from backstay.ports import Clock
from backstay.vocab.ids import base36

START: Final = 1_767_225_600_000_000
"""The default time at which it begins: 2026-01-01, in microseconds since 1970."""
_ROUNDS: Final = 10
"""Times that the other tasks may run before the clock decides that all of them wait."""


class ObedientClock:
    """A clock that stands still until `advance` moves it.

    `advance` wakes the tasks that are due. With `hurries=True` the clock moves by itself: when every task waits, it
    jumps to the first that is due, so that no test takes real time. A task that waits for a thread counts as waiting: use a clock that
    hurries with stores in memory, and in tests in which times do not matter.
    """

    def __init__(self, *, start: int = START, seed: int = 0, hurries: bool = False) -> None:
        self._now = start
        self._chance = random.Random(f"clock {seed}")
        self._hurries = hurries
        self._hurrying = False
        self._sleepers: list[_Sleeper] = []
        self._slept = 0

    def now(self) -> int:
        """Return microseconds since 1970."""
        return self._now

    def nonce(self) -> str:
        """Return five digits in base 36: the same ones, in the same order, for the same seed."""
        return base36(self._chance.randrange(36**4, 36**5))

    async def sleep(self, seconds: float) -> None:
        """Wait until the time has moved so far."""
        if seconds <= 0 or math.isinf(seconds):
            await (anyio.lowlevel.checkpoint() if seconds <= 0 else anyio.sleep_forever())
            return
        self._slept += 1
        sleeper = _Sleeper(self._now + max(1, round(seconds * 1_000_000)), self._slept)
        heapq.heappush(self._sleepers, sleeper)
        try:
            while sleeper.due > self._now:
                await (self._hurry() if self._hurries and not self._hurrying else sleeper.rest())
        finally:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)
                heapq.heapify(self._sleepers)

    @property
    def sleepers(self) -> int:
        """How many wait for the time to move."""
        return len(self._sleepers)

    def advance(self, seconds: float) -> None:
        """Move the time on and wake the tasks that are due. They go on when the caller waits next."""
        self._now += max(0, round(seconds * 1_000_000))
        while self._sleepers and self._sleepers[0].due <= self._now:
            heapq.heappop(self._sleepers).wake.set()

    def advance_to_next(self) -> bool:
        """Move the time to the first task that sleeps; return whether one did."""
        if not self._sleepers:
            return False
        self.advance((self._sleepers[0].due - self._now) / 1_000_000)
        return True

    async def _hurry(self) -> None:
        self._hurrying = True
        try:
            for _ in range(_ROUNDS):
                await anyio.lowlevel.checkpoint()
            await anyio.wait_all_tasks_blocked()
            self.advance_to_next()
        finally:
            self._hurrying = False
            if self._sleepers:
                self._sleepers[0].wake.set()  # one of those who still sleep hurries from now on


@dataclass(order=True)
class _Sleeper:
    due: int
    number: int
    wake: anyio.Event = field(default_factory=anyio.Event, compare=False)

    async def rest(self) -> None:
        await self.wake.wait()
        self.wake = anyio.Event()


if TYPE_CHECKING:
    _: Clock = ObedientClock()
