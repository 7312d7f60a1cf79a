"""The smallest requests that the history property once found a provider would refuse."""

import json

import pytest

from backstay.logic.state.request_messages import to_messages
from backstay.ports import ModelRequest
from backstay.providers.format import tool_name
from backstay.providers.registry import FORMATS, load_format
from backstay.vocab.messages import (
    DurablePart,
    InlineMedia,
    Message,
    Reasoning,
    Role,
    ServerBlock,
    SessionMessage,
    Text,
    ToolCall,
    ToolResult,
)
from backstay.vocab.specs import ModelFacts
from tests.providers.native_rules import broken

every_format = pytest.mark.parametrize("format", FORMATS)
ABLE = ModelFacts(known=True, abilities=frozenset(("tools", "images")))


def said(number: int, role: Role, *parts: DurablePart) -> SessionMessage:
    return SessionMessage(id=f"e.{number}", session="s", number=number, role=role, content=parts, at=0)


def encoded(format: str, *messages: Message) -> bytes:
    request = ModelRequest(model="m", messages=messages)
    return load_format(format).encoder(format, ABLE).encode(request).body


def text(words: str) -> Text:
    return Text(text=words)


@every_format
def test_a_reply_of_another_providers_own_tools_alone_does_not_leave_the_user_speaking_twice(format: str) -> None:
    search = ServerBlock(kind="server_tool_use", name="web_search", content="news")
    history = [
        said(1, "user", text("Any news?")),
        said(2, "assistant", Reasoning(text="hm"), search, search),
        said(3, "user", text("And?")),
    ]

    messages = to_messages(history, lambda sha: b"")

    assert messages[1].parts[-1] == text("[used: web_search]")
    assert broken(format, encoded(format, *messages), format) == []


@every_format
@pytest.mark.parametrize("name", ["multi_tool_use.parallel", "read file", "", "7", "x" * 200])
def test_a_name_that_a_model_made_up_does_not_keep_another_from_being_asked(format: str, name: str) -> None:
    messages = (
        Message(role="user", parts=(text("Go."),)),
        Message(role="assistant", parts=(ToolCall(id="e.1-0", name=name, args="{}"),)),
        Message(
            role="tool", parts=(ToolResult(call="e.1-0", content=(text("There is no such tool."),), is_error=True),)
        ),
    )

    assert broken(format, encoded(format, *messages), format) == []


def test_a_tools_own_name_stays() -> None:
    assert [tool_name(each) for each in ("Read", "mcp__git__log-1", "_x")] == ["Read", "mcp__git__log-1", "_x"]


@every_format
def test_a_picture_that_a_tool_gave_and_what_the_user_says_then_are_one_message(format: str) -> None:
    picture = InlineMedia(media_type="image/png", content=b"png")
    messages = (
        Message(role="user", parts=(text("Look."),)),
        Message(role="assistant", parts=(ToolCall(id="e.1-0", name="look", args="{}"),)),
        Message(role="tool", parts=(ToolResult(call="e.1-0", content=(picture,)),)),
        Message(role="user", parts=(text("What is it?"),)),
    )
    encoder = load_format(format).encoder(format, ABLE)
    grown = [encoder.encode(ModelRequest(model="m", messages=messages[:count])).body for count in (3, 4)]

    assert grown == [encoded(format, *messages[:3]), encoded(format, *messages)]
    assert [broken(format, body, format) for body in grown] == [[], []]
    assert b"What is it?" in grown[1]


def test_a_chat_reply_of_which_only_the_server_can_read_anything_still_says_something() -> None:
    opaque = json.dumps({"role": "assistant", "content": None, "reasoning_details": [{"data": "x"}]}).encode()
    messages = (
        Message(role="user", parts=(text("Draw."),)),
        Message(role="assistant", parts=(text("[used: images]"),), opaque=opaque, provider="openai-chat"),
        Message(role="user", parts=(text("And?"),)),
    )

    body = encoded("openai-chat", *messages)

    assert broken("openai-chat", body, "openai-chat") == []
    assert json.loads(body)["messages"][1]["reasoning_details"] == [{"data": "x"}]
