"""Read the errors that all providers share: how long to wait, what a status means, and the text of an error page."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from backstay.logic.secrets.redact import PLAIN, REDACTED
from backstay.vocab.errors import ErrorKind, ProviderError

_BY_STATUS: Final[Mapping[int, ErrorKind]] = {
    401: "auth",
    403: "auth",
    408: "timeout",
    409: "transport",
    413: "context_overflow",
    429: "rate_limit",
    498: "overloaded",
    499: "transport",
    503: "overloaded",
    504: "timeout",
    524: "timeout",
    529: "overloaded",
}
_QUOTED_KEY: Final = re.compile(
    r"((?:api[ _-]?key|access token)[^:\n]{0,24}:\s*|bearer\s+)[^\s,;\"']{6,}"
    r"|\b(?:(?:sk|gsk|sess|xai|hf|dapi)[-_]|AIza|AQ\.)[^\s,;\"']{6,}",
    re.IGNORECASE,
)
"""A key as servers quote it, half hidden or not."""
_TAGS: Final = re.compile(r"<(script|style|head)\b.*?</\1\s*>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def without_secrets(words: str) -> str:
    """Return what a server said, without keys: those that can be told by their form, and those that it quotes in part."""
    return PLAIN.text(_QUOTED_KEY.sub(lambda found: f"{found[1] or ''}{REDACTED}", words))


def disclosable(problem: ProviderError) -> ProviderError:
    """Return the same problem in words that hold no secret."""
    said = str(problem)
    told = without_secrets(said)
    return problem if told == said else ProviderError(problem.kind, told, retry_after_s=problem.retry_after_s)


def kind_of_status(status: int) -> ErrorKind:
    """Return the kind of failure that an HTTP status stands for, when nothing else says more."""
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status >= 500:
        return "transport"
    return "bad_request" if status >= 400 else "unknown"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the provider asks to wait, in whichever of the usual ways; names of headers in any case."""
    low = {name.lower(): value.strip() for name, value in headers.items()}
    if (millis := number(low.get("retry-after-ms", ""))) is not None:
        return millis / 1000
    said = low.get("retry-after", "")
    if (seconds := number(said)) is not None:
        return seconds
    if (until := http_date(said)) is None:
        return None
    return seconds_until(until, low)


def seconds_until(moment: datetime, headers: Mapping[str, str]) -> float:
    """Seconds until `moment`, by the server's own clock where it says what time it is. Names of headers in lower case."""
    now = http_date(headers.get("date", "")) or datetime.now(UTC)
    return max(0.0, (moment - now).total_seconds())


def http_date(text: str) -> datetime | None:
    """Return the moment of an HTTP date."""
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def span(text: str) -> float | None:
    """Seconds, said as `1.5`, `6m0s` or `120ms`."""
    if (seconds := number(text)) is not None:
        return seconds
    return sum(float(count) * _SECONDS[unit] for count, unit in _SPAN.findall(text)) or None


def number(text: str) -> float | None:
    """Return a number from 0 on; None for anything else."""
    try:
        found = float(text)
    except ValueError:
        return None
    return found if 0 <= found < 1e9 else None


def page_words(body: bytes) -> str:
    """Return the words of an error page, in one line."""
    return " ".join(_TAGS.sub(" ", body[:20_000].decode("utf-8", "replace")).split())


def sentences(words: str, advice: str) -> str:
    """Return a provider's words and what to do about them, as sentences."""
    if not advice:
        return words
    return f"{words}{'' if words.rstrip().endswith(('.', '!', '?')) else '.'} {advice}"
