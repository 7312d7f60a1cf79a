"""The tool definitions of servers that a person approved, kept in the data folder."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from holdfast.config.private_file import alone, read_private, write_private
from holdfast.logic.pins import Drift, drift, pins
from holdfast.vocab.errors import UserError
from holdfast.vocab.specs import ToolSpec


class PinBook:
    """What was approved of each server, by the server's name and command or address."""

    def __init__(self, data: Path) -> None:
        self._path = data / "pins.json"

    def drift(self, server: str, tools: Sequence[ToolSpec]) -> Drift:
        """What of a server's tools nobody has approved as it is now. Raise `UserError` when the book cannot be believed."""
        return drift(self._read().get(server, {}), tools)

    def approve(self, server: str, tools: Sequence[ToolSpec]) -> None:
        """Approve a server's tools exactly as they are."""
        self._change(server, pins(tools))

    def forget(self, server: str) -> None:
        """Approve nothing of a server any more."""
        self._change(server, {})

    def _change(self, server: str, approved: dict[str, str]) -> None:
        try:
            with alone(self._path):
                book = self._read() | {server: approved}
                write_private(self._path, msgspec.json.encode({name: each for name, each in book.items() if each}))
        except OSError as exc:
            raise UserError(f"{str(self._path)!r} cannot be written: {exc.strerror}.") from exc

    def _read(self) -> dict[str, dict[str, str]]:
        content = read_private(self._path)
        try:
            return {} if content is None else msgspec.json.decode(content, type=dict[str, dict[str, str]])
        except msgspec.DecodeError as exc:
            raise UserError(
                f"{str(self._path)!r} is damaged ({exc}). Remove it, and approve your servers again."
            ) from exc
