"""Tools in few words: every token of a schema costs a small model time and attention."""

import functools
import re
from typing import Final

from msgspec.structs import replace

from holdfast.vocab.specs import ToolSpec

_SENTENCE: Final = re.compile(r"(?<=[.!?])\s")
_IDLE: Final = ("title", "default", "$schema", "additionalProperties")


def slim(spec: ToolSpec) -> ToolSpec:
    """`spec` with the first sentence of each description and without the arguments that may be left out."""
    return replace(spec, description=_first(spec.description), schema=_short(spec.schema))


def _short(schema: dict[str, object]) -> dict[str, object]:
    required = schema.get("required")
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not isinstance(required, list) or not required:
        return schema
    kept = {name: _property(value) for name, value in properties.items() if name in required}
    return {**{k: v for k, v in schema.items() if k not in _IDLE}, "properties": kept}


def _property(schema: object) -> object:
    if not isinstance(schema, dict):
        return schema
    said = {name: value for name, value in schema.items() if name not in _IDLE}
    return said | ({"description": _first(said["description"])} if "description" in said else {})


@functools.cache
def _first(text: str) -> str:
    return _SENTENCE.split(text.strip(), maxsplit=1)[0]
