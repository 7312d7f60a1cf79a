"""Check JSON: whether a value fits a JSON Schema, and whether a name stands twice in an object.

Of JSON Schema this is the part that people use to say what an answer must look like. Keywords that are not known here are passed over, as
the standard has it. So is `pattern`: it could take for ever.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

Schema = Mapping[str, object]

_TYPES: Final[Mapping[str, Callable[[object], bool]]] = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
    "number": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
    "integer": lambda v: not isinstance(v, bool) and (isinstance(v, int) or (isinstance(v, float) and v.is_integer())),
}


def answer_problem(text: str, schema: Schema) -> str:
    """Return why an answer is not JSON that fits `schema`; empty when it is."""
    try:
        value = msgspec.json.decode(strip_fence(text))
    except msgspec.DecodeError as exc:
        return f"it is not JSON ({exc})."
    except RecursionError:
        return "it is nested too deeply."
    try:
        wrong = next(problems(value, schema), "")
    except RecursionError:
        return "it, or the schema, is nested too deeply."
    return f"{wrong}." if wrong else ""


def strip_fence(text: str) -> str:
    """Return the JSON in an answer without the code fence that models like to put around it."""
    found = re.fullmatch(r"\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*", text, re.DOTALL)
    return found[1] if found else text


def problems(value: object, schema: object, *, root: Schema | None = None, at: str = "the answer") -> Iterator[str]:
    """Yield what in `value` does not fit, each as a sentence without its full stop."""
    root = root if root is not None else schema if isinstance(schema, Mapping) else {}
    schema = _resolve(schema, root)
    if schema is True or not isinstance(schema, Mapping):
        if schema is False:
            yield f"{at} is not allowed"
        return
    if not _is_of(value, schema.get("type")):
        yield f"{at} is not of type {schema.get('type')}"
        return
    if "enum" in schema and value not in _sequence(schema["enum"]):
        yield f"{at} is not one of {schema['enum']}"
    if "const" in schema and value != schema["const"]:
        yield f"{at} is not {schema['const']!r}"
    yield from _check_combinations(value, schema, root, at)
    match value:
        case dict():
            yield from _object(value, schema, root, at)
        case list():
            yield from _array(value, schema, root, at)
        case str():
            yield from _string(value, schema, at)
        case int() | float() if not isinstance(value, bool):
            yield from _number(value, schema, at)


def _is_of(value: object, kinds: object) -> bool:
    if kinds is None:
        return True
    names = [kinds] if isinstance(kinds, str) else _sequence(kinds)
    return any(_TYPES[name](value) for name in names if isinstance(name, str) and name in _TYPES)


def _check_combinations(value: object, schema: Schema, root: Schema, at: str) -> Iterator[str]:
    for each in _sequence(schema.get("allOf")):
        yield from problems(value, each, root=root, at=at)
    fitting = [not any(problems(value, each, root=root)) for each in _sequence(schema.get("anyOf"))]
    if fitting and not any(fitting):
        yield f"{at} fits none of the alternatives"
    one = [not any(problems(value, each, root=root)) for each in _sequence(schema.get("oneOf"))]
    if one and sum(one) != 1:
        yield f"{at} fits {sum(one)} of the alternatives and not exactly one"
    if "not" in schema and not any(problems(value, schema["not"], root=root)):
        yield f"{at} is what it must not be"


def _object(value: dict[str, object], schema: Schema, root: Schema, at: str) -> Iterator[str]:
    properties = schema.get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    for name in _sequence(schema.get("required")):
        if name not in value:
            yield f"{at} has no {name!r}"
    for name, inner in value.items():
        if name in known:
            yield from problems(inner, known[name], root=root, at=f"{at}.{name}")
        elif schema.get("additionalProperties") is False:
            yield f"{at} has {name!r}, which is not known"
        elif "additionalProperties" in schema:
            yield from problems(inner, schema["additionalProperties"], root=root, at=f"{at}.{name}")


def _array(value: list[object], schema: Schema, root: Schema, at: str) -> Iterator[str]:
    yield from _bounds(len(value), schema, "minItems", "maxItems", f"the length of {at}")
    if schema.get("uniqueItems") is True and any(each in value[:i] for i, each in enumerate(value)):
        yield f"{at} has the same item twice"
    if "items" in schema:
        for i, each in enumerate(value):
            yield from problems(each, schema["items"], root=root, at=f"{at}[{i}]")


def _string(value: str, schema: Schema, at: str) -> Iterator[str]:
    yield from _bounds(len(value), schema, "minLength", "maxLength", f"the length of {at}")


def _number(value: float, schema: Schema, at: str) -> Iterator[str]:
    yield from _bounds(value, schema, "minimum", "maximum", at)
    low, high = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if isinstance(low, int | float) and not isinstance(low, bool) and value <= low:
        yield f"{at} is not more than {low}"
    if isinstance(high, int | float) and not isinstance(high, bool) and value >= high:
        yield f"{at} is not less than {high}"


def _bounds(value: float, schema: Schema, least: str, most: str, at: str) -> Iterator[str]:
    low, high = schema.get(least), schema.get(most)
    if isinstance(low, int | float) and value < low:
        yield f"{at} is less than {low}"
    if isinstance(high, int | float) and value > high:
        yield f"{at} is more than {high}"


def _resolve(schema: object, root: Schema) -> object:
    """Follow the references of a schema to the end; one that only refers to itself allows everything."""
    seen: set[str] = set()
    while isinstance(schema, Mapping) and isinstance(ref := schema.get("$ref"), str):
        if ref in seen or not ref.startswith("#"):
            return True
        seen.add(ref)
        schema = _follow_reference(ref, root)
    return schema


def _follow_reference(ref: str, root: Schema) -> object:
    node: object = root
    for step in filter(None, ref.removeprefix("#").split("/")):
        name = step.replace("~1", "/").replace("~0", "~")
        node = node.get(name, True) if isinstance(node, Mapping) else True
    return node


def _sequence(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()


class _Repeated(Exception):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def find_repeated_name(text: str | bytes) -> str:
    """Return the first name that stands twice in an object of a JSON text; empty when there is none, and for what is no JSON."""
    try:
        json.loads(text, object_pairs_hook=_refuse_repeated)
    except _Repeated as exc:
        return exc.name
    except (ValueError, RecursionError):
        return ""
    return ""


def _refuse_repeated(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise _Repeated(next(name for at, name in enumerate(names) if name in names[:at]))
    return found
