"""Values that are known to be secret: which are worth a search wherever they stand, and where they stand, whole or in part. Pure.

*Which.* `api_key: zebraStripe99` tells of a value that stands alone elsewhere. Most such values are worth a search; an ordinary word, a
name in code and a word that stands for a secret are not: they would be erased from a whole conversation. `docs/secrets.md` states the rule.

*Where.* `KnownValues` takes a time that is linear in the text however many values are known. Every eight characters in a row of a value are
kept. A text is probed at each fourth place for five of them, which every eight hold; what stands around a probe that hits is looked up
character by character. Neighbouring windows that are known make a run.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple
from urllib.parse import unquote

from backstay.logic.secrets.secret_names import KINDS, PASSWORDS
from backstay.logic.secrets.shapes import SecretMatch, changes, contains, has_digit, is_code, is_literal, looks_random

WINDOW: Final = 8
"""Characters of a part that is found where it is a word of its own and the beginning or the end of a value."""
PART: Final = 12
"""Characters of a part that is found wherever it stands."""
SPLIT_LEAST: Final = 16
"""Characters of a value whose parts are looked for."""
AT_BORDER: Final = 6
"""Characters of a part that is found where a text begins or ends."""
_PROBE: Final = 5
_STEP: Final = WINDOW - _PROBE + 1
_CHANGES: Final = 6
"""Changes between kinds of letters in a part without a digit: ordinary words have fewer."""


class Run(NamedTuple):
    """A place in a text."""

    start: int
    end: int


class KnownValues:
    """Values of at least `WINDOW` characters, and what they consist of."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: set[str] = set()
        self._lengths: dict[str, set[int]] = {}
        """The lengths of the values that begin with these characters."""
        self._probes: set[str] = set()
        self._windows: set[str] = set()
        """Of values whose parts are looked for."""
        self._heads: dict[int, set[str]] = {AT_BORDER: set(), AT_BORDER + 1: set(), WINDOW: set()}
        self._tails: dict[int, set[str]] = {AT_BORDER: set(), AT_BORDER + 1: set(), WINDOW: set()}
        self._halves: dict[str, set[int]] = {}
        """The lengths of the halves that begin with these characters."""
        self._half: set[str] = set()
        for value in values:
            self.add(value)

    def add(self, value: str, *, parts: bool = True) -> None:
        """Look for a value from now on, and for its parts unless `parts` is false. A value that is too short is passed over."""
        if len(value) < WINDOW:
            return
        self._values.add(value)
        self._lengths.setdefault(value[:WINDOW], set()).add(len(value))
        for at in range(_STEP):
            self._probes.add(value[at : at + _PROBE])
        if not parts or len(value) < SPLIT_LEAST:
            return
        self._probes.update(value[at : at + _PROBE] for at in range(len(value) - _PROBE + 1))
        self._windows.update(value[at : at + WINDOW] for at in range(len(value) - WINDOW + 1))
        for size, heads in self._heads.items():
            heads.add(value[:size])
            self._tails[size].add(value[-size:])
        size = (len(value) + 1) // 2
        for half in (value[:size], value[-size:]):
            self._half.add(half)
            self._halves.setdefault(half[:WINDOW], set()).add(size)

    def whole(self, text: str) -> Iterator[Run]:
        """Yield where a value stands."""
        yield from self._starting(text, self._places(text), self._lengths, self._values)

    def parts(self, text: str) -> Iterator[Run]:
        """Yield where a part of a value stands, so long or so placed that it is hardly anything else."""
        if not self._windows or _is_plain_word(text):
            return
        places = self._places(text)
        yield from self._starting(text, places, self._halves, self._half)
        for run in _runs(at for at in places if text[at : at + WINDOW] in self._windows):
            if self._is_part(text, run):
                yield run
        for size in (AT_BORDER, AT_BORDER + 1):
            if text[-size:] in self._heads[size]:
                yield Run(len(text) - size, len(text))
            if text[:size] in self._tails[size]:
                yield Run(0, size)

    def _places(self, text: str) -> list[int]:
        """Return where a window may begin, in order."""
        probes = self._probes
        hits = [at for at in range(0, len(text) - _PROBE + 1, _STEP) if text[at : at + _PROBE] in probes]
        last = len(text) - WINDOW
        return [at for hit in hits for at in range(max(0, hit - _STEP + 1), min(hit, last) + 1)]

    def _starting(
        self, text: str, places: Iterable[int], lengths: dict[str, set[int]], known: set[str]
    ) -> Iterator[Run]:
        for at in places:
            for size in lengths.get(text[at : at + WINDOW], ()):
                if text[at : at + size] in known:
                    yield Run(at, at + size)

    def _is_part(self, text: str, run: Run) -> bool:
        at_edge = (
            text[run.start : run.start + WINDOW] in self._heads[WINDOW],
            (text[run.end - WINDOW : run.end] in self._tails[WINDOW]),
        )
        if (run.end == len(text) and at_edge[0]) or (run.start == 0 and at_edge[1]):
            return True
        part = text[run.start : run.end]
        if run.end - run.start >= PART:
            return has_digit(part) or changes(part) >= _CHANGES
        is_word = not (text[run.start - 1 : run.start].isalnum() or text[run.end : run.end + 1].isalnum())
        return is_word and any(at_edge) and has_digit(part)


def _is_plain_word(text: str) -> bool:
    """Return whether a text is one short word in small letters, such as the name of a field: values may begin with it."""
    return len(text) < SPLIT_LEAST and text.islower() and text.replace("_", "").isalpha()


def _runs(starts: Iterable[int]) -> Iterator[Run]:
    """Yield the runs of windows that begin one behind the other."""
    first = last = -1
    for at in starts:
        if at != last + 1 or first < 0:
            if first >= 0:
                yield Run(first, last + WINDOW)
            first = at
        last = at
    if first >= 0:
        yield Run(first, last + WINDOW)


# --- which values are worth a search ---------------------------------------------------------------------------------------------


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
    """Yield what only its name tells to be secret: letters too long for a word, `token = correcthorsebattery`, and a value below it."""
    if contains(text, "\n"):
        yield from _find_below(text)
    for match in _LONG_WORD.finditer(text) if contains(text, "=") or contains(text, ":") else ():
        start, end = match.span("secret")
        before = text[max(0, match.start() - REACH) : match.start()].lower()
        if end - start <= REACH and _NAME.search(before) and not any(stem in match["secret"] for stem in _STEMS):
            yield SecretMatch(start, end, _WHY)


def _find_below(text: str) -> Iterator[SecretMatch]:
    """Yield values that stand alone in the line below their names: `password:`, and then `hunter2x`."""
    for match in _BELOW.finditer(text):
        name = _NAME.search(text[max(0, match.start() - REACH) : match.start()].lower())
        if name and is_literal(match["secret"], password=name[0].startswith(PASSWORDS)):
            yield SecretMatch(*match.span("secret"), _WHY)


def is_telling(value: str) -> bool:
    """Return whether a value that its name says to be secret is looked for wherever it stands."""
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
    """Yield a value as it stands, as it was before it was written as JSON or in an address, and without the signs around it."""
    given = dict.fromkeys((value, *_unescape(value), unquote(value)))
    for form in tuple(given):
        if _COOKIE.match(form):
            given |= dict.fromkeys(crumb["value"] for crumb in _CRUMB.finditer(form))
        if " " not in form:
            first = _PARAMETER.split(form, maxsplit=1)[0]
            given |= dict.fromkeys((form.strip(_AROUND), first.strip(_AROUND), _password(form)))
    yield from filter(None, given)


def _unescape(value: str) -> Iterator[str]:
    try:
        plain = json.loads(f'"{value}"')
    except ValueError:
        return
    if isinstance(plain, str):
        yield plain


def _password(value: str) -> str:
    """Return the password behind the name of a user, as in an address."""
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
