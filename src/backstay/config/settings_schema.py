"""The JSON Schema of settings files, made from the table of keys: `backstay config schema` prints it for editors."""

from typing import Any, Final

import msgspec

from backstay.config.key_lookup import KNOWN_ELSEWHERE
from backstay.config.key_table import KEYS, Key

Schema = dict[str, Any]  # Any: JSON
ADDRESS: Final = "https://json-schema.org/draft/2020-12/schema"


def settings_schema() -> Schema:
    """Return the JSON Schema of settings files: every key with its sentence, and no other."""
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


def _section() -> Schema:
    return {"type": "object", "properties": {}, "additionalProperties": False}


def _put(root: Schema, key: Key) -> None:
    above = root
    for part in key.parts[:-1]:
        above = _inside(above, part)
    last, schema = key.parts[-1], {**kind_schema(key), "description": key.description.replace("`", "")}
    if last == "*":
        above["additionalProperties"] = schema
        return
    above["properties"][last] = schema
    if key.alias:
        above["properties"][key.alias] = {**schema, "description": f"The same as {last}."}
    elif key.required:
        above.setdefault("required", []).append(last)


def _inside(above: Schema, part: str) -> Schema:
    """Return the schema of the object under a name, made when it is met first."""
    if part != "*":
        found: Schema = above["properties"].setdefault(part, _section())
        return found
    if above["additionalProperties"] is False:
        above["additionalProperties"] = _section()
    inner: Schema = above["additionalProperties"]
    return inner
