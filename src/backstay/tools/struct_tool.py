"""Make a tool of a struct and a function: for arguments that Python cannot name, such as `-A`, or that need a look beyond their types."""

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

import msgspec

from backstay.ports import Tool, ToolContext, ToolOutput
from backstay.tools.signature import describe
from backstay.vocab.specs import Effect, ToolSpec, Touches

A = TypeVar("A", bound=msgspec.Struct)
Work = Callable[[ToolContext, A], Awaitable[ToolOutput]]

_PLACE: Final = re.compile(r"(?P<what>.*) - at `\$\.?(?P<where>.*)`$", re.DOTALL)
_MISSING: Final = re.compile(r"Object missing required field `(?P<name>.*?)`")


class ShapedTool(Generic[A]):
    """A tool whose arguments are the fields of a struct."""

    def __init__(self, arguments: type[A], work: Work[A], spec: ToolSpec, look: Callable[[A], str] | None) -> None:
        self.spec = spec
        self._arguments = arguments
        self._work = work
        self._look = look

    def __repr__(self) -> str:
        """Name the tool."""
        return f"<tool {self.spec.name}>"

    def problem(self, args: dict[str, object]) -> str:
        """Why these arguments cannot be used; empty when they can."""
        known = self._arguments.__struct_encode_fields__
        if unknown := [name for name in args if name not in known]:
            return f"Unknown argument {unknown[0]!r}. The tool takes {', '.join(map(repr, known))}."
        try:
            given = msgspec.convert(args, self._arguments)
        except msgspec.ValidationError as exc:
            return _explain(str(exc), self.spec.schema)
        return self._look(given) if self._look else ""

    async def run(self, args: dict[str, object], context: ToolContext) -> ToolOutput:
        """Do the work with `args`."""
        if problem := self.problem(args):
            return ToolOutput(text=problem, failed=True, code="bad_arguments")
        return await self._work(context, msgspec.convert(args, self._arguments))

    async def check(self, args: dict[str, object], context: ToolContext) -> ToolOutput | None:
        """Nobody knows whether it happened."""
        return None


def shaped(
    arguments: type[A], *, name: str, effect: Effect, touches: Touches, look: Callable[[A], str] | None = None
) -> Callable[[Work[A]], ShapedTool[A]]:
    """Make a tool of an async function of the context and of `arguments`; the first paragraph of its docstring is the description.

    `look` says what is wrong with arguments that have the right types; empty when nothing is.
    """

    def decorate(work: Work[A]) -> ShapedTool[A]:
        spec = ToolSpec(
            name=name,
            description=describe(work.__doc__ or "")[0],
            schema=schema_of(arguments),
            effect=effect,
            touches=touches,
            concurrent=effect == "pure",
        )
        return ShapedTool(arguments, work, spec, look)

    return decorate


def schema_of(arguments: type[msgspec.Struct]) -> dict[str, object]:
    """The JSON Schema of a struct, everything in one piece: not every provider follows references."""
    (root,), kinds = msgspec.json.schema_components((arguments,), ref_template="{name}")
    schema = cast("dict[str, object]", _inlined(root, kinds))
    schema.pop("description", None)  # of the struct, not of the tool
    return schema


def _inlined(value: object, kinds: dict[str, object]) -> object:
    match value:
        case {"$ref": str(name), **more}:
            kind = cast("dict[str, object]", _inlined(kinds[name], kinds))
            return kind | more
        case dict():
            return {
                key: _inlined(each, kinds) for key, each in value.items() if key != "title" or isinstance(each, dict)
            }
        case list():
            return [_inlined(each, kinds) for each in value]
        case _:
            return value


def _explain(message: str, schema: dict[str, object]) -> str:
    place = _PLACE.match(message)
    where = place["where"] if place else ""
    if missing := _MISSING.match(message):
        return f"Missing argument {missing['name']!r}{f' in {where!r}' if where else ''}."
    if place is None:
        return f"{message}."
    wanted = _values(schema, where) if "enum" in message else ""
    return f"Argument {where!r}: {place['what']}{wanted}."


def _values(schema: object, where: str) -> str:
    """The values that an argument may have: follows `todos[1].status` into the schema."""
    for step in re.findall(r"[^.\[\]]+", where):
        inner = (
            schema.get("items" if step.isdigit() or step == "..." else "properties")
            if isinstance(schema, dict)
            else None
        )
        schema = inner if step.isdigit() or step == "..." else inner.get(step) if isinstance(inner, dict) else None
    found = schema.get("enum", ()) if isinstance(schema, dict) else ()
    return f", expected one of {', '.join(map(repr, found))}" if found else ""


if TYPE_CHECKING:
    _: Tool = cast("ShapedTool[msgspec.Struct]", None)
