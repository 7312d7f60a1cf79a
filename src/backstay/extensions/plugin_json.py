"""The JSON files of a plugin or a marketplace: read within bounds, and every error with its file and line."""

import json
from pathlib import Path
from typing import Final

import msgspec

from backstay.config.json_reader import JsonReader
from backstay.config.json_text import JsonText, read_regular
from backstay.vocab.errors import UserError

LARGEST: Final = 4 * 1024 * 1024
"""Bytes that such a file may have; a marketplace with thousands of plugins has about one million."""
DEEPEST: Final = 64


def read_object(path: Path, largest: int = LARGEST) -> JsonReader:
    """The object in a file, ready to be read key by key. Raise `UserError` when there is none."""
    try:
        content, _ = read_regular(path, largest)
    except OSError as exc:
        raise UserError(f"{str(path)!r} cannot be read: {exc.strerror}.") from exc
    return object_in(path, content)


def object_in(path: Path, content: bytes) -> JsonReader:
    """The object in `content`, which is what stands at `path`. Raise `UserError` when there is none."""
    content = content.removeprefix(b"\xef\xbb\xbf")
    try:
        found = json.loads(content.decode())
        msgspec.json.decode(content, type=msgspec.Raw)
    except UnicodeDecodeError:
        raise UserError(f"{path}:1: This is not UTF-8 text.") from None
    except json.JSONDecodeError as exc:
        raise UserError(f"{path}:{exc.lineno}: This is not JSON: {exc.msg} (column {exc.colno}).") from None
    except (RecursionError, ValueError) as exc:  # nested too deeply; NaN, half a surrogate pair, a number without end
        raise UserError(f"{path}:1: This is not JSON that can be read: {exc}.") from None
    if not isinstance(found, dict):
        raise UserError(f"{path}:1: This is not a JSON object.")
    if _depth(found) > DEEPEST:
        raise UserError(f"{path}:1: This is nested more than {DEEPEST} levels deep.")
    return JsonReader(JsonText(path, content))


def _depth(value: object) -> int:
    """How many levels a value has; the value was read, so it has an end."""
    depth, level = 0, [value]
    while level and depth <= DEEPEST:
        inner: list[object] = []
        for each in level:
            inner += each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        depth, level = depth + 1, inner
    return depth
