"""What secrets look like: a table of shapes, each with the fixed pieces of text without which it cannot be there.

A shape's pattern is only tried on a text that holds one of its gates, which costs next to nothing for ordinary text. The group `secret` is
what has to go; without it, the whole match. What stands next to a telling name is judged by `looks_random`.
"""

import functools
import math
import re
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple


class Shape(NamedTuple):
    """A kind of secret."""

    why: str
    gates: tuple[str, ...]
    expression: str
    is_real: Callable[[str], bool] | None = None
    """Looks closer at what the pattern found."""

    @property
    def pattern(self) -> re.Pattern[str]:
        """The expression, compiled when the first text holds a gate: most never are, and a program starts without them."""
        return _compiled(self.expression)


@functools.cache
def _compiled(expression: str) -> re.Pattern[str]:
    return re.compile(expression)


def is_placeholder(value: str) -> bool:
    """Whether `value` stands for a secret instead of being one: a variable, a template, a row of stars."""
    return (
        value.startswith(("$", "{", "<", "%", "[", "(", "*", "...", "…")) or len(set(value)) < 3 or "[REDACTED" in value
    )


def looks_random(value: str) -> bool:
    """Whether nobody would write `value` by hand: digits scattered among letters, few repetitions."""
    groups = _DIGITS.findall(value)
    if len(groups) < 2 or not _LETTER.search(value) or is_placeholder(value) or _DOTTED.fullmatch(value):
        return False
    if value.startswith(("/", "./", "../", "~", "http")) or _DATE.match(value):
        return False
    if len(value) >= 16:
        return (len(groups) >= 3 or _changes(value) >= 0.45 * len(value)) and entropy(value) >= 3.0
    kinds = sum(bool(kind.search(value)) for kind in (_LOWER, _UPPER, _SYMBOL))
    return len(value) >= 8 and kinds >= 2 and entropy(value) >= 2.5


def entropy(value: str) -> float:
    """Bits for each character of `value`."""
    size = len(value)
    return -sum(count / size * math.log2(count / size) for count in Counter(value).values())


def _changes(value: str) -> int:
    """How often `value` goes over from one kind of letter to another: often in a random text, seldom in words run together."""
    return sum(1 for _ in _SAME_KIND.finditer(value)) - 1


def _has_digit(value: str) -> bool:
    return _DIGITS.search(value) is not None


def _is_credential(value: str) -> bool:
    """What follows the scheme of an Authorization header."""
    return not is_placeholder(value) and (_has_digit(value) or value.endswith("=") or value.lower() != value)


def _is_user_info(value: str) -> bool:
    name, colon, password = value.partition(":")
    return bool(password) and not is_placeholder(password) if colon else len(name) >= 16 and looks_random(name)


def _is_cookie(value: str) -> bool:
    return any(len(word) >= 12 and looks_random(word) for word in re.split(r"[=;,\s]+", value))


_DIGITS: Final = re.compile(r"[0-9]+")
_LETTER: Final = re.compile(r"[A-Za-z]")
_LOWER: Final = re.compile(r"[a-z]")
_UPPER: Final = re.compile(r"[A-Z]")
_SAME_KIND: Final = re.compile(r"[a-z]+|[A-Z]+|[0-9]+|[^A-Za-z0-9]+")
_SYMBOL: Final = re.compile(r"[^A-Za-z0-9_.]")
_DOTTED: Final = re.compile(r"[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d|\d{1,2}:\d\d")


def _tokens(why: str, gates: str, rest: str, is_real: Callable[[str], bool] | None = None) -> tuple[Shape, ...]:
    """A shape for each of the `gates`, which begin the secret. A pattern that begins with fixed text is found ten times as fast."""
    patterns = {gate: rf"{re.escape(gate)}(?<![A-Za-z0-9]{re.escape(gate)})(?:{rest})" for gate in gates.split()}
    return tuple(Shape(why, (gate,), pattern, is_real) for gate, pattern in patterns.items())


_URL_PASSWORD: Final = r"(?P<secret>[^\s/?#\"'<>\\`]{1,400})@(?=[\w\[.-])"
_DB_PASSWORD: Final = r"(?P<secret>[^\s:@/\"'<>\\`]*:[^\s\"'<>\\`]{1,400})@(?=[\w\[.-])"
_DB_SCHEMES: Final = (
    "postgres postgresql mysql mariadb mongodb +srv redis rediss amqp amqps mssql oracle clickhouse cockroachdb "
    "+psycopg +psycopg2 +asyncpg +pymysql +aiomysql +mysqldb +pyodbc +cx_oracle"
)

TOKENS: Final[tuple[Shape, ...]] = (
    *_tokens("a key of Anthropic", "sk-ant-", r"[A-Za-z0-9_-]{16,}"),
    *_tokens("a key of OpenAI", "sk-proj- sk-svcacct- sk-admin- sk-None-", r"[A-Za-z0-9_-]{16,}"),
    *_tokens("a key of OpenAI or OpenRouter", "sk-", r"(?:or|lf)-[A-Za-z0-9_-]{16,}|[A-Za-z0-9]{20,}", _has_digit),
    *_tokens("a Google API key", "AIza", r"[A-Za-z0-9_-]{30,}"),
    *_tokens("a Google token", "ya29. GOCSPX-", r"[A-Za-z0-9_-]{16,}"),
    *_tokens("a GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9]{20,}"),
    *_tokens("a GitHub token", "github_pat_", r"[A-Za-z0-9_]{20,}"),
    *_tokens("a GitLab token", "glpat- gldt- glptt- glrt- glsoat- glcbt-", r"[A-Za-z0-9_.-]{16,}"),
    *_tokens("a Slack token", "xox", r"[abcdeoprs]-[A-Za-z0-9-]{10,}", _has_digit),
    *_tokens("a Slack token", "xapp-", r"[A-Za-z0-9-]{10,}", _has_digit),
    *_tokens("a Stripe key", "sk_live_ sk_test_ rk_live_ rk_test_ whsec_", r"[A-Za-z0-9]{16,}"),
    *_tokens("an npm token", "npm_", r"[A-Za-z0-9]{30,}"),
    *_tokens("a PyPI token", "pypi-", r"AgE[A-Za-z0-9_-]{13,}|[A-Za-z0-9_-]{50,}"),
    *_tokens("a Hugging Face token", "hf_ api_org_", r"[A-Za-z0-9]{30,}"),
    *_tokens("an AWS key", "AKIA ASIA ABIA ACCA", r"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    *_tokens("a Groq, xAI or Perplexity key", "gsk_ xai- pplx-", r"[A-Za-z0-9]{30,}"),
    *_tokens("a Replicate token", "r8_", r"[A-Za-z0-9]{30,}"),
    *_tokens("a SendGrid key", "SG.", r"[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    *_tokens("a DigitalOcean token", "dop_v1_ doo_v1_ dor_v1_", r"[a-f0-9]{40,}"),
    *_tokens("a Vault token", "hvs. hvb.", r"[A-Za-z0-9_-]{20,}"),
    *_tokens("a Databricks token", "dapi", r"[a-f0-9]{32}"),
    *_tokens("a Shopify token", "shpat_ shpca_ shppa_ shpss_", r"[A-Fa-f0-9]{30,}"),
    *_tokens("a Linear, Notion or Sentry token", "lin_api_ ntn_ sntrys_", r"[\w=+/-]{30,}"),
    *_tokens("an age key", "AGE-SECRET-KEY-1", r"[A-Z0-9]{30,}"),
    *_tokens("a JSON web token", "eyJ", r"[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"),
)
"""Secrets that anybody can tell by how they begin: nothing but letters, digits, `_`, `-` and `.`."""

PLACES: Final[tuple[Shape, ...]] = (
    *_tokens("a cloud account key", "AccountKey= SharedAccessKey= sig=", r"(?P<secret>[A-Za-z0-9+/=%]{20,})"),
    *_tokens("a Slack webhook", "hooks.slack.com/", r"(?P<secret>[a-z]+/[A-Za-z0-9/_-]{16,})"),
    Shape("a URL with a password", ("://",), f"://{_URL_PASSWORD}", _is_user_info),
    Shape(
        "a database URL with a password",
        ("://",),
        f"://(?:{'|'.join(f'(?<={re.escape(one)}://)' for one in _DB_SCHEMES.split())}){_DB_PASSWORD}",
        _is_user_info,
    ),
    Shape("a Telegram token", (":AA",), r"(?<![0-9])\d{8,10}:AA[A-Za-z0-9_-]{32,}"),
)
"""Secrets that are told by where they stand. None of them has a space in it."""

LONG_RUN: Final = re.compile(r"(?<![A-Za-z0-9_.-])[A-Za-z0-9_.-]{15,}")
"""What a token can be part of. Ordinary text has few of them, so everything else about tokens is asked only there."""
TOKEN_START: Final = re.compile("|".join(re.escape(shape.gates[0]) for shape in TOKENS))

_KEY_LINE: Final = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
BLOCK: Final = Shape(
    "a private key",
    ("-----BEGIN",),
    rf"-----BEGIN {_KEY_LINE}(?:(?s:.{{0,20000}}?)-----END {_KEY_LINE}|(?:\s|\\[nr])*(?:[A-Za-z0-9+/=:,.\s-]|\\[nr]){{16,}})",
)
OPEN_BLOCK: Final = re.compile(rf"-----BEGIN(?: {_KEY_LINE}|[A-Z0-9 ]{{0,60}}-{{0,5}}\Z)")
"""A private key that has begun, or may be about to."""

_SIGN: Final = r"\\*[\"'`]?\]?[ \t]{0,8}[:=][ \t]{0,8}\\*[\"'`]?"
HEADERS: Final[tuple[Shape, ...]] = (
    Shape(
        "an Authorization header",
        ("authorization",),
        rf"(?i)authorization{_SIGN}(?:bearer|basic|token|digest|apikey|key|aws4-hmac-sha256)[ \t]+(?P<secret>[^\s\"'`\\,]{{8,}})",
        _is_credential,
    ),
    Shape(
        "an Authorization header",
        ("authorization",),
        rf"(?i)authorization{_SIGN}(?P<secret>[^\s\"'`\\,]{{8,}})",
        looks_random,
    ),
    Shape(
        "a bearer token",
        ("bearer",),
        r"(?i)\bbearer[ \t]+(?P<secret>[A-Za-z0-9._~+/=-]{16,})",
        _has_digit,
    ),
    Shape(
        "a cookie",
        ("cookie",),
        rf"(?i)cookie{_SIGN}(?P<secret>[^\r\n\"'`\\]{{12,}})",
        _is_cookie,
    ),
)
"""Secrets in headers that were written out; their gates are looked for in the text in small letters."""

NAMES: Final = ("password", "passwd", "passphrase", "pwd", "secret", "token", "credential", "credentials", "key")
"""How a name ends that a secret stands next to. `key` needs one of `KEYS` before it."""
KEY_WORDS: Final = (
    "api|access|secret|private|auth|account|shared|signing|encryption|master|service|subscription|admin|deploy"
)
KEYS: Final = re.compile(rf"(?:{KEY_WORDS})[_.-]?\Z")
VALUE: Final = re.compile(
    r"(?P<close>\\*[\"'`]?\]?)[ \t]{0,8}(?:=>|:=|[:=])[ \t]{0,8}(?:[bBrRuU](?=[\"']))?"
    r"(?P<open>\\*[\"'`]?)(?P<secret>[^\s\"'`\\,;)}\]]{6,})"
)
"""What follows a name: a sign, perhaps quotes, and the value."""
_SCHEME: Final = r"(?:(?:bearer|basic|token|digest|apikey|key)[ \t]*)?"
OPEN_VALUE: Final = re.compile(
    rf"(?i:\\*[\"'`]?\]?[ \t]{{0,8}}(?:[:=]>?[ \t]{{0,8}}{_SCHEME}[bru]?\\*[\"'`]?[^\s\"'`\\]{{0,4000}})?"
    r"|[ \t]+[^\s\"'`\\]{0,4000})\Z"
)
"""What may follow a name at the end of a text, when the value has not ended yet."""
