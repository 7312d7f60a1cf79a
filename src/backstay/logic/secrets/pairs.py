"""Finds secrets that an element around them names, or a sibling: `<password>...</password>`, `name: DB_PASSWORD` and `value: ...`."""

import functools
import re
from collections.abc import Iterator
from typing import Final

from backstay.logic.secrets.phrases import MOST_JUDGED
from backstay.logic.secrets.secret_names import is_secret_key
from backstay.logic.secrets.shapes import SecretMatch, contains
from backstay.logic.secrets.value_looks import LONGEST_JUDGED, is_code

REACH: Final = 160
"""Characters before a value in which its name is looked for."""
_WHY: Final = "a secret that is named as one"


def find_pairs(text: str, lowered: str, back: str) -> Iterator[SecretMatch]:
    """The secrets in `text` that an element or a sibling names. `lowered` is the text in small letters, `back` that from its end."""
    is_given = functools.lru_cache(MOST_JUDGED)(_is_given)
    if "</" in text:
        for match in _ELEMENT.finditer(text):
            if is_secret_key(match["tag"].rpartition(":")[2]) and is_given(match["secret"]):
                yield SecretMatch(*match.span("secret"), _WHY)
    if contains(lowered, "value"):
        for match in _VALUE.finditer(lowered):
            name = _name_before(text, back, match.start()) or _name_after(text, lowered, match.end())
            if name and is_secret_key(name):
                start, end = match.span("secret")
                if is_given(text[start:end]):
                    yield SecretMatch(start, end, _WHY)


def _name_before(text: str, back: str, at: int) -> str:
    """The name that stands before the value at `at`, as its sibling."""
    size = len(text)
    match = _NAME_BACK.match(back, size - at, size - at + REACH)
    return text[size - match.end("name") : size - match.start("name")] if match else ""


def _name_after(text: str, lowered: str, at: int) -> str:
    """The name that stands behind the value that ends at `at`, as its sibling."""
    match = _NEXT_NAME.match(lowered, at)
    return text[match.start("name") : match.end("name")] if match else ""


def _is_given(value: str) -> bool:
    return not (len(value) <= _LONGEST_TYPE and value.lower() in _TYPES) and not is_code(value[:LONGEST_JUDGED])


_TYPES: Final = frozenset(
    (
        *("string", "str", "text", "true", "false", "none", "null", "nil", "boolean", "number", "integer"),
        *("object", "required", "optional"),
    )
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
