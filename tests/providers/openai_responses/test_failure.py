"""What an answer that is not a success means."""

import json

import pytest

from holdfast.providers.openai_responses import FORMAT

DATE = "Wed, 21 Oct 2026 07:28:00 GMT"
LATER = "Wed, 21 Oct 2026 07:28:30 GMT"


def body(message: str = "It went wrong.", code: object = None, type: str = "invalid_request_error") -> bytes:
    """An error as the API writes it."""
    return json.dumps({"error": {"message": message, "type": type, "param": None, "code": code}}).encode()


@pytest.mark.parametrize(
    ("status", "content", "kind"),
    [
        (400, body(), "bad_request"),
        (400, body(code="context_length_exceeded"), "context_overflow"),
        (400, body("This model's maximum context length is 8192 tokens."), "context_overflow"),
        (400, body("Your input exceeds the context window of this model."), "context_overflow"),
        (400, body(code="content_filter"), "content_filter"),
        (400, body("Invalid prompt: it was flagged by our usage policy.", "invalid_prompt"), "content_filter"),
        (400, body("Invalid prompt.", "invalid_prompt"), "bad_request"),
        (400, body(code="invalid_api_key"), "auth"),
        (401, b"", "auth"),
        (403, body(code="unsupported_country_region_territory"), "auth"),
        (404, body(code="model_not_found"), "bad_request"),
        (408, b"", "timeout"),
        (413, b"", "context_overflow"),
        (422, b'{"detail":"no"}', "bad_request"),
        (429, body(code="rate_limit_exceeded", type="tokens"), "rate_limit"),
        (429, body(code="insufficient_quota", type="insufficient_quota"), "rate_limit"),
        (429, body(code="billing_hard_limit_reached"), "bad_request"),
        (429, b"", "rate_limit"),
        (500, body(type="server_error"), "transport"),
        (502, b"<html>", "transport"),
        (503, body(type="server_error"), "overloaded"),
        (504, b"", "timeout"),
        (529, b"", "overloaded"),
        (302, b"", "unknown"),
    ],
)
def test_a_status_and_a_code_make_a_kind(status: int, content: bytes, kind: str) -> None:
    error = FORMAT.failure(status, {}, content)
    assert error.kind == kind
    assert str(error)


@pytest.mark.parametrize(
    ("status", "headers", "wait"),
    [
        (429, {"Retry-After": "7"}, 7.0),
        (503, {"retry-after": "0.5"}, 0.5),
        (429, {"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        (503, {"Retry-After": LATER, "Date": DATE}, 30.0),
        (503, {"Retry-After": DATE, "Date": LATER}, 0.0),
        (429, {"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "6m0.5s"}, 360.5),
        (
            429,
            {
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "20ms",
                "x-ratelimit-remaining-tokens": "9",
                "x-ratelimit-reset-tokens": "5s",
            },
            0.02,
        ),
        (500, {"x-ratelimit-reset-requests": "1s"}, None),
        (429, {"Retry-After": "soon"}, None),
        (429, {"Retry-After": "nan"}, None),
        (429, {}, None),
    ],
)
def test_headers_say_how_long_to_wait(status: int, headers: dict[str, str], wait: float | None) -> None:
    error = FORMAT.failure(status, headers, b"")
    assert error.retry_after_s == (None if wait is None else pytest.approx(wait))


def test_words_say_how_long_to_wait_when_no_header_does() -> None:
    assert FORMAT.failure(429, {}, body("Limit reached. Please try again in 6m2.5s.")).retry_after_s == 362.5


@pytest.mark.parametrize(
    ("status", "content", "message"),
    [
        (401, body("No such key."), "No such key. Check the key in OPENAI_API_KEY."),
        (404, body("There is no 'x'.", "model_not_found"), "There is no 'x'. See `holdfast models list`."),
        (
            429,
            body("Quota exceeded.", "insufficient_quota"),
            "Quota exceeded. The quota is used up: look at the plan and the billing of the account.",
        ),
        (502, b"<html><style>p {}</style><h1>Bad\n gateway</h1></html>", "Bad gateway"),
        (503, b"", "The provider answered with status 503 (Service Unavailable)."),
        (599, b"", "The provider answered with status 599."),
        (400, b'{"detail":"Not like this."}', "Not like this."),
        (400, b'{"error":"Plain words."}', "Plain words."),
        (400, b'{"message":"At the top."}', "At the top."),
        (400, b'["odd"]', '["odd"]'),
        (400, body("x" * 900), "x" * 497 + "..."),
    ],
)
def test_the_message_is_the_providers_and_says_what_to_do(status: int, content: bytes, message: str) -> None:
    assert str(FORMAT.failure(status, {}, content)) == message


@pytest.mark.parametrize(
    "words",
    [
        "Incorrect API key provided: hunter2. Find it.",
        "The key sk-proj-hunter2abc is wrong.",
        "Bearer hunter2 was refused.",
    ],
)
def test_a_key_is_never_repeated(words: str) -> None:
    assert "hunter2" not in str(FORMAT.failure(401, {}, body(words, "invalid_api_key")))


def test_the_key_travels_in_a_header() -> None:
    assert FORMAT.headers("k")["authorization"] == "Bearer k"
    assert "authorization" not in FORMAT.headers("")
