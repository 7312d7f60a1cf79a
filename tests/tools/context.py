"""A tool's context that remembers what it was told."""

from pathlib import Path

from holdfast.vocab.events import Event


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
