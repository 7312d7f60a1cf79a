"""Finds secrets by the name that they are assigned to: `password=hunter2`, `"apiKey": "..."`, `Authorization: ...`, `DB_TOKEN=...`.

The time is linear in the text, whatever it says. A text is read from left to right; where a name is followed by no secret, reading goes
on behind its sign, and a long value is judged by its beginning. Where a run of letters ends and where the next digit stands is looked up
once, not anew for each name in the run.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from holdfast.logic.redact_keys import is_neutral_suffix, is_telling_suffix
from holdfast.logic.redact_shapes import LONGEST_JUDGED, Found, decoded, has_digit, is_placeholder, looks_random

PASSWORDS: Final = "p(?:ass(?:word|wd|phrase|wort)|wd)|kennwort"
TOKENS: Final = (
    "secret(?:[_.-]?key)?|token|credentials?|(?:private|shared|signing|service|subscription|encryption|master|deploy)[_.-]?key"
    "|a(?:pi|ccess|uth|ccount|dmin|pp)[_.-]?key|(?:fernet|jwt|hmac|session|webhook|django|rails)[_.-]?key"
)
"""How names end that secrets stand under, in small letters. `key` is one only with such a word before it."""
LONGEST_QUOTED: Final = 4096
"""Characters after a quote in which its end is looked for."""

LONGEST_COOKIE_NAME: Final = 84
"""Characters in which the sign after a cookie's name stands, quotes before the name included."""

Span = tuple[int, int]
NOWHERE: Final[Span] = (0, 0)


def find_assigned(text: str, lowered: str) -> Iterator[Found]:
    """The values in `text` whose names say that they are secret. `lowered` is the text in small letters."""
    reader = _Reader(text, lowered)
    done = at = 0
    while match := _NAME.search(lowered, at):
        at = match.end()
        if at <= done:
            continue
        if match["suffix"] and not reader.is_of_name(match):
            at = match.end("name")
            continue
        kind = _KINDS.get(match["name"]) or _kind(match["name"])
        if reader.is_plain(kind, match.start(), match.end()):
            continue
        start, done = reader.value(kind, match)
        if done > start:
            yield Found(start, done, _WHY[kind])


def is_literal(value: str, *, password: bool) -> bool:
    """Whether a value is written out: not code that gets it from elsewhere, and not a plain word, which may be code too."""
    if "(" in value:
        return False
    if "[" in value or "{" in value or is_code(value):
        return looks_random(value)
    if password:
        return bool(has_digit(value) or (_SYMBOL.search(value) and _LETTER.search(value)))
    return len(value) >= 6 and bool(has_digit(value) and _LETTER.search(value))


def is_code(value: str) -> bool:
    """Whether `value` stands for something else: a placeholder, a path, a name, a call, a time."""
    return is_placeholder(value) or _CODE.match(value) is not None


class _Reader:
    """Reads the values of one text, from left to right."""

    def __init__(self, text: str, lowered: str) -> None:
        self._text = text
        self._lowered = lowered
        self._word_ends = _Next(_WORD_END, text)
        self._argument_ends = _Next(_ARGUMENT_END, text)
        self._header_ends = _Next(_HEADER_END, text)
        self._digits = _Next(_DIGIT, text)

    def is_of_name(self, match: re.Match[str]) -> bool:
        """Whether what stands between a name and its sign leaves it the name of a secret: `_PROD`, `2`, but not `_TYPE`."""
        if is_neutral_suffix(match["suffix"]):
            return True
        is_variable = match["name"] != "_sk" and self._text[match.start("name") : match.end("suffix")].isupper()
        return is_variable and not is_telling_suffix(match["suffix"])

    def is_plain(self, kind: str, start: int, at: int) -> bool:
        """Whether certainly no secret follows at `at`. This is all that is asked of most names in a text."""
        if kind == "token":
            if self._text[start].isupper() or self._text[at : at + 1] in _OPENING:
                return False
            return self._ends_first(at, self._word_ends) or _NUMBER.match(self._text, at) is not None
        if kind == "cookie":
            return self._text.find("=", at, at + LONGEST_COOKIE_NAME) < 0
        if kind == "authorization" and self._lowered[at : at + 2] not in _SCHEMES:
            return self._text[at : at + 1] not in _OPENING and self._ends_first(at, self._header_ends)
        return False

    def _ends_first(self, at: int, ends: "_Next") -> bool:
        """Whether what begins at `at` ends before the next digit."""
        digit = self._digits.after(at)
        return digit == len(self._text) or digit >= ends.after(at)

    def value(self, kind: str, match: re.Match[str]) -> Span:
        """Where the secret behind a name and its sign stands; nowhere when there is none."""
        at = match.end()
        if kind == "authorization":
            return self._header(at)
        if kind == "cookie":
            cookie = _COOKIE.match(self._text, at)
            return cookie.span("secret") if cookie and not is_code(self._head(*cookie.span("secret"))) else NOWHERE
        opened = _OPEN.match(self._text, at) if self._text[at : at + 1] in _OPENING else None
        if opened and (inside := self._inside(opened)):
            return inside if self._is_quoted_secret(kind, match, *inside) else NOWHERE
        return self._word(kind, match, opened.end() if opened else at)

    def _word(self, kind: str, match: re.Match[str], start: int) -> Span:
        end = self._word_ends.after(start)
        if end - start >= _SHORTEST[kind] and (kind == "password" or self._digits.after(start) < end):
            head = self._head(start, end)
            if _is_login(head) if kind == "auth" else is_literal(head, password=kind == "password"):
                return start, end
        if self._is_variable(match):
            end = self._argument_ends.after(start)
            return (start, end) if end - start >= 3 and not is_code(self._head(start, end)) else NOWHERE
        return NOWHERE

    def _is_quoted_secret(self, kind: str, match: re.Match[str], start: int, end: int) -> bool:
        value = self._head(start, end)
        if kind == "auth":
            return _is_login(value)
        if " " in value or "\t" in value:
            return _is_phrase(value, is_password=kind == "password" or match["name"] == "secret")
        if end - start >= 4 and is_literal(value, password=kind == "password"):
            return True
        if end - start >= 6 and _is_mixed(value) and self._text[_name_end(match)] in "\\\"'`":  # its name is quoted too
            return True
        return end - start >= 3 and self._is_variable(match) and not is_code(value)

    def _inside(self, opened: re.Match[str]) -> Span | None:
        """The inside of quotes that end in the same line."""
        text, quote, start = self._text, opened["quote"], opened.end()
        last = text.find("\n", start, start + LONGEST_QUOTED)
        last = start + LONGEST_QUOTED if last < 0 else last
        at = text.find(quote, start, last)
        while at >= 0 and (skip := _escaped(text, at, start, quote)):
            at = text.find(quote, at + skip, last)
        return (start, at) if at >= 0 else None

    def _header(self, at: int) -> Span:
        begun = _SCHEME.match(self._lowered, at)
        assert begun is not None  # all of it may be empty
        start = begun.end()
        end = self._header_ends.after(start)
        if end - start < 8 or not (begun["scheme"] or self._digits.after(start) < end):
            return NOWHERE
        is_real = _is_credential if begun["scheme"] else looks_random
        return (start, end) if is_real(self._head(start, end)) else NOWHERE

    def _is_variable(self, match: re.Match[str]) -> bool:
        """Whether this is `NAME=` with the name of an environment variable, whose value may be a plain word."""
        start, end = match.start("name"), _name_end(match)
        if match["suffix"] and not is_neutral_suffix(match["suffix"]):
            return False
        if (
            match["name"] in _NO_VARIABLE
            or not self._text[start:end].isupper()
            or self._text[end : match.end()].strip(" \t") != "="
        ):
            return False
        before = self._text[max(0, start - 64) : start]
        return not _SMALL.search(before, len(before.rstrip(_IDENTIFIER)))

    def _head(self, start: int, end: int) -> str:
        return self._text[start : min(end, start + LONGEST_JUDGED)]


class _Next:
    """Where a pattern matches next. To be asked from left to right: then nothing is read twice."""

    def __init__(self, pattern: re.Pattern[str], text: str) -> None:
        self._pattern = pattern
        self._text = text
        self._at = -1

    def after(self, place: int) -> int:
        """The first match at `place` or behind it; the end of the text when there is none."""
        if self._at < place:
            match = self._pattern.search(self._text, place)
            self._at = match.start() if match else len(self._text)
        return self._at


def _name_end(match: re.Match[str]) -> int:
    return max(match.end("name"), match.end("suffix"))


def _kind(name: str) -> str:
    return "password" if _IS_PASSWORD(name) else "token"


def _is_phrase(value: str, *, is_password: bool) -> bool:
    """Whether several words in quotes are a secret, and not a label or a message about one."""
    if value != value.strip() or is_code(value) or _TEMPLATE.search(value):
        return False
    words = value.split()
    if any(looks_random(word) for word in words):
        return True
    return is_password and len(value) >= 8 and value[-1] not in ".:?!…," and not _PROSE.search(value)


def _is_mixed(value: str) -> bool:
    """Enough for a quoted value under a quoted name: not a plain word."""
    is_name = value.replace("_", "").replace("-", "").isalpha()
    return not is_name and not value.startswith(("$", "{", "<", "%", "/", "http"))


def _is_login(value: str) -> bool:
    """Whether this is the base64 of a name and a password, as Docker and npm keep them."""
    plain = decoded(value)
    return len(value) >= 8 and b":" in plain[1:] and plain.isascii() and plain.decode().isprintable()


def _is_credential(value: str) -> bool:
    """What follows the scheme of an Authorization header."""
    return not is_placeholder(value) and (has_digit(value) or value.endswith("=") or value.lower() != value)


def _escaped(text: str, at: int, start: int, quote: str) -> int:
    """How much to skip when the quote at `at` does not end the value: it is escaped, or doubled as in YAML."""
    if quote == "'" and text.startswith("''", at):
        return 2
    before = text[max(start, at - 64) : at]
    slashes = len(before) - len(before.rstrip("\\"))
    return len(quote) if quote[0] != "\\" and slashes % 2 else 0


_WHY: Final[Mapping[str, str]] = {
    "password": "a password",
    "token": "a secret that is named as one",
    "authorization": "an Authorization header",
    "cookie": "a cookie",
    "auth": "the base64 of a login",
    "variable": "a password",
}
_SHORTEST: Final[Mapping[str, int]] = {"password": 4, "token": 6, "auth": 8, "variable": 1 << 30}
_KINDS: Final[Mapping[str, str]] = {
    "authorization": "authorization",
    "cookie": "cookie",
    "_pass": "variable",
    "_auth": "auth",
    '"auth': "auth",
    "'auth": "auth",
    "secret": "token",
    "token": "token",
    "password": "password",
}
_IS_PASSWORD: Final = re.compile(PASSWORDS).fullmatch
_NAME: Final = re.compile(
    rf"(?P<name>{PASSWORDS}|authorization|cookie|{TOKENS}|\"auth|'auth|_auth|_pass|_sk)"
    r"(?P<suffix>[0-9]{1,3}+|prod(?:uction)?|dev|staging|stage|test|live|base|(?:[_-][a-z0-9]{1,16}+){1,3}+)?"
    r"\\*[\"'`]?\]?[ \t]{0,8}(?:=>|:=|[:=]|%3[da])[ \t]{0,8}"
    r"(?:\{\s{0,20}+\\{0,4}[\"'](?:value|plaintext|stringvalue)\\{0,4}[\"'][ \t]{0,4}:[ \t]{0,8})?"
)
"""A name and its sign, in small letters. Every form begins with fixed text, which makes the search fast."""
_NO_VARIABLE: Final = ("_auth", "'auth", '"auth')
_SCHEMES: Final = frozenset(("be", "ba", "to", "di", "ap", "ke", "aw"))
"""How the schemes of an Authorization header begin."""
_OPENING: Final = frozenset("\"'`\\bBrRuU")
_OPEN: Final = re.compile(r"(?:[bBrRuU](?=[\"']))?(?P<quote>\\*[\"'`])")
_BACKSLASH: Final = r"\\(?!u(?!00[0-7])[0-9a-fA-F]{4})"
"""One that does not write a letter beyond ASCII, as JSON does."""
_WORD_END: Final = re.compile(rf"[\s\"'`,;)}}\]]|{_BACKSLASH}")
_ARGUMENT_END: Final = re.compile(rf"[\s\"'`;]|{_BACKSLASH}")
_HEADER_END: Final = re.compile(rf"[\s\"'`,]|{_BACKSLASH}")
_SCHEME: Final = re.compile(r"\\*[\"'`]?(?P<scheme>(?:bearer|basic|token|digest|apikey|key|aws4-hmac-sha256)[ \t]+)?")
_COOKIE: Final = re.compile(r"\\*[\"'`]?(?P<secret>[!#$%&*+.^|~\w-]{1,80}+=[^\r\n\"'`\\]{3,})")
_CODE: Final = re.compile(
    r"[(\[{]|[A-Za-z_][\w.]*+\(|[A-Za-z_]\w*+(?:(?:\.|->|::)[A-Za-z_]\w*+)+\Z|\.{0,2}/|~|https?:|\d{4}-\d\d-\d\d|\d{1,2}:\d\d"
)
_TEMPLATE: Final = re.compile(r"[{}<>]|\$[\w({]|%[sdr(]|\\[nt]")
_PROSE: Final = re.compile(
    rf"(?i)\b(?:{PASSWORDS}|passwords|pass|secrets?|tokens?|keys?|credentials?|login|user(?:name)?s?|account|email|must|should|enter|your|please"
    r"|confirm|forgot|reset|change|repeat|new|old|current|required|optional|invalid|incorrect|wrong|missing|empty|expired|strength|hidden"
    r"|characters?|value|string|text|field|input|type|name|none|null|true|false|the|for|of|to|is|are|not|or|with|from|if|in|an?)\b"
)
"""Words of labels and messages."""
_DIGIT: Final = re.compile(r"[0-9]")
_NUMBER: Final = re.compile(r"[0-9]{1,40}+(?:[(),;}\]\s]|\Z)")
"""A number, or one that is called."""
_SMALL: Final = re.compile(r"[a-z]")
_LETTER: Final = re.compile(r"[^\W\d_]")
_SYMBOL: Final = re.compile(r"[^\w.:/-]")
_IDENTIFIER: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"
