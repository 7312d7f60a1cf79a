"""Keeps the results of somebody else's tool within bounds; the whole of a long one is put away."""

from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from backstay.ports import Tool, ToolContext, ToolOutput
from backstay.tools.output import BoundedText
from backstay.tools.paging import Keep, shown_in_part
from backstay.vocab.specs import ToolSpec


class BoundedTool:
    """A tool whose results have `chars` characters at most: the beginning, a note about what is left out, the end."""

    def __init__(self, inner: Tool, chars: int, keep: Keep, *, readable: bool) -> None:
        self._inner = inner
        self._half = chars // 2
        self._keep = keep
        self._readable = readable
        """Whether the model has the tool that reads the whole."""

    @property
    def spec(self) -> ToolSpec:
        """What the model and the policy know of it."""
        return self._inner.spec

    def problem(self, args: dict[str, object]) -> str:
        """Why these arguments cannot be used; empty when they can."""
        return self._inner.problem(args)

    async def run(self, args: dict[str, object], context: ToolContext) -> ToolOutput:
        """Do it."""
        return await self._within(await self._inner.run(args, context))

    async def check(self, args: dict[str, object], context: ToolContext) -> ToolOutput | None:
        """Find out whether it happened."""
        found = await self._inner.check(args, context)
        return None if found is None else await self._within(found)

    async def _within(self, output: ToolOutput) -> ToolOutput:
        text = output.text
        if len(text) <= 2 * self._half:
            return output
        bounded = BoundedText(self._half, self._half)
        bounded.add(text)
        whole = text.encode("utf-8", "replace")
        if self._readable:
            return replace(output, text=await shown_in_part(bounded, lambda: whole, self._keep))
        return replace(output, text=bounded.shown(f"; the log has the whole as {await self._keep(whole)}"))


if TYPE_CHECKING:
    _: Tool = BoundedTool(cast(Tool, None), 0, cast(Keep, None), readable=True)
