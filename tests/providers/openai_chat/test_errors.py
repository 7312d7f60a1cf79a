"""Failures have a kind, the server's own words, and what to do."""

import json
from collections.abc import Mapping

import pytest

from holdfast.providers.openai_chat import FORMAT
from holdfast.vocab.errors import ProviderError


def failure(status: int, said: object = None, headers: Mapping[str, str] | None = None) -> ProviderError:
    body = said if isinstance(said, bytes) else json.dumps(said).encode()
    return FORMAT.failure(status, headers or {}, body)


def error(message: str, **more: object) -> dict[str, object]:
    return {"error": {"message": message, **more}}


@pytest.mark.parametrize(
    ("status", "said", "kind"),
    [
        (401, error("Incorrect API key provided: sk-abc", code="invalid_api_key"), "auth"),
        (403, error("Country not supported"), "auth"),
        (400, {"code": "Client specified an invalid argument", "error": "Incorrect API key provided: xa***"}, "auth"),
        (400, [{"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}}], "auth"),
        (429, error("Rate limit reached for m", code="rate_limit_exceeded"), "rate_limit"),
        (429, error("You exceeded your current quota", code="insufficient_quota"), "rate_limit"),
        (429, error("Billing hard limit has been reached", code="billing_hard_limit_reached"), "bad_request"),
        (402, error("Insufficient Balance"), "bad_request"),
        (429, error("Too many tokens: context length of others"), "rate_limit"),
        (408, error("slow"), "timeout"),
        (504, b"<html><head><title>504</title></head><body>Gateway <b>Time-out</b></body></html>", "timeout"),
        (524, b"", "timeout"),
        (500, error("The server had an error", type="server_error"), "transport"),
        (500, error("odd", type="invalid_request_error"), "transport"),
        (502, b"Bad gateway", "transport"),
        (503, error("No healthy upstream"), "overloaded"),
        (529, error("busy"), "overloaded"),
        (500, error("Overloaded", type="overloaded_error"), "overloaded"),
        (400, error("Unsupported parameter: 'stop'", code="unsupported_parameter"), "bad_request"),
        (404, error("The model `x` does not exist", code="model_not_found"), "bad_request"),
        (422, {"detail": [{"loc": ["body"], "msg": "extra fields"}]}, "bad_request"),
        (413, error("Request too large", code="rate_limit_exceeded", type="tokens"), "context_overflow"),
        (400, error("too long", code="context_length_exceeded"), "context_overflow"),
        (
            400,
            {"object": "error", "message": "This model's maximum context length is 9", "code": 400},
            "context_overflow",
        ),
        (400, error("exceeds the available context size", type="exceed_context_size_error"), "context_overflow"),
        (500, error("the request exceeds the available context size. try increasing it"), "context_overflow"),
        (400, error("The response was filtered", code="content_filter"), "content_filter"),
        (400, error("x", innererror={"code": "ResponsibleAIPolicyViolation"}), "content_filter"),
        (400, error("Content Exists Risk"), "content_filter"),
        (403, error("flagged", metadata={"reasons": ["violence"], "flagged_input": "x"}), "content_filter"),
        (400, {"errors": [{"code": 7003, "message": "No route"}], "success": False}, "bad_request"),
        (400, {"error_code": "BAD_REQUEST", "message": "no"}, "bad_request"),
        (418, b"teapot", "bad_request"),
        (302, b"", "unknown"),
    ],
)
def test_each_failure_has_its_kind(status: int, said: object, kind: str) -> None:
    assert failure(status, said).kind == kind


@pytest.mark.parametrize(
    ("status", "said", "message"),
    [
        (
            401,
            error("Incorrect API key provided: sk-live-1234567890. You can find it."),
            "Incorrect API key provided: [REDACTED] You can find it. "
            "Check the key of this provider (OPENAI_API_KEY for OpenAI itself) and what it may do.",
        ),
        (401, error("Bearer abcdefghij is wrong"), "Bearer [REDACTED] is wrong"),
        (400, error("The value sk-proj_abcdefgh is bad"), "The value [REDACTED] is bad"),
        (
            404,
            error("No model `x`"),
            "No model `x`. See `holdfast models list` for names, and check the address of the server.",
        ),
        (404, b"", "The server answered with status 404 and said nothing. Check the address of the server"),
        (402, error("Insufficient Balance"), "Insufficient Balance. The quota is used up"),
        (429, error("Over", code="insufficient_quota"), "Over. The quota is used up"),
        (503, b"<html><head><title>T</title></head><p>Down</p> for <b>now</b>", "Down for now"),
        (500, {"error": {"code": 500}}, '{"code":500}'),
        (
            500,
            error("Provider returned error", metadata={"raw": "upstream says no"}),
            "Provider returned error upstream says no",
        ),
        (422, {"detail": [{"msg": "extra"}]}, '[{"msg":"extra"}]'),
        (401, {"message": "Unauthorized", "request_id": "r"}, "Unauthorized"),
        (500, "just words", "just words"),
    ],
)
def test_the_message_is_the_servers_words_and_what_to_do(status: int, said: object, message: str) -> None:
    assert str(failure(status, said)).startswith(message)


def test_a_long_message_is_shortened() -> None:
    assert len(str(failure(500, error("x" * 9000)))) == 500


@pytest.mark.parametrize(
    ("status", "headers", "seconds"),
    [
        (429, {"Retry-After": "12"}, 12.0),
        (503, {"retry-after": "0.5"}, 0.5),
        (429, {"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        (429, {"Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT", "Date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 30.0),
        (429, {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT", "Date": "Wed, 21 Oct 2026 07:28:30 GMT"}, 0.0),
        (429, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        (429, {"Retry-After": "soon"}, None),
        (429, {"Retry-After": "nan"}, None),
        (429, {"Retry-After": "-3"}, None),
        (429, {"x-ratelimit-reset-requests": "6m0s"}, 360.0),
        (429, {"x-ratelimit-reset-requests": "1.5s", "x-ratelimit-reset-tokens": "120ms"}, 0.12),
        (
            429,
            {
                "x-ratelimit-reset-requests": "1h2m",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-tokens": "120ms",
                "x-ratelimit-remaining-tokens": "17",
            },
            3720.0,
        ),
        (400, {"x-ratelimit-reset-requests": "6m0s"}, None),
        (429, {}, None),
    ],
)
def test_when_to_try_again_is_read_from_the_headers(
    status: int, headers: dict[str, str], seconds: float | None
) -> None:
    assert failure(status, error("x"), headers).retry_after_s == seconds
