"""Read the arguments of a tool from a function's signature or from a struct, and check those of a call."""

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Union

import msgspec
from msgspec import Struct

from backstay.ports import ToolContext
from backstay.vocab.errors import UserError

_SECTION: Final = re.compile(r"(Args|Arguments|Parameters):\s*$")
_ENTRY: Final = re.compile(r"\*{0,2}(?P<name>\w+)\s*(\([^)]*\))?:\s*(?P<text>.*)$")
_PLACE: Final = re.compile(r"(?P<what>.*) - at `\$\.?(?P<where>.*)`$", re.DOTALL)
_ABSENT: Final = re.compile(r"Object missing required field `(?P<name>.*?)`")

_REMEMBERED: Final = 256
"""Signatures that are kept. A session makes some of its tools anew, each by the same `def` as every other session."""

_Key = tuple[object, ...]
"""Everything that decides how a signature is read."""
_Field = tuple[str, object] | tuple[str, object, object]
"""As `defstruct` takes it: name and type, and a default for what may be left out."""


class Parameters(Struct, frozen=True):
    """The arguments that a function takes from a model."""

    signature: inspect.Signature
    arguments: type[msgspec.Struct]
    schema: dict[str, object]
    context: str
    """The parameter that gets the `ToolContext`; empty when there is none."""
    whole: str = ""
    """The parameter that gets all arguments as one struct; empty when each argument is a parameter."""
    validate: Callable[[Any], str] | None = None  # takes `arguments`, which differ from tool to tool
    """Says what is wrong with arguments of the right types."""

    @property
    def names(self) -> tuple[str, ...]:
        """The arguments in order, as a model writes them."""
        return self.arguments.__struct_encode_fields__

    def problem(self, args: Mapping[str, object]) -> str:
        """Say why `args` do not fit, naming the argument and what was expected; empty when they do."""
        if unknown := [name for name in args if name not in self.names]:
            takes = _quote_names(self.names) if self.names else "no arguments"
            return f"Unknown {_quote_names(unknown)}. The tool takes {takes}."
        required = typing.cast("list[str]", self.schema["required"])
        if missing := [name for name in required if name not in args]:
            wanted = ", ".join(f"{name!r} ({self._describe_expected(name) or 'any value'})" for name in missing)
            return f"Missing {'argument' if len(missing) == 1 else 'arguments'} {wanted}."
        try:
            values = msgspec.convert(args, self.arguments, str_keys=True)
        except msgspec.ValidationError as exc:
            return self._explain(str(exc))
        return self.validate(values) if self.validate else ""

    def bind(self, args: Mapping[str, object], context: ToolContext) -> inspect.BoundArguments:
        """Make the arguments of a call. `args` have no problem; what they leave out takes the function's default."""
        values = msgspec.convert(args, self.arguments, str_keys=True)
        given: dict[str, object] = {self.whole: values}
        if not self.whole:
            given = {name: getattr(values, name) for name in self.names if name in args}
        if self.context:
            given[self.context] = context
        bound = inspect.BoundArguments(self.signature, given)
        bound.apply_defaults()
        return bound

    def _explain(self, message: str) -> str:
        place = _PLACE.match(message)
        where = place["where"] if place else ""
        if absent := _ABSENT.match(message):
            return f"Missing argument {absent['name']!r}{f' in {where!r}' if where else ''}."
        if place is None:
            return f"{message}."
        expected = self._describe_expected(where) if "enum" in message else ""
        return f"Argument {where!r}: {place['what']}{f', expected {expected}' if expected else ''}."

    def _describe_expected(self, where: str) -> str:
        """Return the values or the type that an argument may have; `where` leads to it, as in `todos[1].status`."""
        found: object = self.schema
        for step in re.findall(r"[^.\[\]]+", where):
            below = _member(found, "items" if step.isdigit() or step == "..." else "properties")
            found = below if step.isdigit() or step == "..." else _member(below, step)
            if isinstance(reference := _member(found, "$ref"), str):
                found = _member(self.schema["$defs"], reference.rpartition("/")[2])
        if isinstance(values := _member(found, "enum"), list):
            return "one of " + ", ".join(map(repr, values))
        return str(_member(found, "type") or "")


_known: Final[dict[_Key, Parameters]] = {}


def parameters_of(function: Callable[..., object]) -> Parameters:
    """Read the signature of `function`. Raise `UserError` when a model could not call it.

    Functions that come of one `def` and look alike share what was read; nothing of it belongs to one of them.
    """
    key = _key_of(function)
    found = None if key is None else _known.get(key)
    if found is None:
        found = _read(function)
        if key is not None:
            _known[key] = found
            if len(_known) > _REMEMBERED:
                del _known[next(iter(_known))]
    return found


def _key_of(function: Callable[..., object]) -> _Key | None:
    """Return what decides how `function` is read; None where that cannot be compared."""
    code = getattr(function, "__code__", None)
    if code is None or vars(function):
        return None  # all that one decorator wraps has its code in common
    hints = tuple(function.__annotations__.items())
    named = getattr(function, "__kwdefaults__", None) or {}
    defaults = (*(getattr(function, "__defaults__", None) or ()), *named.values())
    kinds = tuple(map(type, defaults))
    key = (
        code,
        function.__module__,
        inspect.ismethod(function),
        function.__doc__,
        hints,
        tuple(named),
        defaults,
        kinds,
    )
    try:
        hash(key)
    except TypeError:
        return None
    return None if any(isinstance(hint, str) for _, hint in hints) else key


def _read(function: Callable[..., object]) -> Parameters:
    called = f"The tool {function.__name__!r}"
    signature = inspect.signature(function)
    hints = _hints_of(function, called)
    context = ""
    fields: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        _refuse_unusable(parameter, called)
        if hints[parameter.name] is ToolContext:
            context = parameter.name
        else:
            fields.append(parameter)
    _, described = describe(function.__doc__ or "")
    arguments = msgspec.defstruct(
        "Arguments",
        [_field(parameter, hints[parameter.name], described.get(parameter.name, "")) for parameter in fields],
        kw_only=True,
        forbid_unknown_fields=True,
    )
    return Parameters(signature, arguments, _schema_of(arguments, fields, called), context)


def parameters_of_struct(
    function: Callable[..., object], arguments: type[msgspec.Struct], validate: Callable[[Any], str] | None
) -> Parameters:
    """Read the arguments of a `function` that takes them all as one struct.

    The schema has no references: not every provider follows them.
    """
    called = f"The tool {function.__name__!r}"
    names = {hint: name for name, hint in _hints_of(function, called).items() if name != "return"}
    if arguments not in names:
        raise UserError(f"{called} has no parameter of the type {arguments.__name__!r}, which its arguments are.")
    schema = _schema_of(arguments, [], called)
    whole = typing.cast("dict[str, object]", _inline(schema, schema.pop("$defs", {})))
    whole.pop("description", None)  # of the struct, not of the tool
    signature = inspect.signature(function)
    return Parameters(signature, arguments, whole, names.get(ToolContext, ""), names[arguments], validate)


def describe(docstring: str) -> tuple[str, dict[str, str]]:
    """Return the first paragraph of a docstring on one line, and what its `Args:` section says of each parameter."""
    lines = inspect.cleandoc(docstring).splitlines()
    first: list[str] = []
    for line in lines:
        if not line.strip() or _SECTION.match(line):
            break
        first.append(line.strip())
    section = next((number for number, line in enumerate(lines) if _SECTION.match(line)), len(lines))
    return " ".join(first), _entries(lines[section + 1 :])


def _entries(lines: list[str]) -> dict[str, str]:
    described: dict[str, str] = {}
    name, margin = "", 0
    for line in lines:
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        if indent == 0:
            break
        margin = margin or indent
        entry = _ENTRY.match(line.strip())
        if indent <= margin and entry is not None:
            name = entry["name"]
            described[name] = entry["text"]
        elif name:
            described[name] = f"{described[name]} {line.strip()}".strip()
    return described


def _hints_of(function: Callable[..., object], called: str) -> dict[str, object]:
    try:
        return typing.get_type_hints(function, include_extras=True) | _missing(function)
    except NameError as exc:
        raise UserError(
            f"{called} has an annotation that cannot be resolved: {exc}. Define the type at module level."
        ) from exc


def _missing(function: Callable[..., object]) -> dict[str, object]:
    parameters = inspect.signature(function).parameters.values()
    return {each.name: each.empty for each in parameters if each.annotation is each.empty}


def _refuse_unusable(parameter: inspect.Parameter, called: str) -> None:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise UserError(
            f"{called} takes {str(parameter).split(':')[0]!r}. A model needs named parameters: list them one by one."
        )
    if parameter.annotation is parameter.empty:
        name = parameter.name
        raise UserError(f"{called} has a parameter {name!r} without annotation. Say its type, as in `{name}: str`.")


def _field(parameter: inspect.Parameter, hint: object, described: str) -> _Field:
    optional = parameter.default is not parameter.empty
    if typing.get_origin(hint) is Annotated:
        described = next((extra for extra in typing.get_args(hint)[1:] if isinstance(extra, str)), described)
    if parameter.default is None:
        hint = _either(hint, type(None))
    if optional:
        hint = _either(hint, msgspec.UnsetType)
    if described:
        hint = Annotated[hint, msgspec.Meta(description=described)]
    return (parameter.name, hint, msgspec.UNSET) if optional else (parameter.name, hint)


def _either(hint: object, other: type) -> object:
    union: typing.Any = Union  # a special form: the checker has no type for building one from values
    return union[hint, other]


def _schema_of(arguments: type[msgspec.Struct], fields: list[inspect.Parameter], called: str) -> dict[str, object]:
    try:
        msgspec.json.Decoder(arguments)  # finds ambiguous unions, which the schema alone would accept
        (root,), kinds = msgspec.json.schema_components(
            (arguments,), ref_template="#/$defs/{name}", schema_hook=_any_value
        )
    except TypeError as exc:
        raise UserError(f"{called} has a parameter that no JSON value can fill: {str(exc).splitlines()[-1]}.") from exc
    schema: dict[str, object] = kinds.pop(root["$ref"].rpartition("/")[2])
    del schema["title"]
    properties = typing.cast("dict[str, dict[str, object]]", schema["properties"])
    for parameter in fields:
        properties[parameter.name] |= _default_of(parameter)
    return schema | {"$defs": kinds} if kinds else schema


def _any_value(kind: type) -> dict[str, object]:
    if kind is object:
        return {"description": "any JSON value"}  # an empty schema would count as none
    raise NotImplementedError


def _default_of(parameter: inspect.Parameter) -> dict[str, object]:
    if parameter.default is parameter.empty or parameter.default is None:
        return {}
    try:
        return {"default": msgspec.to_builtins(parameter.default, str_keys=True)}
    except TypeError:
        return {}  # a default that JSON cannot say stays the function's own affair


def _inline(value: object, kinds: object) -> object:
    match value:
        case {"$ref": str(reference), **more}:
            kind = _inline(_member(kinds, reference.rpartition("/")[2]), kinds)
            return typing.cast("dict[str, object]", kind) | more
        case dict():
            return {
                key: _inline(each, kinds) for key, each in value.items() if key != "title" or isinstance(each, dict)
            }
        case list():
            return [_inline(each, kinds) for each in value]
        case _:
            return value


def _member(value: object, key: str) -> object:
    return value.get(key) if isinstance(value, dict) else None


def _quote_names(names: typing.Iterable[str]) -> str:
    quoted = [repr(name) for name in names]
    return f"{'argument' if len(quoted) == 1 else 'arguments'} {', '.join(quoted)}"
