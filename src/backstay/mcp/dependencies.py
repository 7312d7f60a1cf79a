"""The outside that connections depend on: starting programs, making HTTP clients, shortening texts, remembering pins."""

import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import anyio
from msgspec import Struct, field

from backstay.logic.text import clip, one_line
from backstay.mcp.catalog import Drift
from backstay.mcp.results import ImageType, Shorten
from backstay.mcp.spec import ServerSpec
from backstay.vocab.specs import ToolSpec

if TYPE_CHECKING:
    import httpx2

KEPT: Final = 4_096
"""Bytes that are kept of what a server complains about."""


class Programs(Protocol):
    """Starts and ends the programs of servers."""

    def start(self, argv: Sequence[str], *, cwd: str, env: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        """Start one with pipes for all three streams, in a group of its own. Called on the event loop's thread; must not wait.

        Raise `OSError` or `ValueError` when it cannot be started.
        """

    async def end(self, process: "subprocess.Popen[bytes]") -> None:
        """End it with all of its descendants; its input is closed already. Never takes more than some seconds."""


class Pins(Protocol):
    """Remembers which definitions of tools were approved."""

    def drift(self, server: str, tools: Sequence[ToolSpec]) -> Drift:
        """Compare the tools of a server with those that were approved. Raise `UserError` when that cannot be known."""

    def approve(self, server: str, tools: Sequence[ToolSpec]) -> None:
        """Approve exactly these. Raise `UserError` when that cannot be written down."""


class Noise:
    """Output of a server besides the protocol: the end of its error stream, the first lines that are no messages, the last bad status."""

    def __init__(self) -> None:
        self.status = 0
        self.refused = ""
        """Why a request was not sent."""
        self.nonsense: list[str] = []
        self._complaints = bytearray()

    def add_complaint(self, piece: bytes) -> None:
        """Take a piece of the error stream."""
        self._complaints += piece
        del self._complaints[:-KEPT]

    def add_nonsense(self, line: bytes) -> None:
        """Take a line that is no message."""
        if len(self.nonsense) < 3:
            self.nonsense.append(one_line(line[:400].decode("utf-8", "replace"), 120))

    @property
    def words(self) -> str:
        """All of it in one clause; empty when there is nothing."""
        complaints = clip(self._complaints.decode("utf-8", "replace"), KEPT)
        parts = [
            f"its address is refused: {self.refused}" if self.refused else "",
            f"it answered with the status {self.status}{_STATUS.get(self.status, '')}" if self.status else "",
            f"it wrote what is no message, like {self.nonsense[0]!r}" if self.nonsense else "",
            f"it complained: {one_line(complaints[-600:], 600)}" if complaints else "",
        ]
        return "; ".join(filter(None, parts))


_STATUS: Final[Mapping[int, str]] = {
    401: " (it wants a login: put a token into its headers)",
    403: " (it does not let this login in)",
    404: " (there is nothing at this address)",
    405: " (it may be an older server: try the type 'sse')",
}


Work = Callable[[], Awaitable[None]]


async def _run_unguarded(work: Work) -> str:
    """Run without a guard."""
    await work()
    return ""


class Dependencies(Struct, frozen=True, kw_only=True):
    """The outside that connections use."""

    programs: Programs
    http: Callable[[ServerSpec, Noise], "httpx2.AsyncClient"]
    """Makes the HTTP client of a server; it notes errors."""
    cwd: str
    """The folder that programs of servers start in."""
    shorten: Shorten
    image_type: ImageType
    roots: Sequence[str] = ()
    """The folders that servers are given as the roots of the session."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables in the environment of every program of a server, besides its own."""
    log: Callable[[str, str], None] | None = None
    """Takes a log line of a server: its name and the text. Never waits."""
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    guard: Callable[[Work], Awaitable[str]] = _run_unguarded
    """Runs work that must not take the session along, and returns its error; empty when it ended well."""
    version: str = "0"
