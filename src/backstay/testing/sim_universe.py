"""Where all time and all chance of a simulated world come from: one seed."""

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import anyio

from backstay.ports import Clock
from backstay.vocab.ids import base36

T = TypeVar("T")

START: Final = 1_767_225_600_000_000
"""When every world begins: 2026-01-01, in microseconds."""


class Universe:
    """A clock whose time is that of the virtual loop, and the dice for everything that happens by chance.

    Different matters roll different dice, so that one more roll here does not change what happens there.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.calm = False
        """Whether nothing goes wrong any more."""
        self.notes: list[str] = []
        """What happened, in words."""
        self._dice: dict[str, random.Random] = {}

    def now(self) -> int:
        """Microseconds since 1970."""
        return START + round(anyio.current_time() * 1_000_000)

    def nonce(self) -> str:
        """Five digits in base 36."""
        return base36(self.dice("nonce").randrange(36**4, 36**5))

    async def sleep(self, seconds: float) -> None:
        """Wait, in no time."""
        await anyio.sleep(seconds)

    def dice(self, matter: str) -> random.Random:
        """The dice of a matter."""
        if matter not in self._dice:
            self._dice[matter] = random.Random(f"{self.seed} {matter}")
        return self._dice[matter]

    def happens(self, matter: str, probability: float) -> bool:
        """Whether something that goes wrong with that probability goes wrong now."""
        return self.dice(matter).random() < probability and not self.calm

    def pick(self, matter: str, choices: Sequence[tuple[T, float]]) -> T:
        """One of the choices, by weight."""
        weights = [weight for _, weight in choices]
        return self.dice(matter).choices([choice for choice, _ in choices], weights)[0]

    async def dawdle(self, matter: str, most_s: float) -> None:
        """Wait for some time up to `most_s`, often for none."""
        dice = self.dice(matter)
        if dice.random() < 0.5:
            await anyio.sleep(dice.random() * most_s)

    def note(self, text: str) -> None:
        """Write down what happened."""
        self.notes.append(f"{anyio.current_time():9.3f}  {text}")


if TYPE_CHECKING:
    _: Clock = Universe(0)
