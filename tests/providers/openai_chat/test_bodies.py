"""Counts of tokens, whole bodies, and errors in the place of an answer."""

import pytest

from backstay.providers.http.sse import SseEvent
from backstay.providers.openai_chat.decode import ChatDecoder
from backstay.vocab.errors import ProviderError
from backstay.vocab.messages import Text
from backstay.vocab.specs import Usage
from tests.providers.openai_chat.streams import USAGE, chunk, feed, read, read_body, stream

COUNTED = Usage(input=11, output=7)


def test_of_usage_in_every_chunk_the_last_counts() -> None:
    first = {**chunk(content="a"), "usage": {"prompt_tokens": 11, "completion_tokens": None, "total_tokens": None}}
    last = {**chunk("stop"), "usage": USAGE}
    assert read(first, last, {**chunk(), "usage": None}).usage == COUNTED


@pytest.mark.parametrize(
    ("said", "usage"),
    [
        ({"prompt_cache_hit_tokens": 5, "prompt_cache_miss_tokens": 6}, Usage(input=11, output=7, cache_read=5)),
        ({"cached_tokens": 5}, Usage(input=11, output=7, cache_read=5)),
        (
            {"prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 3}},
            Usage(input=11, output=7, cache_read=2, cache_write=3),
        ),
        (
            {"cache_read_input_tokens": 100, "cache_creation_input_tokens": 20, "total_tokens": 138},
            Usage(input=131, output=7, cache_read=100, cache_write=20),
        ),
        (
            {"completion_tokens_details": {"reasoning_tokens": 90}, "total_tokens": 108},
            Usage(input=11, output=97, reasoning=90),
        ),
        (
            {
                "completion_tokens_details": {"reasoning_tokens": 90},
                "prompt_tokens_details": {"cached_tokens": 4},
                "total_tokens": 112,
            },
            Usage(input=15, output=97, cache_read=4, reasoning=90),
        ),
        ({"total_tokens": None, "prompt_tokens_details": None}, Usage(input=11, output=7)),
    ],
)
def test_usage_counts_everything_however_it_is_spelt(said: dict[str, object], usage: Usage) -> None:
    assert read(chunk("stop"), {"choices": [], "usage": {**USAGE, **said}}).usage == usage


def test_usage_beside_the_usual_place_is_found() -> None:
    assert read({**chunk("stop"), "x_groq": {"usage": USAGE}}).usage == COUNTED


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ({"error": {"message": "Slow down", "type": "rate_limit_error"}}, "rate_limit"),
        ({"error": {"message": "upstream broke", "code": 502}, "choices": [{"finish_reason": "error"}]}, "transport"),
        ({"error": {"message": "busy", "code": 503}}, "overloaded"),
        ({"error": {"message": "too slow", "code": "408"}}, "timeout"),
        ({"error": {"message": "This model's maximum context length is 10 tokens", "code": 400}}, "context_overflow"),
        ({"error": {"message": "no", "code": "content_filter"}}, "content_filter"),
        ({"error": {"message": "boom", "type": "server_error", "code": None}}, "transport"),
        ({"error": "something else"}, "unknown"),
        ({"object": "error", "message": "bad", "type": "BadRequestError", "code": 400}, "bad_request"),
    ],
)
def test_an_error_in_place_of_an_answer_is_raised_by_kind(said: dict[str, object], kind: str) -> None:
    decoder, _ = feed(stream(chunk(content="a"), done=False))
    with pytest.raises(ProviderError) as streamed:
        feed(stream(said))
    with pytest.raises(ProviderError) as whole:
        ChatDecoder().body(stream(said, done=False).removeprefix(b"data: "))
    assert (streamed.value.kind, whole.value.kind) == (kind, kind)
    with pytest.raises(ProviderError, match="it was cut"):
        decoder.reply()


def test_an_event_named_error_is_one_whatever_it_holds() -> None:
    with pytest.raises(ProviderError, match="down for today"):
        ChatDecoder().event(SseEvent(name="error", data=b'{"message":"down for today"}'))


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"<html>Hello</html>", "transport"),
        (b'{"choices":[{"message":{"content":"cut of', "transport"),
        (b"", "transport"),
        (b"\xff\xfe", "transport"),
        (b"[" * 100_000, "transport"),
        (b'{"id":"x","choices":[]}', "unknown"),
        (b'{"hello":"world"}', "unknown"),
        (b'"a text"', "unknown"),
        (b"[]", "unknown"),
        (b'{"detail":"Not here"}', "unknown"),
    ],
)
def test_a_body_that_is_no_answer_is_an_error(body: bytes, kind: str) -> None:
    decoder = ChatDecoder()
    with pytest.raises(ProviderError) as caught:
        decoder.body(body)
    assert caught.value.kind == kind
    assert len(str(caught.value)) < 600


def test_a_whole_body_without_a_finish_reason_is_still_whole() -> None:
    reply = read_body({"content": "a"}, None)
    assert (reply.parts, reply.stop) == ((Text(text="a"),), "other")
