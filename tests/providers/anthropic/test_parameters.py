"""What shapes an answer is said in the provider's words, and left out where the model cannot do it."""

import json
from typing import Any, cast

import pytest

from backstay.ports import ModelRequest
from backstay.providers.anthropic import FORMAT
from backstay.vocab.messages import Message, Text, ToolCall, ToolResult
from backstay.vocab.specs import Ability, ModelFacts, ToolSpec

HI = Message(role="user", parts=(Text(text="Hi."),))
TOOL = ToolSpec(name="Read", description="", schema={})


def sent(
    parameters: dict[str, object],
    *abilities: Ability,
    messages: tuple[Message, ...] = (HI,),
    tools: tuple[ToolSpec, ...] = (TOOL,),
    max_output: int = 64_000,
) -> dict[str, Any]:
    facts = ModelFacts(known=True, abilities=frozenset(("tools", *abilities)), max_output=max_output)
    request = ModelRequest(model="m", messages=messages, tools=tools, parameters=parameters)
    body = cast(dict[str, Any], json.loads(FORMAT.encoder("anthropic", facts).encode(request).body))
    return {key: value for key, value in body.items() if key not in ("model", "messages", "stream")}


PLAIN: dict[str, Any] = {"max_tokens": 64_000, "tools": [{"name": "Read", "input_schema": {"type": "object"}}]}


def test_nothing_asked_is_nothing_said() -> None:
    assert sent({}) == PLAIN


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"max_output": 500}, {"max_tokens": 500}),
        ({"max_output": None}, {}),
        ({"temperature": 0}, {"temperature": 0}),
        ({"top_p": 0.5}, {"top_p": 0.5}),
        ({"seed": 7}, {}),
        ({"stop": ["END", " ", ""]}, {"stop_sequences": ["END"]}),
        ({"stop": "END"}, {"stop_sequences": ["END"]}),
        ({"stop": []}, {}),
        ({"tool_choice": "auto"}, {"tool_choice": {"type": "auto"}}),
        ({"tool_choice": "none"}, {"tool_choice": {"type": "none"}}),
        ({"tool_choice": "required"}, {"tool_choice": {"type": "any"}}),
        ({"tool_choice": "Read"}, {"tool_choice": {"type": "tool", "name": "Read"}}),
        ({"effort": "high"}, {}),
        ({"web_search": True}, {}),
        ({"schema": {"type": "string"}}, {}),
        ({"extra": {"top_k": 5, "max_tokens": 1, "metadata": {"user_id": "u"}}},
         {"top_k": 5, "max_tokens": 1, "metadata": {"user_id": "u"}}),
    ],
)  # fmt: skip
def test_each_parameter_has_its_word(parameters: dict[str, object], said: dict[str, object]) -> None:
    assert sent(parameters) == {**PLAIN, **said}


def test_a_choice_without_tools_is_not_said() -> None:
    assert "tool_choice" not in sent({"tool_choice": "auto"}, tools=())


def test_extra_may_replace_even_the_conversation() -> None:
    facts = ModelFacts()
    request = ModelRequest(model="m", messages=(HI,), parameters={"extra": {"messages": []}})

    assert json.loads(FORMAT.encoder("anthropic", facts).encode(request).body)["messages"] == []


# --- thinking -------------------------------------------------------------------------------------------------------


def test_a_model_with_effort_and_reasoning_decides_itself_how_long_to_think() -> None:
    asked = sent({"effort": "medium", "temperature": 0.5, "top_p": 0.5}, "effort", "reasoning")

    assert asked == {
        **PLAIN,
        "thinking": {"type": "adaptive", "display": "summarized"},
        "output_config": {"effort": "medium"},
    }


def test_a_model_with_reasoning_alone_is_told_a_budget() -> None:
    assert sent({"effort": "low"}, "reasoning")["thinking"] == {"type": "enabled", "budget_tokens": 4096}
    assert sent({"effort": "high"}, "reasoning")["thinking"] == {"type": "enabled", "budget_tokens": 32_000}


def test_a_model_with_effort_alone_is_told_only_that() -> None:
    asked = sent({"effort": "low", "temperature": 0.5}, "effort")

    assert asked == {**PLAIN, "output_config": {"effort": "low"}, "temperature": 0.5}


@pytest.mark.parametrize("max_output", [1, 1024, 1500, 2000, 5000, 9000, 100_000])
def test_the_answer_has_room_beside_the_budget(max_output: int) -> None:
    asked = sent({"effort": "high", "max_output": max_output}, "reasoning")
    budget = asked.get("thinking", {"budget_tokens": 0})["budget_tokens"]

    assert budget < asked["max_tokens"] == max_output
    assert budget == 0 or budget >= 1024


def test_a_model_that_thinks_cannot_be_forced_to_a_tool() -> None:
    forced = sent({"effort": "high", "tool_choice": "required"}, "reasoning")

    assert "thinking" not in forced
    assert forced["tool_choice"] == {"type": "any"}


CALL = ToolCall(id="a", name="Read", args="{}", provider_id="t")
RESULT = Message(role="tool", parts=(ToolResult(call="a", content=(Text(text="x"),)),))
THOUGHT = b'[{"signature":"s","thinking":"","type":"thinking"},{"type":"tool_use","id":"t","name":"Read","input":{}}]'


@pytest.mark.parametrize(
    ("opaque", "provider", "thinks"), [(THOUGHT, "anthropic", True), (THOUGHT, "google", False), (b"", "", False)]
)
def test_a_budget_waits_until_calls_that_were_made_without_a_thought_are_done(
    opaque: bytes, provider: str, thinks: bool
) -> None:
    reply = Message(role="assistant", parts=(CALL,), opaque=opaque, provider=provider)
    answered = Message(role="assistant", parts=(Text(text="Done."),))

    assert ("thinking" in sent({"effort": "high"}, "reasoning", messages=(HI, reply, RESULT))) is thinks
    assert "thinking" in sent({"effort": "high"}, "reasoning", messages=(HI, reply, RESULT, answered, HI))
    assert "thinking" in sent({"effort": "high"}, "reasoning", "effort", messages=(HI, reply, RESULT))


# --- structured output, web search ----------------------------------------------------------------------------------


PERSON: dict[str, object] = {
    "type": "object",
    "properties": {
        "minimum": {"type": "integer", "minimum": 0},
        "tags": {"type": "array", "minItems": 2, "items": {"type": "object", "properties": {"t": {"type": "string"}}}},
        "kind": {"anyOf": [{"$ref": "#/$defs/Kind"}, {"type": "null"}]},
    },
    "$defs": {"Kind": {"type": "string", "maxLength": 3, "enum": ["a"]}},
    "required": ["minimum"],
}
CLOSED = {
    "type": "object",
    "properties": {
        "minimum": {"type": "integer"},
        "tags": {
            "type": "array",
            "items": {"type": "object", "properties": {"t": {"type": "string"}}, "additionalProperties": False},
        },
        "kind": {"anyOf": [{"$ref": "#/$defs/Kind"}, {"type": "null"}]},
    },
    "$defs": {"Kind": {"type": "string", "enum": ["a"]}},
    "required": ["minimum"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("schema", [PERSON, {"schema": PERSON, "name": "person"}], ids=["bare", "named"])
def test_a_schema_is_closed_and_rid_of_limits_that_are_refused(schema: dict[str, object]) -> None:
    asked = sent({"schema": schema, "effort": "low"}, "structured", "effort")

    assert asked["output_config"] == {"effort": "low", "format": {"type": "json_schema", "schema": CLOSED}}


@pytest.mark.contract("RB-32")
def test_the_web_is_searched_where_the_model_can() -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}

    assert sent({"web_search": True}, "web_search")["tools"] == [*PLAIN["tools"], search]
    assert sent({"web_search": {"max_uses": 2}}, "web_search", tools=())["tools"] == [{**search, "max_uses": 2}]
    assert sent({"web_search": False}, "web_search") == PLAIN


def test_a_tool_of_the_same_name_goes_before_the_search_of_the_provider() -> None:
    ours = ToolSpec(name="web_search", description="Ours.", schema={})

    assert [tool["description"] for tool in sent({"web_search": True}, "web_search", tools=(ours,))["tools"]] == [
        "Ours."
    ]
