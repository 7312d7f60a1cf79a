"""A conversation becomes a request of the Messages API."""

import json
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.ports import ModelRequest
from backstay.providers.anthropic import FORMAT
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
    TextRef,
    ToolCall,
    ToolResult,
)
from backstay.vocab.specs import Ability, ModelFacts, ToolSpec

MARK = {"type": "ephemeral"}


def facts(*abilities: Ability, max_output: int = 64_000) -> ModelFacts:
    return ModelFacts(
        known=True, abilities=frozenset(("tools", "images", "documents", *abilities)), max_output=max_output
    )


def user(*parts: InFlightPart | str) -> Message:
    return Message(role="user", parts=tuple(Text(text=part) if isinstance(part, str) else part for part in parts))


def said(*parts: InFlightPart, opaque: bytes = b"", provider: str = "") -> Message:
    return Message(role="assistant", parts=parts, opaque=opaque, provider=provider)


def result(call: str, *content: object, is_error: bool = False) -> Message:
    parts = cast(Any, tuple(Text(text=part) if isinstance(part, str) else part for part in content))
    return Message(role="tool", parts=(ToolResult(call=call, content=parts, is_error=is_error),))


def body(*messages: Message, able: ModelFacts | None = None, **more: Any) -> dict[str, Any]:
    request = ModelRequest(model="claude-x", messages=messages, **more)
    return cast(dict[str, Any], json.loads(FORMAT.encoder("anthropic", able or facts()).encode(request).body))


def contents(*messages: Message) -> list[Any]:
    return [(message["role"], message["content"]) for message in body(*messages)["messages"]]


TOOL = ToolSpec(name="Read", description="Read a file.", schema={"type": "object", "properties": {}})


def test_a_small_request_is_written_whole() -> None:
    request = ModelRequest(model="claude-x", messages=(user("Hi."),), instructions="Be kind.", tools=(TOOL,))

    sent = FORMAT.encoder("anthropic", facts()).encode(request)

    assert (sent.path, sent.headers) == ("/v1/messages", {})
    assert json.loads(sent.body) == {
        "model": "claude-x",
        "max_tokens": 64_000,
        "stream": True,
        "system": [{"type": "text", "text": "Be kind."}],
        "tools": [
            {"name": "Read", "description": "Read a file.", "input_schema": {"type": "object", "properties": {}}}
        ],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi."}]}],
    }


def test_the_headers_carry_key_and_version() -> None:
    assert FORMAT.headers("k") == {
        "x-api-key": "k",
        "anthropic-version": "2023-06-01",
        "content-type": "application/json",
    }


def test_neighbours_of_one_side_are_one_message() -> None:
    call = ToolCall(id="a.0", name="Read", args='{"path": "x"}')

    assert contents(user("One."), user("Two."), said(call), result("a.0", "text"), user("Three.")) == [
        ("user", [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}]),
        ("assistant", [{"type": "tool_use", "id": "a_0", "name": "Read", "input": {"path": "x"}}]),
        (
            "user",
            [{"type": "tool_result", "tool_use_id": "a_0", "content": "text"}, {"type": "text", "text": "Three."}],
        ),
    ]


def test_a_reply_of_this_provider_goes_back_in_its_own_words() -> None:
    opaque = b'[{"type":"thinking","thinking":"Hm.","signature":"s"},{"type":"tool_use","id":"toolu_9","name":"Read","input":{}}]'
    call = ToolCall(id="a.0", name="Read", args="{}", provider_id="toolu_9")
    reply = said(Reasoning(text="Hm."), call, opaque=opaque, provider="anthropic")

    assert contents(user("Hi."), reply, result("a.0", "x"))[1:] == [
        ("assistant", json.loads(opaque)),
        ("user", [{"type": "tool_result", "tool_use_id": "toolu_9", "content": "x"}]),
    ]


def test_the_opaque_state_of_others_is_not_sent() -> None:
    call = ToolCall(id="a.0", name="Read", args="{}", provider_id="call_9")
    parts = (Reasoning(text="Hm."), ServerBlock(kind="search"), Text(text="Now."), call)

    assert contents(user("Hi."), said(*parts, opaque=b'[{"x":1}]', provider="google"), result("a.0", "x"))[1:] == [
        (
            "assistant",
            [
                {"type": "text", "text": "Now."},
                {"type": "tool_use", "id": "a_0", "name": "Read", "input": {}},
            ],
        ),
        ("user", [{"type": "tool_result", "tool_use_id": "a_0", "content": "x"}]),
    ]


def test_signed_reasoning_goes_only_to_its_signer() -> None:
    ours = SignedReasoning(text="Hm.", signature="s", provider="anthropic")
    others = SignedReasoning(text="Oh.", signature="s", provider="google")

    assert contents(user("Hi."), said(ours, others, Text(text="So.")))[1] == (
        "assistant",
        [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, {"type": "text", "text": "So."}],
    )


def test_a_message_with_nothing_to_say_is_left_out() -> None:
    assert contents(user("Hi."), said(Reasoning(text="Hm.")), user(" \n", "Still there?")) == [
        ("user", [{"type": "text", "text": "Hi."}]),
        ("user", [{"type": "text", "text": "Still there?"}]),
    ]


@pytest.mark.parametrize("args", ['{"a": 1', "[1]", '"text"', "null", '{"a": NaN}'])
def test_arguments_that_are_no_object_are_wrapped(args: str) -> None:
    messages = contents(user("Hi."), said(ToolCall(id="a", name="X", args=args)), result("a", "bad"))

    assert messages[1][1][0]["input"] == {"malformed_arguments": args}


def test_arguments_keep_their_spelling() -> None:
    args = '{"n": 218922995834555169026, "x": 1.50}'
    request = ModelRequest(model="m", messages=(user("Hi."), said(ToolCall(id="a", name="X", args=args))))

    assert args.encode() in FORMAT.encoder("anthropic", facts()).encode(request).body


def test_ids_on_the_wire_have_only_letters_that_are_allowed_and_differ() -> None:
    ids = ["e1.0", "e1-0", "e1:0", "e1/0"]
    calls = said(*(ToolCall(id=id, name="X", args="{}") for id in ids))

    _, (_, made), (_, given) = contents(user("Hi."), calls, *(result(id, "x") for id in ids))

    assert [block["id"] for block in made] == ["e1_0", "e1-0", "e1_3a_0", "e1_2f_0"]
    assert [block["tool_use_id"] for block in given] == [block["id"] for block in made]


IMAGE = InlineMedia(media_type="image/png", content=b"\x89PNG")
PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((), "(no output)"),
        (("",), "(no output)"),
        ((" \n",), "(no output)"),
        (("x",), "x"),
        (("x", "", "y"), [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}]),
        (("x", IMAGE), [{"type": "text", "text": "x"}, PNG]),
        ((IMAGE,), [PNG]),
        ((TextRef(sha256="0", chars=9, tokens=2, head="begin"),), "begin"),
        ((MediaRef(sha256="0", media_type="image/png", size=7),), "[image/png, 7 bytes: this model cannot take it]"),
    ],
)
def test_results_are_text_or_blocks_and_never_empty(given: tuple[object, ...], expected: object) -> None:
    messages = contents(user("Hi."), said(ToolCall(id="a", name="X", args="{}")), result("a", *given, is_error=True))

    assert messages[2][1] == [{"type": "tool_result", "tool_use_id": "a", "content": expected, "is_error": True}]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (IMAGE, PNG),
        (
            InlineMedia(media_type="application/pdf", content=b"%PDF", name="a.pdf"),
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="},
                "title": "a.pdf",
            },
        ),
        (
            InlineMedia(media_type="text/markdown", content="# \u00e9".encode()),
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "# \u00e9"}},
        ),
        (
            MediaLink(url="https://e.example/a.png?x=1"),
            {"type": "image", "source": {"type": "url", "url": "https://e.example/a.png?x=1"}},
        ),
        (
            MediaLink(url="https://e.example/A.PDF"),
            {"type": "document", "source": {"type": "url", "url": "https://e.example/A.PDF"}},
        ),
        (
            MediaLink(url="https://e.example/x", media_type="application/pdf", name="x"),
            {"type": "document", "source": {"type": "url", "url": "https://e.example/x"}, "title": "x"},
        ),
        (
            InlineMedia(media_type="image/tiff", content=b"1234"),
            {"type": "text", "text": "[image/tiff, 4 bytes: this model cannot take it]"},
        ),
        (
            InlineMedia(media_type="audio/wav", content=b"1234"),
            {"type": "text", "text": "[audio/wav, 4 bytes: this model cannot take it]"},
        ),
        (
            MediaLink(url="https://e.example/x", media_type="audio/wav"),
            {"type": "text", "text": "[audio/wav at https://e.example/x: this model cannot take it]"},
        ),
        (
            MediaRef(sha256="0", media_type="image/png", size=1234),
            {"type": "text", "text": "[image/png, 1234 bytes: this model cannot take it]"},
        ),
    ],
)
def test_media_travel_in_the_block_that_can_carry_them(part: InFlightPart, expected: dict[str, Any]) -> None:
    assert contents(user("Look:", part)) == [("user", [{"type": "text", "text": "Look:"}, expected])]


def test_a_file_of_the_provider_is_cited_by_id_with_the_header_that_allows_it() -> None:
    messages = (user(MediaLink(url="file:file_1", media_type="image/png"), MediaLink(url="file:file_2")),)

    sent = FORMAT.encoder("anthropic", facts()).encode(ModelRequest(model="m", messages=messages))

    assert sent.headers == {"anthropic-beta": "files-api-2025-04-14"}
    assert json.loads(sent.body)["messages"][0]["content"] == [
        {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
        {"type": "document", "source": {"type": "file", "file_id": "file_2"}},
    ]


def test_a_model_that_is_known_to_be_blind_is_told_of_the_picture() -> None:
    blind = ModelFacts(known=True, abilities=frozenset(("tools",)))

    (message,) = body(user(IMAGE), able=blind)["messages"]

    assert message["content"] == [{"type": "text", "text": "[image/png, 4 bytes: this model cannot take it]"}]


def test_a_picture_that_the_assistant_made_is_told_in_words() -> None:
    assert contents(user("Draw."), said(IMAGE), user("Thanks."))[1][1] == [
        {"type": "text", "text": "[image/png, 4 bytes: this model cannot take it]"}
    ]


# --- the cache ------------------------------------------------------------------------------------------------------


HISTORY = (
    user("One."),
    said(ToolCall(id="a", name="Read", args="{}")),
    result("a", "x"),
    said(Text(text="Done.")),
    user("Two."),
    user("Three."),
)


def marked(request: dict[str, Any]) -> list[Any]:
    blocks = [*request.get("system", ()), *request.get("tools", ())]
    blocks += [block for message in request["messages"] for block in message["content"]]
    return [block for block in blocks if block.get("cache_control") == MARK]


def test_the_cache_is_marked_at_the_ends_that_the_next_request_repeats() -> None:
    request = body(*HISTORY, able=facts("caching"), instructions="Be kind.", tools=(TOOL, TOOL))

    assert marked(request) == [
        request["system"][-1],
        request["tools"][-1],
        request["messages"][2]["content"][-1],
        request["messages"][4]["content"][-1],
    ]
    assert request["messages"][4]["content"][-1] == {"type": "text", "text": "Three.", "cache_control": MARK}


def test_marks_move_on_and_leave_none_behind() -> None:
    encoder = FORMAT.encoder("anthropic", facts("caching"))
    sizes = range(1, len(HISTORY) + 1)

    counts = [
        len(marked(json.loads(encoder.encode(ModelRequest(model="m", messages=HISTORY[:size])).body))) for size in sizes
    ]

    assert counts == [1, 1, 2, 2, 2, 2]


def test_without_the_ability_nothing_is_marked() -> None:
    assert marked(body(*HISTORY, instructions="Be kind.", tools=(TOOL,))) == []


def test_a_mark_of_the_caller_takes_the_place_of_ours() -> None:
    request = body(*HISTORY, able=facts("caching"), parameters={"extra": {"cache_control": MARK}})

    assert marked(request) == []
    assert request["cache_control"] == MARK


# --- what is kept ---------------------------------------------------------------------------------------------------


PARTS: list[InFlightPart] = [
    Text(text="x"),
    Text(text=" "),
    Reasoning(text="r"),
    ToolCall(id="c.1", name="X", args="{}"),
]
NATIVE = b'[{"type":"tool_use","id":"t","name":"X","input":{}}]'
MESSAGES = [
    *(said(part) for part in PARTS),
    said(ToolCall(id="c.2", name="X", args="{}", provider_id="t"), opaque=NATIVE, provider="anthropic"),
    *(user(str(number)) for number in range(3)),
    user(" "),
    result("c.1", "y"),
    result("c.2", "z"),
]


@given(st.lists(st.lists(st.sampled_from(MESSAGES), max_size=6).map(tuple), max_size=5))
def test_a_writer_that_remembers_writes_what_a_new_one_would(histories: list[tuple[Message, ...]]) -> None:
    kept = FORMAT.encoder("anthropic", facts("caching"))

    for history in filter(_has_all_calls, histories):
        request = ModelRequest(model="m", messages=history, tools=(TOOL,))
        fresh = FORMAT.encoder("anthropic", facts("caching"))
        assert kept.encode(request).body == fresh.encode(request).body


def _has_all_calls(history: tuple[Message, ...]) -> bool:
    """Whether every result comes after its call: without one, nobody knows its id on the wire."""
    made: set[str] = set()
    for message in history:
        for part in message.parts:
            if isinstance(part, ToolCall):
                made.add(part.id)
            elif isinstance(part, ToolResult) and part.call not in made:
                return False
    return True
