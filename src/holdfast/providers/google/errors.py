"""What Gemini says when it fails: a `google.rpc.Status`, as a body of its own or in the middle of a stream."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from holdfast.providers.failing import kind_of_status, page_words, retry_after, sentences, without_secrets
from holdfast.vocab.errors import ErrorKind, ProviderError

KEY_VARIABLE: Final = "GEMINI_API_KEY"
_LONGEST: Final = 500
_CODES: Final[Mapping[str, int]] = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "OUT_OF_RANGE": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "RESOURCE_EXHAUSTED": 429,
    "CANCELLED": 499,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}
"""The HTTP status that stands for each name of a status."""
_BY_REASON: Final[Mapping[str, ErrorKind]] = {
    "API_KEY_INVALID": "auth",
    "API_KEY_SERVICE_BLOCKED": "auth",
    "ACCESS_TOKEN_EXPIRED": "auth",
    "BILLING_DISABLED": "bad_request",
}
"""Reasons of an `ErrorInfo` that say more than the status does."""
_TOO_LONG: Final = re.compile(r"input token count.*exceeds the maximum|request payload size exceeds the limit", re.I)
"""Gemini has no code for it: it says INVALID_ARGUMENT and these words."""


def read_failure(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """Say what a failed request means. The body may be JSON, an event of a stream, a page, or nothing."""
    found = _find_error(body)
    if found is not None:
        return make_failure(found, status, headers)
    text = _shorten(page_words(body))
    message = f"Status {status}: {text}" if text else f"Status {status}, without a word."
    return _make(_kind(status, "", ()), message, status, retry_after(headers))


def make_failure(error: object, status: int = 0, headers: Mapping[str, str] | None = None) -> ProviderError:
    """Say what a `google.rpc.Status` means. Its own code counts where there is no HTTP status."""
    fields = error if isinstance(error, dict) else {}
    name = fields.get("status")
    code = fields.get("code")
    message = fields.get("message")
    status = status or (code if isinstance(code, int) else 0) or _CODES.get(name if isinstance(name, str) else "", 0)
    text = _shorten(message if isinstance(message, str) else "") or f"Status {status or name or 'unknown'}."
    details = tuple(_details(fields))
    wait = _detail_wait(details)
    return _make(_kind(status, text, details), text, status, retry_after(headers or {}) if wait is None else wait)


def _make(kind: ErrorKind, text: str, status: int, wait: float | None) -> ProviderError:
    if kind == "auth":
        text = sentences(text, f"Check the key in {KEY_VARIABLE}.")
    elif status == 404:
        text = sentences(text, "See `holdfast models list`.")
    return ProviderError(kind, text, retry_after_s=wait)


def _kind(status: int, text: str, details: tuple[Mapping[str, object], ...]) -> ErrorKind:
    for detail in details:
        reason = detail.get("reason")
        if isinstance(reason, str) and reason in _BY_REASON:
            return _BY_REASON[reason]
    if status in (400, 413) and _TOO_LONG.search(text):
        return "context_overflow"
    return kind_of_status(status)


def _find_error(body: bytes) -> object:
    """The `error` of a body: alone, first of an array, or as an event of a stream."""
    for text in (body, *(line[5:] for line in body.splitlines() if line.startswith(b"data:"))):
        try:
            content: object = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        for each in content if isinstance(content, list) else (content,):
            if isinstance(each, dict) and "error" in each:
                return each["error"]
    return None


def _details(error: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    details = error.get("details")
    for each in details if isinstance(details, list) else ():
        if isinstance(each, dict):
            yield each


def _detail_wait(details: tuple[Mapping[str, object], ...]) -> float | None:
    for detail in details:
        delay = detail.get("retryDelay")
        if isinstance(delay, str) and re.fullmatch(r"[0-9]+(\.[0-9]+)?s", delay):
            return float(delay[:-1])
    return None


def _shorten(text: str) -> str:
    words = without_secrets(" ".join(text.split()))
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 4]} ..."
