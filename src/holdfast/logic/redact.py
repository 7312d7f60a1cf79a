"""Takes secrets out of what is traced, exported or shown to others: by the name they stand under, by how they look, by their exact value.

One place for everybody: events on their way out, traces, exports and error texts use the same `Redactor`, and a text that arrives in
pieces goes through a `StreamRedactor`, which also finds the secret that two pieces share. What a model is told is never altered here.
"""

import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple
from urllib.parse import quote

from holdfast.logic.redact_shapes import (
    BLOCK,
    HEADERS,
    KEY_WORDS,
    KEYS,
    LONG_RUN,
    NAMES,
    OPEN_BLOCK,
    OPEN_VALUE,
    PLACES,
    TOKEN_START,
    TOKENS,
    VALUE,
    Shape,
    looks_random,
)

REDACTED: Final = "[REDACTED]"
LONGEST_HELD: Final = 16 * 1024
"""Characters that a stream may hold back while they may be the beginning of a secret."""
CONTEXT: Final = 64
"""Characters that are remembered of what was given out."""
SHORTEST_EXACT: Final = 6
"""An exact value shorter than this would blot out ordinary words."""


class Found(NamedTuple):
    """A secret in a text."""

    start: int
    end: int
    why: str


class Redactor:
    """Finds and replaces secrets. `exact` are values that are known to be secret, such as those that the runtime injected."""

    def __init__(self, exact: Iterable[str] = ()) -> None:
        forms = {form for value in exact if len(value) >= SHORTEST_EXACT for form in _forms(value)}
        self._exact: tuple[str, ...] = tuple(sorted(forms, key=len, reverse=True))

    def find(self, text: str) -> list[Found]:
        """Every secret in `text`, in order, none overlapping another."""
        found = [
            *self._find_exact(text),
            *_find_tokens(text),
            *_find_shapes(text, (*PLACES, BLOCK)),
        ]
        lowered = text.lower()
        if any(word in lowered for word in _TELLING):
            headers = (shape for shape in HEADERS if shape.gates[0] in lowered)
            found += _find_shapes(text, headers, gated=False)
            if len(lowered) == len(text):  # a few letters have longer small forms: then places do not match
                found += _find_named(text, lowered)
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

    def open_from(self, text: str) -> int:
        """Where a secret may have begun that the end of `text` cuts off; the length of `text` when none has."""
        low = max(0, len(text) - LONGEST_HELD)
        tail = text[low:]
        return low + min(_open_block(tail), _open_run(tail), _open_name(tail), self._open_exact(tail))

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

    def _find_exact(self, text: str) -> Iterator[Found]:
        for value in self._exact:
            at = text.find(value)
            while at >= 0:
                yield Found(at, at + len(value), "a value that was injected")
                at = text.find(value, at + len(value))

    def _open_exact(self, tail: str) -> int:
        for value in self._exact:
            for size in range(min(len(value) - 1, len(tail)), 0, -1):
                if tail.endswith(value[:size]):
                    return len(tail) - size
        return len(tail)


class StreamRedactor:
    """Redacts a text that comes in pieces. What may be the beginning of a secret is held back until it is known."""

    def __init__(self, redactor: Redactor | None = None) -> None:
        self._redactor = redactor or PLAIN
        self._held = ""
        self._before = ""
        """The end of what was given out: what follows may have a meaning only with it."""
        self._swallowing = False
        """A secret was given up as too long to hold; the rest of it is dropped."""

    def feed(self, text: str) -> str:
        """Take a piece in; return what is safe to give out."""
        if self._swallowing:
            text = text.lstrip(_TOKEN_LETTERS)
            if not text:
                return ""
        self._held += text
        whole, found = self._look()
        cut = max(self._redactor.open_from(whole), len(self._before))
        cut = min([cut, *(one.start for one in found if one.end > cut)])
        if len(whole) - cut >= LONGEST_HELD:
            cut = len(whole)
        self._swallowing = bool(found) and found[-1].end == cut == len(whole)
        return self._give(whole, cut, found)

    def flush(self) -> str:
        """What was held back, redacted: the text is over."""
        whole, found = self._look()
        return self._give(whole, len(whole), found)

    def _look(self) -> tuple[str, list[Found]]:
        whole, start = self._before + self._held, len(self._before)
        return whole, [
            one._replace(start=max(one.start, start)) for one in self._redactor.find(whole) if one.end > start
        ]

    def _give(self, whole: str, cut: int, found: list[Found]) -> str:
        given = replace(whole[:cut], [one for one in found if one.end <= cut])[len(self._before) :]
        self._before, self._held = whole[:cut][-CONTEXT:], whole[cut:]
        return given


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
_TELLING: Final = ("authorization", "bearer", "cookie", "pass", "pwd", "secret", "token", "credential", "key")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NOT_WORD: Final = re.compile(r"[^a-z0-9]+")
_TOKEN_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=_-."
_PREFIXES: Final = tuple(gate for shape in (*TOKENS, *PLACES) for gate in shape.gates if gate not in ("sig=", ":AA"))
_PARTIAL: Final = frozenset(prefix[:size] for prefix in (*_PREFIXES, "-----BEGIN") for size in range(1, len(prefix)))
_LONGEST_PREFIX: Final = max(map(len, _PARTIAL))
_HEADER_NAMES: Final = ("authorization", "bearer", "cookie")
_PARTIAL_NAMES: Final = frozenset(
    name[:size]
    for name in (*NAMES, *_HEADER_NAMES, *(f"{word}{sign}" for word in KEY_WORDS.split("|") for sign in "_-."))
    for size in range(1, len(name) + 1)
)
_RUN: Final = re.compile(r"[^\s\"'`<>]*")
_IDENTIFIER: Final = re.compile(r"[\w.-]{0,64}")
_NAME: Final = re.compile("(?i:" + "|".join(sorted((*NAMES, *_HEADER_NAMES), key=len, reverse=True)) + ")")


def _hides(key: str, value: object) -> bool:
    if value is None or value == "" or isinstance(value, bool):
        return False
    if key in _OPAQUE:
        return isinstance(value, str) and len(value) >= 40 and " " not in value
    if isinstance(value, int | float) and key.lower().endswith("token"):
        return False  # a count, or the number of a lease
    return is_secret_key(key)


def _forms(value: str) -> Iterator[str]:
    """The ways in which an exact value may be written."""
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield quote(value, safe="")


def _find_tokens(text: str) -> Iterator[Found]:
    for run in LONG_RUN.finditer(text):
        if TOKEN_START.search(text, *run.span()):
            yield from _find_shapes(run[0], TOKENS, offset=run.start())


def _find_shapes(text: str, shapes: Iterable[Shape], *, gated: bool = True, offset: int = 0) -> Iterator[Found]:
    for shape in shapes:
        if gated and not _any_in(shape.gates, text):
            continue
        group = "secret" if "secret" in shape.pattern.groupindex else 0
        for match in shape.pattern.finditer(text):
            if shape.is_real is None or shape.is_real(match[group]):
                first, last = match.span(group)
                yield Found(first + offset, last + offset, shape.why)


def _any_in(gates: tuple[str, ...], text: str) -> bool:
    return any(map(text.__contains__, gates))


def _find_named(text: str, lowered: str) -> Iterator[Found]:
    """Values that look random next to a name that says what they are."""
    for name in NAMES:
        at = lowered.find(name)
        while at >= 0:
            end = at + len(name)
            if name != "key" or KEYS.search(lowered, max(0, at - 16), at):
                match = VALUE.match(text, end)
                if match and _is_value(match):
                    yield Found(*match.span("secret"), f"a {name} that looks like one")
            at = lowered.find(name, end)


def _is_value(match: re.Match[str]) -> bool:
    value = match["secret"]
    if match["open"]:
        return looks_random(value) or (match["close"] != "" and _is_mixed(value))
    return "(" not in value and looks_random(value)


def _is_mixed(value: str) -> bool:
    """Enough for a quoted value under a quoted name: not a plain word."""
    return (
        not value.startswith(("$", "{", "<", "%", "/", "http"))
        and not value.replace("_", "").replace("-", "").isalpha()
    )


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


def _open_block(tail: str) -> int:
    at = tail.rfind("-----BEGIN")
    if at < 0 or not OPEN_BLOCK.match(tail, at) or BLOCK_END.search(tail, at):
        return len(tail)
    return at


def _open_run(tail: str) -> int:
    """Where the last word begins, if it has the beginning of a token in it or is one itself."""
    run = _last(_RUN, tail)
    if not run:
        return len(tail)
    if _any_in(_PREFIXES, run) or run.endswith((":", ":/", "&", "?", ";")) or "sig=" in run:
        return len(tail) - len(run)
    for size in range(1, min(_LONGEST_PREFIX, len(run)) + 1):
        if run[-size:] in _PARTIAL and (size == len(run) or not run[-size - 1].isalnum()):
            return len(tail) - len(run)
    return len(tail)


def _open_name(tail: str) -> int:
    """Where a telling name begins whose value has not ended, or that has not ended itself."""
    line = tail[tail.rfind("\n") + 1 :][-8_000:]
    name = _last(_IDENTIFIER, line)
    lowered = name.lower()
    unended = any(lowered[-size:] in _PARTIAL_NAMES for size in range(1, min(len(lowered), 13) + 1))
    for match in _NAME.finditer(line):
        cookie = match[0].lower() == "cookie" and OPEN_COOKIE.match(line, match.end())
        if cookie or OPEN_VALUE.match(line, match.end()):
            return len(tail) - len(line) + match.start() - len(_last(_IDENTIFIER, line[: match.start()]))
    return len(tail) - len(name) if unended else len(tail)


def _last(pattern: re.Pattern[str], text: str) -> str:
    """What `pattern` matches at the end of `text`. Backwards, so that a long text costs nothing."""
    match = pattern.match(text[::-1])
    return text[len(text) - match.end() :] if match else ""


BLOCK_END: Final = re.compile(r"-----END [A-Z0-9 ]{0,60}-----")
OPEN_COOKIE: Final = re.compile(r"\\*[\"'`]?\]?[ \t]{0,8}[:=][^\r\n\"'`\\]*\Z")
PLAIN: Final = Redactor()
"""For whoever knows no exact values."""
