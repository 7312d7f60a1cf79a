"""Tools as a small model understands them: in few words, which it reads last before the question and heeds most."""

import functools
import re
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from backstay.vocab.specs import ToolSpec

WORDS: Final = {
    "Write": "Make a new file from a text that the user gave. Never use it to copy, rename or change a file.",
    "Read": "Show what a file says.",
    "Bash": (
        "Run a shell command: show a file with cat, list, search text with grep, count, copy with cp, rename with mv, "
        "delete with rm, replace words with sed, make folders, add lines."
    ),
}
"""What these tools are for, in the order in which they are shown: the last one is the one that it turns to first.

With the usual descriptions and order the 1.5B model wrote a made-up file when it was asked to copy, rename or change one.
"""
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s")
_IDLE: Final = ("title", "default", "$schema", "additionalProperties")


def slim(specs: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
    """`specs` without the arguments that may be left out, briefly described, those of `WORDS` last."""
    places = {name: place for place, name in enumerate(WORDS, start=1)}
    ordered = sorted(specs, key=lambda spec: places.get(spec.name, 0))
    return tuple(
        replace(spec, description=WORDS.get(spec.name) or _first(spec.description), schema=_short(spec.schema))
        for spec in ordered
    )


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
