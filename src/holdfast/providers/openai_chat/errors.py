"""What a server's complaint means, in one of our kinds, and what can be done about it."""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from holdfast.providers.failing import kind_of_status, page_words, retry_after, sentences, span, without_secrets
from holdfast.providers.openai_chat.words import json_text, mended, read_json
from holdfast.vocab.errors import ErrorKind, ProviderError

LONGEST: Final = 500
"""Characters of a server's own words in a message."""


class Complaint(msgspec.Struct, frozen=True, kw_only=True):
    """An error as a server said it."""

    message: str
    words: frozenset[str] = frozenset()
    """Its codes and types, in lower case."""
    status: int = 0
    """The HTTP status that it names, if it names one."""


def explain(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """What an answer that is not a success means."""
    try:
        said = read_json(body)
    except ValueError:
        said = None
    complaint = complaint_in(said, named=True) or Complaint(message=page_words(body))
    kind = _kind(complaint, status)
    lowered = {name.lower(): value for name, value in headers.items()}
    return ProviderError(kind, _message(complaint, kind, status), retry_after_s=_retry_after(kind, lowered))


def complaint_in(said: object, *, named: bool = False) -> Complaint | None:
    """The complaint in a decoded body or chunk, if it is one; `named` when something else says already that it is one."""
    if isinstance(said, list):
        said = next((each for each in said if isinstance(each, dict)), None)
    if not isinstance(said, dict):
        return _complaint({"message": said}, {}) if named and said is not None else None
    error = said.get("error") or next(iter(_list(said.get("errors"))), None)
    if error:
        return _complaint(error if isinstance(error, dict) else {"message": error}, said)
    if named or said.get("object") == "error" or (not said.get("choices") and _PLAIN & said.keys()):
        return _complaint(said, {})
    return None


def raise_said(complaint: Complaint | None) -> None:
    """Raise what a server said in place of an answer, if it said anything."""
    if complaint is not None:
        kind = _kind(complaint, 0)
        raise ProviderError(kind, _message(complaint, kind, complaint.status))


_PLAIN: Final = frozenset(("detail", "error_code"))
"""Fields that make an object without choices a complaint."""
_CODES: Final = ("code", "type", "error_code", "error_type", "status", "reason")

_WORDS: Final[Mapping[str, ErrorKind]] = {
    "context_length_exceeded": "context_overflow",
    "exceed_context_size_error": "context_overflow",
    "request_too_large": "context_overflow",
    "content_filter": "content_filter",
    "content_policy_violation": "content_filter",
    "responsibleaipolicyviolation": "content_filter",
    "moderation": "content_filter",
    "invalid_api_key": "auth",
    "api_key_invalid": "auth",
    "authentication_error": "auth",
    "authenticationerror": "auth",
    "permission_denied": "auth",
    "unauthorized": "auth",
    "unauthenticated": "auth",
    "rate_limit_exceeded": "rate_limit",
    "rate_limit_error": "rate_limit",
    "ratelimiterror": "rate_limit",
    "request_limit_exceeded": "rate_limit",
    "resource_exhausted": "rate_limit",
    "insufficient_quota": "rate_limit",
    "billing_hard_limit_reached": "bad_request",
    "billing_not_active": "bad_request",
    "overloaded_error": "overloaded",
    "server_overloaded": "overloaded",
    "engine_overloaded": "overloaded",
    "service_unavailable": "overloaded",
    "unavailable": "overloaded",
    "capacity_exceeded": "overloaded",
    "timeout": "timeout",
    "request_timeout": "timeout",
    "timeout_error": "timeout",
    "deadline_exceeded": "timeout",
    "server_error": "transport",
    "internal_error": "transport",
    "internal_server_error": "transport",
    "internalservererror": "transport",
    "model_not_found": "bad_request",
    "invalid_request_error": "bad_request",
    "badrequesterror": "bad_request",
    "notfounderror": "bad_request",
    "unsupported_parameter": "bad_request",
}
_TELLING: Final[tuple[ErrorKind, ...]] = ("overloaded", "timeout", "rate_limit", "bad_request", "transport")
"""Of several words, the one that says most comes first."""
_OVERFLOW: Final = re.compile(
    r"maximum context length|context[_ ](?:length|window|size)|prompt (?:is )?too long|input is too long"
    r"|too large for model with|reduce the length of the (?:messages|input)",
    re.IGNORECASE,
)
_FILTERED: Final = re.compile(r"content management policy|content exists risk|content policy", re.IGNORECASE)
_BAD_KEY: Final = re.compile(r"(?:incorrect|invalid) api key|api key not valid", re.IGNORECASE)


def _complaint(error: Mapping[str, object], around: Mapping[str, object]) -> Complaint:
    metadata = error.get("metadata")
    inner = error.get("innererror")
    holders = [error, around, *(each for each in (metadata, inner) if isinstance(each, dict))]
    codes = [holder.get(key) for holder in holders for key in _CODES]
    words = {code.lower() for code in codes if isinstance(code, str)}
    if isinstance(metadata, dict) and metadata.get("reasons"):
        words.add("moderation")
    numbers = [int(code) for code in codes if isinstance(code, int) or (isinstance(code, str) and code.isdecimal())]
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    message = next((said for key in ("message", "detail", "title") if (said := error.get(key))), None) or dict(error)
    text = " ".join(each if isinstance(each, str) else json_text(each) for each in (message, raw) if each)
    status = next((number for number in numbers if 400 <= number < 600), 0)
    return Complaint(message=mended(text), words=frozenset(words), status=status)


def _kind(complaint: Complaint, status: int) -> ErrorKind:
    status = status if status >= 400 else complaint.status
    if status not in (401, 403, 429) and _OVERFLOW.search(complaint.message):
        return "context_overflow"
    said = {_WORDS[word] for word in complaint.words if word in _WORDS}
    if "context_overflow" in said or status == 413:
        return "context_overflow"
    if "content_filter" in said or (status in (0, 400, 403) and _FILTERED.search(complaint.message)):
        return "content_filter"
    if "auth" in said or (status == 400 and _BAD_KEY.search(complaint.message)):
        return "auth"
    if any(word.startswith("billing") for word in complaint.words):
        return "bad_request"
    by_status = kind_of_status(status)
    if by_status not in ("unknown", "transport"):
        return by_status
    telling = _TELLING if by_status == "unknown" else _TELLING[:3]  # no server error is the request's fault
    return next((kind for kind in telling if kind in said), by_status)


def _message(complaint: Complaint, kind: ErrorKind, status: int) -> str:
    words = " ".join(without_secrets(complaint.message).split())
    words = words if len(words) <= LONGEST else f"{words[: LONGEST - 4]} ..."
    if not words:
        words = f"The server answered with status {status} and said nothing."
    return sentences(words, _advice(complaint, kind, status))


def _advice(complaint: Complaint, kind: ErrorKind, status: int) -> str:
    if status == 402 or any(word.startswith("billing") or word == "insufficient_quota" for word in complaint.words):
        return "The quota is used up: see the plan and the billing of the account."
    if kind == "auth":
        return "Check the key of this provider (OPENAI_API_KEY for OpenAI itself) and what it may do."
    if "model_not_found" in complaint.words or (status == 404 and "model" in complaint.message.lower()):
        return "See `holdfast models list` for names, and check the address of the server."
    if status == 404:
        return "Check the address of the server: it has no /chat/completions there."
    return ""


def _retry_after(kind: ErrorKind, headers: Mapping[str, str]) -> float | None:
    if (asked := retry_after(headers)) is not None:
        return asked
    return _reset(headers) if kind == "rate_limit" else None


def _reset(headers: Mapping[str, str]) -> float | None:
    """When the limit that was reached is lifted; when no header says which one it was, the first that is."""
    spans = {
        name: wait for name in ("requests", "tokens") if (wait := span(headers.get(f"x-ratelimit-reset-{name}", "")))
    }
    reached = [wait for name, wait in spans.items() if headers.get(f"x-ratelimit-remaining-{name}") == "0"]
    return max(reached) if reached else min(spans.values(), default=None)


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
