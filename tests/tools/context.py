"""A tool's context that remembers what it was told, and a way to wait for what a process does."""

from collections.abc import Callable
from pathlib import Path

import anyio

from holdfast.vocab.event import Event


class RecordingContext:
    """Plays the runtime for one call."""

    def __init__(self, cwd: Path | str = "/", call: str = "call-1") -> None:
        self.cwd = str(cwd)
        self.call = call
        self.key = f"key-of-{call}"
        self.shown: list[str] = []
        self.noted: list[Event] = []

    def show(self, text: str) -> None:
        """Keep a piece of output."""
        self.shown.append(text)

    def note(self, event: Event) -> None:
        """Keep an event."""
        self.noted.append(event)

    async def emit(self, event: Event) -> None:
        """Keep an event."""
        self.noted.append(event)


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something has become true elsewhere in the system; it must not take for ever."""
    with anyio.fail_after(20):
        while True:
            if condition():
                return
            await anyio.sleep(0.005)
