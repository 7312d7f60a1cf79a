"""YAML as Backstay writes it: block style, keys in order, no aliases, every doubtful string in quotes.

The same document always gives the same text, and reading the text gives the document back: dates, `yes`, `0o7` and `1:30` stay strings.
"""

import json
import re
from collections.abc import Iterator
from itertools import chain, islice
from typing import Final

_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_/-]*(?: [A-Za-z0-9_/-]+)*")
_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"})
_UNPRINTABLE: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]")


def to_yaml(value: object) -> str:
    """`value` (maps, lists, strings, numbers, booleans, None) as YAML 1.2."""
    return "".join(yaml_lines(value))


def yaml_lines(value: object) -> Iterator[str]:
    """`value` as YAML 1.2, a line at a time. An iterator in a map is a list."""
    return (f"{line}\n" for line in _lines(value, ""))


def _lines(value: object, indent: str) -> Iterator[str]:
    if isinstance(value, Iterator):
        for item in value:
            yield from _entry(item, indent)
    elif isinstance(value, dict) and value:
        for key in sorted(value):
            yield from _item(f"{indent}{_scalar(key)}:", value[key], indent + "  ")
    elif isinstance(value, list | tuple) and value:
        for item in value:
            yield from _entry(item, indent)
    else:
        yield indent + _scalar(value)


def _item(head: str, value: object, indent: str) -> Iterator[str]:
    if isinstance(value, Iterator):
        first = list(islice(value, 1))
        value = chain(first, value) if first else ()
    if isinstance(value, dict | list | tuple | Iterator) and value:
        yield head
        yield from _lines(value, indent)
    else:
        yield f"{head} {_scalar(value)}"


def _entry(value: object, indent: str) -> Iterator[str]:
    lines = list(_lines(value, indent + "  "))
    yield f"{indent}- {lines[0].lstrip(' ')}"
    yield from lines[1:]


def _scalar(value: object) -> str:
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
        return value if plain else _UNPRINTABLE.sub(_escape, json.dumps(value, ensure_ascii=False))
    if isinstance(value, dict | list | tuple):
        return "{}" if isinstance(value, dict) else "[]"
    return json.dumps(value)


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
