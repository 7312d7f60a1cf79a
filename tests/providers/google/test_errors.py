"""A failed request says what kind of failure it was and what to do."""

import json

import pytest

from holdfast.providers.google import FORMAT


def status(code: int, message: str, name: str = "", *details: object) -> bytes:
    return json.dumps({"error": {"code": code, "message": message, "status": name, "details": details}}).encode()


KEY = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
BILLING = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "BILLING_DISABLED"}
RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37.5s"}
LONG = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."


@pytest.mark.parametrize(
    ("code", "body", "kind"),
    [
        (400, status(400, "No.", "INVALID_ARGUMENT"), "bad_request"),
        (400, status(400, "No key.", "INVALID_ARGUMENT", KEY), "auth"),
        (400, status(400, LONG, "INVALID_ARGUMENT"), "context_overflow"),
        (400, status(400, "Request payload size exceeds the limit: 20971520 bytes."), "context_overflow"),
        (401, status(401, "Who?", "UNAUTHENTICATED"), "auth"),
        (403, status(403, "No.", "PERMISSION_DENIED"), "auth"),
        (403, status(403, "Pay.", "PERMISSION_DENIED", BILLING), "bad_request"),
        (404, status(404, "No such model.", "NOT_FOUND"), "bad_request"),
        (408, b"", "timeout"),
        (413, b"", "context_overflow"),
        (418, b"", "bad_request"),
        (422, b"", "bad_request"),
        (429, status(429, "Slow down.", "RESOURCE_EXHAUSTED"), "rate_limit"),
        (500, status(500, "Oops.", "INTERNAL"), "transport"),
        (502, b"<html><head><style>p{}</style></head><p>Bad gateway</p></html>", "transport"),
        (503, status(503, "Busy.", "UNAVAILABLE"), "overloaded"),
        (504, status(504, "Late.", "DEADLINE_EXCEEDED"), "timeout"),
        (302, b"", "unknown"),
    ],
)
def test_a_status_has_a_kind(code: int, body: bytes, kind: str) -> None:
    assert FORMAT.failure(code, {}, body).kind == kind


@pytest.mark.parametrize("name", ["UNAVAILABLE", "RESOURCE_EXHAUSTED", "INTERNAL", "SOMETHING"])
def test_an_error_without_a_code_has_the_kind_of_its_name(name: str) -> None:
    kinds = {"UNAVAILABLE": "overloaded", "RESOURCE_EXHAUSTED": "rate_limit", "INTERNAL": "transport"}

    assert FORMAT.failure(0, {}, json.dumps({"error": {"status": name}}).encode()).kind == kinds.get(name, "unknown")


def test_the_message_has_the_providers_words_and_what_to_do() -> None:
    assert str(FORMAT.failure(400, {}, status(400, "Bad key.", "", KEY))) == "Bad key. Check the key in GEMINI_API_KEY."
    assert str(FORMAT.failure(404, {}, status(404, "Gone."))) == "Gone. See `holdfast models list`."
    page = b"<html><head><style>p{}</style></head>\n<p>Bad  gateway</p></html>"
    assert str(FORMAT.failure(502, {}, page)) == "Status 502: Bad gateway"
    assert str(FORMAT.failure(502, {}, b"")) == "Status 502, without a word."


def test_the_message_is_short_and_has_no_key_in_it() -> None:
    message = str(FORMAT.failure(400, {}, status(400, "The key AIzaSyA1234567890abcdefgh is bad." + " x" * 1000)))

    assert message.startswith("The key [REDACTED] is bad. x")
    assert len(message) == 500


@pytest.mark.parametrize("wrap", [b"[%s]", b"data: %s\r\n\r\n", b"\n%s\n"])
def test_an_error_is_found_in_an_array_and_in_an_event_too(wrap: bytes) -> None:
    failure = FORMAT.failure(429, {}, wrap % status(429, "Slow down.", "RESOURCE_EXHAUSTED", RETRY))

    assert (failure.kind, str(failure), failure.retry_after_s) == ("rate_limit", "Slow down.", 37.5)


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({}, None),
        ({"Retry-After": "12"}, 12.0),
        ({"retry-after-ms": "1500", "Retry-After": "9"}, 1.5),
        ({"Retry-After": "Thu, 01 Jan 2026 00:00:30 GMT", "Date": "Thu, 01 Jan 2026 00:00:10 GMT"}, 20.0),
        ({"Retry-After": "Thu, 01 Jan 2015 00:00:30 GMT"}, 0.0),
        ({"Retry-After": "soon"}, None),
    ],
)
def test_the_wait_is_read_from_the_headers_where_the_body_has_none(headers: dict[str, str], wait: float | None) -> None:
    assert FORMAT.failure(429, headers, status(429, "Slow down.")).retry_after_s == wait
    assert FORMAT.failure(429, headers, b"").retry_after_s == wait


@pytest.mark.parametrize("body", [b'{"error": "text"}', b'{"error": {"details": [1], "code": "x"}}', b"[7]", b"\xff"])
def test_strange_bodies_break_nothing(body: bytes) -> None:
    assert FORMAT.failure(500, {}, body).kind == "transport"
