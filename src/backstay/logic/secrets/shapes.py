"""Find secrets by their shape: the table beside this file, private keys, and values that look generated.

A shape's pattern is only tried on a text that holds every letter of what the shape begins with, which costs next to nothing. Table and
patterns are read when the first text asks for them: a program starts without them.

The second half judges a value that its name says to be secret: a literal is distinguished from code that gets it, from a placeholder, from
an ordinary word and from a sentence.
"""

import binascii
import functools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from backstay.logic.secrets.secret_names import PASSWORDS

LONGEST_BLOCK: Final = 20_000
"""Characters of a private key from its first line to its last."""
FEW: Final = 64
"""Shapes of tokens that are looked for one by one; more are looked for all at once."""
BLOCK_BEGINS: Final = ("-----BEGIN", "LS0tLS1CRUdJTi", "Private-Lines:")
"""What a private key begins with; the second is the base64 of the first, the third is what PuTTY writes."""


class SecretMatch(msgspec.Struct, frozen=True, order=True, gc=False):
    """A secret in a text. Those of one text are ordered by where they begin; the garbage collector skips them."""

    start: int
    end: int
    why: str


class Shape(NamedTuple):
    """A kind of secret that begins with fixed text."""

    why: str
    begins: str
    expression: str
    is_real: Callable[[str], bool] | None = None
    """Looks closer at what the pattern found."""
    upto: str = ""
    """The secret ends before the last of these."""
    letters: frozenset[str] = frozenset()
    """What it begins with, letter by letter."""

    def find(self, text: str) -> Iterator[SecretMatch]:
        """Yield the secrets of this kind in `text`."""
        return self.judge(text, _compile(self.expression).finditer(text))

    def judge(self, text: str, matches: Iterable[re.Match[str]]) -> Iterator[SecretMatch]:
        """Yield those of the matches in `text` that are secrets of this kind."""
        group = "secret" if "secret" in _compile(self.expression).groupindex else 0
        for match in matches:
            start, end = match.span(group)
            if self.upto:
                end = text.rfind(self.upto, start, end)
            if end > start and (self.is_real is None or self.is_real(text[start : min(end, start + 4096)])):
                yield SecretMatch(start, end, self.why)


class Shapes(NamedTuple):
    """The shapes of the table, by the rarest sign in their beginnings: a text without the sign has none of them."""

    tokens: Mapping[str, tuple[Shape, ...]]
    """Nothing but letters, digits and a few signs."""
    places: Mapping[str, tuple[Shape, ...]]
    """Recognised by what stands before them. None has a blank in it."""
    partial: frozenset[str]
    """What a token may begin with that is cut off in its beginning."""
    glued: tuple[str, ...]
    """The same for those that are found behind letters too."""
    longest: int
    """The characters of the longest of those."""
    letters: str
    """All letters that tokens and places begin with."""


class Beginnings(NamedTuple):
    """The prefixes of tokens, in one pattern."""

    words: re.Pattern[str]
    """Where no letter or digit stands before it, and all other words before that: none is read letter by letter."""
    written: re.Pattern[str]
    """Where what stands before it belongs to what writes a sign."""
    shapes: Mapping[str, list[tuple[Callable[[str, int], re.Match[str] | None], Shape]]]
    """The shapes of each beginning, each with its match; those of a shorter one that it begins with too."""


def find_shapes(text: str) -> Iterator[SecretMatch]:
    """Yield the secrets in `text` that are recognised by how they begin, or by the fixed text before them."""
    shapes = _shapes()
    letters = frozenset(letter for letter in shapes.letters if letter in text)
    if len(text) > _SHORT or _LONG_RUN.search(text):
        tokens = _possible(text, shapes.tokens, letters)
        yield from _find_at_once(text) if len(tokens) > FEW else _find(text, tokens)
    yield from _find(text, _possible(text, shapes.places, letters))


def find_blocks(text: str) -> Iterator[SecretMatch]:
    """Yield the private keys in `text`: in PEM, and the base64 of PEM, which configurations of Kubernetes and of CI systems hold."""
    if contains(text, BLOCK_BEGINS[0]):
        yield from _find_plain(text)
    if contains(text, BLOCK_BEGINS[1]):
        for match in _ENCODED.finditer(text):
            if b"PRIVATE KEY" in decode_base64(re.sub(r"[^A-Za-z0-9+/]", "", match[0][:200])[:88]):
                yield SecretMatch(*match.span(), "the base64 of a private key")

    if contains(text, BLOCK_BEGINS[2]):
        for match in _PUTTY.finditer(text):
            end, _ = _putty_end(text, match)
            if end > match.end():
                yield SecretMatch(match.end(), end, "a private key")


def open_block(text: str) -> int:
    """Return where a block begins that goes on behind the end of `text`, or may do so; the length of `text` when none does."""
    return min(_open_whole(text), _open_beginning(text), _open_putty(text))


def _open_beginning(text: str) -> int:
    """Return where the beginning of a block stands that the end of `text` cuts off."""
    sizes = (size for begins in BLOCK_BEGINS for size in range(1, len(begins)) if text.endswith(begins[:size]))
    return len(text) - max(sizes, default=0)


def _open_putty(text: str) -> int:
    start = text.rfind(BLOCK_BEGINS[2])
    if start < 0 or len(text) - start > LONGEST_BLOCK:
        return len(text)
    match = _PUTTY.match(text, start)
    if match is None:
        return start if _UNFINISHED_PUTTY.fullmatch(text, start) else len(text)
    end, is_over = _putty_end(text, match)
    return len(text) if is_over or end < len(text.rstrip("\r\n\\")) else start


def _putty_end(text: str, first: re.Match[str]) -> tuple[int, bool]:
    """Return where the lines of a key end that PuTTY wrote, and whether all of them are there."""
    at = end = first.end()
    for _ in range(min(int(first[1]), LONGEST_BLOCK // 64)):
        line = _PUTTY_LINE.match(text, at)
        if line is None:
            return end, False
        end, at = line.end(1), line.end()
        if at == end:
            return end, False
    return end, True


def _open_whole(text: str) -> int:
    start = max(text.rfind(BLOCK_BEGINS[0]), text.rfind(BLOCK_BEGINS[1]))
    if start < 0 or len(text) - start > LONGEST_BLOCK:
        return len(text)
    if text.startswith(BLOCK_BEGINS[1], start):
        whole = _ENCODED.match(text, start)
        return start if whole is None or whole.end() >= len(text.rstrip()) else len(text)
    if _LAST.search(text, start) or not (_FIRST.match(text, start) or _UNFINISHED.fullmatch(text, start)):
        return len(text)
    return start


def contains(text: str, word: str) -> bool:
    """Return whether `word` is in `text`. In a long text a letter is found, or missed, at a fraction of what a word costs."""
    return all(letter in text for letter in word) and word in text


def may_begin(word: str) -> bool:
    """Return whether a secret that is recognised by its beginning may have begun in `word`, the unfinished end of a text."""
    shapes = _shapes()
    for listed in (shapes.tokens, shapes.places):
        if any(sign in word and any(shape.begins in word for shape in some) for sign, some in listed.items()):
            return True
    if word.endswith(shapes.glued):
        return True
    longest = min(len(word), shapes.longest)
    return any(
        word[-size:] in shapes.partial and _BEFORE.search(word, max(0, len(word) - size - 6), len(word) - size)
        for size in range(1, longest + 1)
    )


def _possible(text: str, shapes: Mapping[str, tuple[Shape, ...]], letters: frozenset[str]) -> list[Shape]:
    """Return the shapes of which `text` has all letters."""
    return [
        shape for sign, some in shapes.items() if contains(text, sign) for shape in some if shape.letters <= letters
    ]


def _find(text: str, shapes: Iterable[Shape]) -> Iterator[SecretMatch]:
    for shape in shapes:
        yield from shape.find(text)


def _find_at_once(text: str) -> Iterator[SecretMatch]:
    """Yield the tokens in `text`, looked for all at once wherever one may begin."""
    beginnings = _beginnings()
    for pattern in (beginnings.words, beginnings.written):
        done: dict[str, int] = {}
        for begun in pattern.finditer(text):
            at = begun.start(1)
            for match_at, shape in beginnings.shapes[begun[1]] if at >= 0 else ():
                if at >= done.get(shape.expression, 0) and (match := match_at(text, at)):
                    done[shape.expression] = match.end()
                    yield from shape.judge(text, (match,))


def _find_plain(text: str) -> Iterator[SecretMatch]:
    at, last = 0, _LAST.search(text)
    while first := _FIRST.search(text, at):
        if last is not None and last.start() < first.end():
            last = _LAST.search(text, first.end())
        if last is not None and last.end() - first.start() <= LONGEST_BLOCK:
            at = last.end()
        else:
            body = _BODY.match(text, first.end())
            at = body.end() if body else first.end()
        yield SecretMatch(first.start(), at, "a private key")


def _is_user_info(value: str) -> bool:
    name, colon, password = value.partition(":")
    return bool(password) and not is_placeholder(password) if colon else len(name) >= 16 and looks_random(name)


def _is_database_user_info(value: str) -> bool:
    name, colon, password = value.partition(":")
    if not colon or _PORT.match(password) or any(sign in name for sign in "@/"):
        return False
    return bool(password) and not is_placeholder(password)


def _is_web_token(value: str) -> bool:
    return ".eyJ" in value


def _has_dot_inside(value: str) -> bool:
    return "." in value[3:]


_PORT: Final = re.compile(r"[0-9]{1,5}(?:[/?#]|\Z)")
_KEY: Final = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_FIRST: Final = re.compile(f"-----BEGIN {_KEY}")
_LAST: Final = re.compile(f"-----END {_KEY}")
_UNFINISHED: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,60}-{0,5}")
_BODY: Final = re.compile(r"(?:[A-Za-z0-9+/=:,.\s-]++|\\[nr])++")
_ENCODED: Final = re.compile(r"LS0tLS1CRUdJTi[A-Za-z0-9+/]*+=*+(?:(?:\s|\\[nr])++[A-Za-z0-9+/]{16,}+=*+)*+")
_PUTTY: Final = re.compile(r"Private-Lines: {0,8}([0-9]{1,4})(?:\r?\n|(?:\\r)?\\n)")
_PUTTY_LINE: Final = re.compile(r"([A-Za-z0-9+/=]{1,80}+)(?:\r?\n|(?:\\r)?\\n|(?=[\s\"'`\\]|\Z))")
_UNFINISHED_PUTTY: Final = re.compile(r"Private-Lines: {0,8}[0-9]{0,4}(?:\r|\\r?|\\r\\)?")
_SHORT: Final = 2048
_LONG_RUN: Final = re.compile(r"[A-Za-z0-9_.-]{15}")
"""What every token has in it. Many a short text has none, and is asked nothing else about tokens."""
_BORDER: Final = r"(?>(?<![A-Za-z0-9]FIXED)|(?<=%[0-9A-Fa-f]{2}FIXED)|(?<=\\[nrtfb]FIXED)|(?<=\\u[0-9a-fA-F]{4}FIXED))"
"""Before a token stands no letter or digit, unless it belongs to what writes a sign."""
_BEFORE: Final = re.compile(r"(?:\A|[^A-Za-z0-9]|%[0-9A-Fa-f]{2}|\\[nrtfb]|\\u[0-9a-fA-F]{4})\Z")
"""The same for what stands before the beginning of a token, up to its end."""
_SIGNS: Final = ("://", *"$:/=_-.")
"""What tells beginnings apart, the rarest in ordinary text first."""


@functools.cache
def _compile(expression: str) -> re.Pattern[str]:
    return re.compile(expression)


@functools.cache
def _shapes() -> Shapes:
    table = read_table()
    tokens = _by_sign(table["tokens"])
    places = _by_sign(table["places"])
    begins = (*(shape.begins for some in tokens.values() for shape in some), *BLOCK_BEGINS)
    partial = frozenset(word[:size] for word in begins for size in range(1, len(word)))
    letters = frozenset().union(*(shape.letters for some in (*tokens.values(), *places.values()) for shape in some))
    anywhere = (begins for row in table["places"] if row.get("after") == "" for begins in row["begins"])  # type: ignore[attr-defined]  # as below
    glued = {word[:size] for word in anywhere if word.isidentifier() for size in range(1, len(word))}
    return Shapes(tokens, places, partial, tuple(sorted(glued)), max(map(len, partial)), "".join(sorted(letters)))


@functools.cache
def _beginnings() -> Beginnings:
    tokens = [shape for some in _shapes().tokens.values() for shape in some]
    begins = {shape.begins for shape in tokens}
    ahead = f"(?=({_any_of(begins)}))"
    words = re.compile(rf"(?:[^A-Za-z0-9]++|(?!{_any_of(begins)})[A-Za-z0-9]++)*+(?:{ahead}[A-Za-z0-9]++|\Z)")
    written = re.compile(rf"(?:%[0-9A-Fa-f]{{2}}|\\(?:[nrtfb]|u[0-9a-fA-F]{{4}})){ahead}")
    matches = [(_compile(shape.expression).match, shape) for shape in tokens]
    return Beginnings(
        words, written, {word: [one for one in matches if word.startswith(one[1].begins)] for word in begins}
    )


def _any_of(words: Iterable[str]) -> str:
    """Return a pattern for the longest of these words that stands at a place; it reads each letter of the place once."""
    by_first: dict[str, list[str]] = {}
    for word in sorted(words):
        by_first.setdefault(word[:1], []).append(word[1:])
    is_end = by_first.pop("", None) is not None
    branches = "|".join(re.escape(first) + _any_of(rest) for first, rest in by_first.items())
    return f"(?:{branches}){'?' * is_end}" if branches else ""


def read_table() -> Mapping[str, list[dict[str, object]]]:
    """Return the rows of the table."""
    import tomllib  # noqa: PLC0415 - loads when a text is first looked through, not with the package
    from importlib import resources  # noqa: PLC0415 - likewise

    rows: dict[str, list[dict[str, object]]] = tomllib.loads(
        resources.files(__package__).joinpath("shapes.toml").read_text(encoding="utf-8")
    )
    return rows


def _by_sign(rows: list[dict[str, object]]) -> Mapping[str, tuple[Shape, ...]]:
    listed: dict[str, list[Shape]] = {}
    for row in rows:
        for begins in row["begins"]:  # type: ignore[attr-defined]  # a row of the table, which a test holds to its form
            shape = _shape(begins, {key: str(value) for key, value in row.items() if key != "begins"})
            listed.setdefault(next((sign for sign in _SIGNS if sign in begins), ""), []).append(shape)
    return {sign: tuple(shapes) for sign, shapes in listed.items()}


def _shape(begins: str, row: Mapping[str, str]) -> Shape:
    # A pattern that begins with fixed text is found ten times as fast, so what stands before it is checked behind it.
    fixed, after = re.escape(begins), row.get("after")
    before = _BORDER.replace("FIXED", fixed) if after is None else f"(?<={after}{fixed})" if after else ""
    real = _REAL[row["real"]] if "real" in row else None
    expression = f"{fixed}{before}(?:{row['rest']})"
    return Shape(row["why"], begins, expression, real, row.get("upto", ""), frozenset(begins))


# --- values ----------------------------------------------------------------------------------------------------------------------


LONGEST_JUDGED: Final = 400
"""Characters of a value that are read to judge it."""
PLACEHOLDER: Final = r"[$\{<%\[(*]|\.\.\.|…|(?s:(?:(.)\1*+(?:(.)(?:\1|\2)*+)?)?\Z)"
"""A sign that a template begins with, or no three letters of which none is another."""


def is_literal(value: str, *, password: bool) -> bool:
    """Return whether a value is written out: not code that gets it from elsewhere, and not a plain word, which may be code too."""
    if "(" in value:
        return False
    digit = has_digit(value)
    if not digit and not (password and _SYMBOL.search(value)):
        return False
    if is_code(value) or "[" in value or "{" in value:
        return looks_random(value)
    if password:
        return digit or _LETTER.search(value) is not None
    return len(value) >= 6 and _LETTER.search(value) is not None


def is_code(value: str) -> bool:
    """Return whether `value` stands for something else: a placeholder, a path, a name, a call, a time."""
    return _CODE.match(value) is not None or "[REDACTED" in value


def is_phrase(value: str, *, is_password: bool) -> bool:
    """Return whether several words in quotes are a secret, and not a label or a message about one."""
    if value != value.strip() or is_code(value) or _TEMPLATE.search(value):
        return False
    if has_digit(value) and any(looks_random(word) for word in value.split()):
        return True
    return (
        is_password
        and len(value) >= 8
        and value[-1] not in ".:?!…,"
        and _PROSE.isdisjoint(map(str.lower, _WORD.findall(value)))
    )


def is_placeholder(value: str) -> bool:
    """Return whether `value` stands for a secret instead of being one: a variable, a template, a row of stars."""
    return _PLACEHOLDER.match(value, 0, LONGEST_JUDGED) is not None or "[REDACTED" in value


def looks_random(value: str) -> bool:
    """Return whether `value` looks generated: digits scattered among letters, few repetitions."""
    value = value[:LONGEST_JUDGED]
    if is_placeholder(value) or not _ASCII.search(value):
        return False
    if len(value) >= 16 and len(set(value)) < 8:  # no three bits for each character
        return False
    groups = _DIGITS.findall(value)
    if len(groups) < 2 or _DOTTED.fullmatch(value):
        return False
    if value.startswith(("/", "./", "../", "~", "http")) or _DATE.match(value):
        return False
    if len(value) >= 16:
        return (len(groups) >= 3 or changes(value) >= 0.45 * len(value)) and entropy(value) >= 3.0
    kinds = sum(bool(kind.search(value)) for kind in (_LOWER, _UPPER, _SIGN))
    return len(value) >= 8 and kinds >= 2 and entropy(value) >= 2.5


def entropy(value: str) -> float:
    """Return the bits for each character of `value`."""
    size = len(value)
    shares = [value.count(letter) / size for letter in dict.fromkeys(value)]
    return -sum(share * math.log2(share) for share in shares)


def has_digit(value: str) -> bool:
    """Return whether a digit is in `value`."""
    return _DIGITS.search(value) is not None


def changes(value: str) -> int:
    """Return how often `value` goes over from one kind of letter to another: often in a random text, seldom in words run together."""
    return sum(1 for _ in _SAME_KIND.finditer(value)) - 1


def decode_base64(value: str) -> bytes:
    """Decode `value` from base64, without the last incomplete group; return nothing when it is none."""
    value = value.rstrip("=")
    try:
        return binascii.a2b_base64(value + "=" * (-len(value) % 4))
    except (binascii.Error, ValueError):
        return b""


_PLACEHOLDER: Final = re.compile(PLACEHOLDER)
_DIGITS: Final = re.compile(r"[0-9]+")
_ASCII: Final = re.compile(r"[A-Za-z]")
_LOWER: Final = re.compile(r"[a-z]")
_UPPER: Final = re.compile(r"[A-Z]")
_SAME_KIND: Final = re.compile(r"[a-z]+|[A-Z]+|[0-9]+|[^A-Za-z0-9]+")
_SIGN: Final = re.compile(r"[^A-Za-z0-9_.]")
_DOTTED: Final = re.compile(r"[A-Za-z_]\w*+(?:(?:\.|->|::)[A-Za-z_]\w*+)+")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d|\d{1,2}:\d\d")
_CODE: Final = re.compile(
    rf"{PLACEHOLDER}|[A-Za-z_][\w.]*+\(|[A-Za-z_]\w*+(?:(?:\.|->|::)[A-Za-z_]\w*+)+\Z|\.{{0,2}}/|~|https?:|\d{{4}}-\d\d-\d\d|\d{{1,2}}:\d\d"
)
_TEMPLATE: Final = re.compile(r"[{}<>]|\$[\w({]|%[sdr(]|\\[nt]")
_WORD: Final = re.compile(r"\w+")
_PROSE: Final = frozenset(
    f"""
    {" ".join(PASSWORDS)}
    passwords pass secret secrets token tokens key keys credential credentials login user users username usernames
    account email must should enter your please confirm forgot reset change repeat new old current required optional
    invalid incorrect wrong missing empty expired strength hidden character characters value string text field input
    type name none null true false the for of to is are not or with from if in a an
    """.split()
)
"""Words of labels and messages."""
_LETTER: Final = re.compile(r"[^\W\d_]")
_SYMBOL: Final = re.compile(r"[^\w.:/-]")
_REAL: Final[Mapping[str, Callable[[str], bool]]] = {
    "has_digit": has_digit,
    "has_dot_inside": _has_dot_inside,
    "is_web_token": _is_web_token,
    "is_user_info": _is_user_info,
    "is_database_user_info": _is_database_user_info,
    "looks_random": looks_random,
}
