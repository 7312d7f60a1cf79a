"""The names that secrets stand under: of keys, elements and variables, such as `api_key`, `X-Api-Key` and `DB_PASSWORD_PROD`."""

import functools
import re
from collections.abc import Mapping
from typing import Final

PASSWORDS: Final = ("password", "passwd", "passphrase", "passwort", "pwd", "kennwort")
TOKENS: Final = ("secret", "token", "credential", "credentials")
"""How names end that secrets stand under, in small letters."""
OF_KEYS: Final = tuple(
    (
        "secret private shared signing service subscription encryption master deploy api access auth account admin app "
        "fernet jwt hmac session webhook django rails"
    ).split()
)
"""`key` is such a name only with one of these before it."""


def read_back(words: tuple[str, ...]) -> str:
    """Return a pattern for one of these words in a text that is read from its end."""
    return "|".join(word[::-1] for word in words)


@functools.lru_cache(maxsize=512)
def is_secret_key(key: str) -> bool:
    """Return whether what stands under `key` is secret: `api_key`, `apiKey`, `X-Api-Key`, but not `max_tokens` or `page_token`."""
    words = [word for word in _NOT_WORD.split(_CAMEL.sub("_", key).lower()) if word]
    while len(words) > 1 and _NEUTRAL.fullmatch(words[-1]):
        words.pop()
    if not words:
        return False
    words[-1] = words[-1].rstrip("0123456789") or words[-1]
    if words[-1] == "token" and len(words) > 1:
        return _HARMLESS.fullmatch(words[-2]) is None
    if words[-1] == "sk" and len(words) > 1:
        return _INDEX.fullmatch(words[-2]) is None
    return bool(_SECRET_WORD.fullmatch(words[-1]) or any(_SECRET_PAIR.fullmatch("".join(words[-n:])) for n in (2, 3)))


def is_secret_variable(name: str) -> bool:
    """Return whether a variable of this name holds a secret: `STRIPE_SK` and `DATABASE_URL` do, `PATH` does not."""
    return is_secret_key(name) or _NOT_WORD.split(name.lower())[-1] in _OF_VARIABLES


def is_neutral_suffix(suffix: str) -> bool:
    """Return whether `suffix`, which stands behind a name, says no more than which one it is: `_prod`, `2`."""
    return _NEUTRAL_SUFFIX.fullmatch(suffix) is not None


def is_telling_suffix(suffix: str) -> bool:
    """Return whether `suffix`, in small letters, makes the name that of something else: `_type`, `_file`, or another name."""
    return _DESCRIBES.search(suffix) is not None or any(name in suffix for name in _NAMED)


_OF_VARIABLES: Final = frozenset(("dsn", "pass", "pat", "pw", "sk"))
"""How the names of variables end that hold a secret, where no key of an object would be called so."""
PASSWORDS_BACK: Final = read_back(PASSWORDS)
TOKENS_BACK: Final = rf"{read_back(TOKENS)}|yek[ _.-]?(?:{read_back(OF_KEYS)})"
"""The names in a text that is read from its end."""
_KEYS: Final = tuple(f"{of}{sign}key" for of in OF_KEYS for sign in ("", "_", ".", "-", " "))
KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys((*TOKENS, *_KEYS, "_sk"), "token"),
    **dict.fromkeys(PASSWORDS, "password"),
    **dict.fromkeys(("_auth", "'auth", '"auth'), "auth"),
    "authorization": "authorization",
    "cookie": "cookie",
    "_pass": "variable",
}
_NAMED_BACK: Final = (
    r"[ \t]{0,8}+\]?+[\"'`]?+\\*+(?=[a-z0-9])"
    rf"(?P<suffix>[0-9]{{1,3}}|{read_back(('prod', 'production', 'dev', 'staging', 'stage', 'test', 'live', 'base'))}"
    rf"|(?:[a-z0-9]{{1,16}}+[_-]){{1,3}}?)??(?P<name>{PASSWORDS_BACK}|{TOKENS_BACK}"
    r"|ks_|noitazirohtua|eikooc|htua[\"'_]|ssap_)"
)
NAMES: Final[Mapping[str, re.Pattern[str]]] = {
    "=": re.compile(rf"=:?{_NAMED_BACK}"),
    ":": re.compile(rf":(?<!=:){_NAMED_BACK}"),
    "d3%": re.compile(rf"d3%{_NAMED_BACK}"),
    "a3%": re.compile(rf"a3%{_NAMED_BACK}"),
}
"""A name with its suffix behind each sign, as it is or as a URL writes it: all read from their end, in small letters."""
_SECRET_WORD: Final = re.compile(
    "password|passwd|passphrase|pwd|secret|token|authorization|cookie|credentials?|apikey|xapikey"
)
_SECRET_PAIR: Final = re.compile(
    "(?:api|app|secret|access|private|auth|account|shared|signing|encryption|master|service|sharedaccess|secretaccess|fernet|jwt|hmac)key"
    "|apisecret|(?:set)?cookie|connectionstring|connstr|connectionuri|databaseurl|(?:shared)?accesssignature"
)
_HARMLESS: Final = re.compile(
    "page|next|continuation|pagination|cursor|eos|bos|pad|unk|sep|cls|mask|stop|special|cancel|cancellation|per|sync|fencing"
)
"""What makes a token something else: a place in a list, a piece of text."""
_INDEX: Final = re.compile(r"[gl]si[0-9]*")
"""Before `sk`: the sort key of an index of DynamoDB."""
_NEUTRAL: Final = re.compile(
    "prod|production|prd|dev|devel|development|stage|staging|stg|test|testing|qa|uat|preview|local|live|sandbox|ci|base|main|primary"
    "|secondary|default|backup|old|new|current|previous|legacy|temp|tmp|rw|ro|readonly|us|eu|ap|v?[0-9]{1,3}|[a-z]"
)
_NEUTRAL_SUFFIX: Final = re.compile(rf"(?:(?:{_NEUTRAL.pattern})(?![a-z0-9])|[^a-z0-9])*+")
_DESCRIBES: Final = re.compile(
    "[_-](?:counts?|len(?:gth)?|size|min|max|total|types?|kind|names?|ids?|file(?:name)?|path|dir|folder|url|uri|endpoint|host|port|limits?|ttl|expir.*|lifetime"
    "|age|time.*|hint|policy|field|prefix|suffix|header|regex|pattern|format|rotation|enabled?|required|allowed|usage|budget|algo.*|versions?|cost|cache|store"
    "|manager|provider|class|var|env|arn|refs?|index|idx|num|bytes|chars|rounds|iterations|hash.*|digest|errors?|status|state|scopes?|audience|issuer|re|re_.*)(?![a-z0-9])"
)
"""Suffixes of settings that are about a secret."""
_NAMED: Final = ("pass", "pwd", "kennwort", "secret", "token", "credential", "key", "auth", "cookie")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NOT_WORD: Final = re.compile(r"[^a-z0-9]+")


class NextMatch:
    """Finds the next match of a pattern. Ask from left to right: then nothing is read twice."""

    def __init__(self, pattern: re.Pattern[str], text: str) -> None:
        self._pattern = pattern
        self._text = text
        self._at = -1

    def after(self, place: int) -> int:
        """Return the first match at `place` or behind it; the end of the text when there is none."""
        if self._at < place:
            match = self._pattern.search(self._text, place)
            self._at = match.start() if match else len(self._text)
        return self._at
