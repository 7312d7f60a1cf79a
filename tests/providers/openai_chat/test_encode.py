"""Requests are written in the server's words, and a growing conversation costs only its new end."""

import json
from base64 import b64encode
from typing import Any, cast  # Any: native JSON

import pytest

from backstay.ports import ModelRequest
from backstay.providers.openai_chat import FORMAT
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

READ = ToolSpec(name="Read", description="Read a file.", schema={"type": "object", "properties": {}})


def user(*parts: InFlightPart | str) -> Message:
    return Message(role="user", parts=tuple(Text(text=part) if isinstance(part, str) else part for part in parts))


def assistant(*parts: InFlightPart, opaque: bytes = b"", provider: str = "") -> Message:
    return Message(role="assistant", parts=parts, opaque=opaque, provider=provider)


def result(call: str, *content: Any, is_error: bool = False) -> Message:
    return Message(role="tool", parts=(ToolResult(call=call, content=content, is_error=is_error),))


def asked(id: str = "n.1-0", name: str = "Read", args: str = "{}", provider_id: str = "") -> ToolCall:
    return ToolCall(id=id, name=name, args=args, provider_id=provider_id)


def encode(
    *messages: Message,
    provider: str = "acme",
    abilities: tuple[Ability, ...] = ("tools",),
    instructions: str = "",
    tools: tuple[ToolSpec, ...] = (),
    **parameters: object,
) -> dict[str, Any]:
    request = ModelRequest(model="m", messages=messages, instructions=instructions, tools=tools, parameters=parameters)
    written = FORMAT.encoder(provider, ModelFacts(abilities=frozenset(abilities))).encode(request)
    assert written.path == "/chat/completions"
    return cast("dict[str, Any]", json.loads(written.body))


def written(*messages: Message, provider: str = "acme", abilities: tuple[Ability, ...] = ("tools",)) -> list[Any]:
    return cast("list[Any]", encode(*messages, provider=provider, abilities=abilities)["messages"])


def test_a_conversation_is_written_message_by_message() -> None:
    native = encode(
        user("Look."),
        assistant(Text(text="I look."), asked("n.1-0", args='{"path":"a"}'), asked("n.1-1", args="")),
        result("n.1-0", Text(text="one")),
        result("n.1-1", Text(text="two")),
        assistant(Text(text="Done.")),
        user("Thanks."),
        instructions="Be brief.",
        tools=(READ,),
    )

    def call(id: str, args: str) -> dict[str, Any]:
        return {"id": id, "type": "function", "function": {"name": "Read", "arguments": args}}

    assert native == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Look."},
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [call("n_1-0", '{"path":"a"}'), call("n_1-1", "{}")],
            },
            {"role": "tool", "tool_call_id": "n_1-0", "content": "one"},
            {"role": "tool", "tool_call_id": "n_1-1", "content": "two"},
            {"role": "assistant", "content": "Done."},
            {"role": "user", "content": "Thanks."},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "Read",
                    "description": "Read a file.",
                    "parameters": {"type": "object", "properties": {}},
                },
            }
        ],
    }


def test_a_call_without_text_has_null_content() -> None:
    assert written(assistant(asked()))[0]["content"] is None


def test_an_empty_conversation_is_an_empty_list() -> None:
    assert encode()["messages"] == []
    assert encode(instructions="S")["messages"] == [{"role": "system", "content": "S"}]


@pytest.mark.parametrize("args", ['{"path": "a', "[1]", "null", "hello", "[" * 5000])
def test_malformed_arguments_are_quoted_in_an_object(args: str) -> None:
    arguments = written(assistant(asked(args=args)))[0]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments) == {"malformed_arguments": args}


def test_neighbours_of_the_user_are_one_message() -> None:
    assert written(user("a", "b"), user("c")) == [{"role": "user", "content": "a\n\nb\n\nc"}]


def test_what_only_another_provider_can_read_is_not_sent() -> None:
    foreign = (
        Reasoning(text="Hm"),
        SignedReasoning(text="Hm", signature="s", provider="other"),
        ServerBlock(kind="web_search", name="web_search", content="x"),
    )
    opaque = b'{"role":"assistant","content":"a","reasoning_content":"Hm"}'
    message = assistant(*foreign, Text(text="a"), opaque=opaque, provider="other")
    assert written(message) == [{"role": "assistant", "content": "a"}]
    assert written(user("q"), assistant(*foreign)) == [{"role": "user", "content": "q"}]


def test_the_own_reply_goes_back_as_it_came_with_the_ids_of_the_server() -> None:
    opaque = (
        b'{"role":"assistant","content":null,"reasoning_content":"Hm","tool_calls":['
        b'{"type":"function","function":{"name":"Read"},"extra_content":{"s":1}},{"type":"function"}]}'
    )
    calls = (asked("n.1-0", args='{"a', provider_id="theirs"), asked("n.1-1"))
    messages = (
        assistant(Reasoning(text="Hm"), *calls, opaque=opaque, provider="acme"),
        result("n.1-0", Text(text="one")),
        result("n.1-1", Text(text="two")),
    )
    function = {"name": "Read", "arguments": '{"malformed_arguments":"{\\"a"}'}
    assert written(*messages) == [
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "Hm",
            "tool_calls": [
                {"type": "function", "function": function, "extra_content": {"s": 1}, "id": "theirs"},
                {"type": "function", "function": {"name": "Read", "arguments": "{}"}, "id": "n_1-1"},
            ],
        },
        {"role": "tool", "tool_call_id": "theirs", "content": "one"},
        {"role": "tool", "tool_call_id": "n_1-1", "content": "two"},
    ]


@pytest.mark.parametrize("opaque", [b"not json", b"[1]", b"\xff", b"[" * 100_000])
def test_a_damaged_state_falls_back_to_the_parts(opaque: bytes) -> None:
    message = assistant(Text(text="a"), opaque=opaque, provider="acme")
    assert written(message) == [{"role": "assistant", "content": "a"}]


def test_reasoning_of_the_own_server_goes_back_without_text_too() -> None:
    message = assistant(Reasoning(text="Hm"), opaque=b'{"content":null,"reasoning":"Hm"}', provider="acme")
    assert written(message) == [{"role": "assistant", "content": None, "reasoning": "Hm"}]


@pytest.mark.parametrize(
    ("content", "is_error", "text"),
    [
        ((), False, "(no output)"),
        ((Text(text=""),), False, "(no output)"),
        ((Text(text="a"), Text(text="b")), False, "a\n\nb"),
        ((Text(text="no such file"),), True, "Error: no such file"),
        ((Text(text="Error: no such file"),), True, "Error: no such file"),
        ((), True, "Error: (no output)"),
        (
            (MediaRef(sha256="0", media_type="image/png", size=9),),
            False,
            "[image/png, 9 bytes: this model cannot take it]",
        ),
        (
            (Text(text="a"), InlineMedia(media_type="image/png", content=b"12")),
            False,
            "a\n\n[image/png, 2 bytes: this model cannot take it]",
        ),
    ],
)
def test_a_result_is_text(content: tuple[Any, ...], is_error: bool, text: str) -> None:
    assert written(result("c", *content, is_error=is_error)) == [{"role": "tool", "tool_call_id": "c", "content": text}]


def test_an_image_in_a_result_follows_all_results_where_the_model_can_see() -> None:
    image = InlineMedia(media_type="image/png", content=b"P")
    messages = (result("c.1", image), result("c.2", Text(text="x")))
    assert written(*messages, abilities=("tools", "images")) == [
        {"role": "tool", "tool_call_id": "c_1", "content": "(an image, shown below)"},
        {"role": "tool", "tool_call_id": "c_2", "content": "x"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "[The image of the result c_1:]"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,UA=="}},
            ],
        },
    ]


@pytest.mark.parametrize(
    ("part", "native"),
    [
        (
            InlineMedia(media_type="image/jpeg", content=b"J"),
            {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,Sg=="}},
        ),
        (
            MediaLink(url="https://a.example/x.png", media_type="image/png"),
            {"type": "image_url", "image_url": {"url": "https://a.example/x.png"}},
        ),
        (
            InlineMedia(media_type="application/pdf", content=b"P", name="a.pdf"),
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,UA=="}},
        ),
        (MediaLink(url="file:f-1", media_type="application/pdf"), {"type": "file", "file": {"file_id": "f-1"}}),
        (
            InlineMedia(media_type="audio/mpeg", content=b"M"),
            {"type": "input_audio", "input_audio": {"data": b64encode(b"M").decode(), "format": "mp3"}},
        ),
    ],
)
def test_media_have_their_forms(part: InFlightPart, native: dict[str, Any]) -> None:
    assert written(user("Look:", part)) == [{"role": "user", "content": [{"type": "text", "text": "Look:"}, native]}]


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (InlineMedia(media_type="image/tiff", content=b"1234"), "[image/tiff, 4 bytes: this model cannot take it]"),
        (MediaRef(sha256="0", media_type="audio/wav", size=7), "[audio/wav, 7 bytes: this model cannot take it]"),
        (
            MediaLink(url="https://a.example/x.pdf", media_type="application/pdf"),
            "[application/pdf at https://a.example/x.pdf: this model cannot take it]",
        ),
        (InlineMedia(media_type="text/csv", content=b"a,b", name="t.csv"), "t.csv:\n\na,b"),
    ],
)
def test_what_the_format_cannot_carry_is_said_in_words(part: InFlightPart, text: str) -> None:
    assert written(user(part)) == [{"role": "user", "content": text}]


def test_nothing_is_set_that_nobody_asked_for() -> None:
    assert encode(user("a")).keys() == {"model", "messages", "stream", "stream_options"}


def test_parameters_are_said_in_the_servers_words() -> None:
    native = encode(
        max_output=100,
        temperature=0,
        top_p=0.5,
        seed=7,
        stop=["END"],
        effort="high",
        web_search=True,
        tool_choice="auto",
    )
    assert {key: native[key] for key in ("max_tokens", "temperature", "top_p", "seed", "stop")} == {
        "max_tokens": 100,
        "temperature": 0,
        "top_p": 0.5,
        "seed": 7,
        "stop": ["END"],
    }
    assert not {"reasoning_effort", "web_search_options", "tool_choice", "max_completion_tokens"} & native.keys()


def test_effort_and_search_go_by_what_the_model_can_do() -> None:
    native = encode(abilities=("effort", "web_search"), effort="high", web_search=True)
    assert (native["reasoning_effort"], native["web_search_options"]) == ("high", {})
    assert "web_search_options" not in encode(abilities=("web_search",), web_search=False)


@pytest.mark.parametrize(
    ("provider", "abilities", "name"),
    [
        ("acme", ("tools",), "max_tokens"),
        ("acme", ("reasoning",), "max_tokens"),
        ("acme", ("effort",), "max_completion_tokens"),
        ("openai", ("tools",), "max_completion_tokens"),
        ("mistral", ("effort",), "max_tokens"),
    ],
)
def test_the_ceiling_has_the_name_that_the_model_takes(
    provider: str, abilities: tuple[Ability, ...], name: str
) -> None:
    native = encode(provider=provider, abilities=abilities, max_output=5)
    assert {key: value for key, value in native.items() if key.startswith("max")} == {name: 5}


@pytest.mark.parametrize(
    ("choice", "native"),
    [("none", "none"), ("required", "required"), ("Read", {"type": "function", "function": {"name": "Read"}})],
)
def test_a_tool_can_be_chosen(choice: str, native: object) -> None:
    assert encode(tools=(READ,), tool_choice=choice)["tool_choice"] == native


STRICT: dict[str, object] = {
    "type": "object",
    "properties": {"a": {"type": "array", "items": {"$ref": "#/$defs/A"}}},
    "required": ["a"],
    "additionalProperties": False,
    "$defs": {"A": {"type": "object", "properties": {}, "additionalProperties": False}},
}


@pytest.mark.parametrize(
    ("schema", "json_schema"),
    [
        (STRICT, {"name": "answer", "schema": STRICT, "strict": True}),
        ({"schema": STRICT, "name": "it"}, {"name": "it", "schema": STRICT, "strict": True}),
        (loose := {"type": "object", "properties": {"a": {}}}, {"name": "answer", "schema": loose, "strict": False}),
        (some := {**STRICT, "required": []}, {"name": "answer", "schema": some, "strict": False}),
        (open_ := {**STRICT, "$defs": {"A": {"type": "object"}}}, {"name": "answer", "schema": open_, "strict": False}),
    ],
)
def test_a_schema_is_strict_where_its_shape_allows_it(
    schema: dict[str, object], json_schema: dict[str, object]
) -> None:
    assert encode(schema=schema)["response_format"] == {"type": "json_schema", "json_schema": json_schema}


def test_extra_fields_come_last_and_null_takes_one_away() -> None:
    native = encode(temperature=1, extra={"temperature": 0, "stream_options": None, "top_k": 4})
    assert (native["temperature"], native["top_k"]) == (0, 4)
    assert "stream_options" not in native
    assert encode(user("a"), extra={"messages": []})["messages"] == []


def test_the_dialects_differ_in_what_servers_refuse() -> None:
    mistral = encode(assistant(asked("n.1-0")), result("n.1-0"), provider="mistral", seed=3)
    ids = {mistral["messages"][0]["tool_calls"][0]["id"], mistral["messages"][1]["tool_call_id"]}
    assert (mistral["random_seed"], "stream_options" in mistral) == (3, False)
    assert len(ids) == 1
    assert all(len(id) == 9 and id.isalnum() for id in ids)


def test_a_long_or_strange_id_becomes_a_short_plain_one() -> None:
    ids = [written(assistant(asked(id)))[0]["tool_calls"][0]["id"] for id in ("x" * 41, "a b", "é", "n.1-0")]
    assert ids[3] == "n_1-0"
    assert len(set(ids)) == 4
    assert all(len(id) <= 40 and id.isascii() and " " not in id for id in ids)


def test_a_growing_conversation_is_the_same_as_a_new_one() -> None:
    facts = ModelFacts()
    history: list[Message] = []
    grown = FORMAT.encoder("acme", facts)
    for turn in range(6):
        call = f"n.{turn}-0"
        history += [user(f"q{turn}"), assistant(asked(call)), result(call, Text(text="r")), assistant(Text(text="a"))]
        for end in range(len(history) - 3, len(history) + 1):
            request = ModelRequest(model="m", messages=tuple(history[:end]), instructions="S", tools=(READ,))
            assert grown.encode(request) == FORMAT.encoder("acme", facts).encode(request)
    shorter = ModelRequest(model="m", messages=tuple(history[:7]))
    assert grown.encode(shorter) == FORMAT.encoder("acme", facts).encode(shorter)


def test_the_key_travels_in_a_header_and_may_be_missing() -> None:
    assert FORMAT.name == "openai-chat"
    assert FORMAT.headers("k") == {"content-type": "application/json", "authorization": "Bearer k"}
    assert FORMAT.headers("") == {"content-type": "application/json"}
