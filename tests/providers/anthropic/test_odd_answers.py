"""Answers that are spliced, broken off, no JSON, or not streamed at all."""

import json
from typing import Any

import pytest

from backstay.ports import ModelReply
from backstay.providers.anthropic import FORMAT
from backstay.providers.http.sse import SseEvent
from backstay.vocab.errors import ProviderError
from backstay.vocab.messages import ToolCall
from tests.providers.anthropic.streams import call, frame, read, reply_of, start, stop, text, thinking


def test_a_doubled_beginning_changes_nothing() -> None:
    assert reply_of(start(), start(), text(0, "Hi."), start(), stop()) == reply_of(start(), text(0, "Hi."), stop())


def test_an_answer_that_begins_anew_replaces_the_first_half() -> None:
    half = (start(), thinking(0, "a", "First."), call(1, "t1", "Read", '{"pa'))

    reply = reply_of(*half, start(id="msg_2"), call(0, "t2", "Read", '{"path":"x"}'), stop("tool_use"))

    assert reply.parts == (ToolCall(id="", name="Read", args='{"path":"x"}', provider_id="t2"),)
    assert reply.notes == ("the provider began the answer anew; what came before is left out",)


def test_what_follows_the_end_belongs_to_nobody() -> None:
    whole = (start(), text(0, "Hi."), stop())

    assert reply_of(*whole, b"data: [DONE]\n\n", start(id="msg_2"), text(0, "Ho.")) == reply_of(*whole)


def test_an_answer_may_stand_in_its_first_event() -> None:
    content = [{"type": "tool_use", "id": "t", "name": "roll", "input": {"player": "1"}}]

    reply = reply_of(start(content=content, stop_reason="tool_use"), frame("message_stop"))

    assert reply.parts == (ToolCall(id="", name="roll", args='{"player":"1"}', provider_id="t"),)
    assert reply.stop == "tool_calls"


def test_a_lost_beginning_of_a_block_is_a_cut() -> None:
    lost = frame("content_block_delta", index=1, delta={"type": "text_delta", "text": "x"})

    with pytest.raises(ProviderError, match="block 1, which never began") as caught:
        reply_of(start(), text(0, "x"), lost, stop())
    assert caught.value.kind == "transport"


@pytest.mark.parametrize("data", [b"<html>oops", b'"text"', b"[1]", b"{", b"\xff\xfe"])
def test_an_event_that_is_no_json_object_is_a_failure_that_shows_it(data: bytes) -> None:
    with pytest.raises(ProviderError, match="An event of the answer is not") as caught:
        FORMAT.decoder().event(SseEvent(data=data))
    assert caught.value.kind == "transport"


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "message_start"},
        {"type": "message_start", "message": {"content": "x", "usage": [], "model": 3}},
        {"type": "content_block_start", "index": "0", "content_block": None},
        {"type": "content_block_start", "index": 0, "content_block": {"type": ["text"], "text": 7}},
        {"type": "message_delta", "delta": None, "usage": {"output_tokens": "many", "input_tokens": True}},
        {"type": 7},
        {},
    ],
)
def test_fields_of_the_wrong_type_count_as_missing(fields: dict[str, Any]) -> None:
    decoder = FORMAT.decoder()
    for each in (fields, {"type": "message_stop"}):
        decoder.event(SseEvent(data=json.dumps(each).encode()))

    assert isinstance(decoder.reply(), ModelReply)


@pytest.mark.parametrize(
    ("type", "kind"),
    [
        ("overloaded_error", "overloaded"),
        ("rate_limit_error", "rate_limit"),
        ("api_error", "transport"),
        ("timeout_error", "timeout"),
        ("invalid_request_error", "bad_request"),
        ("authentication_error", "auth"),
        ("permission_error", "auth"),
        ("something_new", "unknown"),
    ],
)
def test_an_error_in_mid_stream_is_raised_by_its_kind(type: str, kind: str) -> None:
    error = frame("error", error={"type": type, "message": "No more."})

    with pytest.raises(ProviderError, match=f"{type}: No more") as caught:
        reply_of(start(), text(0, "x"), error)
    assert caught.value.kind == kind


# --- answers that are not streamed ----------------------------------------------------------------------------------


def test_a_whole_answer_is_read_like_a_stream() -> None:
    message = {
        "type": "message",
        "id": "msg_1",
        "model": "claude-x",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "s"},
            {"type": "text", "text": "Hi."},
            {"type": "tool_use", "id": "t", "name": "Read", "input": {"path": "a"}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 1, "output_tokens": 2},
    }
    decoder = FORMAT.decoder()

    deltas = decoder.body(json.dumps(message).encode())

    streamed = (
        start({"input_tokens": 1}),
        thinking(0, "s", "Hm."),
        text(1, "Hi."),
        call(2, "t", "Read", '{"path":"a"}'),
        stop("tool_use", usage={"output_tokens": 2}),
    )
    assert (decoder.reply(), deltas) == read(streamed)


@pytest.mark.parametrize("body", [b"", b"<html>Bad gateway</html>", b"[]", b'{"hello": 1}', b'{"content": "x"}'])
def test_a_body_that_is_no_answer_is_a_failure_that_shows_it(body: bytes) -> None:
    with pytest.raises(ProviderError) as caught:
        FORMAT.decoder().body(body)
    assert caught.value.kind in ("transport", "unknown")
    assert body.decode()[:20] in str(caught.value)


def test_a_body_that_is_an_error_is_raised_by_its_kind() -> None:
    body = {"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}

    with pytest.raises(ProviderError, match="Busy") as caught:
        FORMAT.decoder().body(json.dumps(body).encode())
    assert caught.value.kind == "overloaded"
