"""Classify a provider's error: its kind, how long to wait, the provider's own message, and what to do about it.

One reader for every format: the table of codes is common, because no code means two things.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from backstay.logic.text import shorten_to_line
from backstay.providers.http.failures import (
    kind_of_status,
    page_words,
    retry_after,
    seconds_until,
    sentences,
    span,
    without_secrets,
)
from backstay.providers.http.loose_json import fields_in, json_text, mend, objects_in, read_json, text_in
from backstay.vocab.errors import ErrorKind, ProviderError

LONGEST: Final = 500
"""Characters of a provider's own words in a message."""


class ProviderComplaint(Struct, frozen=True, kw_only=True):
    """An error as a provider said it."""

    message: str
    code: str = ""
    """The provider's own name for it."""
    words: frozenset[str] = frozenset()
    """All its codes, types and reasons, in lower case."""
    status: int = 0
    """The HTTP status that it names, if it names one."""
    wait: float | None = None
    """Seconds to wait, if it says so."""


def failure(key: str, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """Say what an answer that is not a success means. `key` names the variable that the provider's key is read from."""
    complaint = _in_body(body) or ProviderComplaint(message=page_words(body))
    kind = _kind(complaint, status)
    low = {name.lower(): value.strip() for name, value in headers.items()}
    words = _tidy(complaint.message) or f"The provider answered with status {status} and said nothing."
    advice = _advice(complaint, kind, status, f"{key}, unless a profile names another")
    return ProviderError(kind, sentences(words, advice), retry_after_s=_wait(kind, complaint, low))


def stream_failure(complaint: ProviderComplaint | None) -> ProviderError:
    """Say what an error in the place of an answer, or in the middle of one, means."""
    complaint = complaint or ProviderComplaint(message="")
    kind = _kind(complaint, 0)
    words = _tidy(complaint.message) or "it did not say why"
    said = f"The provider broke off{f' with {complaint.code}' if complaint.code else ''}: {words}"
    advice = _advice(complaint, kind, complaint.status, "")
    return ProviderError(kind, sentences(said, advice), retry_after_s=_wait(kind, complaint, {}))


def complaint_in(said: object, *, named: bool = False) -> ProviderComplaint | None:
    """Return the complaint in a decoded body or chunk, if it is one; `named` when something else says already that it is one."""
    if isinstance(said, list):
        said = next((each for each in said if isinstance(each, dict)), None)
    if not isinstance(said, dict):
        return _complaint({"message": said}, {}) if named and said is not None else None
    error = said.get("error") or next(iter(objects_in(said, "errors")), None)
    if error:
        return _complaint(error if isinstance(error, dict) else {"message": error}, said)
    if named or said.get("object") == "error" or (not said.get("choices") and _PLAIN & said.keys()):
        return _complaint(said, {})
    return None


_PLAIN: Final = frozenset(("detail", "error_code"))
"""Fields that make an object without choices a complaint."""
_CODES: Final = ("code", "type", "error_code", "error_type", "status", "reason")
_CODES_OF_KINDS: Final[Mapping[ErrorKind, str]] = {
    "context_overflow": "context_length_exceeded exceed_context_size_error request_too_large",
    "content_filter": "content_filter content_policy_violation image_content_policy_violation moderation moderation_blocked "
    "responsibleaipolicyviolation",
    "auth": "access_token_expired account_deactivated api_key_invalid api_key_service_blocked authentication_error "
    "authenticationerror invalid_api_key permission_denied permission_error unauthenticated unauthorized",
    "overloaded": "capacity_exceeded engine_overloaded overloaded_error server_is_overloaded server_overloaded "
    "service_unavailable slow_down unavailable",
    "timeout": "deadline_exceeded request_timeout timeout timeout_error vector_store_timeout",
    "rate_limit": "insufficient_quota rate_limit_error rate_limit_exceeded ratelimiterror request_limit_exceeded "
    "resource_exhausted",
    "bad_request": "badrequesterror failed_precondition invalid_argument invalid_prompt invalid_request_error "
    "model_not_found not_found not_found_error notfounderror out_of_range unsupported_parameter",
    "transport": "api_error cancelled conflict_error internal internal_error internal_server_error internalservererror "
    "server_error",
}
"""Of several codes, the kind that stands first here says most."""
_KINDS: Final = {code: kind for kind, codes in _CODES_OF_KINDS.items() for code in codes.split()}
_PASSING: Final[tuple[ErrorKind, ...]] = ("overloaded", "timeout", "rate_limit")
"""What a code tells even where the status says no more than that it is the request's or the server's fault."""
_OVERFLOW: Final = re.compile(
    r"maximum context length|context[_ ](?:length|window|size)|exceeds? (?:the (?:model's )?(?:maximum )?)?context"
    r"|prompt (?:is )?too long|input (?:is )?too long|too many input tokens|too large for model with"
    r"|reduce the length of the (?:messages|input)|input length and `?max_tokens`? exceed"
    r"|input token count.*exceeds the maximum|request (?:exceeds the maximum size|payload size exceeds)",
    re.IGNORECASE,
)
_FILTERED: Final = re.compile(
    r"content management policy|content exists risk|content (?:filter|polic)|usage polic|safety system|flagged",
    re.IGNORECASE,
)
_BAD_KEY: Final = re.compile(r"(?:incorrect|invalid) api key|api key not valid", re.IGNORECASE)
_UNPAID: Final = re.compile(r"credit balance|spend limit|usage limits?\b.*regain|billing", re.IGNORECASE)
_SOON: Final = re.compile(r"try again in ((?:\d+(?:\.\d+)?\s*(?:ms|s|m|h))+)", re.IGNORECASE)
_RESET: Final = re.compile(r"x-ratelimit-reset-(?:requests|tokens)|anthropic-ratelimit-.+-reset")


def _in_body(body: bytes) -> ProviderComplaint | None:
    """Return the complaint of a body: a document, or an event of a stream."""
    for text in (body, *(line[5:] for line in body.splitlines() if line.startswith(b"data:"))):
        try:
            return complaint_in(read_json(text), named=True)
        except ValueError:
            continue
    return None


def _complaint(error: Mapping[str, object], around: Mapping[str, object]) -> ProviderComplaint:
    metadata, details = fields_in(error, "metadata"), objects_in(error, "details")
    holders = [error, around, metadata, fields_in(error, "innererror"), *details]
    codes = [holder.get(key) for holder in holders for key in _CODES]
    names = [code for code in codes if isinstance(code, str) and code]
    numbers = [int(code) for code in codes if isinstance(code, int) or (isinstance(code, str) and code.isdecimal())]
    message = next((said for key in ("message", "detail", "title") if (said := error.get(key))), None) or dict(error)
    text = " ".join(
        each if isinstance(each, str) else json_text(each) for each in (message, metadata.get("raw")) if each
    )
    return ProviderComplaint(
        message=mend(text),
        code=next((name for name in names if name != "error" and not name.isdecimal()), ""),
        words=frozenset(name.lower() for name in (*names, *(("moderation",) if metadata.get("reasons") else ()))),
        status=next((number for number in numbers if 400 <= number < 600), 0),
        wait=next((wait for each in details if (wait := span(text_in(each, "retryDelay"))) is not None), None),
    )


def _kind(complaint: ProviderComplaint, status: int) -> ErrorKind:
    status = status if status >= 400 else complaint.status
    said = {_KINDS[word] for word in complaint.words if word in _KINDS}
    if "context_overflow" in said or status == 413:
        return "context_overflow"
    if status not in (401, 403, 429) and _OVERFLOW.search(complaint.message):
        return "context_overflow"
    if _is_unpaid(complaint):
        return "bad_request"
    if "content_filter" in said:
        return "content_filter"
    if "auth" in said or (status == 400 and _BAD_KEY.search(complaint.message)):
        return "auth"
    if status in (0, 400, 403, 422) and _FILTERED.search(complaint.message):
        return "content_filter"
    by_status = kind_of_status(status)
    if by_status in ("bad_request", "transport"):  # no server error is the request's fault
        return next((kind for kind in _PASSING if kind in said), by_status)
    return by_status if by_status != "unknown" else next((kind for kind in _CODES_OF_KINDS if kind in said), by_status)


def _is_unpaid(complaint: ProviderComplaint) -> bool:
    return any(word.startswith("billing") for word in complaint.words)


def _advice(complaint: ProviderComplaint, kind: ErrorKind, status: int, key: str) -> str:
    spent = status == 402 or _is_unpaid(complaint) or "insufficient_quota" in complaint.words
    if spent or (kind == "bad_request" and _UNPAID.search(complaint.message)):
        return "The quota or credit of this account is used up: top it up, or switch to another model."
    if kind == "auth":
        return f"Check the key{f' ({key})' if key else ''} and what it may do."
    if status == 404 or complaint.words & {"model_not_found", "not_found_error"}:
        return "See `backstay models list` for names, and check the address of the server."
    return ""


def _wait(kind: ErrorKind, complaint: ProviderComplaint, low: Mapping[str, str]) -> float | None:
    """Return how many seconds the provider asks for, or until the limits that are used up begin anew."""
    asked = complaint.wait if complaint.wait is not None else retry_after(low)
    if asked is not None or kind != "rate_limit":
        return asked
    ends = {name: end for name in low if _RESET.fullmatch(name) and (end := _until(low[name], low)) is not None}
    reached = [end for name, end in ends.items() if low.get(name.replace("reset", "remaining")) == "0"]
    if ends:  # when no header says which limit it was, the first that ends
        return max(reached) if reached else min(ends.values())
    return span(soon[1]) if (soon := _SOON.search(complaint.message)) else None


def _until(text: str, low: Mapping[str, str]) -> float | None:
    """Seconds until a moment, said as a span or as a date."""
    if (wait := span(text)) is not None:
        return wait
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return seconds_until(moment if moment.tzinfo else moment.replace(tzinfo=UTC), low)


def _tidy(words: str) -> str:
    """Return one line of at most `LONGEST` characters, in which no key stands."""
    return shorten_to_line(without_secrets(words), LONGEST)
