"""What stands in a request beside the conversation: tools, and how the model is to answer."""

from collections.abc import Mapping, Sequence
from typing import Final

from backstay.vocab.specs import ModelFacts, ToolSpec

_PLAIN: Final = {
    "max_output": "maxOutputTokens",
    "temperature": "temperature",
    "top_p": "topP",
    "seed": "seed",
    "stop": "stopSequences",
}
_BUDGETS: Final = {"low": 1024, "medium": 8192, "high": 24576}
"""Tokens of thought for each effort: the provider's own equivalents."""
_MODES: Final = {"auto": "AUTO", "none": "NONE", "required": "ANY"}


def generation_config(parameters: Mapping[str, object], facts: ModelFacts) -> dict[str, object]:
    """Say the parameters in the provider's words."""
    config = {theirs: parameters[ours] for ours, theirs in _PLAIN.items() if parameters.get(ours) is not None}
    schema = _answer_schema(parameters.get("schema"))
    if schema is not None:
        config |= {"responseMimeType": "application/json", "responseJsonSchema": schema}
    thinking = _thinking(parameters.get("effort"), facts)
    if thinking:
        config["thinkingConfig"] = thinking
    return config


def declare_tools(tools: Sequence[ToolSpec], *, search: bool) -> list[dict[str, object]]:
    """Declare our tools, and the provider's own search.

    `parametersJsonSchema` takes JSON Schema as it is; the older `parameters` refuses keywords such as
    `additionalProperties`.
    """
    declared: list[dict[str, object]] = []
    if tools:
        declared.append({"functionDeclarations": [_declaration(tool) for tool in tools]})
    if search:
        declared.append({"googleSearch": {}})
    return declared


def tool_config(choice: object, tools: Sequence[ToolSpec], *, search: bool) -> dict[str, object]:
    """Say which tools the model may or must call."""
    config: dict[str, object] = {}
    if tools and isinstance(choice, str) and choice:
        named: dict[str, object] = {"mode": "ANY", "allowedFunctionNames": [choice]}
        config["functionCallingConfig"] = {"mode": _MODES[choice]} if choice in _MODES else named
    if tools and search:  # without it the provider refuses its own tools beside ours
        config["includeServerSideToolInvocations"] = True
    return config


def merge_extra(body: dict[str, object], extra: object) -> dict[str, object]:
    """Put `extra` over `body`. Objects of both are merged: most settings of this provider live one level down."""
    for name, value in extra.items() if isinstance(extra, Mapping) else ():
        ours = body.get(name)
        body[name] = {**ours, **value} if isinstance(ours, dict) and isinstance(value, Mapping) else value
    return body


def _declaration(tool: ToolSpec) -> dict[str, object]:
    declaration: dict[str, object] = {"name": tool.name, "description": tool.description}
    if tool.schema:
        declaration["parametersJsonSchema"] = _without_dialect(tool.schema)
    return declaration


def _answer_schema(schema: object) -> object:
    """The schema itself, also where it comes with a name: `{"schema": {...}, "name": ...}`."""
    if not isinstance(schema, Mapping):
        return None
    inner = schema.get("schema")
    wrapped = isinstance(inner, Mapping) and schema.keys() <= {"schema", "name", "description", "strict"}
    return _without_dialect(inner if wrapped and isinstance(inner, Mapping) else schema)


def _without_dialect(schema: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in schema.items() if name != "$schema"}


def _thinking(effort: object, facts: ModelFacts) -> dict[str, object]:
    """Models with the ability `effort` take a level; those that only have `reasoning` take a budget, and refuse a level."""
    if not facts.abilities & {"reasoning", "effort"}:
        return {}
    thinking: dict[str, object] = {"includeThoughts": True}
    if isinstance(effort, str) and effort:
        if "effort" in facts.abilities:
            thinking["thinkingLevel"] = effort.upper()
        elif effort in _BUDGETS:
            thinking["thinkingBudget"] = _BUDGETS[effort]
    return thinking
