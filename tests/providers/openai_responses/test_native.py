"""What of a reply must be sent back to the provider that made it."""

import json

import pytest

from tests.providers.openai_responses.streams import Fields, call, message, read_body, reasoning, response

SEARCH: Fields = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "rain"}}
SHELL: Fields = {"type": "shell_call", "id": "sh_1", "call_id": "call_9", "action": {"commands": ["ls"]}}


def kept(*items: Fields, status: str = "completed") -> object:
    """The items that go back; None when the parts say everything."""
    opaque = read_body(response(*items, status=status))[1].opaque
    return json.loads(opaque) if opaque else None


@pytest.mark.parametrize(
    "items",
    [
        [message("Hi")],
        [message("Hi"), call()],
        [call(), call("Grep", id="call_2", caller=None)],
        [{"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}],
        [],
    ],
)
def test_plain_text_and_calls_need_nothing_more(items: list[Fields]) -> None:
    assert kept(*items) is None


@pytest.mark.parametrize(
    "items",
    [
        [reasoning("a"), message("Hi")],
        [reasoning("a"), call(), call("Grep", id="call_2")],
        [reasoning("a"), SEARCH, reasoning("b"), message("Hi")],
        [reasoning(sealed="", content=[{"type": "reasoning_text", "text": "hm"}]), message("Hi")],
        [SEARCH, message("Hi")],
        [message("Hi", phase="commentary"), call()],
        [call(namespace="tools")],
        [{"type": "custom_tool_call", "call_id": "c", "name": "Sql", "input": "select 1"}],
        [{"type": "image_generation_call", "id": "ig", "result": "iVBORw==", "status": "completed"}],
        [{"type": "message", "content": [{"type": "smell"}]}],
        [{"type": "shell_call", "call_id": "c"}, {"type": "shell_call_output", "call_id": "c", "output": []}],
    ],
)
def test_what_parts_cannot_say_is_kept_as_it_came(items: list[Fields]) -> None:
    assert kept(*items) == items


def test_reasoning_that_is_only_stored_at_the_provider_is_left_out() -> None:
    assert kept(reasoning("a", sealed=""), message("Hi")) is None
    assert kept(reasoning("a", sealed=""), SEARCH, message("Hi")) == [SEARCH, message("Hi")]


def test_reasoning_that_leads_to_nothing_is_left_out() -> None:
    assert kept(reasoning("a"), message("Hi"), reasoning("b"), status="incomplete") == [reasoning("a"), message("Hi")]
    assert kept(reasoning("a"), status="incomplete") is None


def test_a_call_that_nobody_will_answer_is_left_out_with_its_reasoning() -> None:
    assert kept(reasoning("a"), SHELL, message("Hi", phase="final_answer")) == [message("Hi", phase="final_answer")]


def test_arguments_that_are_no_object_are_wrapped() -> None:
    wrapped = call(args='{"malformed_arguments":"{\\"a\\""}')
    assert kept(reasoning("a"), call(args='{"a"')) == [reasoning("a"), wrapped]
    assert kept(reasoning("a"), call(args="")) == [reasoning("a"), call(args="{}")]
