"""How a value that is written out is told from code that gets it, from a placeholder, from an ordinary word and from a sentence."""

import binascii
import math
import re
from typing import Final

from backstay.logic.secrets.secret_names import PASSWORDS

LONGEST_JUDGED: Final = 400
"""Characters of a value that are looked at to judge it."""
PLACEHOLDER: Final = r"[$\{<%\[(*]|\.\.\.|…|(?s:(?:(.)\1*+(?:(.)(?:\1|\2)*+)?)?\Z)"
"""A sign that a template begins with, or no three letters of which none is another."""


def is_literal(value: str, *, password: bool) -> bool:
    """Whether a value is written out: not code that gets it from elsewhere, and not a plain word, which may be code too."""
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
    """Whether `value` stands for something else: a placeholder, a path, a name, a call, a time."""
    return _CODE.match(value) is not None or "[REDACTED" in value


def is_phrase(value: str, *, is_password: bool) -> bool:
    """Whether several words in quotes are a secret, and not a label or a message about one."""
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
    """Whether `value` stands for a secret instead of being one: a variable, a template, a row of stars."""
    return _PLACEHOLDER.match(value, 0, LONGEST_JUDGED) is not None or "[REDACTED" in value


def looks_random(value: str) -> bool:
    """Whether nobody would write `value` by hand: digits scattered among letters, few repetitions."""
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
    """Bits for each character of `value`."""
    size = len(value)
    shares = [value.count(letter) / size for letter in dict.fromkeys(value)]
    return -sum(share * math.log2(share) for share in shares)


def has_digit(value: str) -> bool:
    """Whether a digit is in `value`."""
    return _DIGITS.search(value) is not None


def changes(value: str) -> int:
    """How often `value` goes over from one kind of letter to another: often in a random text, seldom in words run together."""
    return sum(1 for _ in _SAME_KIND.finditer(value)) - 1


def decoded(value: str) -> bytes:
    """What `value` is the base64 of, without the last incomplete group; nothing when it is not."""
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
    (
        *PASSWORDS,
        *("passwords", "pass", "secret", "secrets", "token", "tokens", "key", "keys", "credential", "credentials"),
        *("login", "user", "users", "username", "usernames", "account", "email", "must", "should", "enter", "your"),
        *("please", "confirm", "forgot", "reset", "change", "repeat", "new", "old", "current", "required"),
        *("optional", "invalid", "incorrect", "wrong", "missing", "empty", "expired", "strength", "hidden"),
        *("character", "characters", "value", "string", "text", "field", "input", "type", "name", "none", "null"),
        *("true", "false", "the", "for", "of", "to", "is", "are", "not", "or", "with", "from", "if", "in", "a"),
        *("an",),
    )
)
"""Words of labels and messages."""
_LETTER: Final = re.compile(r"[^\W\d_]")
_SYMBOL: Final = re.compile(r"[^\w.:/-]")
