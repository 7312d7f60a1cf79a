"""What servers list: each entry read by itself, strangers' words cleaned, hints not believed."""

from typing import Any

import pytest

from backstay.mcp.catalog import LARGEST, LONGEST_DESCRIPTION, Lists, Offer, read_offer, why_unfit
from tests.mcp.kit import tool

READ_ONLY = {"readOnlyHint": True}


def read(*tools: object, vouched: bool = True, **rest: Any) -> Offer:
    return read_offer("srv", "srv", Lists(tools=tools, **rest), vouched=vouched)


def test_a_tool_is_a_stranger_whatever_it_says() -> None:
    [found] = read(tool("look", annotations={**READ_ONLY, "destructiveHint": False})).tools

    assert found.item == "look"
    assert (found.spec.name, found.spec.effect, found.spec.taints) == ("mcp__srv__look", "idempotent", ("untrusted",))
    assert not found.spec.concurrent


@pytest.mark.parametrize("hints", [READ_ONLY, {"idempotentHint": True}])
def test_a_hint_of_a_server_that_nobody_vouched_for_means_nothing(hints: dict[str, object]) -> None:
    assert [each.spec.effect for each in read(tool("look", annotations=hints), vouched=False).tools] == ["once"]
    assert [each.spec.effect for each in read(tool("look", annotations=hints), vouched=True).tools] == ["idempotent"]


def test_no_hint_makes_a_tool_pure_which_the_policy_would_believe() -> None:
    hints = {"readOnlyHint": True, "idempotentHint": True, "destructiveHint": False, "openWorldHint": False}

    assert [each.spec.effect for each in read(tool("look", annotations=hints)).tools] == ["idempotent"]


def test_a_description_is_bounded_and_holds_nothing_that_a_person_would_not_see() -> None:
    hidden = "Adds.\x1b[2J\u202e\U000e0041\u200b" + "x" * 5000

    [found] = read(tool("add", description=hidden)).tools

    assert found.spec.description.startswith("Adds.[2Jxxx")
    assert len(found.spec.description) == LONGEST_DESCRIPTION


def test_a_description_within_a_schema_is_cleaned_too() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "description": "A\u200b\x1b."}}}

    [found] = read(tool("add", inputSchema=schema)).tools

    assert found.spec.schema["properties"] == {"a": {"type": "string", "description": "A."}}


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (tool("bad", inputSchema="nonsense"), "does not say what arguments"),
        (tool("bad", inputSchema=None), "does not say what arguments"),
        (tool("bad", inputSchema={"type": "array"}), "not an object but 'array'"),
        (tool("bad", inputSchema={"type": "object", "properties": ["a"]}), "properties of its schema are no schemas"),
        (tool("bad", inputSchema={"type": "object", "required": "a"}), "no list of names"),
        (tool("bad", inputSchema={"type": "object", "properties": {"a b": {}}}), "'a b', which no provider accepts"),
        (tool("bad", inputSchema={"type": "object", "x": "y" * LARGEST}), "bytes, and at most 65,536"),
        ({"name": "bad", "description": 7, "inputSchema": {}}, "The tool 'bad' is left out: Expected `str | null`"),
        ({"description": "no name"}, "A tool is left out: Object missing required field `name`"),
        ("not an object", "A tool is left out"),
        (tool(""), "'' cannot be a name"),
        (tool("a\nb"), "'a b' cannot be a name"),
        (tool("x" * 300), "cannot be a name"),
    ],
)
def test_nonsense_is_left_out_and_named_and_hides_nothing_else(entry: object, why: str) -> None:
    found = read(tool("before"), entry, tool("after"))

    assert [each.item for each in found.tools] == ["before", "after"]
    assert len(found.problems) == 1
    assert why in found.problems[0]


def test_a_schema_that_is_nested_too_deeply_is_left_out() -> None:
    deep: dict[str, object] = {"type": "string"}
    for _ in range(100):
        deep = {"type": "array", "items": deep}

    found = read(tool("deep", inputSchema={"type": "object", "properties": {"a": deep}}))

    assert found.tools == ()
    assert "nested more than" in found.problems[0]


def test_what_providers_refuse_at_the_top_of_a_schema_is_left_to_the_server() -> None:
    schema = {"$schema": "x", "type": "object", "anyOf": [{"required": ["a"]}], "properties": {"a": {"type": "string"}}}

    [found] = read(tool("any", inputSchema=schema)).tools

    assert found.spec.schema == {"type": "object", "properties": {"a": {"type": "string"}}}


def test_a_tool_that_stands_twice_counts_once() -> None:
    found = read(tool("same", description="first"), tool("same", description="second"))

    assert [each.spec.description for each in found.tools] == ["first"]
    assert "stands in the list twice" in found.problems[0]


def test_no_more_tools_than_a_thousand_are_read() -> None:
    found = read(*(tool(f"t{number}") for number in range(1001)))

    assert len(found.tools) == 1000
    assert found.problems == ("Only 1000 of the 1001 tools are read.",)


def test_resources_and_prompts_are_read_one_by_one() -> None:
    lists = Lists(
        resources=[{"uri": "note://a", "name": "A\x1b"}, {"name": "no address"}, {"uri": "bad\n"}],
        prompts=[{"name": "review", "arguments": [{"name": "file", "required": True}]}, {"name": 3}],
    )

    found = read_offer("srv", "srv", lists, vouched=False)

    assert [(each.server, each.uri, each.name) for each in found.resources] == [("srv", "note://a", "A")]
    assert [(each.command, each.usage) for each in found.prompts] == [
        ("mcp__srv__review", "/mcp__srv__review file"),
    ]
    assert len(found.problems) == 3


def test_arguments_are_looked_at_by_name_and_plain_type_alone() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"$ref": "#/$defs/x"}},
        "required": ["a"],
        "additionalProperties": False,
    }

    assert why_unfit({"a": 1, "b": object}, schema) == ""
    assert why_unfit({}, schema) == "the object has no 'a'"
    assert "integer" in why_unfit({"a": "one"}, schema)
    assert "'c', which is not known" in why_unfit({"a": 1, "c": 2}, schema)


def test_a_schema_made_to_take_for_ever_takes_no_time() -> None:
    levels = {f"l{n}": {"allOf": [{"$ref": f"#/$defs/l{n + 1}"}] * 2} for n in range(60)}
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/l0"}}, "$defs": levels}

    [found] = read(tool("bomb", inputSchema=schema)).tools

    assert why_unfit({"a": 1}, found.spec.schema) == ""
