"""Answers are read as the server means them."""

import copy
from base64 import b64encode
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.ports import ModelReply
from backstay.providers.http.sse import SseEvent
from backstay.vocab.deltas import ReasoningDelta, TextDelta, ToolArgsDelta
from backstay.vocab.errors import ProviderError
from backstay.vocab.event import Stop
from backstay.vocab.messages import InlineMedia, MediaLink, Reasoning, ServerBlock, Text, ToolCall
from backstay.vocab.specs import Usage
from tests.providers.openai_chat.streams import USAGE, call, chunk, feed, read, read_body, stream, usage

COUNTED = Usage(input=11, output=7)
FULL = stream(
    chunk(role="assistant", content="", reasoning_content="I add. "),
    chunk(reasoning_content="Naïve 🙂?"),
    chunk(content="Fünf "),
    chunk(content="🙂"),
    chunk(tool_calls=[call(0, "c-1", "Read", "")]),
    chunk(tool_calls=[call(0, args='{"pa')]),
    chunk(tool_calls=[call(0, args='th":"ü"}')]),
    chunk(tool_calls=[call(1, "c-2", "List", "{}")]),
    chunk("tool_calls"),
    usage(prompt_tokens_details={"cached_tokens": 4}, completion_tokens_details={"reasoning_tokens": 3}),
)
FULL_REPLY = ModelReply(
    parts=(
        Reasoning(text="I add. Naïve 🙂?"),
        Text(text="Fünf 🙂"),
        ToolCall(id="", name="Read", args='{"path":"ü"}', provider_id="c-1"),
        ToolCall(id="", name="List", args="{}", provider_id="c-2"),
    ),
    stop="tool_calls",
    usage=Usage(input=11, output=7, cache_read=4, reasoning=3),
    model="m-1",
    opaque=(
        '{"role":"assistant","content":"Fünf 🙂","reasoning_content":"I add. Naïve 🙂?",'
        '"tool_calls":[{"type":"function","function":{"name":"Read"}},{"type":"function","function":{"name":"List"}}]}'
    ).encode(),
)


@given(st.lists(st.integers(0, len(FULL)), max_size=12))
def test_any_split_gives_the_same_reply(points: list[int]) -> None:
    cuts = [0, *sorted(points), len(FULL)]
    decoder, _ = feed(*(FULL[a:b] for a, b in pairwise(cuts)))
    assert decoder.reply() == FULL_REPLY


def test_every_cut_is_an_error_and_never_a_finished_reply() -> None:
    for end in range(len(FULL)):
        decoder, _ = feed(FULL[:end])
        with pytest.raises(ProviderError, match="it was cut") as caught:
            decoder.reply()
        assert caught.value.kind == "transport"


def test_a_copy_of_a_half_fed_decoder_goes_on_by_itself() -> None:
    half = len(FULL) // 2
    end = FULL.index(b"\n\n", half) + 2
    decoder, _ = feed(FULL[:end])
    other = copy.deepcopy(decoder)
    for frame in FULL[end:].split(b"\n\n")[:-1]:
        other.event(SseEvent(data=frame.removeprefix(b"data: ")))
    assert other.reply() == FULL_REPLY
    with pytest.raises(ProviderError):
        decoder.reply()


def test_deltas_are_shown_as_they_come() -> None:
    _, deltas = feed(FULL)
    assert deltas == [
        ReasoningDelta(text="I add. "),
        ReasoningDelta(text="Naïve 🙂?"),
        TextDelta(text="Fünf "),
        TextDelta(text="🙂"),
        ToolArgsDelta(index=0, name="Read", text=""),
        ToolArgsDelta(index=0, name="Read", text='{"pa'),
        ToolArgsDelta(index=0, name="Read", text='th":"ü"}'),
        ToolArgsDelta(index=1, name="List", text="{}"),
    ]


def test_a_finish_reason_without_done_is_enough_only_at_the_proper_end_of_the_body() -> None:
    decoder, _ = feed(stream(chunk(content="Hi"), chunk("stop"), usage(), done=False))
    with pytest.raises(ProviderError, match="it was cut"):
        decoder.reply()
    decoder.finish()
    assert decoder.reply() == ModelReply(parts=(Text(text="Hi"),), usage=COUNTED, model="m-1")


def test_the_proper_end_of_a_body_without_a_finish_reason_is_a_cut() -> None:
    decoder, _ = feed(stream(chunk(content="Hi")))
    decoder.finish()
    with pytest.raises(ProviderError, match="it was cut"):
        decoder.reply()


def test_a_server_without_done_is_known_by_its_last_chunk() -> None:
    last = {**chunk("stop"), "usage": USAGE, "time_info": {"total_time": 0.1}}
    body = stream(chunk(content="Hi"), last, done=False)
    assert feed(body)[0].reply().parts == (Text(text="Hi"),)
    for end in range(len(body)):
        with pytest.raises(ProviderError, match="it was cut"):
            feed(body[:end])[0].reply()


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("stop", "end"),
        ("length", "length"),
        ("model_length", "length"),
        ("content_filter", "filter"),
        ("tool_calls", "other"),
        ("function_call", "other"),
        ("weather", "other"),
    ],
)
def test_each_finish_reason_has_its_stop(finish: str, stop: Stop) -> None:
    assert read(chunk(content="a"), chunk(finish), usage()).stop == stop


@pytest.mark.parametrize(
    ("finish", "stop"), [("stop", "tool_calls"), ("content_filter", "tool_calls"), ("length", "length")]
)
def test_a_reply_with_calls_stops_for_them_unless_it_is_too_long(finish: str, stop: Stop) -> None:
    assert read(chunk(tool_calls=[call(0, "c", "A", "{}")]), chunk(finish)).stop == stop


@pytest.mark.parametrize(("finish", "kind"), [("error", "transport"), ("insufficient_system_resource", "overloaded")])
def test_a_finish_reason_that_means_no_answer_is_an_error(finish: str, kind: str) -> None:
    with pytest.raises(ProviderError, match=finish) as caught:
        read(chunk(content="a"), chunk(finish))
    assert caught.value.kind == kind


def test_a_finish_reason_stays_when_later_chunks_have_none() -> None:
    late = {**chunk(content=""), "usage": USAGE}
    assert read(chunk(content="a"), chunk("stop"), late) == ModelReply(
        parts=(Text(text="a"),), usage=COUNTED, model="m-1"
    )


def test_a_reply_without_usage_says_so() -> None:
    reply = read(chunk(content="a"), chunk("stop"))
    assert (reply.usage, reply.notes) == (None, ("the provider sent no usage",))


def test_a_refusal_is_text_and_stops_as_a_filter() -> None:
    reply = read(chunk(refusal="I "), chunk(refusal="won't."), chunk("stop"), usage())
    assert reply == ModelReply(
        parts=(Text(text="I won't."),), stop="filter", usage=COUNTED, model="m-1", notes=("the model refused",)
    )


def test_reasoning_under_two_names_is_taken_once() -> None:
    reply = read(chunk(reasoning="Hm", reasoning_content="Hm"), chunk(content="a"), chunk("stop"))
    assert reply.parts == (Reasoning(text="Hm"), Text(text="a"))
    assert reply.opaque == b'{"role":"assistant","content":"a","reasoning_content":"Hm"}'


def test_details_of_reasoning_are_joined_and_kept_for_their_server() -> None:
    reply = read(
        chunk(reasoning="A ", reasoning_details=[{"type": "reasoning.text", "index": 0, "text": "A "}]),
        chunk(
            reasoning="b", reasoning_details=[{"type": "reasoning.text", "index": 0, "text": "b", "signature": None}]
        ),
        chunk(reasoning_details=[{"type": "reasoning.text", "index": 0, "text": "", "signature": "sig"}]),
        chunk(reasoning_details=[{"type": "reasoning.encrypted", "index": 1, "data": "xyz", "id": "r"}]),
        chunk(content="c"),
        chunk("stop"),
    )
    assert reply.parts == (Reasoning(text="A b"), Text(text="c"))
    assert reply.opaque == (
        b'{"role":"assistant","content":"c","reasoning_details":['
        b'{"type":"reasoning.text","index":0,"text":"A b","signature":"sig"},'
        b'{"type":"reasoning.encrypted","index":1,"data":"xyz","id":"r"}]}'
    )


def test_details_of_reasoning_alone_are_shown() -> None:
    blocks = [{"type": "thinking", "thinking": "One"}, {"type": "thinking", "thinking": " two", "signature": "s"}]
    reply = read(*(chunk(thinking_blocks=[block]) for block in blocks), chunk("stop"))
    assert reply.parts == (Reasoning(text="One two"),)
    assert b'"thinking_blocks":[{"type":"thinking","thinking":"One two","signature":"s"}]' in reply.opaque


def test_content_may_be_a_list_with_thinking_in_it() -> None:
    def thinking(text: str) -> dict[str, object]:
        return {"type": "thinking", "thinking": [{"type": "text", "text": text}]}

    reply = read(
        chunk(content=[thinking("Two ")]),
        chunk(content=[thinking("and two.")]),
        chunk(content=[{"type": "text", "text": "4"}]),
        chunk(content="!"),
        chunk("stop"),
    )
    assert reply.parts == (Reasoning(text="Two and two."), Text(text="4!"))
    assert reply.opaque == (
        b'{"role":"assistant","content":['
        b'{"type":"thinking","thinking":[{"type":"text","text":"Two and two."}]},{"type":"text","text":"4!"}]}'
    )


def test_reasoning_parts_of_a_list_keep_their_signature() -> None:
    part = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm", "signature": "s"}]}
    reply = read_body({"content": [part, {"type": "text", "text": "4"}]})
    assert reply.parts == (Reasoning(text="Hm"), Text(text="4"))
    assert b'{"type":"summary_text","text":"Hm","signature":"s"}' in reply.opaque


def test_an_unknown_part_is_marked_and_kept_for_its_server() -> None:
    part = {"type": "reference", "reference_ids": [1, 2]}
    reply = read_body({"content": [{"type": "text", "text": "a"}, part, {"type": "text", "text": "b"}]})
    assert reply.parts == (
        Text(text="a"),
        ServerBlock(kind="reference", content='{"reference_ids":[1,2]}'),
        Text(text="b"),
    )
    assert b'{"type":"reference","reference_ids":[1,2]}' in reply.opaque


def test_content_that_is_an_object_is_its_json() -> None:
    assert read_body({"content": {"name": "Zoë", "age": 3}}).parts == (Text(text='{"name":"Zoë","age":3}'),)


def test_what_the_server_did_by_itself_is_marked() -> None:
    cited = {"type": "url_citation", "url_citation": {"url": "https://a.example", "title": "A"}}
    ran = {"index": 0, "type": "search", "arguments": '{"query":"x"}'}
    reply = read(
        chunk(content="See A.", annotations=[cited], executed_tools=[ran]),
        chunk("stop", executed_tools=[{**ran, "output": "found"}]),
    )
    assert reply.parts == (
        Text(text="See A."),
        ServerBlock(kind="annotations", content="https://a.example"),
        ServerBlock(kind="executed_tools", name="search", content='{"query":"x"}'),
    )
    assert reply.opaque == b""


@pytest.mark.parametrize("size", [4, 5, 400])
def test_sound_comes_with_its_transcript(size: int) -> None:
    sound = b"RIFF" + bytes(range(90))
    coded = b64encode(sound).decode()
    pieces = [coded[at : at + size] for at in range(0, len(coded), size)]
    reply = read(
        chunk(audio={"id": "a", "transcript": "Hello"}), *(chunk(audio={"data": p}) for p in pieces), chunk("stop")
    )
    assert reply.parts == (Text(text="Hello"), InlineMedia(media_type="audio/wav", content=sound))


def test_pictures_come_as_bytes_or_as_links() -> None:
    inline = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + b64encode(b"PNG").decode()}}
    linked = {"type": "image_url", "image_url": {"url": "https://a.example/x.png"}}
    assert read_body({"content": "", "images": [inline, linked]}).parts == (
        InlineMedia(media_type="image/png", content=b"PNG"),
        MediaLink(url="https://a.example/x.png", media_type="image/*"),
    )


def test_only_the_first_of_several_answers_counts() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "b"}, "finish_reason": "length"}]}
    reply = read(chunk(content="a"), other, chunk("stop"), usage())
    assert (reply.parts, reply.stop) == ((Text(text="a"),), "end")
    assert reply.notes == ("the provider sent several answers; the first one counts",)


def test_what_is_unknown_does_no_harm() -> None:
    reply = read(
        {"choices": [], "prompt_filter_results": [{}], "model": ""},
        {"object": "chat.completion.progress"},
        '"a text"',
        "[]",
        "17",
        "",
        {"choices": [None, {"delta": {"content": 4, "role": None, "name": "x", "tool_calls": [None, {"index": "a"}]}}]},
        {"choices": "none", "usage": "none", "error": None},
        chunk(content="a", new={"x": 1}),
        chunk("stop"),
        usage(),
    )
    assert reply == ModelReply(parts=(Text(text="4a"),), usage=COUNTED, model="m-1")


def test_what_comes_after_the_end_is_not_read() -> None:
    body = stream(chunk(content="a"), chunk("stop"), usage()) + stream(chunk(content="b"), "nonsense")
    assert feed(body)[0].reply().parts == (Text(text="a"),)


def test_a_character_cut_in_half_between_chunks_is_joined() -> None:
    halves = [r'{"choices":[{"delta":{"content":"\ud83d"}}]}', r'{"choices":[{"delta":{"content":"\ude42 \ud83d"}}]}']
    decoder, deltas = feed(stream(*halves, chunk("stop")))
    assert decoder.reply().parts == (Text(text="🙂 �"),)
    assert [delta.text for delta in deltas if isinstance(delta, TextDelta)] == ["?", "? ?"]


def test_a_chunk_that_is_not_json_is_an_error_with_its_first_words() -> None:
    with pytest.raises(ProviderError, match="'<html>Bad gateway'") as caught:
        read("<html>Bad gateway")
    assert caught.value.kind == "transport"


def test_a_whole_body_reads_like_a_stream() -> None:
    message = {
        "role": "assistant",
        "content": "Fünf 🙂",
        "reasoning_content": "I add. Naïve 🙂?",
        "tool_calls": [call(None, "c-1", "Read", '{"path":"ü"}'), call(None, "c-2", "List", {})],
    }
    counts = {
        **USAGE,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    assert read_body(message, "tool_calls", usage=counts) == FULL_REPLY


def test_an_older_completion_has_its_text_beside_the_message() -> None:
    chunks = [{"choices": [{"index": 0, "text": text, "finish_reason": None}]} for text in ("a", "b")]
    assert read(*chunks, {"choices": [{"text": "", "finish_reason": "length"}]}).parts == (Text(text="ab"),)
