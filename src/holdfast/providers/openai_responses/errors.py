"""What a failure means: the closed set of kinds, the provider's own words, and how long to wait."""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from holdfast.providers.failing import kind_of_status, page_words, retry_after, sentences, span, without_secrets
from holdfast.providers.openai_responses.payload import Fields, fields_in, read_json, text_in
from holdfast.vocab.errors import ErrorKind, ProviderError

LONGEST: Final = 500
"""Characters of the provider's own words."""

_BY_CODE: Final[dict[str, ErrorKind]] = {
    "rate_limit_exceeded": "rate_limit",
    "rate_limit_error": "rate_limit",
    "insufficient_quota": "rate_limit",
    "billing_hard_limit_reached": "bad_request",
    "billing_not_active": "bad_request",
    "context_length_exceeded": "context_overflow",
    "content_filter": "content_filter",
    "content_policy_violation": "content_filter",
    "image_content_policy_violation": "content_filter",
    "moderation_blocked": "content_filter",
    "invalid_api_key": "auth",
    "account_deactivated": "auth",
    "authentication_error": "auth",
    "permission_error": "auth",
    "server_is_overloaded": "overloaded",
    "slow_down": "overloaded",
    "overloaded_error": "overloaded",
    "vector_store_timeout": "timeout",
    "model_not_found": "bad_request",
}
_VAGUE: Final[dict[str, ErrorKind]] = {
    "server_error": "transport",
    "invalid_request_error": "bad_request",
    "invalid_prompt": "bad_request",
}
"""Names that say less than the status and the words do."""
_QUOTA: Final = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")

_TOO_LONG: Final = re.compile(
    r"exceeds? the (model's )?(maximum )?context|maximum context length|context window|prompt is too long"
    r"|input (is )?too long|too many input tokens",
    re.IGNORECASE,
)
_FLAGGED: Final = re.compile(r"usage polic|content polic|flagged|content filter|safety system", re.IGNORECASE)
_SOON: Final = re.compile(r"try again in ((?:\d+(?:\.\d+)?\s*(?:ms|s|m|h))+)", re.IGNORECASE)


def http_failure(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """What an answer with a status that is not a success means."""
    content = read_json(body)
    error = _error_in(content) if isinstance(content, dict) else {}
    words = text_in(error, "message") or _plain_text(body, content)
    lowered = {key.lower(): value for key, value in headers.items()}
    return _failure(status, error, words, _wait(status, lowered))


def told_failure(content: Fields) -> ProviderError:
    """What the provider means when it says in the answer itself that it failed."""
    response = fields_in(content, "response") or content
    error = _error_in(response) or _error_in(content)
    reason = text_in(fields_in(response, "incomplete_details"), "reason") or text_in(response, "status")
    words = text_in(error, "message") or f"The provider gave up without saying why ({reason or 'no reason'})."
    code = error.get("code")
    return _failure(code if isinstance(code, int) else None, error, words, None)


def _error_in(content: Fields) -> Fields:
    error = content.get("error")
    if isinstance(error, dict):
        return error
    if isinstance(error, str):
        return {"message": error}
    return content if text_in(content, "message") else {}


def _failure(status: int | None, error: Fields, words: str, wait: float | None) -> ProviderError:
    code = text_in(error, "code") or text_in(error, "type")
    kind = _kind(status, code, text_in(error, "type"), words)
    if kind == "rate_limit" and wait is None and (soon := _SOON.search(words)):
        wait = span(soon[1])
    if not words and status is not None:
        words = f"The provider answered with status {status}{_phrase(status)}."
    return ProviderError(kind, _message(kind, code, words), retry_after_s=wait)


def _kind(status: int | None, code: str, type_: str, words: str) -> ErrorKind:
    for name in (code, type_):
        if name in _BY_CODE:
            return _BY_CODE[name]
    if status in (400, 422, None):
        if _TOO_LONG.search(words):
            return "context_overflow"
        if _FLAGGED.search(words):
            return "content_filter"
    if status is None:
        return _VAGUE.get(code) or _VAGUE.get(type_, "unknown")
    return "transport" if status == HTTPStatus.CONFLICT else kind_of_status(status)


def _message(kind: ErrorKind, code: str, words: str) -> str:
    said = without_secrets(" ".join(words.split()))
    said = said if len(said) <= LONGEST else f"{said[: LONGEST - 3]}..."
    if kind == "auth":
        return sentences(said, "Check the key in OPENAI_API_KEY.")
    if code in _QUOTA:
        return sentences(said, "The quota is used up: look at the plan and the billing of the account.")
    if code == "model_not_found":
        return sentences(said, "See `holdfast models list`.")
    return said


def _plain_text(body: bytes, content: object) -> str:
    """The words of an answer that has no error object: a page, a plain text, or some other JSON."""
    if isinstance(content, dict):
        return text_in(content, "detail") or body[:20_000].decode("utf-8", "replace")
    return page_words(body)


def _phrase(status: int) -> str:
    try:
        return f" ({HTTPStatus(status).phrase})"
    except ValueError:
        return ""


def _wait(status: int, headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from the first header that says so."""
    if (asked := retry_after(headers)) is not None or status != 429:
        return asked
    spent = [of for of in ("requests", "tokens") if headers.get(f"x-ratelimit-remaining-{of}", "0") == "0"]
    waits = [span(headers.get(f"x-ratelimit-reset-{of}", "")) for of in spent]
    return max((wait for wait in waits if wait is not None), default=None)
