"""The tool that opens a child session. The runtime performs it; nothing runs here."""

from typing import Final

from backstay.ports import ToolContext, ToolOutput
from backstay.vocab.errors import Bug
from backstay.vocab.specs import ToolSpec

_SCHEMA: Final[dict[str, object]] = {
    "type": "object",
    "properties": {"prompt": {"type": "string", "minLength": 1, "description": "What the child session is to do."}},
    "required": ["prompt"],
    "additionalProperties": False,
}


class ChildTool:
    """A tool whose calls are answered by a child session with a log of its own."""

    def __init__(self, name: str) -> None:
        self.spec = ToolSpec(
            name=name,
            description="Let a child session do a piece of work on its own and report back.",
            schema=_SCHEMA,
            effect="idempotent",
            child=True,
        )

    def problem(self, args: dict[str, object]) -> str:
        """Why these arguments cannot be used; empty when they can."""
        prompt = args.get("prompt")
        if not isinstance(prompt, str) or not prompt.strip():
            return "`prompt` must be a text that says what to do."
        unknown = sorted(set(args) - {"prompt"})
        return f"Unknown argument {unknown[0]!r}; only `prompt` is known." if unknown else ""

    async def run(self, args: dict[str, object], context: ToolContext) -> ToolOutput:
        """Never called: a call of this tool becomes a `ChildStarted`."""
        raise Bug(f"The child tool {self.spec.name!r} was run as a function.")

    async def check(self, args: dict[str, object], context: ToolContext) -> ToolOutput | None:
        """Never called, likewise."""
        raise Bug(f"The child tool {self.spec.name!r} was checked as a function.")


def child_tool(name: str = "delegate") -> ChildTool:
    """A tool with which the model can open a child session."""
    return ChildTool(name)
