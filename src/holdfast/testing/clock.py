"""A clock for tests: its time moves when it is told to, and its chance comes from a seed."""

import heapq
import math
import random
from itertools import count
from typing import TYPE_CHECKING, Final

import anyio

from holdfast.ports import Clock
from holdfast.vocab.ids import base36

START: Final = 1_767_225_600_000_000
"""When it begins unless told otherwise: 2026-01-01, in microseconds."""


class ObedientClock:
    """Time that stands still.

    `advance` moves it and wakes whoever is due, in order. With `hurries=True` it moves by itself: whenever everybody
    waits, it jumps to the first who sleeps, so that nothing takes time. Worker threads count as waiting; give a clock
    that hurries to tests whose store is in memory, or whose times do not matter.
    """

    def __init__(self, *, start: int = START, seed: int = 0, hurries: bool = False) -> None:
        self._now = start
        self._chance = random.Random(f"clock {seed}")
        self._hurries = hurries
        self._order = count()
        self._sleepers: list[tuple[int, int, anyio.Event]] = []

    def now(self) -> int:
        """Microseconds since 1970."""
        return self._now

    def nonce(self) -> str:
        """Five digits in base 36: the same ones, in the same order, for the same seed."""
        return base36(self._chance.randrange(36**4, 36**5))

    async def sleep(self, seconds: float) -> None:
        """Wait until the time has moved so far."""
        if seconds <= 0:
            await anyio.lowlevel.checkpoint()
            return
        if math.isinf(seconds):
            await anyio.sleep_forever()
        sleeper = (self._now + max(1, round(seconds * 1_000_000)), next(self._order), anyio.Event())
        heapq.heappush(self._sleepers, sleeper)
        try:
            while self._hurries and not sleeper[2].is_set():
                await anyio.wait_all_tasks_blocked()
                if self._sleepers and self._sleepers[0] is sleeper:
                    self._wake_until(sleeper[0])
                elif not sleeper[2].is_set():
                    await sleeper[2].wait()
            await sleeper[2].wait()
        finally:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)
                heapq.heapify(self._sleepers)

    @property
    def sleepers(self) -> int:
        """How many wait for the time to move."""
        return len(self._sleepers)

    def advance(self, seconds: float) -> None:
        """Move the time on and wake whoever is due. Those it wakes run when the caller waits next."""
        self._wake_until(self._now + round(seconds * 1_000_000))

    def advance_to_next(self) -> bool:
        """Move the time to the first sleeper; say whether there was one."""
        if not self._sleepers:
            return False
        self._wake_until(self._sleepers[0][0])
        return True

    def _wake_until(self, moment: int) -> None:
        self._now = max(self._now, moment)
        while self._sleepers and self._sleepers[0][0] <= self._now:
            heapq.heappop(self._sleepers)[2].set()


if TYPE_CHECKING:
    _: Clock = ObedientClock()
