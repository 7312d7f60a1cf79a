"""A conversation, from messages to a request of the Responses API."""

import json
from base64 import b64encode
from typing import Any

import pytest

from backstay.ports import ModelRequest
from backstay.providers.format import Encoder
from backstay.providers.openai_responses import FORMAT
from backstay.vocab.messages import (
    InFlightPart,
    InlineMedia,
    MediaLink,
    MediaRef,
    Message,
    Reasoning,
    ServerBlock,
    SignedReasoning,
    Text,
    ToolCall,
    ToolResult,
)
from backstay.vocab.specs import Ability, ModelFacts, ToolSpec
from tests.providers.openai_responses.streams import call, message, read_body, reasoning, response

READ = ToolSpec(name="Read", description="Read a file.", schema={"type": "object", "properties": {"path": {}}})
ASKED = Message(role="user", parts=(Text(text="Hello"),))
CLOSED = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


def body(*messages: Message, abilities: tuple[Ability, ...] = (), known: bool = True, **more: Any) -> dict[str, Any]:
    """The body that a fresh encoder writes."""
    facts = ModelFacts(abilities=frozenset(abilities), known=known)
    return written(FORMAT.encoder("openai", facts), *messages, **more)


def written(encoder: Encoder, *messages: Message, **more: Any) -> dict[str, Any]:
    """The body that `encoder` writes."""
    posted = encoder.encode(ModelRequest(model="gpt-x", messages=messages, **more))
    assert posted.path == "/responses"
    content: dict[str, Any] = json.loads(posted.body)
    return content


def items(*messages: Message) -> list[dict[str, Any]]:
    """The input items of `messages`."""
    sent: list[dict[str, Any]] = body(*messages)["input"]
    return sent


def user(*parts: InFlightPart) -> Message:
    return Message(role="user", parts=parts)


def assistant(*parts: InFlightPart, **more: Any) -> Message:
    return Message(role="assistant", parts=parts, **more)


def result(call: str, *content: Any, is_error: bool = False) -> Message:
    return Message(role="tool", parts=(ToolResult(call=call, content=content, is_error=is_error),))


# --- the conversation ------------------------------------------------------------------------------------------------


def test_a_conversation_is_a_list_of_items() -> None:
    history = (
        user(Text(text="Look at a."), Text(text="Please.")),
        assistant(
            Reasoning(text="hm"),
            Text(text="I look."),
            ToolCall(id="k3.2f-0", name="Read", args='{"path":"a"}', provider_id="call_1"),
            Text(text="And there."),
            ToolCall(id="k3.2f-1", name="Read", args='{"path":"b"}'),
        ),
        result("k3.2f-0", Text(text="one"), Text(text="two")),
        result("k3.2f-1", Text(text="no such file"), is_error=True),
        assistant(Text(text="Done.")),
    )
    assert items(*history) == [
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "Look at a."}, {"type": "input_text", "text": "Please."}],
        },
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "call_id": "k3_2f-0", "name": "Read", "arguments": '{"path":"a"}'},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "And there."}]},
        {"type": "function_call", "call_id": "k3_2f-1", "name": "Read", "arguments": '{"path":"b"}'},
        {"type": "function_call_output", "call_id": "k3_2f-0", "output": "one\ntwo"},
        {"type": "function_call_output", "call_id": "k3_2f-1", "output": "Error: no such file"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
    ]


def test_what_only_others_can_read_is_not_sent() -> None:
    foreign = assistant(
        Reasoning(text="hm"),
        SignedReasoning(text="hm", signature="s", provider="anthropic"),
        ServerBlock(kind="web_search"),
        opaque=b'[{"type":"thinking"}]',
        provider="anthropic",
    )
    assert items(ASKED, foreign, ASKED) == items(ASKED, ASKED)


@pytest.mark.parametrize(
    ("args", "sent"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ("", "{}"),
        ('{"a"', '{"malformed_arguments":"{\\"a\\""}'),
        ("[1]", '{"malformed_arguments":"[1]"}'),
    ],
)
def test_arguments_are_always_an_object(args: str, sent: str) -> None:
    assert items(assistant(ToolCall(id="c", name="Read", args=args)))[0]["arguments"] == sent


@pytest.mark.parametrize(
    ("parts", "is_error", "output"),
    [
        ((), False, ""),
        ((), True, "Error: (no output)"),
        ((Text(text="Error: gone"),), True, "Error: gone"),
        (
            (Text(text="a"), InlineMedia(media_type="image/png", content=b"p")),
            False,
            [
                {"type": "input_text", "text": "a"},
                {"type": "input_image", "image_url": "data:image/png;base64,cA==", "detail": "auto"},
            ],
        ),
        (
            (MediaRef(sha256="x", media_type="image/png", size=9),),
            False,
            [{"type": "input_text", "text": "[image/png, 9 bytes: this model cannot take it]"}],
        ),
    ],
)
def test_a_result_says_what_came_of_the_call(parts: tuple[Any, ...], is_error: bool, output: object) -> None:
    assert items(result("c", *parts, is_error=is_error)) == [
        {"type": "function_call_output", "call_id": "c", "output": output}
    ]


def test_ids_with_other_characters_stay_different() -> None:
    ids = [items(result(name))[0]["call_id"] for name in ("a:b", "a/b", "a b", "a.b", "ab")]
    assert len(set(ids)) == len(ids)
    assert ids[3] == "a_b"


@pytest.mark.parametrize(
    ("part", "sent"),
    [
        (
            InlineMedia(media_type="image/jpeg", content=b"pic"),
            {
                "type": "input_image",
                "image_url": f"data:image/jpeg;base64,{b64encode(b'pic').decode()}",
                "detail": "auto",
            },
        ),
        (
            InlineMedia(media_type="application/pdf", content=b"doc", name="a.pdf"),
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,ZG9j"},
        ),
        (
            InlineMedia(media_type="text/plain; charset=utf-8", content=b"doc"),
            {"type": "input_file", "filename": "document.txt", "file_data": "data:text/plain;base64,ZG9j"},
        ),
        (
            InlineMedia(media_type="image/tiff", content=b"1234"),
            {"type": "input_text", "text": "[image/tiff, 4 bytes: this model cannot take it]"},
        ),
        (
            InlineMedia(media_type="audio/wav", content=b"1234"),
            {"type": "input_text", "text": "[audio/wav, 4 bytes: this model cannot take it]"},
        ),
        (
            MediaRef(sha256="x", media_type="image/png", size=9),
            {"type": "input_text", "text": "[image/png, 9 bytes: this model cannot take it]"},
        ),
        (
            MediaLink(url="https://x.org/a"),
            {"type": "input_image", "image_url": "https://x.org/a", "detail": "auto"},
        ),
        (MediaLink(url="https://x.org/A.PDF?x=1"), {"type": "input_file", "file_url": "https://x.org/A.PDF?x=1"}),
        (
            MediaLink(url="https://x.org/a", media_type="application/pdf"),
            {"type": "input_file", "file_url": "https://x.org/a"},
        ),
        (MediaLink(url="file:file-1"), {"type": "input_file", "file_id": "file-1"}),
        (
            MediaLink(url="file:file-1", media_type="image/png"),
            {"type": "input_image", "file_id": "file-1", "detail": "auto"},
        ),
        (
            MediaLink(url="https://x.org/a", media_type="audio/mpeg"),
            {"type": "input_text", "text": "[audio/mpeg at https://x.org/a: this model cannot take it]"},
        ),
    ],
)
def test_media_take_the_providers_form(part: InFlightPart, sent: dict[str, Any]) -> None:
    assert items(user(part))[0]["content"] == [sent]


def test_a_person_may_say_nothing() -> None:
    assert items(user(Text(text="")))[0]["content"] == [{"type": "input_text", "text": ""}]
    assert items(assistant(Text(text=""))) == []


def test_media_that_the_assistant_made_are_named_in_their_place() -> None:
    said = assistant(InlineMedia(media_type="image/png", content=b"1234"))
    text = "[image/png, 4 bytes: this model cannot take it]"
    assert items(said)[0]["content"] == [{"type": "output_text", "text": text}]


# --- replies that go back as they came -------------------------------------------------------------------------------


def replayed(*output: dict[str, Any]) -> Message:
    """The message that a reply becomes, with our ids for its calls."""
    reply = read_body(response(*output))[1]
    calls = iter(range(99))
    parts = [
        ToolCall(id=f"k.1-{next(calls)}", name=part.name, args=part.args, provider_id=part.provider_id)
        if isinstance(part, ToolCall)
        else part
        for part in reply.parts
    ]
    return assistant(*parts, opaque=reply.opaque, provider="openai")


def test_a_reply_goes_back_to_its_provider_as_it_came() -> None:
    output = [reasoning("hm"), message("I look."), call(), call("Grep", id="call_2")]
    sent = body(ASKED, replayed(*output), result("k.1-0"), result("k.1-1"), abilities=("reasoning",))["input"]
    assert sent[1:5] == output
    assert [item["call_id"] for item in sent[5:]] == ["call_1", "call_2"]


def test_another_provider_gets_the_parts_instead() -> None:
    answer = replayed(reasoning("hm"), message("I look."), call())
    sent = written(FORMAT.encoder("other", ModelFacts()), answer, result("k.1-0"))["input"]
    assert [item["type"] for item in sent] == ["message", "function_call", "function_call_output"]
    assert [item.get("call_id") for item in sent] == [None, "k_1-0", "k_1-0"]


def test_a_model_that_does_not_reason_gets_no_reasoning() -> None:
    answer = replayed(reasoning("hm"), message("I look.", phase="commentary"), call())
    assert [item["type"] for item in body(answer)["input"]] == ["message", "function_call"]
    assert [item["type"] for item in body(answer, known=False)["input"]] == ["reasoning", "message", "function_call"]


def test_the_result_of_a_custom_tool_has_its_own_form() -> None:
    answer = replayed({"type": "custom_tool_call", "call_id": "c", "name": "Sql", "input": "select 1"}, call())
    sent = body(answer, result("k.1-0"), result("k.1-1"))["input"]
    assert [(item["type"], item["call_id"]) for item in sent] == [
        ("custom_tool_call", "c"),
        ("function_call", "call_1"),
        ("custom_tool_call_output", "c"),
        ("function_call_output", "call_1"),
    ]


def test_a_growing_conversation_is_written_like_a_fresh_one() -> None:
    history = (
        ASKED,
        replayed(reasoning("hm"), call()),
        result("k.1-0", Text(text="x")),
        assistant(ToolCall(id="k.2-0", name="Read", args="{}")),
        result("k.2-0", Text(text="y")),
        assistant(Text(text="Done.")),
    )
    encoder = FORMAT.encoder("openai", ModelFacts())
    for end in (*range(len(history) + 1), 2, 5):
        assert written(encoder, *history[:end]) == body(*history[:end], known=False)


# --- everything else -------------------------------------------------------------------------------------------------


def test_nothing_is_stored_and_everything_is_streamed() -> None:
    assert body(ASKED) == {"model": "gpt-x", "store": False, "stream": True, "input": items(ASKED)}


def test_instructions_and_tools_have_their_fields() -> None:
    sent = body(ASKED, instructions="Be brief.", tools=(READ,))
    assert sent["instructions"] == "Be brief."
    assert sent["tools"] == [
        {
            "type": "function",
            "name": "Read",
            "description": "Read a file.",
            "parameters": {"type": "object", "properties": {"path": {}}},
            "strict": False,
        }
    ]


@pytest.mark.parametrize(
    ("abilities", "parameters", "fields"),
    [
        ((), {"max_output": 9, "temperature": 0.0, "top_p": 0.5}, {"max_output_tokens": 9, "temperature": 0, "top_p": 0.5}),
        ((), {"seed": 1, "stop": ["x"]}, {}),
        ((), {"effort": "low"}, {}),
        (("effort",), {"effort": "low"}, {"reasoning": {"effort": "low"}}),
        (("reasoning",), {}, {"reasoning": {"summary": "auto"}, "include": ["reasoning.encrypted_content"]}),
        (
            ("reasoning",),
            {"effort": "high", "extra": {"include": [], "prompt_cache_key": "k"}},
            {"reasoning": {"effort": "high", "summary": "auto"}, "include": [], "prompt_cache_key": "k"},
        ),
        ((), {"web_search": True}, {}),
        (("web_search",), {"web_search": True}, {"tools": [{"type": "web_search"}]}),
        (("web_search",), {"web_search": False}, {}),
        ((), {"tool_choice": "required"}, {}),
        ((), {"extra": {"store": True}}, {"store": True}),
        ((), {"extra": {"input": "Hi"}}, {"input": "Hi"}),
    ],
)  # fmt: skip
def test_parameters_are_said_in_the_providers_words(
    abilities: tuple[Ability, ...], parameters: dict[str, Any], fields: dict[str, Any]
) -> None:
    assert body(ASKED, abilities=abilities, parameters=parameters) == {**body(ASKED), **fields}


@pytest.mark.parametrize(
    ("choice", "sent"),
    [("auto", "auto"), ("none", "none"), ("required", "required"), ("Read", {"type": "function", "name": "Read"})],
)
def test_a_choice_of_tool_is_a_word_or_a_name(choice: str, sent: object) -> None:
    assert body(ASKED, tools=(READ,), parameters={"tool_choice": choice})["tool_choice"] == sent


@pytest.mark.parametrize(
    ("asked", "name", "strict"),
    [
        (CLOSED, "answer", True),
        ({**CLOSED, "title": "My answer"}, "My_answer", True),
        ({"schema": CLOSED, "name": "n"}, "n", True),
        ({"schema": {**CLOSED, "required": []}}, "answer", False),
        ({"schema": {**CLOSED, "additionalProperties": True}}, "answer", False),
        ({"schema": {**CLOSED, "allOf": []}}, "answer", False),
        ({"schema": {**CLOSED, "properties": {"n": {"type": "object"}}}}, "answer", False),
        ({"schema": {**CLOSED, "properties": {"n": {"anyOf": [{"type": "null"}, {"oneOf": []}]}}}}, "answer", False),
        ({"schema": {**CLOSED, "properties": {"n": {"items": CLOSED, "type": "array"}}}}, "answer", True),
        ({"schema": {"type": "array", "items": CLOSED}}, "answer", False),
        ({"schema": {"$defs": {"a": {"default": 1}}, **CLOSED}}, "answer", False),
    ],
)  # fmt: skip
def test_a_schema_is_strict_when_the_provider_takes_it(asked: dict[str, Any], name: str, strict: bool) -> None:
    schema = asked.get("schema", asked)
    assert body(ASKED, parameters={"schema": asked})["text"] == {
        "format": {"type": "json_schema", "name": name, "schema": schema, "strict": strict}
    }


def test_a_schema_may_be_described() -> None:
    asked = {"schema": CLOSED, "description": "A number."}
    assert body(ASKED, parameters={"schema": asked})["text"]["format"]["description"] == "A number."
