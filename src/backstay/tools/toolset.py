"""The tools of a session, by name."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec import Struct

from backstay.ports import Tool
from backstay.vocab.errors import UserError
from backstay.vocab.specs import ToolSpec

DEEPEST: Final = 64
"""The greatest depth of nested arguments."""
_BRACKETS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


class Toolset(Struct, frozen=True):
    """Tools in a fixed order, each with its own name."""

    by_name: Mapping[str, Tool]

    @classmethod
    def of(cls, *tools: Tool) -> "Toolset":
        """Collect `tools`. Raise `UserError` when two have the same name."""
        by_name: dict[str, Tool] = {}
        for each in tools:
            if not hasattr(each, "spec"):
                raise UserError(f"{each!r} is not a tool. Put @tool on the function.")
            if each.spec.name in by_name:
                raise UserError(
                    f"Two tools are called {each.spec.name!r}. Give one of them another name with @tool(name=...)."
                )
            by_name[each.spec.name] = each
        return cls(MappingProxyType(by_name))

    def only(self, names: Iterable[str]) -> "Toolset":
        """Narrow the set to these tools, in its order. Raise `UserError` for a name that it does not have."""
        wanted = set(names)
        if unknown := sorted(wanted - self.by_name.keys()):
            raise UserError(self._unknown(unknown[0]))
        return Toolset.of(*(each for each in self if each.spec.name in wanted))

    def __iter__(self) -> Iterator[Tool]:
        """Iterate over the tools in order."""
        return iter(self.by_name.values())

    def __len__(self) -> int:
        """Count the tools."""
        return len(self.by_name)

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the specs of the tools, in order."""
        return tuple(each.spec for each in self)

    def get(self, name: str) -> Tool | None:
        """Return the tool called `name`, if there is one."""
        return self.by_name.get(name)

    def inspect(self, name: str, args_text: str) -> tuple[str, str, dict[str, object]]:
        """Look at a call as written: the code and message of its problem, empty when it has none, and the arguments."""
        found = self.get(name)
        if found is None:
            return "unknown_tool", self._unknown(name), {}
        problem, args = _parse(args_text)
        problem = problem or found.problem(args)
        return ("bad_arguments", problem, {}) if problem else ("", "", args)

    def _unknown(self, name: str) -> str:
        if not self.by_name:
            return f"There is no tool {name!r}: this session has no tools."
        by_lower = {known.lower(): known for known in self.by_name}
        close = difflib.get_close_matches(name.lower(), by_lower, n=1)
        hint = f" Did you mean {by_lower[close[0]]!r}?" if close else ""
        return f"There is no tool {name!r}.{hint} The tools are {', '.join(self.by_name)}."


def _parse(text: str) -> tuple[str, dict[str, object]]:
    if not text.strip():
        return "The arguments are empty. Send a JSON object.", {}
    try:
        args: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as exc:
        return f"The arguments are not JSON: {exc}, {_where(text, str(exc))}. Send a JSON object.", {}
    if _depth(text) > DEEPEST:
        return f"The arguments are nested more than {DEEPEST} deep. Send them flatter.", {}
    if not isinstance(args, dict):
        return f"The arguments are a JSON {_kind(args)}, not an object. Send a JSON object.", {}
    return "", args


def _depth(text: str) -> int:
    """Return how deep JSON text is nested."""
    depth = deepest = 0
    for found in _BRACKETS.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(found[0], 0)
        deepest = max(deepest, depth)
    return deepest


def _where(text: str, message: str) -> str:
    """Say where reading ended. Quote nothing of the text: a part of a secret could not be recognised as one."""
    position = re.search(r"\(byte (\d+)\)", message)
    if position is None:
        return f"after all of its {len(text)} characters"
    at = len(text.encode("utf-8", "replace")[: int(position[1])].decode("utf-8", "ignore"))
    return f"at character {at + 1} of {len(text)}"


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "number"
