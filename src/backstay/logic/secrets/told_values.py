"""Says which values are looked for wherever they stand, once a text has told that they are secret. Pure.

`api_key: zebraStripe99` tells of a value that stands alone elsewhere. Most such values are worth a search; an ordinary word, a name in code
and a word that stands for a secret are not: they would be erased from a whole conversation. `docs/secrets.md` states the rule.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import unquote

from backstay.logic.secrets.secret_names import KINDS, PASSWORDS
from backstay.logic.secrets.shapes import SecretMatch, contains
from backstay.logic.secrets.value_looks import has_digit, is_code, is_literal, looks_random

LEAST: Final = 8
"""Characters of a value that is looked for wherever it stands. A shorter one would blot out ordinary words."""
WORD_LEAST: Final = 16
"""The same for one run of small letters: few words are so long."""
PLAIN_LEAST: Final = 20
"""Characters from which on any value is looked for."""
REACH: Final = 64
"""Characters before a sign in which the name of a value stands."""
_WHY: Final = "a secret that is named as one"


def find_told_words(text: str) -> Iterator[SecretMatch]:
    """What only its name tells to be secret: a run of letters too long for a word, `token = correcthorsebattery`, and a value below it."""
    if contains(text, "\n"):
        yield from _find_below(text)
    for match in _LONG_WORD.finditer(text) if contains(text, "=") or contains(text, ":") else ():
        start, end = match.span("secret")
        before = text[max(0, match.start() - REACH) : match.start()].lower()
        if end - start <= REACH and _NAME.search(before) and not any(stem in match["secret"] for stem in _STEMS):
            yield SecretMatch(start, end, _WHY)


def _find_below(text: str) -> Iterator[SecretMatch]:
    """Values that stand alone in the line below their names: `password:`, and then `hunter2x`."""
    for match in _BELOW.finditer(text):
        name = _NAME.search(text[max(0, match.start() - REACH) : match.start()].lower())
        if name and is_literal(match["secret"], password=name[0].startswith(PASSWORDS)):
            yield SecretMatch(*match.span("secret"), _WHY)


def is_telling(value: str) -> bool:
    """Whether a value that is told to be secret is looked for wherever it stands."""
    if len(value) >= PLAIN_LEAST or len(value) < LEAST or looks_random(value):
        return len(value) >= LEAST
    if has_digit(value):
        return not is_code(value) and _DAY.fullmatch(value) is None
    words = _WORD.findall(_CAMEL.sub(" ", value))
    if is_code(value) or _CALL.match(value) or all(_STANDING_IN.fullmatch(word.lower()) for word in words):
        return False
    if _NAME_IN_CODE.fullmatch(value):
        return len(value) >= WORD_LEAST and value.isalpha() and value.islower()
    return len(words) > 0


def forms(value: str) -> Iterator[str]:
    """A value as it stands, as it was before it was written as JSON or in an address, and what is left of it without signs around it."""
    given = dict.fromkeys((value, *_unescaped(value), unquote(value)))
    for form in tuple(given):
        if _COOKIE.match(form):
            given |= dict.fromkeys(crumb["value"] for crumb in _CRUMB.finditer(form))
        if " " not in form:
            first = _PARAMETER.split(form, maxsplit=1)[0]
            given |= dict.fromkeys((form.strip(_AROUND), first.strip(_AROUND), _password(form)))
    yield from filter(None, given)


def _unescaped(value: str) -> Iterator[str]:
    try:
        plain = json.loads(f'"{value}"')
    except ValueError:
        return
    if isinstance(plain, str):
        yield plain


def _password(value: str) -> str:
    """What stands behind the name of a user, as in an address."""
    name, _, password = value.partition(":")
    return password if _USER.fullmatch(name) else ""


_AROUND: Final = "*_.,:;!?()[]{}<>|…"
_PARAMETER: Final = re.compile(r"[&|<>;]|\*\*")
"""What may follow a value without a blank: the next parameter of an address, a pipe, an element, a sign of Markdown."""
_COOKIE: Final = re.compile(r"[!#$%&*+.^|~\w-]{1,80}=(?=[^=])")
_CRUMB: Final = re.compile(
    r"(?:\A|;\s?)(?!(?i:domain|path|expires|max-age|samesite|priority)=)[^=;]{1,80}+=(?P<value>[^;]*+)"
)
"""A cookie, and no word about it."""
_USER: Final = re.compile(r"[\w.%+-]{1,64}")
_LONG_WORD: Final = re.compile(
    rf"(?:=>|[:=])[ \t]{{0,8}}\\{{0,4}}[\"'`]?(?P<secret>[a-z]{{{WORD_LEAST},}}+)(?=[\s\"'`\\,;)}}\]<&]|\.?(?:\s|\Z))"
)
_BELOW: Final = re.compile(
    r"[:=][ \t]{0,8}(?:[|>][+-]?)?[ \t]{0,8}\r?\n[ \t]{0,64}[\"'`]?"
    r"(?P<secret>(?!-|[\w.-]{1,64}[:=])[^\s\"'`]{6,400}+)[\"'`]?[ \t]{0,8}(?=\r?\n|\Z)"
)
"""A sign at the end of a line, and one word below it that is no name of its own."""
_NAMED: Final = "|".join(re.escape(name) for name, kind in KINDS.items() if kind in ("password", "token", "variable"))
_NAME: Final = re.compile(rf"(?:{_NAMED})\\{{0,4}}[\"'`]?[ \t]{{0,8}}\Z")
_STEMS: Final = ("pass", "pwd", "secret", "token", "credential", "key", "auth")
"""In a word that is the name of something, not the thing."""
_DAY: Final = re.compile(r"(?:19|20)\d\d[01]\d[0-3]\d")
_CALL: Final = re.compile(r"[A-Za-z_][\w.]*+[(\[{]")
_NAME_IN_CODE: Final = re.compile(r"[^\w\s]*+[^\W\d_]++(?:[-_.:/]++[^\W\d_]++)*+[^\w\s]*+")
"""Letters, signs that join words to a name, and signs around it."""
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_WORD: Final = re.compile(r"[^\W\d_]+")
_STANDING_IN: Final = re.compile(
    "a|access|admin|an|api|app|auth|change|changeme|client|credential|credentials|database|db|default|demo|dummy|example|fake"
    "|false|fill|goes|here|hidden|id|in|insert|jwt|key|masked|me|my|none|not|null|of|password|passwd|pass|placeholder|private"
    "|provide|put|pwd|redacted|replace|root|sample|secret|service|session|some|sk|string|super|test|testing|text|the|this|to"
    "|todo|token|true|undefined|unset|user|username|value|with|x+|you|your"
)
"""Words of what stands for a secret: `your-api-key-here`, `userPassword`."""


class _Repeated(Exception):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def repeated_name(text: str | bytes) -> str:
    """The first name that stands twice in an object of a JSON text; empty when there is none, and for what is no JSON."""
    try:
        json.loads(text, object_pairs_hook=_checked)
    except _Repeated as exc:
        return exc.name
    except (ValueError, RecursionError):
        return ""
    return ""


def _checked(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise _Repeated(next(name for at, name in enumerate(names) if name in names[:at]))
    return found
