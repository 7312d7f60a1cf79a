"""Everything in a request besides the conversation, in the provider's words."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from backstay.ports import ModelRequest
from backstay.providers.http.loose_json import Fields
from backstay.vocab.specs import ModelFacts, ToolSpec

_STRICT_WORDS: Final = frozenset(
    (
        "type properties required additionalProperties items enum const anyOf $ref $defs definitions description title"
    ).split()
)
"""The words of JSON Schema that the provider's strict mode takes wherever it exists."""
_DEEPEST: Final = 5
"""Levels of objects in one another that strict mode takes."""


def settings_of(request: ModelRequest, facts: ModelFacts) -> Fields:
    """The fields of a request's body, without its input. The API has no words for `seed` and `stop`."""
    asked = request.parameters
    reasons = "reasoning" in facts.abilities
    tools = [_tool(spec) for spec in request.tools]
    if asked.get("web_search") and "web_search" in facts.abilities:
        tools.append({"type": "web_search"})
    fields: Fields = {
        "model": request.model,
        "instructions": request.instructions or None,
        "tools": tools or None,
        "tool_choice": _choice(asked.get("tool_choice")) if tools else None,
        "max_output_tokens": asked.get("max_output"),
        "temperature": asked.get("temperature"),
        "top_p": asked.get("top_p"),
        "reasoning": _reasoning(asked.get("effort"), facts) or None,
        "text": _text(asked.get("schema")),
        "include": ["reasoning.encrypted_content"] if reasons else None,
        "store": False,
        "stream": True,
    }
    said = {key: value for key, value in fields.items() if value is not None}
    extra = asked.get("extra")
    return {**said, **extra} if isinstance(extra, dict) else said


def fits_strict(schema: object, depth: int = 0) -> bool:
    """Whether strict mode takes `schema`: closed objects, every property required, and only the words it knows."""
    if not isinstance(schema, Mapping) or depth > _DEEPEST or not _STRICT_WORDS.issuperset(schema):
        return False
    properties = schema.get("properties")
    names = set(properties) if isinstance(properties, Mapping) else set()
    if schema.get("type") == "object" or names:
        required = schema.get("required")
        needed = set(required) if isinstance(required, list) else set()
        if schema.get("additionalProperties") is not False or needed != names:
            return False
    return all(fits_strict(inner, depth + 1) for inner in _inner(schema))


def _inner(schema: Mapping[str, object]) -> Sequence[object]:
    inner: list[object] = [schema["items"]] if "items" in schema else []
    for key in ("properties", "$defs", "definitions"):
        group = schema.get(key)
        inner += group.values() if isinstance(group, Mapping) else ()
    choices = schema.get("anyOf")
    return [*inner, *(choices if isinstance(choices, list) else ())]


def _tool(spec: ToolSpec) -> Fields:
    return {
        "type": "function",
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.schema,
        "strict": False,  # left out it means true, and then most schemas are refused
    }


def _choice(asked: object) -> object:
    if asked in (None, "auto", "none", "required"):
        return asked
    return {"type": "function", "name": asked}


def _reasoning(effort: object, facts: ModelFacts) -> Fields:
    reasoning: Fields = {}
    if effort and facts.abilities & {"effort", "reasoning"}:
        reasoning["effort"] = effort
    if "reasoning" in facts.abilities:
        reasoning["summary"] = "auto"
    return reasoning


def _text(asked: object) -> Fields | None:
    if not isinstance(asked, dict):
        return None
    inner = asked.get("schema")
    wrapped = isinstance(inner, dict) and not {"type", "properties", "$ref"} & asked.keys()
    schema = inner if wrapped and isinstance(inner, dict) else asked
    wanted = (asked.get("name") if wrapped else None) or schema.get("title") or "answer"
    name = re.sub(r"[^A-Za-z0-9_-]", "_", str(wanted))[:64]
    strict = schema.get("type") == "object" and fits_strict(schema)
    form: Fields = {"type": "json_schema", "name": name, "schema": schema, "strict": strict}
    if wrapped and (description := asked.get("description")):
        form["description"] = description
    return {"format": form}
