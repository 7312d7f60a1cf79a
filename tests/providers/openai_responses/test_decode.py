"""An answer of the Responses API, from bytes to a reply."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.ports import ModelReply
from backstay.providers.http.sse import SseEvent, SseParser
from backstay.providers.openai_responses import FORMAT
from backstay.vocab.deltas import ReasoningDelta, TextDelta, ToolArgsDelta
from backstay.vocab.errors import ProviderError
from backstay.vocab.messages import InlineMedia, Reasoning, ServerBlock, Text, ToolCall
from backstay.vocab.specs import Usage
from tests.providers.openai_responses.streams import (
    USAGE,
    Fields,
    added,
    call,
    completed,
    done,
    frames,
    message,
    piece,
    read,
    read_body,
    read_events,
    reasoning,
    response,
)

SPENT = Usage(input=120, output=30, cache_read=64, reasoning=12)

THOUGHT = reasoning("Look first.", "Then act.")
SAID = message("Grüße 👋, I look.")
RICH = frames(
    {"type": "response.created", "response": response(status="in_progress")},
    {"type": "keepalive"},
    added({"type": "reasoning", "id": "rs_1", "summary": []}),
    {"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 0, "part": {}},
    piece("reasoning_summary_text", "Look first.", summary_index=0),
    {"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 1, "part": {}},
    piece("reasoning_summary_text", "Then act.", summary_index=1),
    done(THOUGHT),
    added({"type": "message", "id": "msg_1", "role": "assistant", "content": []}, 1),
    piece("output_text", "Grüße 👋,", 1),
    piece("output_text", " I look.", 1),
    done(SAID, 1),
    added(call(args=""), 2),
    piece("function_call_arguments", '{"path":', 2),
    piece("function_call_arguments", '"a"}', 2),
    {"type": "response.function_call_arguments.done", "output_index": 2, "arguments": '{"path":"a"}'},
    done(call(), 2),
    added(call("Grep", "", "call_2"), 3),
    piece("function_call_arguments", "{}", 3),
    done(call("Grep", "{}", "call_2"), 3),
    {"type": "response.something.new", "surprise": [1, 2]},
    completed(THOUGHT, SAID, call(), call("Grep", "{}", "call_2")),
)
RICH_PARTS = (
    Reasoning(text="Look first.\n\nThen act."),
    Text(text="Grüße 👋, I look."),
    ToolCall(id="", name="Read", args='{"path":"a"}', provider_id="call_1"),
    ToolCall(id="", name="Grep", args="{}", provider_id="call_2"),
)


def test_a_stream_shows_its_pieces_and_ends_in_a_reply() -> None:
    shown, reply = read(RICH)
    assert shown == [
        ReasoningDelta(text="Look first."),
        ReasoningDelta(text="\n\n"),
        ReasoningDelta(text="Then act."),
        TextDelta(text="Grüße 👋,"),
        TextDelta(text=" I look."),
        ToolArgsDelta(index=0, name="Read", text='{"path":'),
        ToolArgsDelta(index=0, name="Read", text='"a"}'),
        ToolArgsDelta(index=1, name="Grep", text="{}"),
    ]
    opaque = json.dumps(
        [THOUGHT, SAID, call(), call("Grep", "{}", "call_2")], separators=(",", ":"), ensure_ascii=False
    )
    assert reply == ModelReply(parts=RICH_PARTS, stop="tool_calls", usage=SPENT, model="gpt-x", opaque=opaque.encode())


@given(st.lists(st.integers(0, len(RICH)), max_size=12))
def test_any_split_gives_the_same(cuts: list[int]) -> None:
    assert read(RICH, cuts) == read(RICH)


def test_every_cut_raises() -> None:
    decoder, parser = FORMAT.decoder(), SseParser()
    for byte in range(len(RICH)):
        with pytest.raises(ProviderError, match="ended without its final event: it was cut") as caught:
            copy.deepcopy(decoder).reply()
        assert caught.value.kind == "transport"
        for event in parser.feed(RICH[byte : byte + 1]):
            decoder.event(event)
    assert decoder.reply().parts == RICH_PARTS


def test_a_whole_body_gives_what_a_stream_gives() -> None:
    shown, reply = read_body(response(THOUGHT, SAID, call(), call("Grep", "{}", "call_2")))
    assert reply == read(RICH)[1]
    assert shown == (
        ReasoningDelta(text="Look first.\n\nThen act."),
        TextDelta(text="Grüße 👋, I look."),
        ToolArgsDelta(index=0, name="Read", text='{"path":"a"}'),
        ToolArgsDelta(index=1, name="Grep", text="{}"),
    )


# --- servers that leave things out -------------------------------------------------------------------------------------


def test_items_count_when_the_last_event_has_none() -> None:
    _, reply = read_events(done(THOUGHT), done(SAID, 1), done(call(), 2), completed())
    assert reply.parts == RICH_PARTS[:3]
    assert json.loads(reply.opaque) == [THOUGHT, SAID, call()]


def test_pieces_count_when_no_item_is_ever_finished() -> None:
    shown, reply = read_events(
        piece("reasoning_text", "hm", 0),
        piece("output_text", "Hello ", 1),
        piece("output_text", "you", 1),
        piece("refusal", "not that", 1, content_index=1),
        added({"type": "function_call", "call_id": "c", "name": "Read"}, 2),
        piece("function_call_arguments", '{"a"', 2),
        piece("function_call_arguments", ":1}", 2),
        added({"type": "custom_tool_call", "call_id": "d", "name": "Sql"}, 3),
        piece("custom_tool_call_input", "select 1", 3),
        completed(),
    )
    assert reply.parts == (
        Reasoning(text="hm"),
        Text(text="Hello you"),
        Text(text="not that"),
        ToolCall(id="", name="Read", args='{"a":1}', provider_id="c"),
        ToolCall(id="", name="Sql", args="select 1", provider_id="d"),
    )
    assert ToolArgsDelta(index=1, name="Sql", text="select 1") in shown


def test_the_id_tells_the_place_when_no_index_does() -> None:
    pieces = [
        {k: v for k, v in piece("output_text", text, item_id=id).items() if k != "output_index"}
        for text, id in (("a", "m1"), ("b", "m2"), ("c", "m1"))
    ]
    assert read_events(*pieces, completed())[1].parts == (Text(text="ac"), Text(text="b"))


def test_what_came_whole_is_shown_once() -> None:
    shown, _ = read_events(done(SAID), completed(SAID))
    assert shown == [TextDelta(text="Grüße 👋, I look.")]
    shown, _ = read_events(completed(SAID))
    assert shown == [TextDelta(text="Grüße 👋, I look.")]
    shown, _ = read_events(
        piece("output_text", "Hi", 0),
        {"type": "response.output_text.done", "output_index": 0, "text": "Hi"},
        completed(),
    )
    assert shown == [TextDelta(text="Hi")]


def test_text_that_comes_only_in_its_done_event_counts() -> None:
    shown, reply = read_events(
        added({"type": "function_call", "call_id": "c", "name": "Read"}),
        {"type": "response.function_call_arguments.done", "output_index": 0, "arguments": '{"a":1}'},
        completed(),
    )
    assert shown == [ToolArgsDelta(index=0, name="Read", text='{"a":1}')]
    assert reply.parts == (ToolCall(id="", name="Read", args='{"a":1}', provider_id="c"),)


def test_lines_that_are_no_events_are_passed_over() -> None:
    content = (
        b": hello\n\ndata: oops\n\ndata: 7\n\n" + frames(piece("output_text", "Hi")) + frames(completed(message("Hi")))
    )
    _, reply = read(content + b"data: [DONE]\n\n")
    assert reply.parts == (Text(text="Hi"),)
    assert reply.notes == ("a line that is not an event was passed over: 'oops'",)


def test_a_second_beginning_in_one_stream_is_the_one_that_counts() -> None:
    created: Fields = {"type": "response.created", "response": {}}
    _, reply = read_events(created, piece("output_text", "Hel"), created, piece("output_text", "Hello"), completed())
    assert reply.parts == (Text(text="Hello"),)


def test_nothing_counts_after_the_end() -> None:
    _, reply = read_events(completed(message("Hi")), {"type": "error", "message": "x"}, completed(message("Ho")))
    assert reply.parts == (Text(text="Hi"),)


def test_the_name_of_an_event_counts_when_its_data_has_no_type() -> None:
    content = (
        b"event: response.completed\ndata: " + json.dumps({"response": response(message("Hi"))}).encode() + b"\n\n"
    )
    assert read(content)[1].parts == (Text(text="Hi"),)


def test_a_last_event_without_a_response_still_ends_the_answer() -> None:
    _, reply = read_events(piece("output_text", "Hi"), {"type": "response.completed"})
    assert reply == ModelReply(parts=(Text(text="Hi"),), notes=("the provider sent no usage",))


def test_half_characters_are_put_together() -> None:
    halves = [
        b'data: {"type":"response.output_text.delta","output_index":0,"delta":"%s"}\n\n' % half
        for half in (b"\\ud83d", b"\\udc4b")
    ]
    shown, reply = read(b"".join(halves) + frames(completed()))
    assert reply.parts == (Text(text="👋"),)
    assert shown == [TextDelta(text="?"), TextDelta(text="?")]


# --- what items become -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("item", "parts"),
    [
        (message("one", "", "two"), (Text(text="one"), Text(text="two"))),
        ({"type": "message", "content": "plain"}, (Text(text="plain"),)),
        ({"type": "message", "content": [{"type": "smell", "query": "x"}]}, (ServerBlock(kind="smell", content="x"),)),
        ({"type": "message"}, ()),
        (reasoning(), ()),
        (
            reasoning("short", content=[{"type": "reasoning_text", "text": "lo"}, {"type": "reasoning_text", "text": "ng"}]),
            (Reasoning(text="short"), Reasoning(text="long")),
        ),
        (call(args="{oops"), (ToolCall(id="", name="Read", args="{oops", provider_id="call_1"),)),
        (
            {"type": "function_call", "call_id": "c", "name": "Read", "arguments": {"a": [1]}},
            (ToolCall(id="", name="Read", args='{"a":[1]}', provider_id="c"),),
        ),
        (
            {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search", "query": "rain"}},
            (ServerBlock(kind="web_search_call", name="web_search", content="rain"),),
        ),
        (
            {"type": "file_search_call", "queries": ["a", "b"], "results": None},
            (ServerBlock(kind="file_search_call", name="file_search", content="a; b"),),
        ),
        (
            {"type": "code_interpreter_call", "code": "x" * 600, "outputs": []},
            (ServerBlock(kind="code_interpreter_call", name="code_interpreter", content="x" * 500),),
        ),
        (
            {"type": "mcp_call", "name": "lookup", "arguments": '{"q":1}', "output": "found"},
            (ServerBlock(kind="mcp_call", name="lookup", content='{"q":1}'),),
        ),
        (
            {"type": "image_generation_call", "result": "iVBORw==", "output_format": "png"},
            (InlineMedia(media_type="image/png", content=b"\x89PNG"),),
        ),
        (
            {"type": "image_generation_call", "result": "AAAA", "output_format": "webp"},
            (InlineMedia(media_type="image/webp", content=b"\0\0\0"),),
        ),
        (
            {"type": "image_generation_call", "result": "%%", "prompt": "a boat"},
            (ServerBlock(kind="image_generation_call", name="image_generation", content="a boat"),),
        ),
        ({"type": "hologram", "id": "h", "shape": "cat"}, (ServerBlock(kind="hologram", name="hologram", content='{"shape":"cat"}'),)),
    ],
)  # fmt: skip
def test_an_item_becomes_parts(item: Fields, parts: tuple[object, ...]) -> None:
    assert read_body(response(item))[1].parts == parts


def test_an_unknown_item_is_noted_and_kept() -> None:
    item: Fields = {"type": "hologram", "shape": "cat"}
    _, reply = read_body(response(item))
    assert reply.notes == ("items of the kind 'hologram' are new to us and are kept as they are",)
    assert json.loads(reply.opaque) == [item]


def test_calls_with_one_id_get_two() -> None:
    _, reply = read_body(response(reasoning("x"), call(), call("Grep"), call("Glob"), call("List", id="")))
    ids = [part.provider_id for part in reply.parts if isinstance(part, ToolCall)]
    assert ids == ["call_1", "call_1-2", "call_1-3", "call_3"]
    assert [item.get("call_id") for item in json.loads(reply.opaque)][1:] == ids
    assert reply.notes == ("the provider used the call id 'call_1' twice",) * 2 + (
        "the provider sent a call without id",
    )


# --- how it ends -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("items", "more", "stop"),
    [
        ([message("x")], {}, "end"),
        ([call()], {}, "tool_calls"),
        ([message("x")], {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ([call()], {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ([message("x")], {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "filter"),
        ([message("x")], {"status": "incomplete", "incomplete_details": None}, "other"),
        ([{"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}], {}, "filter"),
    ],
)
def test_the_reason_to_stop_is_told(items: list[Fields], more: Fields, stop: str) -> None:
    last: Fields = {"type": f"response.{more.get('status', 'completed')}", "response": {**response(*items), **more}}
    assert read_events(last)[1].stop == stop


def test_a_refusal_keeps_its_text_and_is_noted() -> None:
    refusal: Fields = {"type": "message", "content": [{"type": "refusal", "refusal": "I won't."}]}
    shown, reply = read_events(piece("refusal", "I won't."), completed(refusal))
    assert shown == [TextDelta(text="I won't.")]
    assert reply == ModelReply(
        parts=(Text(text="I won't."),), stop="filter", usage=SPENT, model="gpt-x", notes=("the model refused",)
    )


@pytest.mark.parametrize(
    ("usage", "read_as"),
    [
        (USAGE, SPENT),
        ({"input_tokens": 3, "output_tokens": None}, Usage(input=3)),
        ({"input_tokens": 3, "input_tokens_details": {"cache_write_tokens": 2}}, Usage(input=3, cache_write=2)),
        (None, None),
        ({}, None),
    ],
)
def test_usage_is_read(usage: object, read_as: Usage | None) -> None:
    _, reply = read_body({**response(message("x")), "usage": usage})
    assert (reply.usage, reply.notes) == (read_as, () if read_as else ("the provider sent no usage",))


# --- how it fails ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ({"type": "error", "code": "rate_limit_exceeded", "message": "Slow down."}, "rate_limit"),
        ({"type": "error", "error": {"type": "server_error", "code": None, "message": "Oops."}}, "transport"),
        ({"type": "error", "error": {"code": "context_length_exceeded", "message": "Too long."}}, "context_overflow"),
        ({"type": "error", "message": "Your input exceeds the context window of this model."}, "context_overflow"),
        ({"type": "response.failed", "response": {"error": {"code": "server_is_overloaded", "message": "x"}}}, "overloaded"),
        ({"type": "response.failed", "response": {"error": {"code": "invalid_prompt", "message": "It was flagged."}}}, "content_filter"),
        ({"type": "response.failed", "response": {"error": {"code": "insufficient_quota", "message": "x"}}}, "rate_limit"),
        ({"type": "response.failed", "response": {"status": "failed", "error": None}}, "unknown"),
        ({"type": "response.failed"}, "unknown"),
        ({"error": {"code": 503, "message": "busy"}}, "overloaded"),
        ({"error": "broken"}, "unknown"),
    ],
)  # fmt: skip
def test_a_failure_in_mid_stream_raises_by_kind(event: Fields, kind: str) -> None:
    decoder = FORMAT.decoder()
    decoder.event(SseEvent(data=json.dumps(piece("output_text", "Hi")).encode()))
    with pytest.raises(ProviderError) as caught:
        decoder.event(SseEvent(data=json.dumps(event).encode()))
    assert caught.value.kind == kind


def test_a_failure_may_say_how_long_to_wait() -> None:
    with pytest.raises(ProviderError) as caught:
        read_events({"type": "error", "code": "rate_limit_exceeded", "message": "Please try again in 1.5s."})
    assert caught.value.retry_after_s == 1.5


@pytest.mark.parametrize(
    ("body", "kind", "says"),
    [
        (b"<html>Bad gateway</html>" + b"x" * 500, "unknown", "not JSON: '<html>Bad"),
        (b'{"object":"list"}', "unknown", "no output"),
        (b"[]", "unknown", "not JSON"),
        (b"", "unknown", "not JSON"),
        (
            b'{"error":{"code":"invalid_api_key","message":"No."}}',
            "auth",
            "broke off with invalid_api_key: No. Check the key",
        ),
        (b'{"status":"failed","output":[],"error":{"code":"server_error","message":"Oops."}}', "transport", "Oops."),
        (b'{"status":"in_progress","output":[]}', "transport", "still 'in_progress'"),
    ],
)
def test_a_body_that_is_no_answer_is_named(body: bytes, kind: str, says: str) -> None:
    with pytest.raises(ProviderError) as caught:
        FORMAT.decoder().body(body)
    assert caught.value.kind == kind
    assert says in str(caught.value)
    assert len(str(caught.value)) < 300


@given(st.binary(max_size=60) | st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "item", "output", "response", "content", "arguments", "usage", "delta", "error", "summary", "call_id"]), inner | st.sampled_from(["message", "reasoning", "function_call", "response.completed", "response.output_item.done", "response.output_text.delta"]), max_size=4)).map(lambda value: json.dumps(value).encode()))  # fmt: skip  # noqa: E501
def test_nothing_but_a_provider_error_ever_comes_out(content: bytes) -> None:
    for feed in ("event", "body"):
        decoder = FORMAT.decoder()
        try:
            decoder.event(SseEvent(data=content)) if feed == "event" else decoder.body(content)
            decoder.reply()
        except ProviderError:
            pass
