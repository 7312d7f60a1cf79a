"""Find the secrets of a session, and replace each by a mark with a hash and the kind. Pure.

The hash is keyed with a word that is made for one run and written nowhere. So two marks of one run tell whether they stood for the same
secret, and values cannot be tried out, be they as few as the digits of a PIN: without the key a mark says nothing of what it replaced.

A secret is often recognised by what stands beside it (`api_key: ...`), and then stands alone elsewhere, escaped, or cut in two by the
border of two texts. So all texts are looked through first (`learn`): what is found and is no ordinary word (`told_values`) is from then on
looked for everywhere, so are the parts of what looks like nothing else (`KnownValues`).
"""

import functools
import hashlib
import hmac
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final

from backstay.logic.secrets.known_values import PLAIN_LEAST, KnownValues, find_told_words, forms, is_telling
from backstay.logic.secrets.redact import (
    Redactor,
    find_through,
    merge_overlapping,
    replace,
    replace_part,
    spell_value,
    strip_between,
)
from backstay.logic.secrets.shapes import SecretMatch, looks_random

DIGITS: Final = 12
"""Of the hash in a mark."""
_MARK: Final = re.compile(rf"\[ERASED [0-9a-f]{{{DIGITS}}}: [^\[\]]{{1,80}}\]")
_HALF: Final = "a part of one"
_KNOWN: Final = "a known value"
_UNFIT: Final = re.compile(r"[^A-Za-z0-9 ,.()-]+")


class Eraser:
    """The secrets of one session, and the marks for them."""

    def __init__(self, key: bytes, known: Iterable[str] = ()) -> None:
        """Make marks with `key`; `known` are values that are secret wherever they stand."""
        self._key = key
        self._values: dict[str, str] = {}
        """What is looked for as it is, and what it is."""
        self._index = KnownValues()
        known = tuple(known)
        self._redactor = Redactor(exact=known)
        for value in known:
            self._add(value, _KNOWN)

    def learn(self, text: str) -> list[SecretMatch]:
        """Remember what is found in a text, and give it."""
        found = self.find(text)
        for one in found:
            if one.why != _HALF:
                for form in forms(strip_between(text[one.start : one.end])):
                    if form not in self._values and is_telling(form):
                        self._add(form, one.why, parts=len(form) >= PLAIN_LEAST or looks_random(form))
        return found

    def mask_known(self, text: str) -> str:
        """Return `text` with a mark in place of the values that are known to be secret, and of nothing else."""
        return replace(self._redactor.mask_known(text), merge_overlapping([*self._exact(text)]))

    def find(self, text: str) -> list[SecretMatch]:
        """Return every secret in a text, in order; a mark is none."""
        whole = merge_overlapping([*self._redactor.find(text), *find_through(text, self._find_told)])
        parts = [SecretMatch(run.start, run.end, _HALF) for run in self._index.parts(text)]
        found = _name_parts(whole, merge_overlapping([*whole, *parts])) if parts else whole
        if not found or "[ERASED " not in text:
            return found
        return _outside([mark.span() for mark in _MARK.finditer(text)], found)

    def text(self, text: str) -> str:
        """Return a text with a mark in place of each secret."""
        return replace(text, self.find(text), functools.partial(self._mark, text))

    def pieces(self, pieces: Sequence[str]) -> list[str]:
        """Return the pieces of one text, with a mark in the piece in which a secret begins and nothing of it in the next ones."""
        text = "".join(pieces)
        secrets, mark = deque(self.find(text)), functools.partial(self._mark, text)
        ends = accumulate(map(len, pieces))
        return [
            replace_part(text, end - len(piece), end, secrets, mark) for piece, end in zip(pieces, ends, strict=True)
        ]

    def _mark(self, text: str, one: SecretMatch) -> str:
        secret = text[one.start : one.end].encode("utf-8", "surrogatepass")
        return f"[ERASED {hmac.new(self._key, secret, hashlib.sha256).hexdigest()[:DIGITS]}: {kind_of(one.why)}]"

    def _add(self, value: str, why: str, *, parts: bool = True) -> None:
        self._values[value] = why
        self._index.add(value, parts=parts)
        for form in spell_value(value):
            self._index.add(form, parts=False)

    def _find_told(self, text: str) -> Iterator[SecretMatch]:
        yield from find_told_words(text)
        yield from self._exact(text)

    def _exact(self, text: str) -> Iterator[SecretMatch]:
        for start, end in self._index.whole(text):
            yield SecretMatch(start, end, self._values.get(text[start:end], _KNOWN))


def kind_of(why: str) -> str:
    """Return the kind of a secret in letters that stand in JSON and in Markdown alike."""
    return _UNFIT.sub(" ", why).strip()[:60] or "a secret"


def _name_parts(whole: list[SecretMatch], found: list[SecretMatch]) -> list[SecretMatch]:
    """Give each match the reason of the first whole secret in it."""
    named, at = [], 0
    for one in found:
        while at < len(whole) and whole[at].end <= one.start:
            at += 1
        named.append(
            SecretMatch(one.start, one.end, whole[at].why) if at < len(whole) and whole[at].start < one.end else one
        )
    return named


def _outside(marks: Sequence[tuple[int, int]], found: list[SecretMatch]) -> list[SecretMatch]:
    """Return the matches that do not stand in a mark; both are in order."""
    outside, at = [], 0
    for one in found:
        while at < len(marks) and marks[at][1] <= one.start:
            at += 1
        if at == len(marks) or not (marks[at][0] <= one.start and one.end <= marks[at][1]):
            outside.append(one)
    return outside
