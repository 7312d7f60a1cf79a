"""An answer of the Messages API becomes a reply."""

import copy
import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.ports import ModelReply
from backstay.providers.anthropic import FORMAT
from backstay.providers.http.sse import SseParser
from backstay.vocab.deltas import ReasoningDelta, TextDelta, ToolArgsDelta
from backstay.vocab.errors import ProviderError
from backstay.vocab.messages import Reasoning, ServerBlock, Text, ToolCall
from backstay.vocab.specs import Usage
from tests.providers.anthropic.streams import block, call, frame, read, reply_of, start, stop, text, thinking

FULL = b"".join(
    (
        start(),
        thinking(0, "sig==", "I wonder, ", "\u00e9\U0001f600 why."),
        text(1, "Let me ", "look.\u2028"),
        call(2, "toolu_1", "Read", '{"path": "a', '.py", "n": 218922995834555169026}'),
        call(3, "toolu_2", "List"),
        stop("tool_use"),
    )
)
USAGE = Usage(input=3210, output=42, cache_read=3000, cache_write=200)


@pytest.mark.contract("RB-60")
def test_a_stream_becomes_parts_in_the_order_of_the_provider() -> None:
    reply, deltas = read([FULL])

    assert reply == ModelReply(
        parts=(
            Reasoning(text="I wonder, \u00e9\U0001f600 why."),
            Text(text="Let me look.\u2028"),
            ToolCall(id="", name="Read", args='{"path": "a.py", "n": 218922995834555169026}', provider_id="toolu_1"),
            ToolCall(id="", name="List", args="{}", provider_id="toolu_2"),
        ),
        stop="tool_calls",
        usage=USAGE,
        model="claude-x",
        opaque=reply.opaque,
    )
    assert deltas == [
        ReasoningDelta(text="I wonder, "),
        ReasoningDelta(text="\u00e9\U0001f600 why."),
        TextDelta(text="Let me "),
        TextDelta(text="look.\u2028"),
        ToolArgsDelta(index=0, name="Read", text='{"path": "a'),
        ToolArgsDelta(index=0, name="Read", text='.py", "n": 218922995834555169026}'),
    ]


def test_the_opaque_state_is_the_content_as_it_must_be_sent_back() -> None:
    assert json.loads(reply_of(FULL).opaque) == [
        {"type": "thinking", "thinking": "I wonder, \u00e9\U0001f600 why.", "signature": "sig=="},
        {"type": "text", "text": "Let me look.\u2028"},
        {
            "type": "tool_use",
            "id": "toolu_1",
            "name": "Read",
            "input": {"path": "a.py", "n": 218922995834555169026},
        },
        {"type": "tool_use", "id": "toolu_2", "name": "List", "input": {}},
    ]


@given(st.lists(st.integers(0, len(FULL)), max_size=20))
def test_any_split_gives_the_same(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(FULL)]

    assert read(FULL[a:b] for a, b in pairwise(edges)) == read([FULL])


def test_no_cut_looks_finished() -> None:
    parser, decoder = SseParser(), FORMAT.decoder()
    for at in range(len(FULL)):
        with pytest.raises(ProviderError, match="ended without its final event: it was cut") as caught:
            copy.deepcopy(decoder).reply()
        assert caught.value.kind == "transport"
        for event in parser.feed(FULL[at : at + 1]):
            decoder.event(event)
    assert decoder.reply() == reply_of(FULL)


def test_text_and_calls_alone_need_no_opaque_state() -> None:
    reply = reply_of(start(), text(0, "Hi."), call(1, "t", "Read", "{}", caller={"type": "direct"}), stop("tool_use"))

    assert reply.opaque == b""
    assert reply.notes == ()


def test_blocks_of_text_stay_apart_and_empty_ones_are_left_out() -> None:
    reply = reply_of(start(), text(0), text(1, "One."), text(2, "Two."), stop())

    assert reply.parts == (Text(text="One."), Text(text="Two."))


def test_redacted_reasoning_is_only_in_the_opaque_state() -> None:
    redacted = {"type": "redacted_thinking", "data": "c2VjcmV0"}

    reply = reply_of(start(), block(0, redacted), text(1, "Hi."), stop())

    assert reply.parts == (Text(text="Hi."),)
    assert json.loads(reply.opaque) == [redacted, {"type": "text", "text": "Hi."}]


def test_reasoning_that_is_not_shown_keeps_its_signature() -> None:
    reply = reply_of(start(), thinking(0, "sig"), text(1, "Hi."), stop())

    assert reply.parts == (Text(text="Hi."),)
    assert json.loads(reply.opaque)[0] == {"type": "thinking", "thinking": "", "signature": "sig"}


def test_blank_text_and_thoughts_that_lead_nowhere_are_not_sent_back() -> None:
    reply = reply_of(start(), thinking(0, "a", "Hm."), text(1, "\n\n"), thinking(2, "b", "So"), stop("max_tokens"))

    assert reply.parts == (Reasoning(text="Hm."), Text(text="\n\n"), Reasoning(text="So"))
    assert reply.stop == "length"
    assert reply.opaque == b""


SEARCHED = (
    text(0, "I will search."),
    call(1, "srv_1", "web_search", '{"query": "tides', ' today"}', type="server_tool_use"),
    block(
        2,
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srv_1",
            "content": [
                {"type": "web_search_result", "title": "Tides", "url": "https://t.example", "encrypted_content": "zz"}
            ],
        },
    ),
    block(
        3,
        {"type": "text", "text": "", "citations": []},
        {"type": "citations_delta", "citation": {"type": "web_search_result_location", "url": "https://t.example"}},
        {"type": "text_delta", "text": "High at noon."},
    ),
)


def test_tools_of_the_provider_are_marked_in_the_parts_and_kept_in_the_opaque_state() -> None:
    reply = reply_of(start(), *SEARCHED, stop())

    assert reply.parts == (
        Text(text="I will search."),
        ServerBlock(kind="server_tool_use", name="web_search", content="tides today"),
        ServerBlock(kind="web_search_tool_result", name="web_search", content="https://t.example; Tides"),
        Text(text="High at noon."),
    )
    assert reply.stop == "end"
    assert reply.notes == ()
    opaque = json.loads(reply.opaque)
    assert opaque[1]["input"] == {"query": "tides today"}
    assert opaque[2]["content"][0]["encrypted_content"] == "zz"
    assert opaque[3] == {
        "type": "text",
        "text": "High at noon.",
        "citations": [{"type": "web_search_result_location", "url": "https://t.example"}],
    }


@pytest.mark.parametrize("reason", ["max_tokens", "pause_turn"])
def test_a_tool_of_the_provider_that_gave_no_result_is_not_sent_back(reason: str) -> None:
    owed = call(4, "srv_2", "web_search", '{"query": "x"}', type="server_tool_use")

    reply = reply_of(start(), *SEARCHED, owed, stop(reason))

    assert isinstance(reply.parts[-1], ServerBlock)
    assert [each.get("id") for each in json.loads(reply.opaque)] == [None, "srv_1", None, None]


def test_what_a_tool_of_the_provider_still_owes_is_kept_beside_calls() -> None:
    owed = call(0, "srv_2", "code_execution", '{"code": "roll()"}', type="server_tool_use")
    inner = {"type": "code_execution_20250825", "tool_id": "srv_2"}

    reply = reply_of(start(), owed, call(1, "t", "roll", "{}", caller=inner), stop("tool_use"))

    assert [each["id"] for each in json.loads(reply.opaque)] == ["srv_2", "t"]
    assert json.loads(reply.opaque)[1]["caller"] == inner


def test_an_unknown_block_and_an_unknown_event_are_no_failure() -> None:
    odd = block(0, {"type": "hologram", "text": "so", "depth": None}, {"type": "hologram_delta", "depth": "deep"})

    reply = reply_of(start(), frame("confetti", colour="red"), odd, text(1, "Hi."), stop())

    assert reply.parts == (ServerBlock(kind="hologram", content="so"), Text(text="Hi."))
    assert reply.notes == ("an unknown kind of block: 'hologram'",)
    assert json.loads(reply.opaque)[0] == {"type": "hologram", "text": "so", "depth": "deep"}


def test_arguments_of_which_nothing_is_telling_are_shown_as_they_are() -> None:
    echo = call(0, "mcp_1", "echo", '{"loud": true}', type="mcp_tool_use", server_name="hall")
    given = block(1, {"type": "mcp_tool_result", "tool_use_id": "mcp_1", "content": [{"type": "text", "text": "ho"}]})

    assert reply_of(start(), echo, given, stop()).parts == (
        ServerBlock(kind="mcp_tool_use", name="echo", content='{"loud": true}'),
        ServerBlock(kind="mcp_tool_result", name="echo", content="ho"),
    )


def test_what_is_shown_of_a_block_is_short() -> None:
    long = {"type": "bash_code_execution_tool_result", "content": {"stdout": "x" * 9000}}

    (shown,) = reply_of(start(), block(0, long), stop()).parts

    assert isinstance(shown, ServerBlock)
    assert len(shown.content) == 500


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("end_turn", "end"),
        ("stop_sequence", "end"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "filter"),
        ("pause_turn", "other"),
        ("tool_use", "other"),
        ("something_new", "other"),
        (None, "other"),
    ],
)
def test_each_reason_to_stop_has_its_word(reason: str | None, expected: str) -> None:
    reply = reply_of(start(), text(0, "Hi."), stop(reason))

    assert reply.stop == expected
    assert reply.parts == (Text(text="Hi."),)


def test_a_refusal_says_why() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "It is not allowed."}

    reply = reply_of(start(), text(0, "I"), stop("refusal", stop_details=details))

    assert reply.notes == ("the model refused: It is not allowed.",)


def test_a_reply_with_calls_stops_for_them_unless_it_was_too_long() -> None:
    assert reply_of(start(), call(0, "t", "Read", "{}"), stop("end_turn")).stop == "tool_calls"
    assert reply_of(start(), call(0, "t", "Read", '{"a'), stop("max_tokens")).stop == "length"


def test_arguments_are_kept_as_they_were_sent_even_when_they_are_cut() -> None:
    reply = reply_of(start(), thinking(0, "s", "x"), call(1, "t", "Bash", '{"command": "rm -r'), stop("max_tokens"))

    assert reply.parts[1] == ToolCall(id="", name="Bash", args='{"command": "rm -r', provider_id="t")
    assert json.loads(reply.opaque)[1]["input"] == {"malformed_arguments": '{"command": "rm -r'}


def test_a_call_that_was_cut_before_its_arguments_does_not_look_whole() -> None:
    reply = reply_of(start(), call(0, "t", "Bash"), stop("max_tokens"))

    assert reply.parts == (ToolCall(id="", name="Bash", args="", provider_id="t"),)


def test_arguments_that_come_whole_are_written_compactly() -> None:
    whole = {"type": "tool_use", "id": "t", "name": "Read", "input": {"path": "a", "n": [1, 2.5]}}

    reply, deltas = read([start(), block(0, whole), stop("tool_use")])

    assert reply.parts == (ToolCall(id="", name="Read", args='{"path":"a","n":[1,2.5]}', provider_id="t"),)
    assert deltas == [ToolArgsDelta(index=0, name="Read", text='{"path":"a","n":[1,2.5]}')]


def test_calls_with_the_same_id_are_told_apart() -> None:
    calls = (call(n, "same", "Read", f'{{"n":{n}}}') for n in range(3))

    reply = reply_of(start(), *calls, thinking(3, "s"), text(4, "x"), stop("tool_use"))

    assert [p.provider_id for p in reply.parts if isinstance(p, ToolCall)] == ["same", "same-2", "same-3"]
    assert [each["id"] for each in json.loads(reply.opaque)[:3]] == ["same", "same-2", "same-3"]
    assert len(reply.notes) == 2


# --- usage ----------------------------------------------------------------------------------------------------------


def test_the_newest_counts_hold_and_a_zero_takes_nothing_back() -> None:
    newest = {"input_tokens": 0, "cache_read_input_tokens": 3500, "output_tokens": 9, "server_tool_use": {"n": 1}}

    assert reply_of(start(), text(0, "x"), stop(usage=newest)).usage == Usage(
        input=3710, output=9, cache_read=3500, cache_write=200
    )


def test_tokens_of_reasoning_are_counted_where_they_are_told() -> None:
    told = {"output_tokens": 90, "output_tokens_details": {"thinking_tokens": 70}}

    assert reply_of(start({"input_tokens": 5}), stop(usage=told)).usage == Usage(input=5, output=90, reasoning=70)


def test_a_missing_usage_is_noted() -> None:
    reply = reply_of(start(usage=None), text(0, "x"), stop(usage={}))

    assert reply.usage is None
    assert reply.notes == ("the provider sent no usage",)
