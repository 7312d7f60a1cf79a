"""A tool's context that remembers what it was told, and a way to wait for what a process does."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar

import anyio

from backstay.ports import Sandbox
from backstay.vocab.event import Event
from backstay.vocab.events.tools import FileSeen

T = TypeVar("T")


class RecordingContext:
    """Plays the runtime for one call."""

    def __init__(
        self,
        cwd: Path | str = "/",
        call: str = "call-1",
        links: Mapping[str, str] | None = None,
        sandbox: Sandbox | None = None,
    ) -> None:
        self.cwd = str(cwd)
        self.call = call
        self.key = f"key-of-{call}"
        self.links: Mapping[str, str] = links or {}
        self.sandbox = sandbox
        self.shown: list[str] = []
        self.noted: list[Event] = []

    def version_of(self, path: str) -> str:
        """The version of a file that was noted last."""
        versions = [event.version for event in self.seen_files if event.path == path]
        return versions[-1] if versions else ""

    @property
    def seen_files(self) -> list[FileSeen]:
        """The versions of files that were noted."""
        return [event for event in self.noted if isinstance(event, FileSeen)]

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
    with anyio.fail_after(100):
        while True:
            if condition():
                return
            await anyio.sleep(0.005)


async def cut_short(run: Callable[[int], Awaitable[T]], begun: Callable[[T], bool]) -> tuple[int, T]:
    """Run what takes for ever with a limit in milliseconds, longer where the machine was too busy for it to begin within a short one."""
    for limit in (1_000, 6_000, 36_000):
        found = await run(limit)
        if begun(found):
            break
    return limit, found
