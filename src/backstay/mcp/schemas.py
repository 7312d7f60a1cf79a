"""JSON Schemas of strangers' tools: taken as they are where every provider takes them, within bounds, or refused with a reason."""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from backstay.logic.decide.answer_schema import problems
from backstay.logic.text.untrusted import bounded

LARGEST: Final = 64 * 1024
"""Bytes of one tool's schema."""
DEEPEST: Final = 24
LONGEST_NOTE: Final = 1_024
"""Characters of a description within a schema."""
_PROPERTY: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""The names of arguments that all providers accept."""
_AT_THE_TOP: Final = ("anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "const", "$schema", "$id")
"""What providers refuse at the top of a schema, or never look at; the server checks it itself."""
_SIMPLE: Final = frozenset(("object", "array", "string", "boolean", "number", "integer", "null"))


class BadSchema(Exception):
    """A schema that cannot be passed on; the message says why."""


def read_schema(said: object) -> dict[str, object]:
    """The schema as a model is told it. Raise `BadSchema` when that would make no sense, or would be too much."""
    if not isinstance(said, Mapping):
        raise BadSchema("it does not say what arguments it takes")
    try:
        size = len(msgspec.json.encode(said))
        kept = _scrubbed(said, DEEPEST)
    except (RecursionError, UnicodeEncodeError, TypeError, OverflowError) as exc:
        raise BadSchema("its schema is not JSON, or is nested too deeply") from exc
    if size > LARGEST:
        raise BadSchema(f"its schema has {size:,} bytes, and at most {LARGEST:,} are taken")
    assert isinstance(kept, dict)
    schema = {key: value for key, value in kept.items() if key not in _AT_THE_TOP}
    return {**schema, "type": _type(schema), "properties": _properties(schema)} | _required(schema)


def why_unfit(args: Mapping[str, object], schema: Mapping[str, object]) -> str:
    """Why arguments cannot fit; empty when they may.

    Only names and plain types are looked at: a schema of a stranger can take for ever to work through, and the server
    looks at everything again.
    """
    properties = schema.get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    shallow: dict[str, object] = {
        "type": "object",
        "required": schema.get("required", []),
        "properties": {name: _plain(each) for name, each in known.items()},
    }
    if schema.get("additionalProperties") is False and "patternProperties" not in schema:
        shallow["additionalProperties"] = False
    return next(problems(dict(args), shallow, at="the object"), "")


def _type(schema: Mapping[str, object]) -> str:
    said = schema.get("type", "object")
    if said != "object":
        raise BadSchema(f"its arguments are not an object but {bounded(repr(said), 60)}")
    return "object"


def _properties(schema: Mapping[str, object]) -> dict[str, object]:
    found = schema.get("properties", {})
    if not isinstance(found, dict) or not all(isinstance(each, dict | bool) for each in found.values()):
        raise BadSchema("the properties of its schema are no schemas")
    odd = next((name for name in found if not _PROPERTY.fullmatch(name)), None)
    if odd is not None:
        raise BadSchema(f"it has an argument called {bounded(odd, 80)!r}, which no provider accepts")
    return found


def _required(schema: Mapping[str, object]) -> dict[str, object]:
    found = schema.get("required", [])
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise BadSchema("what its schema requires is no list of names")
    return {"required": found} if found else {}


def _plain(schema: object) -> dict[str, object]:
    said = schema.get("type") if isinstance(schema, Mapping) else None
    return {"type": said} if isinstance(said, str) and said in _SIMPLE else {}


def _scrubbed(value: object, depth: int) -> object:
    """A copy whose descriptions hold nothing that a person would not see."""
    if depth < 0:
        raise BadSchema(f"its schema is nested more than {DEEPEST} deep")
    if isinstance(value, Mapping):
        return {
            str(key): bounded(inner, LONGEST_NOTE)
            if key in ("description", "title") and isinstance(inner, str)
            else _scrubbed(inner, depth - 1)
            for key, inner in value.items()
        }
    return [_scrubbed(each, depth - 1) for each in value] if isinstance(value, list) else value
