"""What went wrong at the provider, as one of our kinds."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from holdfast.providers.anthropic.loose import Fields, object_at, text_at
from holdfast.providers.failing import kind_of_status, page_words, retry_after, seconds_until, without_secrets
from holdfast.vocab.errors import ErrorKind, ProviderError

KINDS: Final[Mapping[str, ErrorKind]] = {
    "invalid_request_error": "bad_request",
    "authentication_error": "auth",
    "billing_error": "bad_request",
    "permission_error": "auth",
    "not_found_error": "bad_request",
    "conflict_error": "bad_request",
    "request_too_large": "context_overflow",
    "rate_limit_error": "rate_limit",
    "api_error": "transport",
    "timeout_error": "timeout",
    "overloaded_error": "overloaded",
}
"""The provider's types of errors, with or without a status."""


def read_failure(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """Read an answer whose `status` is not a success."""
    error = _error_in(body)
    type_, words = text_at(error, "type"), _tidy(text_at(error, "message")) or _tidy(page_words(body))[:200].strip()
    kind = _refined(KINDS.get(type_) or kind_of_status(status), words)
    said = f"The provider answered {status}{f' {type_}' if type_ else ''}"
    message = f"{said}: {words}" if words else f"{said}."
    return ProviderError(kind, _with_advice(message, kind, type_, words), retry_after_s=_wait(headers))


def read_error_event(event: Mapping[str, object]) -> ProviderError:
    """Read an error that came in place of an answer, or in the middle of one."""
    error = object_at(event, "error")
    type_, words = text_at(error, "type"), _tidy(text_at(error, "message"))
    kind = _refined(KINDS.get(type_, "unknown"), words)
    message = f"The provider broke off with {type_ or 'an error'}: {words or 'it did not say why'}"
    return ProviderError(kind, _with_advice(message, kind, type_, words))


_TOO_LONG: Final = re.compile(
    r"prompt is too long|input length and `?max_tokens`? exceed|exceeds? the (maximum )?context|context window|"
    r"request exceeds the maximum size",
    re.IGNORECASE,
)
_FILTERED: Final = re.compile(r"content filtering policy|usage policy", re.IGNORECASE)
_UNPAID: Final = re.compile(r"credit balance|spend limit|usage limits?\b.*regain|billing", re.IGNORECASE)


def _refined(kind: ErrorKind, words: str) -> ErrorKind:
    """What only the words tell: the API has one type for every kind of bad request."""
    if kind != "bad_request":
        return kind
    if _TOO_LONG.search(words):
        return "context_overflow"
    return "content_filter" if _FILTERED.search(words) else kind


def _with_advice(message: str, kind: ErrorKind, type_: str, words: str) -> str:
    advice = ""
    if kind == "auth":
        advice = "Check the key in ANTHROPIC_API_KEY."
    elif type_ == "not_found_error":
        advice = "See `holdfast models list` for models that exist."
    elif type_ == "billing_error" or (kind == "bad_request" and _UNPAID.search(words)):
        advice = "The quota or credit of this account is used up: top it up, or switch to another model."
    return f"{message.rstrip(' .')}. {advice}".strip()


def _error_in(body: bytes) -> Fields:
    try:
        found: object = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    error = found.get("error", found)
    return error if isinstance(error, dict) else {"message": error}


def _tidy(words: str) -> str:
    """One line of at most 500 characters, in which no key stands."""
    return " ".join(without_secrets(words).split())[:500]


def _wait(headers: Mapping[str, str]) -> float | None:
    """How many seconds the provider asks for, or until the limits that are used up begin anew."""
    if (asked := retry_after(headers)) is not None:
        return asked
    low = {name.lower(): value.strip() for name, value in headers.items()}
    known = [end for end in _exhausted(low) if end is not None]
    return seconds_until(max(known), low) if known else None


def _exhausted(low: Mapping[str, str]) -> list[datetime | None]:
    """When the limits that are used up begin anew."""
    begin, end = "anthropic-ratelimit-", "-remaining"
    spent = [name for name in low if name.startswith(begin) and name.endswith(end) and low[name] == "0"]
    return [_timestamp(low.get(f"{name.removesuffix(end)}-reset", "")) for name in spent]


def _timestamp(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
