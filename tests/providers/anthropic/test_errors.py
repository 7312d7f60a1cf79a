"""What an answer that is not a success means."""

import json

import pytest

from holdfast.providers.anthropic import FORMAT


def error(type: str, message: str) -> bytes:
    return json.dumps({"type": "error", "error": {"type": type, "message": message}, "request_id": "req_1"}).encode()


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, error("invalid_request_error", "messages: at least one message is required"), "bad_request"),
        (400, error("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"), "context_overflow"),
        (
            400,
            error(
                "invalid_request_error", "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000"
            ),
            "context_overflow",
        ),
        (400, error("invalid_request_error", "Output blocked by content filtering policy"), "content_filter"),
        (400, error("invalid_request_error", "Your credit balance is too low to access the API."), "bad_request"),
        (401, error("authentication_error", "invalid x-api-key"), "auth"),
        (402, error("billing_error", "Payment needed"), "bad_request"),
        (403, error("permission_error", "No access"), "auth"),
        (404, error("not_found_error", "model: claude-zero"), "bad_request"),
        (413, error("request_too_large", "Request exceeds the maximum size"), "context_overflow"),
        (429, error("rate_limit_error", "This would exceed your limit"), "rate_limit"),
        (500, error("api_error", "Internal server error"), "transport"),
        (504, error("timeout_error", "Timed out"), "timeout"),
        (529, error("overloaded_error", "Overloaded"), "overloaded"),
        (401, b"", "auth"),
        (403, b"<html>Forbidden</html>", "auth"),
        (408, b"", "timeout"),
        (413, b"<h1>Too large</h1>", "context_overflow"),
        (422, b"{}", "bad_request"),
        (429, b"slow down", "rate_limit"),
        (502, b"<html>Bad gateway</html>", "transport"),
        (503, b'{"error": "unavailable"}', "overloaded"),
        (504, b"", "timeout"),
        (529, b"[]", "overloaded"),
        (302, b"", "unknown"),
    ],
)
def test_each_failure_has_a_kind(status: int, body: bytes, kind: str) -> None:
    assert FORMAT.failure(status, {}, body).kind == kind


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (
            401,
            error("authentication_error", "invalid x-api-key"),
            "The provider answered 401 authentication_error: invalid x-api-key. Check the key in ANTHROPIC_API_KEY.",
        ),
        (
            404,
            error("not_found_error", "model: claude-zero"),
            "The provider answered 404 not_found_error: model: claude-zero. See `holdfast models list` for models that exist.",
        ),
        (
            402,
            error("billing_error", "Payment needed."),
            "The provider answered 402 billing_error: Payment needed. "
            "The quota or credit of this account is used up: top it up, or switch to another model.",
        ),
        (503, b'{"error": "out of order"}', "The provider answered 503: out of order."),
        (
            502,
            b"<html><head><title>x</title><style>a{}</style></head><body><h1>Bad\n gateway</h1></body></html>",
            "The provider answered 502: Bad gateway.",
        ),
        (500, b"", "The provider answered 500."),
    ],
)
def test_the_message_has_the_words_of_the_provider_and_what_to_do(status: int, body: bytes, message: str) -> None:
    assert str(FORMAT.failure(status, {}, body)) == message


def test_a_long_message_is_shortened() -> None:
    assert len(str(FORMAT.failure(400, {}, error("invalid_request_error", "x " * 5000)))) < 600
    assert len(str(FORMAT.failure(500, {}, b"y " * 5000))) < 300


def test_no_key_is_repeated() -> None:
    key = "sk-ant-api03-abcdefghijklmnop"

    told = str(FORMAT.failure(401, {}, error("authentication_error", f"the key {key} is wrong")))

    assert key not in told
    assert "the key [REDACTED] is wrong" in told


DATE = "Wed, 21 Oct 2026 07:28:00 GMT"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "12"}, 12.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"Date": DATE, "Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT"}, 30.0),
        ({"Date": DATE, "Retry-After": "Wed, 21 Oct 2026 07:00:00 GMT"}, 0.0),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"Retry-After": "soon"}, None),
        (
            {
                "date": DATE,
                "anthropic-ratelimit-requests-remaining": "3",
                "anthropic-ratelimit-requests-reset": "2026-10-21T09:00:00Z",
                "anthropic-ratelimit-tokens-remaining": "0",
                "anthropic-ratelimit-tokens-reset": "2026-10-21T07:28:07Z",
                "anthropic-ratelimit-input-tokens-remaining": "0",
            },
            7.0,
        ),
    ],
)
def test_the_wait_that_is_asked_for_is_told(headers: dict[str, str], seconds: float | None) -> None:
    assert FORMAT.failure(429, headers, b"").retry_after_s == seconds
