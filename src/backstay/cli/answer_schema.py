"""`--json-schema`: the schema that an answer is to fit, read and looked through before any model is asked."""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import msgspec

from backstay.vocab.errors import UserError

Schema = dict[str, object]

_TYPES: Final = ("object", "array", "string", "boolean", "null", "number", "integer")
_WRAPPING: Final = frozenset(("schema", "name", "description", "strict"))
"""What may stand around a schema, as some providers have it."""


def answer_schema(given: str) -> Schema:
    """A JSON Schema: as text, or in a file. Raise `UserError` that says what is wrong with it."""
    text, where = given, "--json-schema"
    if not given.lstrip().startswith("{"):
        where = f"The schema {given!r}"
        try:
            text = Path(given).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as exc:
            raise UserError(f"{where} cannot be read: {getattr(exc, 'strerror', None) or exc}.") from exc
    try:
        schema = msgspec.json.decode(text, type=dict[str, object])
        wrong = next(_problems(_unwrapped(schema)), "")
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as exc:
        raise UserError(f"{where} is not a JSON object: {exc}.") from exc
    if wrong:
        raise UserError(f"{where} is no JSON Schema: {wrong}.")
    return schema


def _unwrapped(schema: Schema) -> Schema:
    inner = schema.get("schema")
    return inner if isinstance(inner, dict) and schema.keys() <= _WRAPPING else schema


def _problems(root: Schema) -> Iterator[str]:
    """What cannot stand in a schema, the first first, each as a sentence without its full stop."""
    waiting: list[tuple[str, object]] = [("", root)]
    while waiting:
        at, schema = waiting.pop(0)
        if isinstance(schema, bool):
            continue
        if not isinstance(schema, Mapping):
            yield f"{at or 'it'} is {_shown(schema)}, not an object, true or false"
            continue
        yield from _keywords(schema, root, at)
        waiting += _inside(schema, at)


def _keywords(schema: Mapping[str, object], root: Schema, at: str) -> Iterator[str]:
    for keyword, value in schema.items():
        fits, wanted = _RULES.get(keyword, (None, ""))
        if fits is not None and not fits(value):
            yield f"{_below(at, keyword)} is {_shown(value)}, not {wanted}"
    ref = schema.get("$ref")
    if isinstance(ref, str) and ref.startswith("#/") and not _is_there(ref, root):
        yield f"{_below(at, '$ref')} names {ref!r}, which is not there"


def _inside(schema: Mapping[str, object], at: str) -> Iterator[tuple[str, object]]:
    """The schemas within one, with where each stands."""
    for keyword, value in schema.items():
        place = _below(at, keyword)
        if keyword in _ONE and not isinstance(value, list):
            yield place, value
        elif keyword in (*_SEVERAL, "items") and isinstance(value, list):
            yield from ((f"{place}[{number}]", each) for number, each in enumerate(value))
        elif keyword in _NAMED and isinstance(value, dict):
            yield from ((_below(place, name), each) for name, each in value.items())


def _below(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


def _is_there(ref: str, root: Schema) -> bool:
    node: object = root
    for step in unquote(ref.removeprefix("#/")).split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(node, list) and name.isdecimal() and int(name) < len(node):
            node = node[int(name)]
        elif isinstance(node, dict) and name in node:
            node = node[name]
        else:
            return False
    return True


def _shown(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else f"{text[:60]}..."


def _is_kind(value: object) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(each, str) and each in _TYPES for each in value)
    return isinstance(value, str) and value in _TYPES


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 and value == int(value)


def _is_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_pattern(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        re.compile(value)
    except re.error:
        return "\\p" in value or "(?<" in value  # not Python's language, but perhaps the standard's
    return True


_ONE: Final = (
    *("additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "items"),
    *("unevaluatedItems", "unevaluatedProperties", "additionalItems"),
)
"""Keywords whose value is a schema."""
_SEVERAL: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_RULES: Final[Mapping[str, tuple[Callable[[object], bool], str]]] = {
    "type": (_is_kind, f"one of {', '.join(_TYPES)}, or a list of them"),
    "enum": (lambda value: isinstance(value, list) and bool(value), "a list of values"),
    "required": (_is_names, "a list of names"),
    "pattern": (_is_pattern, "a regular expression"),
    "$ref": (lambda value: isinstance(value, str), "a text"),
    "multipleOf": (lambda value: isinstance(value, int | float) and value > 0, "a number above 0"),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), (_is_number, "a number")),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
        (_is_count, "a whole number, 0 or more"),
    ),
    **dict.fromkeys(("uniqueItems",), (lambda value: isinstance(value, bool), "true or false")),
    **dict.fromkeys(_SEVERAL, (lambda value: isinstance(value, list) and bool(value), "a list of schemas")),
    **dict.fromkeys(_NAMED, (lambda value: isinstance(value, dict), "an object of schemas")),
}
"""What the value of a keyword must be, and that in words. Keywords that are not known mean nothing, as the standard has it."""
