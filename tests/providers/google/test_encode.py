"""Requests for Gemini say the conversation in its own form."""

import json
from collections.abc import Sequence

import pytest

from backstay.ports import ModelRequest
from backstay.providers.format import HttpRequest
from backstay.providers.google import FORMAT
from backstay.vocab.messages import (
    InFlightPart,
    InlineMedia,
    MediaLink,
    MediaRef,
    Message,
    Reasoning,
    Role,
    ServerBlock,
    SignedReasoning,
    Text,
    ToolCall,
    ToolResult,
)
from backstay.vocab.specs import Ability, ModelFacts, ToolSpec

READ = ToolSpec(
    name="Read", description="Reads.", schema={"$schema": "x", "type": "object", "additionalProperties": False}
)
LOOK = ToolCall(id="r1.0", name="Read", args='{"path": "a"}', provider_id="theirs")
SEEN = ToolResult(call="r1.0", content=(Text(text="words"),))


def say(role: Role, *parts: InFlightPart | str, opaque: bytes = b"", provider: str = "") -> Message:
    made = tuple(Text(text=part) if isinstance(part, str) else part for part in parts)
    return Message(role=role, parts=made, opaque=opaque, provider=provider)


def post(
    messages: Sequence[Message] = (say("user", "Hi"),),
    *,
    abilities: Sequence[Ability] = (),
    tools: tuple[ToolSpec, ...] = (),
    model: str = "google:gemini-x",
    instructions: str = "",
    **parameters: object,
) -> HttpRequest:
    encoder = FORMAT.encoder("google", ModelFacts(abilities=frozenset(abilities)))
    request = ModelRequest(
        model=model, messages=tuple(messages), tools=tools, instructions=instructions, parameters=parameters
    )
    return encoder.encode(request)


def contents(*messages: Message, abilities: Sequence[Ability] = ()) -> object:
    return json.loads(post(messages, abilities=abilities).body)["contents"]


def body(**options: object) -> dict[str, object]:
    made: dict[str, object] = json.loads(post(**options).body)  # type: ignore[arg-type]  # the options of `post`
    del made["contents"]
    return made


def test_a_plain_request_has_nothing_but_the_conversation() -> None:
    request = post([say("user", "Hi"), say("assistant", "Ho"), say("user", "Hey", "you")])

    assert json.loads(request.body) == {
        "contents": [
            {"role": "user", "parts": [{"text": "Hi"}]},
            {"role": "model", "parts": [{"text": "Ho"}]},
            {"role": "user", "parts": [{"text": "Hey"}, {"text": "you"}]},
        ]
    }


@pytest.mark.parametrize("model", ["google:gemini-x", "gemini-x", "models/gemini-x"])
def test_the_model_stands_in_the_path_without_its_provider(model: str) -> None:
    assert post(model=model).path == "/v1beta/models/gemini-x:streamGenerateContent?alt=sse"
    assert post(model="google:a b?c").path == "/v1beta/models/a%20b%3Fc:streamGenerateContent?alt=sse"


def test_the_key_is_a_header() -> None:
    assert FORMAT.headers("secret")["x-goog-api-key"] == "secret"
    assert "x-goog-api-key" not in FORMAT.headers("")
    assert FORMAT.name == "google"


def test_a_result_names_its_function_and_has_the_id_of_its_call() -> None:
    assert contents(say("user", "Look"), say("assistant", "Yes.", LOOK), say("tool", SEEN))[1:] == [  # type: ignore[index]  # a list
        {
            "role": "model",
            "parts": [{"text": "Yes."}, {"functionCall": {"id": "r1_0", "name": "Read", "args": {"path": "a"}}}],
        },
        {
            "role": "user",
            "parts": [{"functionResponse": {"id": "r1_0", "name": "Read", "response": {"output": "words"}}}],
        },
    ]


def responses(*results: ToolResult | Message) -> list[object]:
    calls = tuple(ToolCall(id=f"c{i}", name=f"Tool{i}", args="") for i in range(3))
    after = (each if isinstance(each, Message) else say("tool", each) for each in results)
    made = contents(say("user", "Go"), say("assistant", *calls), *after)
    assert isinstance(made, list)
    assert len(made) == 3
    assert made[2]["role"] == "user"
    parts: list[object] = made[2]["parts"]
    return parts


def response(index: int, **content: object) -> dict[str, object]:
    return {"functionResponse": {"id": f"c{index}", "name": f"Tool{index}", "response": content}}


def test_results_and_what_the_user_said_beside_them_are_one_message_with_the_results_first() -> None:
    failed = ToolResult(call="c1", content=(Text(text="no such file"),), is_error=True)
    picture = InlineMedia(media_type="image/png", content=b"\x00")
    shown = ToolResult(call="c2", content=(Text(text="{}"), Text(text="two"), picture))

    assert responses(say("user", "wait"), ToolResult(call="c0"), failed, shown) == [
        response(0, output=""),
        response(1, error="no such file"),
        response(2, output="{}\ntwo"),
        {"text": "wait"},
        {"text": "[what the call of 'Tool2' gave besides its text]"},
        {"inlineData": {"mimeType": "image/png", "data": "AA=="}},
    ]


def test_a_result_without_its_call_still_has_a_name() -> None:
    lost = {"id": "gone_2", "name": "unknown_tool", "response": {"output": ""}}

    assert responses(ToolResult(call="gone.2")) == [{"functionResponse": lost}]


@pytest.mark.parametrize(
    ("args", "sent"),
    [
        ("", {}),
        ('{"a": {"b": [1.5, null]}}', {"a": {"b": [1.5, None]}}),
        ('{"a": ', {"malformed_arguments": '{"a": '}),
        ("[1]", {"malformed_arguments": "[1]"}),
        ("null", {"malformed_arguments": "null"}),
    ],
)
def test_arguments_are_an_object_whatever_the_model_sent(args: str, sent: object) -> None:
    made = contents(say("assistant", ToolCall(id="c", name="Read", args=args)))

    assert made == [{"role": "model", "parts": [{"functionCall": {"id": "c", "name": "Read", "args": sent}}]}]


NATIVE = [{"text": "t", "thought": True}, {"functionCall": {"name": "Read", "args": {}}, "thoughtSignature": "c2ln"}]


def test_a_reply_of_the_same_provider_goes_back_as_it_came_and_its_result_has_the_providers_id() -> None:
    opaque = json.dumps(NATIVE).encode()
    own = say("assistant", Text(text="other"), LOOK, opaque=opaque, provider="google")

    assert contents(own, say("tool", SEEN)) == [
        {"role": "model", "parts": NATIVE},
        {
            "role": "user",
            "parts": [{"functionResponse": {"id": "theirs", "name": "Read", "response": {"output": "words"}}}],
        },
    ]


def test_the_result_of_a_call_that_had_no_id_has_none() -> None:
    call = ToolCall(id="r1.0", name="Read", args="{}")
    own = say("assistant", call, opaque=json.dumps(NATIVE).encode(), provider="google")

    made = contents(own, say("tool", SEEN))

    assert made[1]["parts"] == [{"functionResponse": {"name": "Read", "response": {"output": "words"}}}]  # type: ignore[index]


@pytest.mark.parametrize(("provider", "opaque"), [("anthropic", b"[]"), ("google", b""), ("google", b"oops")])
def test_a_reply_of_somebody_else_goes_out_as_its_parts(provider: str, opaque: bytes) -> None:
    signed = SignedReasoning(text="hm", signature="s", provider="anthropic")
    parts = (Reasoning(text="hm"), signed, ServerBlock(kind="x"), Text(text=""), Text(text="Hi"))

    made = contents(say("assistant", *parts, opaque=opaque, provider=provider))

    assert made == [{"role": "model", "parts": [{"text": "Hi"}]}]


def test_a_message_of_which_nothing_can_be_sent_is_left_out() -> None:
    assert contents(say("user", "a"), say("assistant", Reasoning(text="hm")), say("user", "b")) == [
        {"role": "user", "parts": [{"text": "a"}]},
        {"role": "user", "parts": [{"text": "b"}]},
    ]


def test_an_empty_text_of_the_user_is_sent() -> None:
    assert contents(say("user", "")) == [{"role": "user", "parts": [{"text": ""}]}]


def test_the_first_foreign_call_of_a_reply_has_a_stand_in_for_its_signature_where_signatures_are_demanded() -> None:
    made = contents(say("assistant", LOOK, LOOK), say("tool", SEEN), abilities=["effort"])

    assert [part.get("thoughtSignature") for part in made[0]["parts"]] == ["skip_thought_signature_validator", None]  # type: ignore[index]


def test_media_are_sent_inline_or_by_address_and_others_are_named() -> None:
    assert contents(
        say(
            "user",
            InlineMedia(media_type="application/pdf", content=b"%PDF"),
            InlineMedia(media_type="audio/mp3", content=b"ID3"),
            InlineMedia(media_type="text/csv", content=b"a"),
            InlineMedia(media_type="image/tiff", content=b"1234"),
            MediaRef(sha256="0", media_type="image/png", size=9),
            MediaLink(url="https://x/y.png", media_type="image/png"),
            MediaLink(url="file:files/abc"),
            MediaLink(url="file:abc"),
            MediaLink(url="file:https://x/z"),
        )
    ) == [
        {
            "role": "user",
            "parts": [
                {"inlineData": {"mimeType": "application/pdf", "data": "JVBERg=="}},
                {"inlineData": {"mimeType": "audio/mp3", "data": "SUQz"}},
                {"inlineData": {"mimeType": "text/csv", "data": "YQ=="}},
                {"text": "[image/tiff, 4 bytes: this model cannot take it]"},
                {"text": "[image/png, 9 bytes: this model cannot take it]"},
                {"fileData": {"mimeType": "image/png", "fileUri": "https://x/y.png"}},
                {"fileData": {"fileUri": "https://generativelanguage.googleapis.com/v1beta/files/abc"}},
                {"fileData": {"fileUri": "https://generativelanguage.googleapis.com/v1beta/files/abc"}},
                {"fileData": {"fileUri": "https://x/z"}},
            ],
        }
    ]


def test_instructions_and_tools_have_their_places() -> None:
    empty = ToolSpec(name="Now", description="Tells the time.", schema={})

    assert body(instructions="Be kind.", tools=(READ, empty)) == {
        "systemInstruction": {"parts": [{"text": "Be kind."}]},
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "Read",
                        "description": "Reads.",
                        "parametersJsonSchema": {"type": "object", "additionalProperties": False},
                    },
                    {"name": "Now", "description": "Tells the time."},
                ]
            }
        ],
    }


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ("Read", {"mode": "ANY", "allowedFunctionNames": ["Read"]}),
    ],
)
def test_the_choice_of_tools_is_said(choice: str, config: object) -> None:
    assert body(tools=(READ,), tool_choice=choice)["toolConfig"] == {"functionCallingConfig": config}
    assert body(tool_choice=choice) == {}


def test_search_is_switched_on_by_ability_alone() -> None:
    assert body(web_search=True) == {}
    assert body(web_search=False, abilities=["web_search"]) == {}
    assert body(web_search=True, abilities=["web_search"]) == {"tools": [{"googleSearch": {}}]}
    both = body(web_search=True, abilities=["web_search"], tools=(READ,))
    assert [list(tool) for tool in both["tools"]] == [["functionDeclarations"], ["googleSearch"]]  # type: ignore[attr-defined]
    assert both["toolConfig"] == {"includeServerSideToolInvocations": True}


def test_parameters_are_said_in_the_providers_words() -> None:
    made = body(max_output=100, temperature=0, top_p=0.5, seed=7, stop=["END"], effort="high")

    assert made == {
        "generationConfig": {
            "maxOutputTokens": 100,
            "temperature": 0,
            "topP": 0.5,
            "seed": 7,
            "stopSequences": ["END"],
        }
    }


@pytest.mark.parametrize(
    ("abilities", "effort", "config"),
    [
        (["reasoning"], None, {"includeThoughts": True}),
        (["reasoning"], "low", {"includeThoughts": True, "thinkingBudget": 1024}),
        (["reasoning"], "medium", {"includeThoughts": True, "thinkingBudget": 8192}),
        (["reasoning"], "high", {"includeThoughts": True, "thinkingBudget": 24576}),
        (["reasoning", "effort"], "high", {"includeThoughts": True, "thinkingLevel": "HIGH"}),
        (["effort"], None, {"includeThoughts": True}),
    ],
)
def test_effort_is_a_level_or_a_budget_by_ability(abilities: list[Ability], effort: str, config: object) -> None:
    assert body(abilities=abilities, effort=effort) == {"generationConfig": {"thinkingConfig": config}}


SCHEMA = {"type": "object", "properties": {"schema": {"type": "object"}}}


@pytest.mark.parametrize("schema", [SCHEMA, {"schema": SCHEMA, "name": "answer"}, {"$schema": "x", **SCHEMA}])
def test_a_schema_makes_the_answer_json(schema: object) -> None:
    assert body(schema=schema) == {
        "generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}
    }


def test_extra_comes_last_and_is_merged_one_level_down() -> None:
    extra = {"safetySettings": [1], "generationConfig": {"topK": 3, "seed": 2}, "systemInstruction": None}

    assert body(instructions="Be kind.", seed=1, temperature=1, extra=extra) == {
        "systemInstruction": None,
        "generationConfig": {"seed": 2, "temperature": 1, "topK": 3},
        "safetySettings": [1],
    }


def test_extra_may_replace_the_conversation_and_a_conversation_may_be_empty() -> None:
    assert json.loads(post(extra={"contents": [1]}).body) == {"contents": [1]}
    assert json.loads(post([]).body) == {"contents": []}
    assert json.loads(post([], seed=1).body) == {"contents": [], "generationConfig": {"seed": 1}}


def test_a_growing_conversation_is_written_as_if_it_were_new() -> None:
    history: list[Message] = []
    for number in range(4):
        call = ToolCall(id=f"r{number}.0", name="Read", args="{}")
        result = ToolResult(call=call.id, content=(Text(text=str(number)),))
        history += [say("user", f"{number}?"), say("assistant", call), say("tool", result), say("assistant", "Yes")]
    history += [say("user", "and"), say("user", "more")]
    encoder = FORMAT.encoder("google", ModelFacts())

    for tools in ((READ,), (READ, READ), ()):
        for length in (*range(1, len(history) + 1), 6, len(history)):
            request = ModelRequest(model="google:x", messages=tuple(history[:length]), tools=tools)
            assert encoder.encode(request) == FORMAT.encoder("google", ModelFacts()).encode(request)
