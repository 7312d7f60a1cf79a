"""Takes secrets out of what is traced, exported or shown to others: by the name they stand under, by how they look, by their exact value.

One list for everybody: events on their way out, traces, exports and error texts use the same `Redactor`, and a text that arrives in
pieces goes through a `StreamRedactor`, which also finds the secret that pieces share. What a model is told is never altered here.
"""

import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import quote

from holdfast.logic.known_values import WINDOW, KnownValues
from holdfast.logic.redact_blocks import find_blocks
from holdfast.logic.redact_named import find_assigned
from holdfast.logic.redact_shapes import Found as Found  # noqa: PLC0414 - who redacts knows it from here
from holdfast.logic.redact_shapes import find_shapes
from holdfast.logic.redact_spoken import find_spoken

REDACTED: Final = "[REDACTED]"
SHORTEST_EXACT: Final = 6
"""An exact value shorter than this would blot out ordinary words."""

FEW: Final = 16
"""Exact values that are looked for one by one; more are looked for all at once."""


class Redactor:
    """Finds and replaces secrets. `exact` are values that are known to be secret, such as those that the runtime injected."""

    def __init__(self, exact: Iterable[str] = ()) -> None:
        forms = {form for value in exact if len(value) >= SHORTEST_EXACT for form in written_forms(value)}
        self._exact: tuple[str, ...] = tuple(sorted(forms, key=len, reverse=True))
        self._short = tuple(form for form in self._exact if len(form) < WINDOW)
        self._index = KnownValues() if len(self._exact) > FEW else None
        if self._index is not None:
            for form in self._exact:
                self._index.add(form, parts=False)

    def find(self, text: str) -> list[Found]:
        """Every secret in `text`, in order, none overlapping another. The time is linear in the text."""
        found = [*self._find_exact(text), *find_shapes(text), *find_blocks(text)]
        lowered = text.replace("İ", "i").lower()  # the one letter whose small form is longer
        if any(stem in lowered for stem in STEMS):
            found += (*find_assigned(text, lowered), *find_spoken(text, lowered))
        return apart(found)

    def known(self, text: str) -> str:
        """`text` with a mark in place of the values that are known to be secret, and of nothing else."""
        return replace(text, apart([*self._find_exact(text)])) if text else text

    def text(self, text: str) -> str:
        """`text` with a mark in place of each secret."""
        return replace(text, self.find(text)) if text else text

    def value(self, value: object) -> object:
        """A JSON-like value with a mark in place of every secret, in any depth. What is not JSON-like stays as it is."""
        match value:
            case str():
                return self._string(value)
            case Mapping():
                return {key: self._under(key, inner) for key, inner in value.items()}
            case list() | tuple():
                return [self.value(inner) for inner in value]
            case _:
                return value

    def open_value(self, text: str) -> int:
        """Where a known value may have begun that the end of `text` cuts off; the length of `text` when none has."""
        longest = len(self._exact[0]) - 1 if self._exact else 0
        for size in range(min(longest, len(text)), 0, -1):
            if text[-size:] in self._partial:
                return len(text) - size
        return len(text)

    def _string(self, text: str) -> str:
        if text[:1] in ("{", "[") and any(word in text.lower() for word in _KEY_WORDS):
            try:
                content = json.loads(text)
                clean = self.value(content)
                return text if clean == content else json.dumps(clean, ensure_ascii=not _is_whole(text))
            except (ValueError, RecursionError):
                return self.text(text)
        return self.text(text)

    def _under(self, key: object, value: object) -> object:
        if key == "properties" and isinstance(value, Mapping):  # a JSON Schema: its keys are names of arguments
            return {name: self.value(inner) for name, inner in value.items()}
        if isinstance(key, str) and _hides(key, value):
            return REDACTED
        return self.value(value)

    @functools.cached_property
    def _partial(self) -> frozenset[str]:
        return frozenset(form[:size] for form in self._exact for size in range(1, len(form)))

    def _find_exact(self, text: str) -> Iterator[Found]:
        if self._index is not None:
            yield from (Found(*run, "a value that was injected") for run in self._index.whole(text))
        for value in self._exact if self._index is None else self._short:
            at = text.find(value)
            while at >= 0:
                yield Found(at, at + len(value), "a value that was injected")
                at = text.find(value, at + len(value))


def redact(value: object) -> object:
    """A JSON-like value without its secrets."""
    return PLAIN.value(value)


def _is_whole(text: str) -> bool:
    """Whether JSON text names no half of a character, which cannot be written as it is."""
    return "\\ud" not in text and "\\uD" not in text


def looks_secret(text: str, name: str = "") -> str:
    """Why `text`, kept under `name`, looks like a secret; empty when it does not."""
    if text and is_secret_key(name):
        return f"its name, {name!r}, says so"
    found = PLAIN.find(text)
    return f"it holds {found[0].why}" if found else ""


@functools.lru_cache(maxsize=4096)
def is_secret_key(key: str) -> bool:
    """Whether what stands under `key` is secret: `api_key`, `apiKey`, `X-Api-Key`, but not `max_tokens` or `page_token`."""
    words = [word for word in _NOT_WORD.split(_CAMEL.sub("_", key).lower()) if word]
    if not words:
        return False
    if words[-1] == "token" and len(words) > 1:
        return _HARMLESS.fullmatch(words[-2]) is None
    return bool(_SECRET_WORD.fullmatch(words[-1]) or any(_SECRET_PAIR.fullmatch("".join(words[-n:])) for n in (2, 3)))


def replace(text: str, found: Iterable[Found]) -> str:
    """`text` with a mark in place of what was found."""
    pieces: list[str] = []
    at = 0
    for one in found:
        pieces += (text[at : one.start], REDACTED)
        at = one.end
    return "".join((*pieces, text[at:])) if pieces else text


_SECRET_WORD: Final = re.compile(
    "password|passwd|passphrase|pwd|secret|token|authorization|cookie|credentials?|apikey|xapikey"
)
_SECRET_PAIR: Final = re.compile(
    "(?:api|secret|access|private|auth|account|shared|signing|encryption|master|service|sharedaccess|secretaccess)key"
    "|apisecret|(?:set)?cookie|connectionstring|connstr|connectionuri|databaseurl|(?:shared)?accesssignature"
)
_HARMLESS: Final = re.compile(
    "page|next|continuation|pagination|cursor|eos|bos|pad|unk|sep|cls|mask|stop|special|cancel|cancellation|per|sync|fencing"
)
"""What makes a token something else: a place in a list, a piece of text."""
_OPAQUE: Final = frozenset(("signature", "thoughtSignature", "thought_signature", "encrypted_content"))
"""State that only its provider can read: no secret of the user's, and nothing for other eyes either."""
_KEY_WORDS: Final = (
    "pass",
    "pwd",
    "secret",
    "token",
    "auth",
    "cookie",
    "credential",
    "key",
    "conn",
    "database",
    "signature",
)
STEMS: Final = (
    "pass",
    "pwd",
    "kennwort",
    "secret",
    "token",
    "key",
    "auth",
    "cookie",
    "bearer",
    "credential",
    "curl",
    "mysql",
    "mariadb",
)
"""In small letters: a text without any of these names no secret."""
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NOT_WORD: Final = re.compile(r"[^a-z0-9]+")


def _hides(key: str, value: object) -> bool:
    if value is None or value == "" or isinstance(value, bool):
        return False
    if key in _OPAQUE:
        return isinstance(value, str) and len(value) >= 40 and " " not in value
    if isinstance(value, int | float) and key.lower().endswith("token"):
        return False  # a count, or the number of a lease
    return is_secret_key(key)


def written_forms(value: str) -> Iterator[str]:
    """The ways in which an exact value may be written."""
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield quote(value, safe="")


def apart(found: list[Found]) -> list[Found]:
    """In order, those that overlap made one."""
    if len(found) < 2:
        return found
    apart: list[Found] = []
    for one in sorted(found):
        if apart and one.start <= apart[-1].end:
            if one.end > apart[-1].end:
                apart[-1] = apart[-1]._replace(end=one.end)
        else:
            apart.append(one)
    return apart


PLAIN: Final = Redactor()
"""For whoever knows no exact values."""
