"""Refuse what must not be remembered: secrets, card and account numbers, and numbers that identify a person.

A memory goes into every later session and often into a repository. So a doubt refuses, and the reason never repeats what was found.
"""

import re
from collections.abc import Callable
from datetime import date
from typing import Final, NamedTuple

from backstay.logic.secrets.redact import looks_secret


def refusal(text: str) -> str:
    """Return why `text` is not remembered; empty when it may be."""
    if why := looks_secret(text):
        return why
    if any(_is_told(found["word"], found["value"], text[found.end() :]) for found in _TOLD.finditer(text)):
        return "it tells a password or a key"
    for number in _NUMBERS:
        if any(number.is_real(_plain(found[0])) for found in number.pattern.finditer(text)):
            return f"it holds {number.why}"
    return ""


class _Number(NamedTuple):
    why: str
    pattern: re.Pattern[str]
    is_real: Callable[[str], bool]
    """Returns whether the number, without blanks and signs, is valid by its check digits."""


_TOLD: Final = re.compile(
    r"(?i)(?<![A-Za-z])(?P<word>pass(?:word|wd|phrase|code)|pwd|pin(?: code)?|secret|token|(?:api|access|private)[ _-]?key|credentials?"
    r"|ssn|social security number|national id|passport(?: number)?|tax id)"
    r"(?:\s{1,3}(?:for|of|to|on|at|in)(?:\s{1,3}[\w.@:/-]{1,40}){1,3}?)?"
    r"(?:\s{0,3}[:=]|\s{1,3}(?:is|was|are))\s{0,3}(?P<value>[\"'`]?[^\s,;]{3,200})"
)
"""A name of a secret, and the word that follows."""
_PERSONAL: Final = ("ssn", "social security number", "national id", "passport", "passport number", "tax id")
_HARMLESS: Final = re.compile(
    "required|optional|needed|stored|saved|kept|wrong|expired|empty|missing|invalid|hashed|encrypted|rotated|used|sent|shown|given|not|never"
    "|always|only|set|read|generated|unset|valid|fine|mandatory|case-sensitive|hidden|masked|here|there|the|an|our|your|their|part|from|for|with"
)
"""Words that follow such a name and are not the secret."""
_ABOUT: Final = re.compile("[a-z-]+(?:ed|ing)")


def _is_told(word: str, value: str, rest: str) -> bool:
    """Return whether `value` is the secret itself and not a word about it."""
    plain = value.strip("\"'`.!?")
    if word.lower() in _PERSONAL:
        return sum(map(str.isdigit, plain)) >= 6
    if value.startswith(("$", "<", "{", "~", "./", "/", "%", "env:")) or _HARMLESS.fullmatch(plain.lower()):
        return False
    quoted = value[0] in "\"'`" and value.rstrip(".!?").endswith(value[0])
    last = value.endswith((".", "!")) or not rest.strip() or rest.lstrip().startswith((",", ";"))
    if word.lower().startswith(("pass", "pwd", "pin")):
        return quoted or last or not _ABOUT.fullmatch(plain)
    return quoted or (any(map(str.isdigit, plain)) and not plain.isdigit())  # a token of 3600 seconds is no token


def _plain(number: str) -> str:
    return re.sub(r"[\s.\-/]", "", number).upper()


def _is_card(digits: str) -> bool:
    """Return whether the number is one of a card network and its check digit is right."""
    return _NETWORKS.fullmatch(digits) is not None and len(set(digits)) > 1 and _luhn(digits)


def _luhn(digits: str) -> bool:
    doubled = (int(each) * (1 + at % 2) for at, each in enumerate(reversed(digits)))
    return sum(each - 9 * (each > 9) for each in doubled) % 10 == 0


def _is_iban(text: str) -> bool:
    if not 15 <= len(text) <= 34:
        return False
    return int("".join(str(int(each, 36)) for each in text[4:] + text[:4])) % 97 == 1


def _is_resident(digits: str) -> bool:
    """South Korea: a date of birth, the century, and a number."""
    century = {"9": 1800, "0": 1800, "1": 1900, "2": 1900, "5": 1900, "6": 1900}.get(digits[6], 2000)
    return _is_date(century + int(digits[:2]), int(digits[2:4]), int(digits[4:6]))


def _is_chinese(text: str) -> bool:
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    total = sum(int(each) * weight for each, weight in zip(text[:17], weights, strict=True))
    return _is_date(int(text[6:10]), int(text[10:12]), int(text[12:14])) and text[17] == "10X98765432"[total % 11]


def _is_cpf(digits: str) -> bool:
    """Brazil: two check digits."""

    def check(many: int) -> int:
        total = sum(int(each) * (many + 1 - at) for at, each in enumerate(digits[:many]))
        return total * 10 % 11 % 10

    return len(set(digits)) > 1 and (check(9), check(10)) == (int(digits[9]), int(digits[10]))


def _is_spanish(text: str) -> bool:
    number = text[:-1].translate(str.maketrans("XYZ", "012"))
    return text[-1] == "TRWAGMYFPDXBNJZSQVHLCKE"[int(number) % 23]


def _is_french(text: str) -> bool:
    number = text[:13].replace("2A", "19").replace("2B", "18")
    return number.isdigit() and 97 - int(number) % 97 == int(text[13:])


def _is_german(digits: str) -> bool:
    """Return whether the check digit of a tax number is right (ISO 7064)."""
    product = 10
    for each in digits[:10]:
        total = (int(each) + product) % 10 or 10
        product = total * 2 % 11
    return (11 - product) % 10 == int(digits[10])


def _is_date(year: int, month: int, day: int) -> bool:
    try:
        date(year, month, day)
    except ValueError:
        return False
    return True


def _always(_: str) -> bool:
    return True


_NETWORKS: Final = re.compile(
    r"4\d{12}(?:\d{3}){0,2}|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}|3(?:0[0-5]|[68]\d)\d{11}"
    r"|6(?:011|5\d\d|4[4-9]\d)\d{12}|35(?:2[89]|[3-8]\d)\d{12}|62\d{14,17}"
)
"""Visa, Mastercard (both ranges), American Express, Diners, Discover, JCB, UnionPay."""
_ALONE: Final = r"(?<![A-Za-z0-9.-]){}(?![A-Za-z0-9]|[.-]\d)"


def _number(why: str, shape: str, is_real: Callable[[str], bool]) -> _Number:
    return _Number(why, re.compile(_ALONE.format(shape)), is_real)


_NUMBERS: Final = (
    _number("the number of a card", r"\d(?:[ -]?\d){12,18}", _is_card),
    _number("a bank account (IBAN)", r"[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?", _is_iban),
    _number("a social security number", r"(?!000|666|9)\d{3}([ -])(?!00)\d{2}\1(?!0000)\d{4}", _always),
    _number("a resident registration number", r"\d{6}-\d{7}", _is_resident),
    _number("a Chinese identity number", r"[1-9]\d{16}[0-9Xx]", _is_chinese),
    _number(
        "a national insurance number",
        r"(?!BG|GB|KN|NK|NT|TN|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d\d ?\d\d ?\d\d ?[A-D]",
        _always,
    ),
    _number("a Brazilian tax number", r"\d{3}\.\d{3}\.\d{3}-\d{2}", _is_cpf),
    _number("a Spanish identity number", r"(?:[XYZ]-?\d{7}|\d{8})-?[A-Z]", _is_spanish),
    _number("a French social security number", r"[12] ?\d\d ?\d\d ?(?:\d\d|2[AB]) ?\d{3} ?\d{3} ?\d\d", _is_french),
    _number("a German tax number", r"[1-9]\d \d{3} \d{3} \d{3}", _is_german),
)
