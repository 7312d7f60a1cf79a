"""What connections need from outside: somebody who starts programs, makes HTTP clients, and puts long texts away."""

import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import anyio
from msgspec import Struct, field

from backstay.logic.text import clip, one_line
from backstay.mcp.pins import Drift
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
        """How the tools of a server differ from what was approved. Raise `UserError` when that cannot be known."""

    def approve(self, server: str, tools: Sequence[ToolSpec]) -> None:
        """Approve exactly these. Raise `UserError` when that cannot be written down."""


class Noise:
    """What a server said besides the protocol: the end of its complaints, the first of its nonsense, the last bad status."""

    def __init__(self) -> None:
        self.status = 0
        self.refused = ""
        """Why a request was not even sent."""
        self.nonsense: list[str] = []
        self._complaints = bytearray()

    def complain(self, piece: bytes) -> None:
        """Take a piece of the error stream."""
        self._complaints += piece
        del self._complaints[:-KEPT]

    def babble(self, line: bytes) -> None:
        """Take a line that is no message."""
        if len(self.nonsense) < 3:
            self.nonsense.append(one_line(line[:400].decode("utf-8", "replace"), 120))

    @property
    def words(self) -> str:
        """All of it in one clause; empty when there was nothing."""
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


async def _unguarded(work: Work) -> str:
    """Let everything through."""
    await work()
    return ""


class Dependencies(Struct, frozen=True, kw_only=True):
    """Everything outside that connections use."""

    programs: Programs
    http: Callable[[ServerSpec, Noise], "httpx2.AsyncClient"]
    """Makes the client that a server is reached with; it notes what went wrong."""
    cwd: str
    """Where programs of servers start."""
    shorten: Shorten
    image_type: ImageType
    roots: Sequence[str] = ()
    """The folders that servers are told the session works in."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """What every program of a server finds in its environment, besides its own."""
    log: Callable[[str, str], None] | None = None
    """Takes what a server logs: its name and the text. Never waits."""
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    guard: Callable[[Work], Awaitable[str]] = _unguarded
    """Runs work that must not take the session along, and says what it ended in; nothing when it ended well."""
    version: str = "0"
