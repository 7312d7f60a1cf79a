"""The tool definitions of servers that a person approved, kept in the data folder."""

from collections.abc import Sequence
from pathlib import Path

from backstay.config.private_file import Book
from backstay.mcp.pins import Drift, drift, pins
from backstay.vocab.specs import ToolSpec


class PinStore:
    """What was approved of each server, by the server's name and command or address."""

    def __init__(self, data: Path) -> None:
        # a program of a session may add to it: what a new server offers when it is first seen is approved by whoever wrote it down
        self._book = Book(data / "pins.json", dict[str, dict[str, str]], "approve your servers")

    def drift(self, server: str, tools: Sequence[ToolSpec]) -> Drift:
        """What of a server's tools nobody has approved as it is now. Raise `UserError` when the book cannot be believed."""
        return drift(self._book.read().get(server, {}), tools)

    def approve(self, server: str, tools: Sequence[ToolSpec]) -> None:
        """Approve a server's tools exactly as they are."""
        with self._book.changing() as book:
            book[server] = pins(tools)

    def forget(self, server: str) -> None:
        """Approve nothing of a server any more."""
        with self._book.changing() as book:
            book.pop(server, None)
