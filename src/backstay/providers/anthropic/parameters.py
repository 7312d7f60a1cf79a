"""Translate model parameters into those of the Messages API."""

from collections.abc import Mapping, Sequence
from typing import Final, cast

from backstay.ports import ModelRequest
from backstay.vocab.specs import ModelFacts, ToolSpec

Fields = dict[str, object]

WEB_SEARCH: Final = {"type": "web_search_20250305", "name": "web_search"}
"""The version that every model with web search has."""

BUDGETS: Final[Mapping[str, int]] = {"low": 4_096, "medium": 12_288, "high": 32_000}
"""Tokens to think with, for models that are told a number."""
_LEAST_BUDGET: Final = 1_024
_LEAST_TOP_P: Final = 0.95
"""While the model thinks, a lower one is refused."""


def shape_answer(request: ModelRequest, facts: ModelFacts, *, may_budget: bool) -> Fields:
    """Return the fields of a request besides its conversation, its tools and its instructions.

    `may_budget` says whether the conversation lets the model think within a budget.
    """
    given = request.parameters
    most = given.get("max_output")
    fields: Fields = {
        "model": request.model,
        "max_tokens": most if isinstance(most, int) and most > 0 else facts.max_output,
        "stream": True,
    }
    choice = _tool_choice(given, request.tools, facts)
    if choice:
        fields["tool_choice"] = choice
    forced = choice.get("type") in ("any", "tool")
    fields |= _thinking(given, facts, cast(int, fields["max_tokens"]), may_think=not forced, may_budget=may_budget)
    if stops := _stop_sequences(given.get("stop")):
        fields["stop_sequences"] = stops
    output = _output_config(given, facts)
    if output:
        fields["output_config"] = output
    return fields | _sampling(given, thinks="thinking" in fields)


def server_tools(request: ModelRequest, facts: ModelFacts) -> list[Fields]:
    """Return the tools that the provider runs itself."""
    wanted = request.parameters.get("web_search")
    taken = any(tool.name == WEB_SEARCH["name"] for tool in request.tools)
    if not wanted or taken or "web_search" not in facts.abilities:
        return []
    return [{**WEB_SEARCH, **(wanted if isinstance(wanted, dict) else {})}]


def close_schema(schema: Mapping[str, object]) -> Fields:
    """Return a schema as structured output takes it: objects are closed, and limits that it refuses are left out."""
    result: Fields = {}
    for key, value in schema.items():
        if key in _MAPS and isinstance(value, dict):
            result[key] = {name: _close_any(each) for name, each in value.items()}
        elif key in _INNER:
            result[key] = _close_any(value)
        elif key not in _REFUSED and not (key == "minItems" and value not in (0, 1)):
            result[key] = value
    if schema.get("type") == "object" or "properties" in schema:
        result.setdefault("additionalProperties", False)
    return result


_MAPS: Final = ("properties", "$defs", "definitions")
_INNER: Final = ("items", "anyOf", "allOf", "oneOf", "not", "prefixItems")
_REFUSED: Final = (
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "maxItems",
    "uniqueItems", "minProperties", "maxProperties",
)  # fmt: skip


def _close_any(value: object) -> object:
    if isinstance(value, list):
        return [_close_any(each) for each in value]
    return close_schema(value) if isinstance(value, dict) else value


def _tool_choice(given: Mapping[str, object], tools: Sequence[ToolSpec], facts: ModelFacts) -> dict[str, str]:
    wanted = given.get("tool_choice")
    searches = bool(given.get("web_search")) and "web_search" in facts.abilities
    if not isinstance(wanted, str) or not wanted or not (tools or searches):
        return {}
    known = {"auto": "auto", "none": "none", "required": "any"}
    return {"type": known[wanted]} if wanted in known else {"type": "tool", "name": wanted}


def _thinking(
    given: Mapping[str, object], facts: ModelFacts, max_tokens: int, *, may_think: bool, may_budget: bool
) -> Fields:
    """Return how much to think. A model with both abilities is told how hard, with reasoning alone a budget, with effort alone nothing."""
    effort = given.get("effort")
    if not isinstance(effort, str) or effort == "none" or "reasoning" not in facts.abilities or not may_think:
        return {}
    if "effort" in facts.abilities:
        return {"thinking": {"type": "adaptive", "display": "summarized"}}
    budget = min(BUDGETS.get(effort, BUDGETS["high"]), max_tokens * 3 // 4)
    if not may_budget or budget < _LEAST_BUDGET:
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _output_config(given: Mapping[str, object], facts: ModelFacts) -> Fields:
    config: Fields = {}
    effort, schema = given.get("effort"), given.get("schema")
    if isinstance(effort, str) and effort != "none" and "effort" in facts.abilities:
        config["effort"] = effort
    if isinstance(schema, dict) and schema and ("structured" in facts.abilities or not facts.known):
        inner = schema.get("schema")
        config["format"] = {"type": "json_schema", "schema": close_schema(inner if isinstance(inner, dict) else schema)}
    return config


def _stop_sequences(stop: object) -> list[str]:
    texts = [stop] if isinstance(stop, str) else stop if isinstance(stop, list | tuple) else []
    return [text for text in texts if isinstance(text, str) and text.strip()]


def _sampling(given: Mapping[str, object], *, thinks: bool) -> Fields:
    temperature, top_p = given.get("temperature"), given.get("top_p")
    fields: Fields = {}
    if temperature is not None and not thinks:
        fields["temperature"] = temperature
    if isinstance(top_p, int | float) and (not thinks or top_p >= _LEAST_TOP_P):
        fields["top_p"] = top_p
    return fields
