"""Tools of other people's servers, pinned: what was approved, and what has changed since. Pure."""

import hashlib
from collections.abc import Mapping, Sequence

import msgspec

from backstay.vocab.specs import ToolSpec


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """How the tools of a server differ from those that were approved."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()

    @property
    def asks(self) -> tuple[str, ...]:
        """The tools that nobody has approved as they are now: none of them is offered to a model before somebody does."""
        return (*self.added, *self.changed)


def pin(tool: ToolSpec) -> str:
    """A name for exactly this definition: another description or another argument is another tool."""
    said = (tool.name, tool.description, tool.schema)
    return hashlib.sha256(msgspec.json.encode(said, order="deterministic")).hexdigest()


def pins(tools: Sequence[ToolSpec]) -> dict[str, str]:
    """The pins of a server's tools by name."""
    return {tool.name: pin(tool) for tool in tools}


def drift(approved: Mapping[str, str], tools: Sequence[ToolSpec]) -> Drift:
    """Compare what a server offers now with what was approved."""
    now = pins(tools)
    return Drift(
        added=tuple(sorted(now.keys() - approved.keys())),
        changed=tuple(sorted(name for name in now.keys() & approved.keys() if now[name] != approved[name])),
        gone=tuple(sorted(approved.keys() - now.keys())),
    )
