"""The JSON Schema of settings files, for editors, made from the table of keys."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from backstay.config.key_table import KEYS, KNOWN_ELSEWHERE, Key

Schema = dict[str, Any]  # Any: JSON
ADDRESS: Final = "https://json-schema.org/draft/2020-12/schema"


def settings_schema() -> Schema:
    """The schema: every key, nothing else, each with its sentence."""
    root = _section()
    for key in KEYS:
        _put(root, key)
    for name in sorted(KNOWN_ELSEWHERE):
        root["properties"][name] = {"description": "Known to other programs, not used here."}
    return {"$schema": ADDRESS, "title": "Backstay settings", **root}


def kind_schema(key: Key) -> Schema:
    """Return the schema of one key's value; nothing about `null`, which stands for the default."""
    (found,), shared = msgspec.json.schema_components([key.kind])
    assert not shared, "the table has plain types alone"
    kinds = [each for each in found.get("anyOf", ()) if each != {"type": "null"}]
    return kinds[0] if len(kinds) == 1 else found


def kind_words(key: Key) -> str:
    """What a key's value is, in words."""
    return ", or ".join(_words(kind_schema(key)))


def _words(schema: Schema) -> Iterator[str]:
    if "anyOf" in schema:
        for each in schema["anyOf"]:
            yield from _words(each)
    elif "enum" in schema:
        yield ", ".join(f"`{str(each).lower() if isinstance(each, bool) else each}`" for each in schema["enum"])
    elif schema.get("type") == "array":
        inner = ", or ".join(_words(schema.get("items", {})))
        yield f"list of {_PLURALS.get(inner, inner)}"
    else:
        yield _KINDS.get(schema.get("type", ""), "any") + _range(schema)


def _range(schema: Schema) -> str:
    if "pattern" in schema:
        return " that begins with `http://` or `https://`"
    low, above, high = schema.get("minimum"), schema.get("exclusiveMinimum"), schema.get("maximum")
    words = f"from {low}" if low is not None else f"above {above}" if above is not None else ""
    return f" {words}{f' to {high:,}' if high is not None else ''}" if words else ""


_PLURALS: Final = {"text": "texts", "any": "objects"}
_KINDS: Final = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "`true`, `false`",
    "object": "object",
}


def _section() -> Schema:
    return {"type": "object", "properties": {}, "additionalProperties": False}


def _put(root: Schema, key: Key) -> None:
    above = root
    for part in key.parts[:-1]:
        above = _inside(above, part)
    last, schema = key.parts[-1], {**kind_schema(key), "description": key.words.replace("`", "")}
    if last == "*":
        above["additionalProperties"] = schema
        return
    above["properties"][last] = schema
    if key.also:
        above["properties"][key.also] = {**schema, "description": f"The same as {last}."}
    elif key.needed:
        above.setdefault("required", []).append(last)


def _inside(above: Schema, part: str) -> Schema:
    """The schema of the object under a name, made when it is met first."""
    if part != "*":
        found: Schema = above["properties"].setdefault(part, _section())
        return found
    if above["additionalProperties"] is False:
        above["additionalProperties"] = _section()
    inner: Schema = above["additionalProperties"]
    return inner
