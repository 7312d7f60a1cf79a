"""Answers of Gemini become replies, however they are cut into pieces."""

import copy
import json
from base64 import b64encode

import pytest

from backstay.ports import ModelReply
from backstay.providers.google import FORMAT
from backstay.providers.http.sse import SseEvent, SseParser
from backstay.vocab.deltas import ReasoningDelta, TextDelta, ToolArgsDelta
from backstay.vocab.errors import ProviderError
from backstay.vocab.messages import InlineMedia, MediaLink, Reasoning, ServerBlock, Text, ToolCall
from backstay.vocab.specs import Usage
from tests.providers.google.streams import USAGE, chunk, frames, read, read_chunks

SIGNED = {"thoughtSignature": "c2lnbmVk"}
WHOLE = (
    chunk({"text": "Let me ", "thought": True}, usage={"promptTokenCount": 10}),
    chunk({"text": "think.", "thought": True}),
    chunk({"text": "Ich pr\u00fcfe \U0001f50e"}, {"text": " das."}),
    chunk({"functionCall": {"name": "Read", "args": {"path": "a.txt"}}, **SIGNED}),
    chunk({"text": ""}, finish="STOP", usage=USAGE),
)


def call(name: str, args: dict[str, object], id: str = "") -> dict[str, object]:
    return {"functionCall": {**({"id": id} if id else {}), "name": name, "args": args}}


def test_a_stream_becomes_deltas_and_a_reply() -> None:
    deltas, reply = read(frames(WHOLE))

    assert deltas == [
        ReasoningDelta(text="Let me "),
        ReasoningDelta(text="think."),
        TextDelta(text="Ich prüfe 🔎"),
        TextDelta(text=" das."),
        ToolArgsDelta(index=0, name="Read", text='{"path":"a.txt"}'),
    ]
    assert json.loads(reply.opaque) == [
        {"text": "Let me think.", "thought": True},
        {"text": "Ich prüfe 🔎 das."},
        {**call("Read", {"path": "a.txt"}), **SIGNED},
    ]
    assert reply == ModelReply(
        parts=(
            Reasoning(text="Let me think."),
            Text(text="Ich prüfe 🔎 das."),
            ToolCall(id="", name="Read", args='{"path":"a.txt"}'),
        ),
        stop="tool_calls",
        usage=Usage(input=10, output=7, reasoning=3),
        model="gemini-test",
        opaque=reply.opaque,
    )


@pytest.mark.parametrize("end", ["\r\n", "\n"])
def test_any_split_gives_the_same_reply(end: str) -> None:
    stream = frames(WHOLE, end)
    expected = read(stream)

    assert all(read(stream, [at]) == expected for at in range(len(stream)))
    assert read(stream, range(len(stream))) == expected


def test_every_cut_before_the_end_of_the_terminal_chunk_is_an_error() -> None:
    stream = frames(WHOLE, "\n")
    parser, decoder = SseParser(), FORMAT.decoder()
    for at in range(len(stream)):
        with pytest.raises(ProviderError, match="ended without its final event: it was cut") as caught:
            copy.deepcopy(decoder).reply()
        assert caught.value.kind == "transport"
        for event in parser.feed(stream[at : at + 1]):
            decoder.event(event)

    assert decoder.reply() == read(stream)[1]


@pytest.mark.parametrize(
    "body",
    [
        chunk({"text": "Hi"}, finish="STOP", usage=USAGE),
        [chunk({"text": "H"}), chunk({"text": "i"}, finish="STOP", usage=USAGE)],
    ],
)
def test_a_whole_body_is_an_object_or_an_array_of_chunks(body: object) -> None:
    decoder = FORMAT.decoder()
    decoder.body(json.dumps(body).encode())

    reply = decoder.reply()

    assert (reply.parts, reply.stop, reply.opaque, reply.notes) == ((Text(text="Hi"),), "end", b"", ())


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", "transport"),
        (b'{"candidates": [', "transport"),
        (b"<html>busy</html>", "transport"),
        (b'{"name": "batches/1"}', "unknown"),
        (b"[]", "unknown"),
        (b"7", "unknown"),
    ],
)
def test_a_body_that_is_no_answer_is_an_error_that_quotes_it(body: bytes, kind: str) -> None:
    with pytest.raises(ProviderError) as caught:
        FORMAT.decoder().body(body)

    assert caught.value.kind == kind
    assert repr(body.decode()) in str(caught.value)


def test_events_that_are_no_answer_are_an_error_that_quotes_them() -> None:
    decoder = FORMAT.decoder()
    decoder.event(SseEvent(data=b'{"event_type": "step.start"}'))

    with pytest.raises(ProviderError, match=r"not an answer.*step\.start") as caught:
        decoder.reply()
    assert caught.value.kind == "unknown"
    with pytest.raises(ProviderError, match="not JSON"):
        decoder.event(SseEvent(data=b"{oops"))


def test_what_comes_after_the_finish_is_not_lost() -> None:
    reply = read_chunks(chunk({"text": "Hi"}, finish="STOP"), chunk({"text": " there"}), {"usageMetadata": USAGE})

    assert reply.parts == (Text(text="Hi there"),)
    assert reply.usage == Usage(input=10, output=7, reasoning=3)


def test_usage_counts_everything_and_the_last_numbers_are_the_ones() -> None:
    usage = {
        "promptTokenCount": 100,
        "cachedContentTokenCount": 60,
        "toolUsePromptTokenCount": 7,
        "candidatesTokenCount": 20,
        "thoughtsTokenCount": 5,
    }
    reply = read_chunks(
        chunk({"text": "a"}, usage={"promptTokenCount": 100, "candidatesTokenCount": 1}),
        chunk({"text": "b"}, finish="STOP", usage=usage),
        {"usageMetadata": {"trafficType": "ON_DEMAND"}},
    )

    assert reply.usage == Usage(input=107, output=25, cache_read=60, reasoning=5)
    assert reply.notes == ()


def test_a_reply_without_usage_says_so() -> None:
    reply = read_chunks(chunk({"text": "Hi"}, finish="STOP"))

    assert reply.usage is None
    assert reply.notes == ("the provider sent no usage",)


def test_calls_come_several_in_a_chunk_and_over_several_chunks_with_and_without_an_id() -> None:
    reply = read_chunks(
        chunk(call("a", {"n": 1}, "x"), call("b", {})),
        chunk({"functionCall": {"name": "c"}}, finish="STOP", usage=USAGE),
    )

    assert reply.parts == (
        ToolCall(id="", name="a", args='{"n":1}', provider_id="x"),
        ToolCall(id="", name="b", args="{}"),
        ToolCall(id="", name="c", args="{}"),
    )
    assert (reply.stop, reply.opaque) == ("tool_calls", b"")


def test_call_ids_that_came_twice_are_made_to_differ_also_in_what_goes_back() -> None:
    reply = read_chunks(
        chunk({**call("a", {}, "x"), **SIGNED}, call("a", {}, "x"), call("a", {}, "x"), finish="STOP", usage=USAGE)
    )

    assert [part.provider_id for part in reply.parts if isinstance(part, ToolCall)] == ["x", "x-2", "x-3"]
    assert [part["functionCall"]["id"] for part in json.loads(reply.opaque)] == ["x", "x-2", "x-3"]
    assert len(reply.notes) == 2


def piece(path: str, *, more: bool = False, **value: object) -> dict[str, object]:
    partial = {"jsonPath": path, **value, **({"willContinue": True} if more else {})}
    return {"functionCall": {"partialArgs": [partial], "willContinue": True}}


PIECES = (
    chunk({"functionCall": {"name": "Write", "willContinue": True}, **SIGNED}),
    chunk(piece("$.path", stringValue="a.", more=True)),
    chunk(piece("$.path", stringValue="txt")),
    chunk(piece("$.lines[1]['n o']", numberValue=2)),
    chunk(piece("$.lines[0].ok", boolValue=True)),
    chunk(piece("$.none", nullValue="NULL_VALUE")),
)
PLACED = {"path": "a.txt", "lines": [{"ok": True}, {"n o": 2}], "none": None}


def test_a_call_in_pieces_is_put_together() -> None:
    stream = frames(
        [*PIECES, chunk({"functionCall": {}}), chunk({"functionCall": {"name": "b"}}, finish="STOP", usage=USAGE)]
    )
    deltas, reply = read(stream)

    first, second = reply.parts
    assert isinstance(first, ToolCall)
    assert json.loads(first.args) == PLACED
    assert second == ToolCall(id="", name="b", args="{}")
    assert [delta.index for delta in deltas if isinstance(delta, ToolArgsDelta)] == [0, 1]
    assert json.loads(reply.opaque)[0] == {"functionCall": {"name": "Write", "args": PLACED}, **SIGNED}
    assert reply.notes == ()


def test_a_call_that_never_ended_is_whole_only_if_the_answer_came_to_its_end() -> None:
    ended = read_chunks(*PIECES, chunk({"text": ""}, finish="STOP", usage=USAGE))
    cut = read_chunks(*PIECES, chunk({"text": ""}, finish="MAX_TOKENS", usage=USAGE))

    assert isinstance(ended.parts[0], ToolCall)
    assert json.loads(ended.parts[0].args) == PLACED
    assert isinstance(cut.parts[0], ToolCall)
    assert cut.parts[0].args == ended.parts[0].args[:-1]
    assert (cut.stop, cut.notes) == ("length", ("the call of 'Write' was cut",))


@pytest.mark.parametrize("path", ["path", "$", "$.a..b", "$.path.deeper", "$.lines[9999999999]", "$.path[0]"])
def test_a_piece_that_fits_nowhere_is_noted(path: str) -> None:
    bad = chunk(piece(path, stringValue="x"))
    reply = read_chunks(*PIECES, bad, chunk({"functionCall": {}}, finish="STOP", usage=USAGE))

    assert reply.notes == ("a piece of a call's arguments could not be placed",)
    assert isinstance(reply.parts[0], ToolCall)
    assert json.loads(reply.parts[0].args) == PLACED


def test_a_signature_keeps_its_part_apart_in_what_goes_back_only() -> None:
    reply = read_chunks(
        chunk({"text": "One "}), chunk({"text": "two "}), chunk({"text": "three", **SIGNED}, finish="STOP", usage=USAGE)
    )

    assert reply.parts == (Text(text="One two three"),)
    assert json.loads(reply.opaque) == [{"text": "One two "}, {"text": "three", **SIGNED}]


@pytest.mark.parametrize("empty", [{"text": ""}, {}])
def test_a_signature_on_an_empty_text_or_on_nothing_goes_back(empty: dict[str, object]) -> None:
    reply = read_chunks(chunk({"text": "Hi"}), chunk({}, {**empty, **SIGNED}, finish="STOP", usage=USAGE))

    assert reply.parts == (Text(text="Hi"),)
    assert json.loads(reply.opaque) == [{"text": "Hi"}, {"text": "", **SIGNED}]


def test_media_come_as_bytes_or_as_a_link() -> None:
    content = b"\xfb\xff\x00"
    reply = read_chunks(
        chunk({"inlineData": {"mimeType": "image/png", "data": b64encode(content).decode()}}),
        chunk({"inlineData": {"mimeType": "image/png", "data": "-_8A"}}),
        chunk({"fileData": {"mimeType": "image/png", "fileUri": "https://x/y"}}, finish="STOP", usage=USAGE),
    )

    picture = InlineMedia(media_type="image/png", content=content)
    assert reply.parts == (picture, picture, MediaLink(url="https://x/y", media_type="image/png"))
    assert reply.opaque == b""


def test_tools_that_the_provider_ran_and_unknown_parts_are_server_blocks_that_go_back() -> None:
    parts: list[dict[str, object]] = [
        {"executableCode": {"language": "PYTHON", "code": "print(1)" * 100}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}},
        {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["x"]}, "id": "1"}, **SIGNED},
        {"hologram": [1, 2]},
    ]
    reply = read_chunks(chunk({"text": "So:"}, *parts, finish="STOP", usage=USAGE))

    assert reply.parts == (
        Text(text="So:"),
        ServerBlock(kind="executableCode", name="codeExecution", content=("print(1)" * 100)[:500]),
        ServerBlock(kind="codeExecutionResult", name="codeExecution", content="1\n"),
        ServerBlock(
            kind="toolCall",
            name="GOOGLE_SEARCH_WEB",
            content='{"toolType":"GOOGLE_SEARCH_WEB","args":{"queries":["x"]},"id":"1"}',
        ),
        ServerBlock(kind="hologram", content="[1,2]"),
    )
    assert json.loads(reply.opaque) == [{"text": "So:"}, *parts]
    assert reply.notes == ("an unknown kind of part: 'hologram'",)


def test_a_search_is_a_server_block_that_needs_no_way_back() -> None:
    grounding = {"webSearchQueries": ["tide tables", "moon"], "groundingChunks": []}
    pages = {"urlMetadata": [{"retrievedUrl": "https://x/y", "urlRetrievalStatus": "SUCCESS"}]}
    reply = read_chunks(
        chunk({"text": "High."}, groundingMetadata={}),
        chunk(finish="STOP", usage=USAGE, groundingMetadata=grounding, urlContextMetadata=pages),
    )

    assert reply.parts == (
        Text(text="High."),
        ServerBlock(kind="groundingMetadata", name="googleSearch", content="tide tables; moon"),
        ServerBlock(kind="urlContextMetadata", name="urlContext", content="https://x/y"),
    )
    assert reply.opaque == b""


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("SAFETY", "filter"),
        ("RECITATION", "filter"),
        ("PROHIBITED_CONTENT", "filter"),
        ("BLOCKLIST", "filter"),
        ("SPII", "filter"),
        ("LANGUAGE", "other"),
        ("MALFORMED_FUNCTION_CALL", "other"),
        ("OTHER", "other"),
        ("SOMETHING_NEW", "other"),
    ],
)
def test_an_answer_that_ended_oddly_keeps_its_text_and_says_why(finish: str, stop: str) -> None:
    reply = read_chunks(chunk({"text": "Once"}), chunk(finish=finish, finishMessage="Because.", usage=USAGE))

    assert (reply.parts, reply.stop) == ((Text(text="Once"),), stop)
    assert reply.notes == (f"the provider ended the answer with {finish!r}: Because.",)


def test_calls_decide_the_stop_except_when_the_answer_was_too_long() -> None:
    assert read_chunks(chunk(call("a", {}), finish="OTHER", usage=USAGE)).stop == "tool_calls"
    assert read_chunks(chunk(call("a", {}), finish="MAX_TOKENS", usage=USAGE)).stop == "length"
    assert read_chunks(chunk({"text": "a"}, finish="MAX_TOKENS", usage=USAGE)).notes == ()


def test_a_candidate_without_content_is_an_empty_answer() -> None:
    reply = read_chunks({"candidates": [{"finishReason": "SAFETY", "index": 0}], "usageMetadata": USAGE})

    assert (reply.parts, reply.stop) == ((), "filter")


def test_a_blocked_prompt_is_an_error() -> None:
    with pytest.raises(ProviderError, match="blocked the prompt for 'PROHIBITED_CONTENT'") as caught:
        read_chunks({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": USAGE})

    assert caught.value.kind == "content_filter"


def test_an_error_in_the_middle_of_a_stream_is_raised_by_its_kind() -> None:
    error = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
    with pytest.raises(ProviderError, match="The model is overloaded") as caught:
        read_chunks(chunk({"text": "On"}), error)

    assert caught.value.kind == "overloaded"


def test_only_the_first_candidate_counts() -> None:
    second = {"candidates": [{"index": 1, "content": {"parts": [{"text": "No"}]}, "finishReason": "STOP"}]}
    reply = read_chunks(chunk({"text": "Yes"}), second, second, chunk(finish="STOP", usage=USAGE))

    assert reply.parts == (Text(text="Yes"),)
    assert len(reply.notes) == 1


@pytest.mark.parametrize(
    "strange",
    [
        {"candidates": None},
        {"candidates": [7]},
        {"candidates": [{"content": []}]},
        {"candidates": [{"content": {"parts": [None, {}, {"text": 3}, {"functionCall": None}, {"inlineData": 1}]}}]},
        {"usageMetadata": [], "modelVersion": 3},
        {"candidates": [{"groundingMetadata": {"webSearchQueries": 5}, "urlContextMetadata": {"urlMetadata": 1}}]},
        ["x"],
    ],
)
def test_strange_chunks_break_nothing(strange: object) -> None:
    reply = read_chunks(strange, chunk({"text": "Hi"}, finish="STOP", usage=USAGE))

    assert Text(text="Hi") in reply.parts
