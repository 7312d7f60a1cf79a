"""What tests of stores need: options, a clock that stands still, owners and short sessions."""

from collections.abc import Callable
from typing import Required, TypedDict

import anyio.lowlevel

from backstay.ports import Clock
from backstay.testing.builders import START, recorded, started
from backstay.vocab.event import Recorded
from backstay.vocab.events import InputReceived
from backstay.vocab.messages import Text
from backstay.vocab.specs import Owner


class Options(TypedDict, total=False):
    """What a store must let its opener choose."""

    clock: Required[Clock]
    is_dead: Callable[[Owner], bool]
    read_only: bool
    create: bool


class StepClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.time = START
        self._nonces = 0

    def now(self) -> int:
        """Microseconds since 1970."""
        return self.time

    def nonce(self) -> str:
        """The next word of a fixed row."""
        self._nonces += 1
        return f"n{self._nonces}"

    async def sleep(self, seconds: float) -> None:
        """Move on by that much."""
        self.time += int(seconds * 1_000_000)
        await anyio.lowlevel.checkpoint()


def owner(name: str = "one") -> Owner:
    """A process on a machine that nobody can ask."""
    return Owner(id=name, host="elsewhere", boot="b", pid=42, started=1, label=f"{name} agent")


def say(text: str, seq: int, at: int = 0) -> Recorded:
    """Somebody said something."""
    return recorded(InputReceived(input=f"i{seq}", parts=(Text(text=text),)), seq, at=at or START + seq)


def opening(session: str, *texts: str, at: int = START, **fields: object) -> tuple[Recorded, ...]:
    """A session in which some things were said, all at one time."""
    said = (say(text, seq, at) for seq, text in enumerate(texts, 2))
    return (recorded(started(session, **fields), at=at), *said)
