"""Take secrets out of what is traced, exported or shown to others: by the name they stand under, by how they look, by their exact value.

Events on their way out, traces, exports and error texts use the same `Redactor`. What a model is sent is never altered here.

A text that arrives in pieces, such as the deltas of a model, goes through a `StreamRedactor`, which also finds the secret that pieces
share. It holds back what may be a part of a secret until more of the text, or its end, has shown what it is. Four rules say what is held.
No secret but a private key goes over the end of a line. In a line that names no secret, none has a blank in it, so its last word is held if
one may have begun there; a line that does name one is held until it ends. A private key is held from its first line to its last. A
terminal colour or a written NUL that the end of a piece cuts is held until its rest is there, and read only then. The time is linear in
the text, however small the pieces are: what is held is read again only when it has grown by half.
"""

import functools
import json
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import accumulate
from typing import Final
from urllib.parse import quote, quote_plus

from backstay.logic.secrets.known_values import LEAST, REACH, WINDOW, KnownValues
from backstay.logic.secrets.named_values import find_assigned, find_pairs
from backstay.logic.secrets.phrases import find_phrases
from backstay.logic.secrets.secret_names import is_secret_key as is_secret_key  # noqa: PLC0414 - who redacts knows it from here
from backstay.logic.secrets.secret_names import is_secret_variable
from backstay.logic.secrets.shapes import (
    BLOCK_BEGINS,
    SecretMatch,
    contains,
    find_blocks,
    find_shapes,
    may_begin,
    open_block,
)

REDACTED: Final = "[REDACTED]"
SHORTEST_EXACT: Final = 6
"""An exact value shorter than this would blot out ordinary words."""

LONGEST_HEAD: Final = 64
"""Characters up to which every beginning of an exact value is kept. All beginnings of a long value would fill the memory."""

FEW: Final = 16
"""Exact values that are looked for one by one; more are looked for all at once."""


def secret_values(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of variables that are called secrets, as far as they are no paths and long enough to be looked for anywhere."""
    values = (value.strip() for name, value in environment.items() if is_secret_variable(name))
    return tuple(dict.fromkeys(each for each in values if len(each) >= LEAST and not each.startswith("/")))


class Redactor:
    """Finds and replaces secrets. `exact` are values that are known to be secret, such as those that the runtime injected."""

    def __init__(self, exact: Iterable[str] = ()) -> None:
        forms = {form for value in exact if len(value) >= SHORTEST_EXACT for form in spell_value(value)}
        self._exact: tuple[str, ...] = tuple(sorted(forms, key=len, reverse=True))
        self._short = tuple(form for form in self._exact if len(form) < WINDOW)
        self._numbers = frozenset(json.loads(form) for form in forms if _NUMBER.fullmatch(form))
        self._index = KnownValues() if len(self._exact) > FEW else None
        if self._index is not None:
            for form in self._exact:
                self._index.add(form, parts=False)

    def find(self, text: str) -> list[SecretMatch]:
        """Return every secret in `text`, in order, none overlapping another. The time is linear in the text."""
        return merge_overlapping(find_through(text, self._find))

    def _find(self, text: str) -> list[SecretMatch]:
        found = [*self._find_exact(text), *find_shapes(text), *find_blocks(text)]
        lowered = (
            text.replace("İ", "i").lower() if _may_hold_stem(text) else ""
        )  # the one letter whose small form is longer
        if any(contains(lowered, stem) for stem in STEMS):
            back = lowered[::-1]
            found += (
                *find_assigned(text, lowered, back),
                *find_phrases(text, lowered, back),
                *find_pairs(text, lowered, back),
            )
        return found

    def mask_known(self, text: str) -> str:
        """Return `text` with a mark in place of the values that are known to be secret, and of nothing else."""
        return replace(text, merge_overlapping(find_through(text, self._find_exact))) if text else text

    def text(self, text: str) -> str:
        """Return `text` with a mark in place of each secret."""
        return replace(text, self.find(text)) if text else text

    def value(self, value: object) -> object:
        """Return a JSON-like value with a mark in place of every secret, in any depth. What is not JSON-like stays as it is."""
        match value:
            case str():
                return self._string(value)
            case Mapping():
                return self._object(value)
            case list() | tuple():
                return [self.value(inner) for inner in value]
            case int() | float() if value in self._numbers:
                return REDACTED
            case _:
                return value

    def field(self, key: object, value: object) -> object:
        """Return the value of a field with marks, or one mark where its name says that it is secret."""
        name = str(key) if isinstance(key, str) else ""
        if name == "properties" and isinstance(value, Mapping):
            return self._object(value, is_schema=True)
        return REDACTED if _hides(name, value) else self.value(value)

    def open_value(self, text: str) -> int:
        """Return where a known value may have begun that the end of `text` cuts off; the length of `text` when none has."""
        size = len(text)
        begun = [size - length for length in range(min(LONGEST_HEAD, size), 0, -1) if text[-length:] in self._heads]
        for form in self._exact:
            at = text.find(form[:LONGEST_HEAD], max(0, size - len(form) + 1)) if len(form) > LONGEST_HEAD else -1
            while at >= 0 and not form.startswith(text[at:]):
                at = text.find(form[:LONGEST_HEAD], at + 1)
            begun += [at] if at >= 0 else []
        return min(begun, default=size)

    def _string(self, text: str) -> str:
        """Return a text with marks: first by what it means when it is JSON, then by what it says, of which its meaning may lack a part."""
        if _MAY_BE_JSON.match(text) and _KEY_WORD.search(text):
            with suppress(ValueError, RecursionError):
                content = json.loads(text.lstrip("\ufeff"), object_pairs_hook=_keep_pairs)
                clean = self.value(content)
                text = text if clean == content else json.dumps(clean, ensure_ascii=not _is_whole(text))
        return self.text(text)

    def _object(self, value: Mapping[object, object], *, is_schema: bool = False) -> dict[object, object]:
        """Mask an object: names too, of which none is lost when two become equal. In a JSON Schema they are names of arguments."""
        clean: dict[object, object] = {}
        paired = frozenset[object]() if is_schema else _values_of_pairs(value)
        mask_name = _keep_name if self._are_names_clean(value) else self._name
        for key, inner in value.items():
            name = mask_name(key)
            while name in clean:
                name = f"{name} {len(clean) + 1}"
            clean[name] = REDACTED if key in paired else self.value(inner) if is_schema else self.field(key, inner)
        return clean

    def _are_names_clean(self, value: Mapping[object, object]) -> bool:
        """Return whether none of many names has anything to mask, by one look at all of them."""
        if len(value) < _MANY_NAMES or not all(isinstance(key, str) and not _MAY_BE_JSON.match(key) for key in value):
            return False
        return not self.find("\n".join(str(key) for key in value))

    def _name(self, key: object) -> object:
        if not isinstance(key, str):
            return REDACTED if key in self._numbers else key
        plain = str(key)
        masked = self._short_name(plain) if len(plain) <= REACH else self._string(plain)
        return key if masked == plain else masked

    @functools.cached_property
    def _short_name(self) -> Callable[[str], str]:
        """Mask a short name, of which most come again and again."""
        return functools.lru_cache(maxsize=4_096)(self._string)

    @functools.cached_property
    def _heads(self) -> frozenset[str]:
        sizes = range(1, LONGEST_HEAD + 1)
        return frozenset(form[:size] for form in self._exact for size in sizes if size < len(form))

    def _find_exact(self, text: str) -> Iterator[SecretMatch]:
        if self._index is not None:
            yield from (SecretMatch(*run, "a value that was injected") for run in self._index.whole(text))
        for value in self._exact if self._index is None else self._short:
            at = text.find(value)
            while at >= 0:
                yield SecretMatch(at, at + len(value), "a value that was injected")
                at = text.find(value, at + len(value))


def redact(value: object) -> object:
    """Return a JSON-like value without its secrets."""
    return PLAIN.value(value)


def _is_whole(text: str) -> bool:
    """Return whether JSON text names no half of a character, which cannot be written as it is."""
    return "\\ud" not in text and "\\uD" not in text


def looks_secret(text: str, name: str = "") -> str:
    """Return why `text`, kept under `name`, looks like a secret; empty when it does not."""
    if text and is_secret_key(name):
        return f"its name, {name!r}, says so"
    found = PLAIN.find(text)
    return f"it holds {found[0].why}" if found else ""


def _keep_name(key: object) -> object:
    return key


def _mark(_: SecretMatch) -> str:
    return REDACTED


def replace(text: str, found: Iterable[SecretMatch], mark: Callable[[SecretMatch], str] = _mark) -> str:
    """Return `text` with a mark in place of each secret that was found."""
    return replace_part(text, 0, len(text), deque(found), mark)


def replace_part(
    text: str, start: int, end: int, secrets: deque[SecretMatch], mark: Callable[[SecretMatch], str] = _mark
) -> str:
    """Return `text` from `start` to `end`, with a mark in place of each secret that begins there. Those that end there leave `secrets`."""
    pieces: list[str] = []
    at = start
    while secrets and secrets[0].start < end:
        one = secrets[0]
        if one.start >= start:
            pieces += (text[at : one.start], mark(one))
        at = min(one.end, end)
        if one.end > end:
            break
        secrets.popleft()
    return "".join((*pieces, text[at:end]))


def end_of_colours(text: str, start: int) -> int:
    """Return where the last terminal colour behind `start` ends; `start` when there is none."""
    ends = [match.end() for match in _COLOUR.finditer(text, start)] if _COLOUR_BEGINS.search(text, start) else []
    return ends[-1] if ends else start


_OPAQUE: Final = frozenset(("signature", "thoughtSignature", "thought_signature", "encrypted_content"))
"""State that only its provider can read: no secret of the user's, and nothing for other eyes either."""
_PAIRS: Final = {"name": "value", "key": "value", "parametername": "parametervalue", "parameterkey": "parametervalue"}
_COLOUR_BEGINS: Final = re.compile(r"(?:\x1b|\\u001[bB]|\\x1[bB]|\\033|\\e)\[")
_COLOUR: Final = re.compile(rf"{_COLOUR_BEGINS.pattern}[0-9;:?]{{0,32}}[A-Za-z]")
_NUL: Final = r"(?:[\0\ufffd]|\\u0000|\\ufffd)"
"""One of the bytes that UTF-16 and UTF-32 put between Latin letters, or what a text shows instead of it."""
_NUL_WRITTEN: Final = re.compile(r"\\u(?:0000|fffd)")
_NUL_BEGUN: Final = r"\\(?:u(?:0{0,3}|f{1,3}))?\Z"
_BETWEEN: Final = re.compile(
    rf"{_COLOUR.pattern}|{_NUL}{{1,3}}+(?=[^\0\ufffd\\](?:{_NUL}|{_NUL_BEGUN}|\Z)|\Z)"
    r"|(?<=[\0\ufffd][^\0\ufffd])[\0\ufffd]{1,3}"
)
_BEGUN_BETWEEN: Final = re.compile(
    rf"(?:\x1b|\\u001[bB]|\\x1[bB]|\\033|\\e)(?:\[[0-9;:?]{{0,32}})?\Z|\\(?:u001|x1?|03?)\Z|{_NUL_BEGUN}"
)
"""A colour, or a NUL written with letters, whose rest the end of the text cuts off."""
_LONGEST_BEGUN: Final = 40
_MANY_NAMES: Final = 50
_KEY_WORD: Final = re.compile(
    r"pass|pwd|secret|token|auth|cookie|credential|key|conn|database|signature|_sk|\\u00[2-7]", re.IGNORECASE
)
"""What says that a text is worth reading as JSON: a word that names a secret, or a letter that JSON writes as a number."""
_MAY_BE_JSON: Final = re.compile(r"[\ufeff\s]*[\[{]")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d{0,400})(?:\.\d+)?(?:[eE][+-]?\d{1,3})?", re.ASCII)
STEMS: Final = tuple(
    "pass pwd kennwort secret token key auth cookie bearer credential curl mysql mariadb login _sk".split()
)
"""In small letters: a text without any of these names no secret."""


def _may_hold_stem(text: str) -> bool:
    """Return whether all letters of a stem are in `text`, small or capital: to see that none are costs less than to make the text small."""
    return not text.isascii() or any(all(letter in text or letter.upper() in text for letter in stem) for stem in STEMS)


def _hides(key: str, value: object) -> bool:
    if value is None or value == "" or isinstance(value, bool):
        return False
    if key in _OPAQUE:
        return isinstance(value, str) and len(value) >= 40 and " " not in value
    if isinstance(value, int | float) and key.lower().endswith("token"):
        return False  # a count, or the number of a lease
    return is_secret_key(key)


def _values_of_pairs(value: Mapping[object, object]) -> frozenset[object]:
    """Return the keys of values whose name is another value of the object: `{"name": "DB_PASSWORD", "value": "..."}`."""
    keys = [(key.lower(), key) for key in value if isinstance(key, str)]
    secret = {
        name for name, key in keys if name in _PAIRS and isinstance(said := value[key], str) and is_secret_key(said)
    }
    others = {_PAIRS[name] for name in secret}
    return frozenset(key for name, key in keys if name in others and isinstance(value[key], str) and value[key])


class _Name(str):
    """A name that stands in its object twice. It equals itself alone, so that a dict keeps both."""

    __slots__ = ()
    __eq__ = object.__eq__
    __hash__ = object.__hash__


def _keep_pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    content = dict(pairs)
    return content if len(content) == len(pairs) else {_Name(name): inner for name, inner in pairs}


def find_through(text: str, find: Callable[[str], Iterable[SecretMatch]]) -> list[SecretMatch]:
    """Find secrets in a text as it is, and without what stands between its letters; return them at their places in the text."""
    found = [*find(text)]
    if between := _find_between(text):
        place = _places(between)
        found += [SecretMatch(place(one.start), place(one.end - 1) + 1, one.why) for one in find(strip_between(text))]
    return found


def strip_between(text: str) -> str:
    """Return a text without what stands between its letters: terminal colours, and the NULs of UTF-16 and UTF-32."""
    between = _between_in(text)
    return between.sub("", text) if between else text


def _find_between(text: str) -> list[tuple[int, int]]:
    between = _between_in(text)
    return [match.span() for match in between.finditer(text)] if between else []


def _between_in(text: str) -> re.Pattern[str] | None:
    """Return the pattern of what stands between the letters of `text`; None where nothing does."""
    if any(sign in text for sign in "\0\ufffd") or ("\\" in text and _NUL_WRITTEN.search(text)):
        return _BETWEEN
    return _COLOUR if ("\x1b" in text or "\\" in text) and _COLOUR_BEGINS.search(text) else None


def _places(between: list[tuple[int, int]]) -> Callable[[int], int]:
    """Return the function that gives the place in a text of a place in it without what stands `between`."""
    sizes = (end - start for start, end in between)
    starts = [start - before for (start, _), before in zip(between, accumulate(sizes, initial=0), strict=False)]

    def place(inside: int) -> int:
        after = bisect_right(starts, inside)
        return inside if not after else between[after - 1][1] + inside - starts[after - 1]

    return place


def spell_value(value: str) -> Iterator[str]:
    """Yield the ways in which an exact value may be written: as it is, in JSON of various programs, in an address."""
    yield value
    for text in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        yield from (text, text.replace("/", "\\/"))  # PHP
        for html in ("<>&", "<>&'+"):  # Go, .NET
            yield "".join(f"\\u{ord(c):04x}" if c in html else c for c in text)
            yield "".join(f"\\u{ord(c):04X}" if c in html else c for c in text)
    quoted = (
        quote(value, safe="", errors="replace"),
        quote(value, errors="replace"),
        quote_plus(value, errors="replace"),
    )
    for text in quoted:
        yield from (text, re.sub("%..", lambda found: found[0].lower(), text))


def merge_overlapping(found: list[SecretMatch]) -> list[SecretMatch]:
    """Put what was found in order, and make one of those that overlap."""
    if len(found) < 2:
        return found
    merged: list[SecretMatch] = []
    last = -1
    for one in sorted(found):
        if one.start > last:
            merged.append(one)
            last = one.end
        elif one.end > last:
            last = one.end
            merged[-1] = SecretMatch(merged[-1].start, last, merged[-1].why)
    return merged


PLAIN: Final = Redactor()
"""A redactor without exact values."""


# --- texts in pieces -------------------------------------------------------------------------------------------------------------


LONGEST_HELD: Final = 64 * 1024
"""Characters that may be held back; beyond that they are given out, redacted as far as they can be."""
LONGEST_OPEN: Final = 4096 + 512
"""Characters from the beginning of an open value to the end of the text, what says that it is a value included."""
CONTEXT: Final = 512
"""Characters that are remembered of what was given out: a netrc file names a password in the lines before it."""


class StreamRedactor:
    """Redacts a text that comes in pieces. Each piece comes back, in order, without its part of a secret."""

    def __init__(self, redactor: Redactor = PLAIN) -> None:
        self._redactor = redactor
        self._before = ""
        """The end of what is settled: what follows may have a meaning only with it."""
        self._held: list[str] = []
        """What is not settled yet."""
        self._size = 0
        self._enough = 0
        """The size from which on what is held is worth another look."""
        self._pieces: deque[int] = deque()
        """The characters that are not settled of each piece."""
        self._clean = ""
        """What is settled of the first piece."""
        self._swallowing = False
        """A secret was too long to hold: the mark stands for it, and the rest of it is dropped."""

    def feed(self, *pieces: str) -> list[str]:
        """Take pieces in; return those that are settled, the oldest first."""
        for piece in pieces:
            self._held.append(piece)
            self._pieces.append(len(piece))
            self._size += len(piece)
        return self._settle(over=False) if self._size >= self._enough else []

    def flush(self) -> list[str]:
        """Return all pieces that are not settled: the text is over, or must not wait any longer."""
        return self._settle(over=True)

    def _settle(self, *, over: bool) -> list[str]:
        start, whole = len(self._before), self._before + "".join(self._held)
        begun = None if over else _BEGUN_BETWEEN.search(whole, max(start, len(whole) - _LONGEST_BEGUN))
        waiting = begun[0] if begun else ""  # it must not pass for letters of the word before it
        whole = whole.removesuffix(waiting)
        found = [one for one in self._redactor.find(whole) if one.end > start]
        cut = len(whole) if over else max(start, find_settled_end(whole, found, self._redactor))
        if self._swallowing:
            found, cut = self._swallow(whole, start, cut, found)
        if len(whole) - cut > LONGEST_HELD:
            cut = len(whole)
        self._swallowing = cut == len(whole) and not over and bool(found) and found[-1].end == cut
        pieces = self._take(whole, start, cut, found)
        self._before, self._held = whole[max(0, cut - CONTEXT) : cut], [whole[cut:], waiting]
        self._size = len(whole) - cut + len(waiting)
        self._enough = self._size * 3 // 2 + 1
        return pieces

    def _swallow(self, whole: str, start: int, cut: int, found: list[SecretMatch]) -> tuple[list[SecretMatch], int]:
        """Drop the rest of the secret that was too long, without a mark of its own: it begins before what is new."""
        end = start + len(whole[start:]) - len(whole[start:].lstrip(_TOKEN))
        later = (SecretMatch(max(one.start, end), one.end, one.why) for one in found if one.end > end)
        return [SecretMatch(start - 1, end, "the rest of a secret"), *later], max(cut, end)

    def _take(self, whole: str, at: int, cut: int, found: list[SecretMatch]) -> list[str]:
        """Return the pieces up to `cut`: a mark stands where its secret begins, and nowhere when that was given out already."""
        ready: list[str] = []
        secrets = deque(found)
        while self._pieces:
            end = min(at + self._pieces[0], cut)
            self._pieces[0] -= end - at
            self._clean += replace_part(whole, at, end, secrets)
            at = end
            if self._pieces[0]:
                break
            ready.append(self._clean)
            self._clean = ""
            self._pieces.popleft()
        return ready


def find_settled_end(text: str, found: list[SecretMatch], redactor: Redactor = PLAIN) -> int:
    """Return how much of `text`, in which `found` is, stays as it is when more text follows."""
    cut = _find_open(text, redactor)
    if between := _find_between(text):
        cut = min(cut, _places(between)(_find_open(strip_between(text), redactor)))
    for one in reversed(found):  # none may be cut, nor be parted from one that follows it directly
        if one.start < cut <= one.end:
            cut = one.start
    return cut


def _find_open(text: str, redactor: Redactor) -> int:
    """Return where something may have begun that is a secret if more text follows; the length of `text` when nothing has."""
    line = max(text.rfind("\n"), 0)
    last = text[line:]
    word = line + max(last.rfind(blank) for blank in (" ", "\t", "\n")) + 1
    lowered = last.lower()
    names_one = any(name in lowered for name in _NAMES) or _NAMED_ABOVE.search(text, max(0, line - CONTEXT), line)
    begun = may_begin(text[word:]) or may_begin(text[end_of_colours(text, word) :])
    cut = line if names_one else word if begun else len(text)
    return min(cut, open_block(text), redactor.open_value(text), open_value(text))


def open_value(text: str) -> int:
    """Return where a value begins that the end of `text` cuts off, or whose name may follow; the length of `text` when there is none.

    Such a value may stand in another line than its name: a sibling, the inside of an element, a password of netrc.
    """
    start = max(0, len(text) - LONGEST_OPEN)
    end = text[start:].lower()
    match = _OPEN_VALUE.search(text, start) if any(word in end for word in _OPENING_WORDS) else None
    return match.start(match.lastindex or 0) if match else len(text)


_NAMES: Final = (*STEMS, *map(str.lower, BLOCK_BEGINS))
_NAMED_ABOVE: Final = re.compile(r"[:=][ \t]{0,8}[|>][+-]?[0-9]?[ \t]{0,8}\r?\Z")
"""The end of a line that says that a value stands in the next one, as in YAML."""
_OPENING_WORDS: Final = ("value", "plaintext", "password", "<")
_NEXT_NAMES: Final = ("parametername", "parameterkey", "name", "key")
_BEGUN: Final = "|".join(name[:size] for name in _NEXT_NAMES for size in range(len(name), 0, -1))
_QUOTE: Final = r"\\{0,4}[\"']?"
_SIGN: Final = rf"{_QUOTE}[ \t]{{0,8}}[:=][ \t]{{0,8}}{_QUOTE}"
_OPEN_VALUE: Final = re.compile(
    rf"(?:value|plaintext){_SIGN}([^\s\"'`\\,;{{}}\[\]<>]{{0,4096}}+)"
    rf"(?:{_QUOTE}(?:[\s,\"']|\\[nr\"']){{0,40}}+\\?(?:{_BEGUN})?(?:{_QUOTE}[ \t]{{0,8}}|{_SIGN}[\w.-]{{0,80}}+))?\Z"
    r"|<[a-z][\w:.-]{2,60}+(?:\s[^<>]{0,200}+)?>\s{0,80}+(?:<!\[CDATA\[)?([^<>\s]{0,4096}+)>?\s{0,80}+<?\Z"
    r"|\spassword\s++(\S{0,4096}+)\Z",
    re.IGNORECASE,
)
"""A value that its sibling, an element or netrc names, up to the end of the text. The forms are those of `redact_pairs`."""
_TOKEN: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=_-."
