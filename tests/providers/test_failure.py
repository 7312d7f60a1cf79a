"""What an answer that is not a success means: one reader for every provider, so the cases of each stand in one table."""

import json
from collections.abc import Mapping

import pytest

from backstay.providers.registry import FORMATS, load_format
from backstay.vocab.errors import ProviderError

DATE = "Wed, 21 Oct 2026 07:28:00 GMT"
LATER = "Wed, 21 Oct 2026 07:28:30 GMT"


def failure(
    status: int, said: object = b"", headers: Mapping[str, str] | None = None, *, format: str = "openai-chat"
) -> ProviderError:
    body = said if isinstance(said, bytes) else json.dumps(said).encode()
    return load_format(format).failure(status, headers or {}, body)


def error(message: str = "It went wrong.", **more: object) -> dict[str, object]:
    """An error as OpenAI and its imitators write it."""
    return {"error": {"message": message, **more}}


def typed(type: str, message: str = "It went wrong.") -> dict[str, object]:
    """An error as Anthropic writes it."""
    return {"type": "error", "error": {"type": type, "message": message}, "request_id": "req_1"}


def rpc(code: int, message: str, name: str = "", *details: object) -> dict[str, object]:
    """An error as Google writes it."""
    return {"error": {"code": code, "message": message, "status": name, "details": details}}


KEY = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
BILLING = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "BILLING_DISABLED"}
RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37.5s"}
TOO_MANY = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
NO_ROOM = "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000"
FLAGGED = "Invalid prompt: it was flagged by our usage policy."


@pytest.mark.parametrize(
    ("status", "said", "kind"),
    [
        # by the status alone
        (302, b"", "unknown"),
        (401, b"", "auth"),
        (403, b"<html>Forbidden</html>", "auth"),
        (408, b"", "timeout"),
        (409, b"", "transport"),
        (413, b"<h1>Too large</h1>", "context_overflow"),
        (418, b"teapot", "bad_request"),
        (422, b"{}", "bad_request"),
        (429, b"slow down", "rate_limit"),
        (500, b'{"error": "text"}', "transport"),
        (500, b'{"error": {"details": [1], "code": "x"}}', "transport"),
        (500, b"[7]", "transport"),
        (500, b"\xff", "transport"),
        (502, b"<html><head><style>p{}</style></head><p>Bad gateway</p></html>", "transport"),
        (503, b'{"error": "unavailable"}', "overloaded"),
        (504, b"<html><head><title>504</title></head><body>Gateway <b>Time-out</b></body></html>", "timeout"),
        (524, b"", "timeout"),
        (529, b"[]", "overloaded"),
        # Anthropic
        (400, typed("invalid_request_error", "messages: at least one message is required"), "bad_request"),
        (400, typed("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"), "context_overflow"),
        (400, typed("invalid_request_error", NO_ROOM), "context_overflow"),
        (400, typed("invalid_request_error", "Output blocked by content filtering policy"), "content_filter"),
        (400, typed("invalid_request_error", "Your credit balance is too low to access the API."), "bad_request"),
        (401, typed("authentication_error"), "auth"),
        (402, typed("billing_error"), "bad_request"),
        (403, typed("permission_error"), "auth"),
        (404, typed("not_found_error"), "bad_request"),
        (409, typed("conflict_error"), "transport"),
        (413, typed("request_too_large", "Request exceeds the maximum size"), "context_overflow"),
        (429, typed("rate_limit_error"), "rate_limit"),
        (500, typed("api_error"), "transport"),
        (504, typed("timeout_error"), "timeout"),
        (529, typed("overloaded_error"), "overloaded"),
        # Google
        (400, rpc(400, "No.", "INVALID_ARGUMENT"), "bad_request"),
        (400, rpc(400, "No key.", "INVALID_ARGUMENT", KEY), "auth"),
        (400, rpc(400, TOO_MANY, "INVALID_ARGUMENT"), "context_overflow"),
        (400, rpc(400, "Request payload size exceeds the limit: 20971520 bytes."), "context_overflow"),
        (400, [{"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}}], "auth"),
        (401, rpc(401, "Who?", "UNAUTHENTICATED"), "auth"),
        (403, rpc(403, "No.", "PERMISSION_DENIED"), "auth"),
        (403, rpc(403, "Pay.", "PERMISSION_DENIED", BILLING), "bad_request"),
        (404, rpc(404, "No such model.", "NOT_FOUND"), "bad_request"),
        (429, rpc(429, "Slow down.", "RESOURCE_EXHAUSTED"), "rate_limit"),
        (500, rpc(500, "Oops.", "INTERNAL"), "transport"),
        (503, rpc(503, "Busy.", "UNAVAILABLE"), "overloaded"),
        (504, rpc(504, "Late.", "DEADLINE_EXCEEDED"), "timeout"),
        (0, {"error": {"status": "UNAVAILABLE"}}, "overloaded"),
        (0, {"error": {"status": "RESOURCE_EXHAUSTED"}}, "rate_limit"),
        (0, {"error": {"status": "INTERNAL"}}, "transport"),
        (0, {"error": {"status": "SOMETHING"}}, "unknown"),
        # OpenAI and its imitators
        (400, error(), "bad_request"),
        (400, error("too long", code="context_length_exceeded"), "context_overflow"),
        (400, error("This model's maximum context length is 8192 tokens."), "context_overflow"),
        (400, error("Your input exceeds the context window of this model."), "context_overflow"),
        (400, error("exceeds the available context size", type="exceed_context_size_error"), "context_overflow"),
        (400, {"object": "error", "message": "maximum context length is 9", "code": 400}, "context_overflow"),
        (413, error("Request too large", code="rate_limit_exceeded", type="tokens"), "context_overflow"),
        (500, error("the request exceeds the available context size. try increasing it"), "context_overflow"),
        (400, error("The response was filtered", code="content_filter"), "content_filter"),
        (400, error(FLAGGED, code="invalid_prompt"), "content_filter"),
        (400, error("x", innererror={"code": "ResponsibleAIPolicyViolation"}), "content_filter"),
        (400, error("Content Exists Risk"), "content_filter"),
        (403, error("flagged", metadata={"reasons": ["violence"], "flagged_input": "x"}), "content_filter"),
        (400, error("Invalid prompt.", code="invalid_prompt"), "bad_request"),
        (400, error(code="invalid_api_key"), "auth"),
        (400, {"code": "Client specified an invalid argument", "error": "Incorrect API key provided: xa***"}, "auth"),
        (401, error("Incorrect API key provided: sk-abc", code="invalid_api_key"), "auth"),
        (403, error("Country not supported", code="unsupported_country_region_territory"), "auth"),
        (402, error("Insufficient Balance"), "bad_request"),
        (429, error("Rate limit reached for m", code="rate_limit_exceeded", type="tokens"), "rate_limit"),
        (429, error("You exceeded your current quota", code="insufficient_quota"), "rate_limit"),
        (429, error("Too many tokens: context length of others"), "rate_limit"),
        (429, error("Billing hard limit has been reached", code="billing_hard_limit_reached"), "bad_request"),
        (400, error("Unsupported parameter: 'stop'", code="unsupported_parameter"), "bad_request"),
        (400, {"errors": [{"code": 7003, "message": "No route"}], "success": False}, "bad_request"),
        (400, {"error_code": "BAD_REQUEST", "message": "no"}, "bad_request"),
        (404, error("The model `x` does not exist", code="model_not_found"), "bad_request"),
        (422, {"detail": [{"loc": ["body"], "msg": "extra fields"}]}, "bad_request"),
        (500, error("The server had an error", type="server_error"), "transport"),
        (500, error("odd", type="invalid_request_error"), "transport"),
        (500, error("Overloaded", type="overloaded_error"), "overloaded"),
        (503, error("No healthy upstream", type="server_error"), "overloaded"),
    ],
)
def test_each_failure_has_its_kind_with_every_provider(status: int, said: object, kind: str) -> None:
    assert {failure(status, said, format=each).kind for each in FORMATS} == {kind}


@pytest.mark.parametrize("wrap", [b"[%s]", b"data: %s\r\n\r\n", b"\n%s\n"])
def test_an_error_is_found_in_an_array_and_in_an_event_too(wrap: bytes) -> None:
    found = failure(429, wrap % json.dumps(rpc(429, "Slow down.", "RESOURCE_EXHAUSTED", RETRY)).encode())

    assert (found.kind, str(found), found.retry_after_s) == ("rate_limit", "Slow down.", 37.5)


SPENT = "The quota or credit of this account is used up: top it up, or switch to another model."
LIST = "See `backstay models list` for names, and check the address of the server."


@pytest.mark.parametrize(
    ("status", "said", "message"),
    [
        (401, error("Incorrect API key provided: hunter2. Find it."), "Incorrect API key provided: [REDACTED] Find it."),
        (401, error("The key sk-proj-hunter2abc is wrong."), "The key [REDACTED] is wrong."),
        (401, error("Bearer hunter2abcd was refused."), "Bearer [REDACTED] was refused."),
        (401, error("the key sk-ant-api03-abcdefghijklmnop is wrong."), "the key [REDACTED] is wrong."),
        (400, rpc(400, "The key AIzaSyA1234567890abcdefgh is bad."), "The key [REDACTED] is bad."),
        (404, error("No model `x`"), f"No model `x`. {LIST}"),
        (404, typed("not_found_error", "model: claude-zero"), f"model: claude-zero. {LIST}"),
        (404, b"", f"The provider answered with status 404 and said nothing. {LIST}"),
        (402, typed("billing_error", "Payment needed."), f"Payment needed. {SPENT}"),
        (429, error("Over", code="insufficient_quota"), f"Over. {SPENT}"),
        (400, typed("invalid_request_error", "Your credit balance is too low."), f"Your credit balance is too low. {SPENT}"),
        (503, b"<html><head><title>T</title></head><p>Down</p> for\n <b>now</b>", "Down for now"),
        (500, {"error": {"code": 500}}, '{"code":500}'),
        (500, error("Provider returned error", metadata={"raw": "upstream says no"}), "Provider returned error upstream says no"),
        (422, {"detail": [{"msg": "extra"}]}, '[{"msg":"extra"}]'),
        (400, {"error": "Plain words."}, "Plain words."),
        (400, {"message": "At the top."}, "At the top."),
        (500, "just words", "just words"),
        (500, error("x" * 9000), "x" * 499 + "…"),
        (500, b"y" * 9000, "y" * 499 + "…"),
    ],
)  # fmt: skip
def test_the_message_is_the_providers_and_says_what_to_do(status: int, said: object, message: str) -> None:
    advice = " Check the key (OPENAI_API_KEY, unless a profile names another) and what it may do."

    assert str(failure(status, said)) == message + (advice if status == 401 else "")


@pytest.mark.parametrize(
    ("format", "variable"),
    [
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("google", "GEMINI_API_KEY"),
        ("openai-chat", "OPENAI_API_KEY"),
        ("openai-responses", "OPENAI_API_KEY"),
    ],
)
def test_the_advice_names_the_variable_of_the_key(format: str, variable: str) -> None:
    assert f"({variable}," in str(failure(401, format=format))


@pytest.mark.parametrize(
    ("status", "headers", "seconds"),
    [
        (429, {}, None),
        (429, {"Retry-After": "12"}, 12.0),
        (503, {"retry-after": "0.5"}, 0.5),
        (429, {"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        (503, {"Date": DATE, "Retry-After": LATER}, 30.0),
        (429, {"Date": LATER, "Retry-After": DATE}, 0.0),
        (429, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        (429, {"Retry-After": "soon"}, None),
        (429, {"Retry-After": "nan"}, None),
        (429, {"Retry-After": "-3"}, None),
        (429, {"x-ratelimit-reset-requests": "6m0s"}, 360.0),
        (400, {"x-ratelimit-reset-requests": "6m0s"}, None),
        (500, {"x-ratelimit-reset-requests": "1s"}, None),
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
        (
            429,
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
def test_when_to_try_again_is_read_from_the_headers(
    status: int, headers: dict[str, str], seconds: float | None
) -> None:
    assert failure(status, error("x"), headers).retry_after_s == seconds
    assert failure(status, b"", headers).retry_after_s == seconds


def test_words_say_how_long_to_wait_when_no_header_does() -> None:
    assert failure(429, error("Limit reached. Please try again in 6m2.5s.")).retry_after_s == 362.5


def test_keys_travel_in_headers() -> None:
    carried = {name: load_format(name).headers("k") for name in FORMATS}

    assert carried == {
        "anthropic": {"content-type": "application/json", "x-api-key": "k", "anthropic-version": "2023-06-01"},
        "google": {"content-type": "application/json", "x-goog-api-key": "k"},
        "openai-chat": {"content-type": "application/json", "authorization": "Bearer k"},
        "openai-responses": {"content-type": "application/json", "authorization": "Bearer k"},
    }
    assert all("k" not in load_format(name).headers("").values() for name in FORMATS)
