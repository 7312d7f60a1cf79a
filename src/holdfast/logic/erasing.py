"""Finds the secrets of a session and says what stands in their place: a mark with a hash and the kind. Pure.

The hash is keyed with a word that is made for one run and written nowhere. So two marks of one run tell whether they stood for the same
secret, and nobody can try out values, be they as few as the digits of a PIN: without the key a mark says nothing of what it replaced.

A secret is often told by what stands beside it (`api_key: ...`), and then stands alone elsewhere, escaped, or cut in two by the border
of two texts. So all texts are looked through first (`learn`): what is found and looks like nothing else is from then on looked for
everywhere, so is each half of it, and a smaller part where a text begins or ends.
"""

import hashlib
import hmac
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from holdfast.logic.redact import Found, Redactor, apart
from holdfast.logic.redact_shapes import looks_random

LEAST: Final = 8
"""Characters of a value that is looked for wherever it stands. A shorter one would blot out ordinary words."""
PLAIN_LEAST: Final = 20
"""The same for a value that does not look random."""
AT_BORDER: Final = 6
"""Characters of a part of a known value that is found where a text begins or ends; elsewhere it is half of the value."""
DIGITS: Final = 12
"""Of the hash in a mark."""
_MARK: Final = re.compile(rf"\[ERASED [0-9a-f]{{{DIGITS}}}: [^\[\]]{{1,80}}\]")
_HALF: Final = "a part of one"
_UNFIT: Final = re.compile(r"[^A-Za-z0-9 ,.()-]+")


class Eraser:
    """The secrets of one session, and the marks for them."""

    def __init__(self, key: bytes, known: Iterable[str] = ()) -> None:
        """Make marks with `key`; `known` are values that are secret wherever they stand."""
        self._key = key
        self._values = dict.fromkeys(known)
        self._redactor = Redactor(exact=self._values)
        self._whole = tuple(each for each in self._values if len(each) >= 2 * LEAST)
        self.counts: Counter[str] = Counter()
        """How often each kind was replaced."""
        self.marks: set[str] = set()

    def learn(self, text: str) -> list[Found]:
        """Remember what is found in a text, and give it."""
        found = self.find(text)
        fresh = {form for one in found for form in _forms(text[one.start : one.end]) if _is_telling(form)}
        if not fresh <= self._values.keys():
            self._values |= dict.fromkeys(sorted(fresh))
            self._redactor = Redactor(exact=self._values)
            self._whole = tuple(each for each in self._values if len(each) >= 2 * LEAST)
        return found

    @property
    def values(self) -> tuple[str, ...]:
        """Every value that is looked for as it is."""
        return tuple(self._values)

    def find(self, text: str) -> list[Found]:
        """Every secret in a text, in order; a mark is none."""
        found = apart([*self._redactor.find(text), *self._halves(text)])
        if not found or "[ERASED " not in text:
            return found
        marks = [mark.span() for mark in _MARK.finditer(text)]
        return [one for one in found if not any(start <= one.start and one.end <= end for start, end in marks)]

    def text(self, text: str) -> str:
        """A text with a mark in place of each secret."""
        pieces: list[str] = []
        at = 0
        for one in self.find(text):
            pieces += (text[at : one.start], self._mark(text[one.start : one.end], one.why))
            at = one.end
        return "".join((*pieces, text[at:])) if pieces else text

    def _mark(self, secret: str, why: str) -> str:
        kind = kind_of(why)
        self.counts[kind] += 1
        tag = hmac.new(self._key, secret.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:DIGITS]
        mark = f"[ERASED {tag}: {kind}]"
        self.marks.add(mark)
        return mark

    def _halves(self, text: str) -> Iterator[Found]:
        """Parts of known values, half of them or more, as they stand where a text was cut."""
        for value in self._whole:
            size = max(LEAST, (len(value) + 1) // 2)
            for at in _places(text, value[:size]):
                end = size
                while end < len(value) and text[at + end : at + end + 1] == value[end]:
                    end += 1
                yield Found(at, at + end, _HALF)
            for at in _places(text, value[-size:]):
                start = 0
                while size + start < len(value) and at > start and text[at - start - 1] == value[-size - start - 1]:
                    start += 1
                yield Found(at - start, at + size, _HALF)
            yield from _at_borders(text, value)


def kind_of(why: str) -> str:
    """What was found, in letters that stand in JSON and in Markdown alike."""
    return _UNFIT.sub(" ", why).strip()[:60] or "a secret"


def _at_borders(text: str, value: str) -> Iterator[Found]:
    """A smaller part of a value where a text begins or ends: the other part may be in the text before or after it."""
    if len(text) >= AT_BORDER and text[-AT_BORDER:] in value:
        for size in range(min(len(value), len(text)), AT_BORDER - 1, -1):
            if text.endswith(value[:size]):
                yield Found(len(text) - size, len(text), _HALF)
                break
    if len(text) >= AT_BORDER and text[:AT_BORDER] in value:
        for size in range(min(len(value), len(text)), AT_BORDER - 1, -1):
            if text.startswith(value[-size:]):
                yield Found(0, size, _HALF)
                break


def _places(text: str, word: str) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + 1)


def _is_telling(value: str) -> bool:
    """Whether a value is so unlike ordinary words that it is a secret wherever it stands."""
    return (len(value) >= LEAST and looks_random(value)) or len(value) >= PLAIN_LEAST


def _forms(value: str) -> Iterator[str]:
    """A value as it stands, and as it was before it was written as JSON."""
    yield value
    try:
        plain = json.loads(f'"{value}"')
    except ValueError:
        return
    if isinstance(plain, str):
        yield plain
