"""Answers of servers as results: what can be shown is, nonsense fails, and nothing of it crashes."""

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.mcp.results import LARGEST_MEDIUM, call_output, prompt_output, resource_output
from backstay.ports import ToolOutput
from backstay.tools.files.media_type import detect_image_type
from backstay.vocab.messages import InlineMedia
from tests.mcp.kit import unchanged

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
KEYS = ("content", "contents", "messages", "type", "text", "data", "mimeType", "resource", "uri", "blob", "isError")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=20,
)


def packed(content: bytes) -> str:
    return base64.b64encode(content).decode()


async def call(*content: object, **rest: Any) -> ToolOutput:
    return await call_output({"content": list(content), **rest}, shorten=unchanged, image_type=detect_image_type)


async def test_texts_follow_each_other_without_what_nobody_sees() -> None:
    found = await call({"type": "text", "text": "one\x1b[0m"}, {"type": "text", "text": "two\u202e"})

    assert found == ToolOutput(text="one[0m\ntwo")


async def test_rb_w39_a_call_that_failed_by_the_servers_own_word_is_a_failed_result() -> None:
    found = await call({"type": "text", "text": "no such table"}, isError=True)

    assert found == ToolOutput(text="no such table", failed=True, code="tool_error")


async def test_pictures_and_sounds_are_media_by_what_their_bytes_say() -> None:
    found = await call(
        {"type": "image", "data": packed(PNG), "mimeType": "image/jpeg"},
        {"type": "audio", "data": packed(b"RIFF"), "mimeType": "audio/wav"},
    )

    assert found.media == (
        InlineMedia(media_type="image/png", content=PNG),
        InlineMedia(media_type="audio/wav", content=b"RIFF"),
    )


async def test_a_picture_that_is_none_is_named_and_not_passed_on() -> None:
    found = await call({"type": "image", "data": packed(b"<svg/>"), "mimeType": "image/png"})

    assert found == ToolOutput(text="[a medium (image/png), 6 bytes, is nothing that a model can be shown]")


async def test_a_picture_that_is_too_large_is_named_and_not_passed_on() -> None:
    found = await call({"type": "image", "data": packed(PNG + b"\0" * LARGEST_MEDIUM), "mimeType": "image/png"})

    assert found.media == ()
    assert "has more than 5,242,880 bytes" in found.text


async def test_resources_within_an_answer_are_text_or_media() -> None:
    found = await call(
        {"type": "resource", "resource": {"uri": "note://a", "text": "Buy string."}},
        {"type": "resource", "resource": {"uri": "file://logo", "blob": packed(PNG), "mimeType": "image/png"}},
        {"type": "resource", "resource": {"uri": "file://x.bin", "blob": packed(b"\1\2"), "mimeType": "app/x"}},
        {"type": "resource_link", "uri": "file://b", "name": "b"},
    )

    assert found.text == (
        "[note://a]\nBuy string.\n[file://x.bin (app/x), 2 bytes, is nothing that a model can be shown]\n[b: file://b]"
    )
    assert found.media == (InlineMedia(media_type="image/png", content=PNG, name="file://logo"),)


async def test_structured_content_is_shown_when_the_text_does_not_say_it() -> None:
    bare = await call(structuredContent={"n": 1})
    twice = await call({"type": "text", "text": '{"n": 1}'}, structuredContent={"n": 1})
    wrapped = await call({"type": "text", "text": "3"}, structuredContent={"result": 3})
    other = await call({"type": "text", "text": "Done."}, structuredContent={"rows": 3, "more": True})

    assert bare.text == '{\n "n": 1\n}'
    assert (twice.text, wrapped.text) == ('{"n": 1}', "3")
    assert other.text == 'Done.\n{\n "rows": 3,\n "more": true\n}'


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"content": "text"},
        {"content": [3]},
        {"content": [{"type": "text"}]},
        {"content": [{"type": "video", "data": "x"}]},
        {"content": [{"type": "image", "data": "*not base64*", "mimeType": "image/png"}]},
        {"content": [{"type": "resource", "resource": {"uri": "a"}}]},
    ],
)
async def test_nonsense_is_a_failed_result(raw: dict[str, object]) -> None:
    found = await call_output(raw, shorten=unchanged, image_type=detect_image_type)

    assert (found.failed, found.code) == (True, "nonsense")
    assert found.text.startswith("The server answered with nonsense: ")


async def test_an_answer_without_anything_says_so() -> None:
    assert await call() == ToolOutput(text="(no output)")


async def test_a_server_that_wants_input_first_gets_none() -> None:
    found = await call_output({"resultType": "input_required"}, shorten=unchanged, image_type=detect_image_type)

    assert (found.failed, found.code) == (True, "input_required")


@given(JSON)
async def test_no_answer_whatever_crashes(raw: object) -> None:
    answer = raw if isinstance(raw, dict) else {"content": raw, "contents": [raw], "messages": [{"content": raw}]}
    for read in (call_output, resource_output, prompt_output):
        assert isinstance(await read(answer, shorten=unchanged, image_type=detect_image_type), ToolOutput)
