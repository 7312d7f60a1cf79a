"""Find secrets by the name that they are assigned to: `password=hunter2`, `"apiKey": "..."`, `Authorization: ...`, `DB_TOKEN=...`.

The time is linear in any text, for four reasons:

- Signs (`=`, `:`, `%3d`) are looked for first, in the text read from its end, and then the name before each. A sign has few characters
  in which its name can stand, and a text has far fewer signs than letters.
- Names are judged from left to right, so `NextMatch` looks up once where a run of letters ends and where the next digit stands, not anew
  for each name in the run.
- A long value is judged by its beginning (`LONGEST_JUDGED`), a quote is closed within `LONGEST_QUOTED`.
- A name is judged once. The verdict comes with the text that was read for it, and holds wherever the same text stands again.

The last part finds secrets that an element around them names, or a sibling: `<password>...</password>`, `name: DB_PASSWORD` and `value:
...`.
"""

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from backstay.logic.secrets.secret_names import (
    KINDS,
    NAMES,
    NextMatch,
    is_neutral_suffix,
    is_secret_key,
    is_telling_suffix,
)
from backstay.logic.secrets.shapes import (
    LONGEST_JUDGED,
    SecretMatch,
    contains,
    decode_base64,
    has_digit,
    is_code,
    is_literal,
    is_phrase,
    is_placeholder,
    looks_random,
)

LONGEST_QUOTED: Final = 4096
"""Characters after a quote in which its end is looked for."""
LONGEST_COOKIE_NAME: Final = 84
"""Characters in which the sign after a cookie's name stands, quotes before the name included."""
LONGEST_BEFORE: Final = 64
"""Characters before the name of a variable that are read."""
NEAR: Final = 32
"""Characters behind a sign by which an earlier verdict is looked up."""
LONGEST_TAIL: Final = 80
"""Characters that may be read to find where a value begins behind its sign."""
LONGEST_READ: Final = 640
"""Characters that may have been read for a verdict that is kept."""
MOST_JUDGED: Final = 512
"""Verdicts that are kept at a time."""

Span = tuple[int, int]
NOWHERE: Final[Span] = (0, 0)


class NameVerdict(msgspec.Struct, frozen=True, gc=False):
    """Whether a secret follows a name."""

    read: str
    """The text that was read for the verdict, which holds where the same stands again; empty when it is too long or cut off."""
    before: int
    """How much of that text stands before the name."""
    why: str
    """Why there is a secret; empty when there is none."""
    start: int
    """Where the secret begins, counted from behind the sign."""
    end: int


class Name(msgspec.Struct, frozen=True, gc=False):
    """The name of a secret, before a sign."""

    kind: str
    start: int
    end: int
    """Behind its suffix."""
    suffix: str
    at: int
    """Where its value may begin."""


def find_assigned(text: str, lowered: str, back: str) -> Iterator[SecretMatch]:
    """Yield the values in `text` whose names say that they are secret. `lowered` is the text in small letters, `back` that from its end."""
    reader, size, done = _Reader(text, lowered, back), len(text), 0
    verdicts: dict[str, NameVerdict] = {}
    for first, last in _find_named_signs(back):
        start, sign = size - last, size - first
        if sign <= done and reader.value_start(sign) <= done:
            continue
        near = text[start : sign + NEAR]
        verdict = verdicts.get(near)
        if not verdict or start < verdict.before or not text.startswith(verdict.read, start - verdict.before):
            verdict = reader.judge(first, last)
            if len(verdicts) >= MOST_JUDGED:
                verdicts.clear()
            if verdict.read:
                verdicts[near] = verdict
        if verdict.why:
            done = sign + verdict.end
            yield SecretMatch(sign + verdict.start, done, verdict.why)


def _find_named_signs(back: str) -> list[Span]:
    """Return where names stand that a sign follows: places in `back`, in the order in which they stand in the text."""
    names = [name for sign, name in NAMES.items() if sign in back]
    found = [match.span() for name in names for match in name.finditer(back)]
    if len(names) > 1:
        found.sort()
    found.reverse()
    return found


class _Reader:
    """Reads the values of one text, from left to right."""

    def __init__(self, text: str, lowered: str, back: str) -> None:
        self._text = text
        self._lowered = lowered
        self._back = back
        self._size = len(text)
        self._word_ends = NextMatch(_WORD_END, text)
        self._argument_ends = NextMatch(_ARGUMENT_END, text)
        self._header_ends = NextMatch(_HEADER_END, text)
        self._digits = NextMatch(_DIGIT, text)
        self._read_to = 0
        """Up to where the text was read to judge a name."""

    def judge(self, first: int, last: int) -> NameVerdict:
        """Judge what follows the name and the sign that stand from `first` to `last` in the text read from its end."""
        text, start, sign = self._text, self._size - last, self._size - first
        self._read_to = sign + 1
        at = self.value_start(sign)
        kind = KINDS.get(self._lowered[start : sign - 1])
        name = Name(kind, start, sign - 1, "", at) if kind else self._name(first, at)
        found, end = self._value(name) if name else NOWHERE
        before = 0 if text[start:sign].islower() else LONGEST_BEFORE
        is_cut_off = start < before or self._read_to > self._size or self._read_to - start > LONGEST_READ
        read = "" if is_cut_off else text[start - before : self._read_to]
        why = _WHY[name.kind] if name and end > found else ""
        return NameVerdict(read, before, why, found - sign, end - sign)

    def value_start(self, sign: int) -> int:
        """Return where the value behind `sign` begins: blanks, `>` and the beginning of an object may stand before it."""
        if self._lowered[sign : sign + 1] not in _TAIL_BEGINS:
            return sign
        self._read_to = sign + 2
        if self._lowered[sign] == " " and self._lowered[sign + 1 : sign + 2] not in _TAIL_BEGINS:
            return sign + 1
        tail = _TAIL.match(self._lowered, sign)
        end = tail.end() if tail else sign
        self._read_to = sign + LONGEST_TAIL if self._lowered.find("{", sign, end + 1) >= 0 else end + 1
        return end

    def _name(self, first: int, at: int) -> Name | None:
        """Return the name before a sign, when it is that of a secret: `TOKEN_PROD`, not `token_type`."""
        back, size = self._back, self._size
        pattern = NAMES[back[first : first + 3] if back[first] in "ad" else back[first]]
        match = pattern.match(back, first)
        assert match is not None  # it was found there
        start, end, suffix = size - match.end(), size - match.start("name"), match["suffix"]
        name = self._lowered[start:end]
        kind = KINDS[name]
        if not suffix:
            return Name(kind, start, end, "", at)
        suffix, end = suffix[::-1], size - match.start("suffix")
        is_variable = name != "_sk" and self._text[start:end].isupper() and not is_telling_suffix(suffix)
        return Name(kind, start, end, suffix, at) if is_variable or is_neutral_suffix(suffix) else None

    def _is_ruled_out(self, name: Name) -> bool:
        """Return whether certainly no secret follows. Most names need no other check."""
        text, kind, at = self._text, name.kind, name.at
        begins = text[at : at + 1]
        if begins in _BLOCKS or begins in _OPENING:
            return False
        if begins in _TEMPLATES and kind in _WRITTEN_OUT:
            return True
        if kind == "token" and not text[name.start].isupper():
            if self._ends_first(at, self._word_ends):
                return True
            self._note_read(at + _LONGEST_NUMBER + 2)
            return _NUMBER.match(text, at) is not None
        if kind == "cookie":
            sign = text.find("=", at, at + LONGEST_COOKIE_NAME)
            self._note_read(at + LONGEST_COOKIE_NAME if sign < 0 else sign + 1)
            return sign < 0
        if kind == "authorization" and self._lowered[at : at + 2] not in _SCHEMES:
            return self._ends_first(at, self._header_ends)
        return False

    def _ends_first(self, at: int, ends: NextMatch) -> bool:
        """Return whether what begins at `at` ends before the next digit, as far as it is judged."""
        end = min(ends.after(at), at + LONGEST_JUDGED)
        digit = self._digits.after(at)
        self._read_to = max(self._read_to, min(digit, end) + 1)
        return digit >= end

    def _note_read(self, to: int) -> None:
        """Remember that the text was read up to a place."""
        self._read_to = max(self._read_to, to)

    def _value(self, name: Name) -> Span:
        """Return where the secret behind a name and its sign stands; `NOWHERE` when there is none."""
        text, kind, at = self._text, name.kind, name.at
        if kind in _WRITTEN_OUT and (simple := _SIMPLE.match(text, at)):
            self._note_read(simple.end() + 1)
            return simple.span(simple.lastindex or 0)
        if self._is_ruled_out(name):
            return NOWHERE
        if kind == "authorization":
            return self._header(at)
        if kind == "cookie":
            return self._cookie(at)
        if kind in _WRITTEN_OUT and text[at : at + 1] in _BLOCKS:
            if block := _BLOCK.match(text, at):
                self._note_read(text.find("\n", block.end()) % _FAR + 1)
                return block.span("secret") if self._is_line(kind, *block.span("secret")) else NOWHERE
            self._note_read(at + _LONGEST_MARK if text.find("\n", at, at + _LONGEST_MARK) < 0 else _FAR)
        if text[at : at + 1] not in _OPENING:
            return self._word(name, at)
        opened = _OPEN.match(text, at)
        assert opened is not None  # all of it may be empty
        self._note_read(opened.end() + 2)
        if not opened["quote"]:
            return self._word(name, at)
        if inside := self._inside(opened):
            return inside if self._is_quoted_secret(name, *inside) else NOWHERE
        return self._word(name, opened.end())

    def _cookie(self, at: int) -> Span:
        cookie = _COOKIE.match(self._text, at)
        self._note_read(
            cookie.end() + 1 if cookie else _FAR if self._text[at : at + 1] == "\\" else at + LONGEST_COOKIE_NAME + 4
        )
        return cookie.span("secret") if cookie and not is_code(self._take_judged(*cookie.span("secret"))) else NOWHERE

    def _is_line(self, kind: str, start: int, end: int) -> bool:
        """Return whether the line below a name is its value."""
        value = self._take_judged(start, end)
        if " " in value or "\t" in value:
            return is_phrase(value, is_password=kind == "password")
        return end - start >= _SHORTEST[kind] and is_literal(value, password=kind == "password")

    def _word(self, name: Name, start: int) -> Span:
        kind, end = name.kind, self._word_ends.after(start)
        judged = self._limit_judged(start, end)
        if end - start >= _SHORTEST[kind] and (kind == "password" or self._digits.after(start) < judged):
            head = self._text[start:judged]
            if _is_login(head) if kind == "auth" else is_literal(head, password=kind == "password"):
                return self._whole(start, end)
        if self._is_variable(name):
            end = self._argument_ends.after(start)
            if end - start >= 3 and not is_code(self._text[start : self._limit_judged(start, end)]):
                return self._whole(start, end)
        return NOWHERE

    def _limit_judged(self, start: int, end: int) -> int:
        """Return the end of the part of a value that is judged."""
        judged = min(end, start + LONGEST_JUDGED)
        self._note_read(judged + 1)
        return judged

    def _whole(self, start: int, end: int) -> Span:
        """Return a value that goes up to a place at which another character ends it."""
        self._note_read(end + 1)
        return start, end

    def _is_quoted_secret(self, name: Name, start: int, end: int) -> bool:
        kind, value = name.kind, self._take_judged(start, end)
        if kind == "auth":
            return _is_login(value)
        if " " in value or "\t" in value:
            is_word = self._lowered.startswith("secret", name.start) and name.end - name.start == len("secret")
            return is_phrase(value, is_password=kind == "password" or is_word)
        if end - start >= 4 and is_literal(value, password=kind == "password"):
            return True
        if end - start >= 6 and self._text[name.end] in _QUOTES and _is_mixed(value):  # its name is quoted too
            return True
        return end - start >= 3 and self._is_variable(name) and not is_code(value)

    def _inside(self, opened: re.Match[str]) -> Span | None:
        """Return the inside of quotes that end in the same line."""
        text, quote, start = self._text, opened["quote"], opened.end()
        last = text.find("\n", start, start + LONGEST_QUOTED)
        if pattern := _INSIDE.get(quote):
            inside = pattern.match(text, start, start + LONGEST_QUOTED)
            end = inside.end() - 1 if inside else -1
        else:
            end = text.find(quote, start, start + LONGEST_QUOTED if last < 0 else last)
        self._note_read(end + len(quote) + 1 if end >= 0 else last % _FAR + 1)
        return (start, end) if end >= 0 else None

    def _header(self, at: int) -> Span:
        begun = _SCHEME.match(self._lowered, at)
        assert begun is not None  # all of it may be empty
        start = begun.end()
        self._note_read(start + _LONGEST_SCHEME)
        end = self._header_ends.after(start)
        judged = self._limit_judged(start, end)
        if end - start < 8 or not (begun["scheme"] or self._digits.after(start) < judged):
            return NOWHERE
        is_real = _is_credential if begun["scheme"] else looks_random
        return self._whole(start, end) if is_real(self._text[start:judged]) else NOWHERE

    def _is_variable(self, name: Name) -> bool:
        """Return whether this is `NAME=` with the name of an environment variable, whose value may be a plain word."""
        text, start, end = self._text, name.start, name.end
        if name.kind == "auth" or not text[start:end].isupper() or text[end : name.at].strip(" \t") != "=":
            return False
        if name.suffix and not is_neutral_suffix(name.suffix):
            return False
        before = text[max(0, start - LONGEST_BEFORE) : start]
        return not _SMALL.search(before, len(before.rstrip(_IDENTIFIER)))

    def _take_judged(self, start: int, end: int) -> str:
        return self._text[start : min(end, start + LONGEST_JUDGED)]


def _is_mixed(value: str) -> bool:
    """Return whether a quoted value under a quoted name is more than a plain word."""
    is_name = value.replace("_", "").replace("-", "").isalpha()
    return not is_name and not value.startswith(("$", "{", "<", "%", "/", "http"))


def _is_login(value: str) -> bool:
    """Return whether this is the base64 of a name and a password, as Docker and npm keep them."""
    plain = decode_base64(value)
    return len(value) >= 8 and b":" in plain[1:] and plain.isascii() and plain.decode().isprintable()


def _is_credential(value: str) -> bool:
    """Return whether this can follow the scheme of an Authorization header."""
    return not is_placeholder(value) and (has_digit(value) or value.endswith("=") or value.lower() != value)


_WHY: Final[Mapping[str, str]] = {
    "password": "a password",
    "token": "a secret that is named as one",
    "authorization": "an Authorization header",
    "cookie": "a cookie",
    "auth": "the base64 of a login",
    "variable": "a password",
}
_SHORTEST: Final[Mapping[str, int]] = {"password": 4, "token": 6, "auth": 8, "variable": 1 << 30}
_TAIL_BEGINS: Final = frozenset(" \t>{")
_TAIL: Final = re.compile(
    r"(?:(?<=[^:]=)>)?[ \t]{0,8}(?:\{\s{0,20}+\\{0,4}[\"'](?:value|plaintext|stringvalue)\\{0,4}[\"'][ \t]{0,4}:[ \t]{0,8})?"
)
"""What may stand between a sign and its value."""
_LONGEST_MARK: Final = 14
"""Characters of what a block of YAML begins with, up to the end of the line."""
_LONGEST_SCHEME: Final = 20
_FAR: Final = 1 << 62
_ALNUM: Final = (
    r"(?=[A-Za-z]*+[0-9])(?=[0-9]*+[A-Za-z])(?!(.)\{0}*+(.)(?:\{0}|\{1})*+(?![A-Za-z0-9]))([A-Za-z0-9]{{6,400}}+)"
)
_SIMPLE: Final = re.compile(
    rf"{_ALNUM.format(1, 2)}(?=[\s\"'`,;)}}\]]|\Z)|\"{_ALNUM.format(4, 5)}\"|'{_ALNUM.format(7, 8)}'"
)
"""Letters and digits that are no word and no number, in quotes or without: nothing but a value that is written out."""
_WRITTEN_OUT: Final = frozenset(("password", "token"))
"""The kinds whose secrets are anything that is written out."""
_SCHEMES: Final = frozenset(("be", "ba", "to", "di", "ap", "ke", "aw"))
"""How the schemes of an Authorization header begin."""
_BLOCKS: Final = frozenset("|>")
_BLOCK: Final = re.compile(r"[|>][+-]?[0-9]?[ \t]{0,8}\r?\n[ \t]{1,80}+(?P<secret>[^\r\n]*[^\s])")
"""A value of YAML that stands in the next line."""
_TEMPLATES: Final = frozenset("$<%[({*")
"""Signs that a value which stands for another begins with: what has no quotes is no secret then."""
_QUOTES: Final = frozenset("\"'`\\")
_OPENING: Final = frozenset("\"'`\\bBrRuU")
_OPEN: Final = re.compile(r"(?:[bBrRuU](?=[\"']))?(?:(?P<quote>\\*[\"'`])|\\*)")
_INSIDE: Final[Mapping[str, re.Pattern[str]]] = {
    '"': re.compile(r'[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"'),
    "'": re.compile(r"[^'\\\n]*+(?:(?:\\?''|\\.)[^'\\\n]*+)*+'"),
    "`": re.compile(r"[^`\\\n]*+(?:\\.[^`\\\n]*+)*+`"),
}
"""Up to the quote that ends a value: one that is neither escaped, nor doubled as in YAML."""
_NO_LETTER: Final = r"(?!(?<=\\)u(?!00[0-7])[0-9a-fA-F]{4})"
"""Behind a backslash: it does not write a letter beyond ASCII, as JSON does."""
_WORD_END: Final = re.compile(rf"[\s\"'`,;)}}\]\\]{_NO_LETTER}")
_ARGUMENT_END: Final = re.compile(rf"[\s\"'`;\\]{_NO_LETTER}")
_HEADER_END: Final = re.compile(rf"[\s\"'`,\\]{_NO_LETTER}")
_SCHEME: Final = re.compile(r"\\*[\"'`]?(?P<scheme>(?:bearer|basic|token|digest|apikey|key|aws4-hmac-sha256)[ \t]+)?")
_COOKIE: Final = re.compile(r"\\*[\"'`]?(?P<secret>[!#$%&*+.^|~\w-]{1,80}+=[^\r\n\"'`\\]{3,})")
_DIGIT: Final = re.compile(r"[0-9]")
_LONGEST_NUMBER: Final = 40
_NUMBER: Final = re.compile(rf"[0-9]{{1,{_LONGEST_NUMBER}}}+(?:[(),;}}\]\s]|\Z)")
"""A number, or one that is called."""
_SMALL: Final = re.compile(r"[a-z]")
_IDENTIFIER: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"


# --- names in an element or a sibling --------------------------------------------------------------------------------------------


REACH: Final = 160
"""Characters before a value in which its name is looked for."""


def find_pairs(text: str, lowered: str, back: str) -> Iterator[SecretMatch]:
    """Yield the secrets in `text` that an element or a sibling names. `lowered` is the text in small letters, `back` that from its end."""
    is_given = functools.lru_cache(MOST_JUDGED)(_is_given)
    if "</" in text:
        for match in _ELEMENT.finditer(text):
            if is_secret_key(match["tag"].rpartition(":")[2]) and is_given(match["secret"]):
                yield SecretMatch(*match.span("secret"), _WHY["token"])
    if contains(lowered, "value"):
        for match in _VALUE.finditer(lowered):
            name = _name_before(text, back, match.start()) or _name_after(text, lowered, match.end())
            if name and is_secret_key(name):
                start, end = match.span("secret")
                if is_given(text[start:end]):
                    yield SecretMatch(start, end, _WHY["token"])


def _name_before(text: str, back: str, at: int) -> str:
    """Return the name that stands before the value at `at`, as its sibling."""
    size = len(text)
    match = _NAME_BACK.match(back, size - at, size - at + REACH)
    return text[size - match.end("name") : size - match.start("name")] if match else ""


def _name_after(text: str, lowered: str, at: int) -> str:
    """Return the name that stands behind the value that ends at `at`, as its sibling."""
    match = _NEXT_NAME.match(lowered, at)
    return text[match.start("name") : match.end("name")] if match else ""


def _is_given(value: str) -> bool:
    return not (len(value) <= _LONGEST_TYPE and value.lower() in _TYPES) and not is_code(value[:LONGEST_JUDGED])


_TYPES: Final = frozenset(
    "string str text true false none null nil boolean number integer object required optional".split()
)
_LONGEST_TYPE: Final = max(map(len, _TYPES))
_ELEMENT: Final = re.compile(
    r"<(?P<tag>[A-Za-z][\w:.-]{2,60}+)(?:\s[^<>]{0,200}+)?>\s{0,80}+(?:<!\[CDATA\[)?(?P<secret>[^<>\s]{3,4096}+)>?\s{0,80}+</"
)
_VALUE: Final = re.compile(
    r"value\\{0,4}[\"']?[ \t]{0,8}[:=][ \t]{0,8}\\{0,4}[\"']?(?P<secret>[^\s\"'`\\,;{}\[\]<>]{3,4096}+)"
)
_NAMED: Final = r"(?:name|key)\\{0,4}[\"']?[ \t]{0,8}[:=][ \t]{0,8}\\{0,4}[\"']?(?P<name>[\w.-]{2,80}+)"
_NEXT_NAME: Final = re.compile(rf"\\{{0,4}}[\"']?(?:[\s,\"']|\\[nr\"']){{0,40}}+(?:parameter)?{_NAMED}")
_NAME_BACK: Final = re.compile(
    r"(?:[\s,;\"'-]|[nr\"']\\|retemarap|terces|gnirts)*?[\"']?\\{0,4}(?P<name>[\w.-]{2,80}+)"
    r"[\"']?\\{0,4}[ \t]{0,8}[:=][ \t]{0,8}[\"']?\\{0,4}(?:eman|yek)"
)
"""A name before the word `value`, or before what stands before it in that word, read from the end of the text."""
