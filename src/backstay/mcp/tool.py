"""A tool of a server, as sessions know tools."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from backstay.mcp.catalog import ToolOffer, why_unfit
from backstay.mcp.pins import pin
from backstay.ports import ToolContext, ToolOutput
from backstay.vocab.specs import ToolSpec

if TYPE_CHECKING:
    from backstay.ports import Tool

Run = Callable[[ToolOffer, dict[str, object], ToolContext], Awaitable[ToolOutput]]
Now = Callable[[str], ToolSpec | None]
"""What a tool of this name is at this moment; None when it is not offered."""


class ServerTool:
    """One tool, exactly as it was when the session was told of it."""

    def __init__(self, server: str, offer: ToolOffer, now: Now, run: Run) -> None:
        self._server = server
        self._offer = offer
        self._pin = pin(offer.spec)
        self._now = now
        self._run = run

    @property
    def spec(self) -> ToolSpec:
        """What the model and the policy know of it."""
        return self._offer.spec

    def problem(self, args: dict[str, object]) -> str:
        """Why these arguments cannot be used; empty when they may be."""
        wrong = why_unfit(args, self.spec.schema)
        return f"The arguments do not fit: {wrong}." if wrong else ""

    async def run(self, args: dict[str, object], context: ToolContext) -> ToolOutput:
        """Call it, unless the server has made something else of it since."""
        now = self._now(self.spec.name)
        if now is None or pin(now) != self._pin:
            what = "does not offer this tool any more" if now is None else "has changed what this tool is"
            text = f"The server {self._server!r} {what}. It was not called; the person must approve it as it is now."
            return ToolOutput(text=text, failed=True, code="changed")
        return await self._run(self._offer, args, context)

    async def check(self, args: dict[str, object], context: ToolContext) -> ToolOutput | None:
        """Nobody can ask a server whether a call happened."""
        return None


if TYPE_CHECKING:

    async def _never(offer: ToolOffer, args: dict[str, object], context: ToolContext) -> ToolOutput:
        raise NotImplementedError

    _: Tool = ServerTool(
        "", ToolOffer(spec=ToolSpec(name="", description="", schema={}), item=""), lambda _: None, _never
    )
