"""Reads JSON of strangers: what is missing or of another type counts as empty."""

from collections.abc import Mapping
from typing import cast

import msgspec

from holdfast.vocab.errors import ProviderError

Fields = dict[str, object]
"""A JSON object."""


def read_object(content: bytes, called: str) -> Fields:
    """Decode a JSON object. Raise `ProviderError` of kind `transport` showing the first characters when it is none."""
    try:
        found: object = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise ProviderError("transport", f"{called} is not JSON: {shown(content)}.") from exc
    if not isinstance(found, dict):
        raise ProviderError("transport", f"{called} is not a JSON object: {shown(content)}.")
    return cast(Fields, found)


def shown(content: bytes) -> str:
    """The first 200 characters of `content`, in quotes."""
    return repr(content[:1000].decode("utf-8", "replace").strip()[:200])


def object_at(fields: Mapping[str, object], key: str) -> Fields:
    """The object under `key`, or an empty one."""
    found = fields.get(key)
    return cast(Fields, found) if isinstance(found, dict) else {}


def objects_at(fields: Mapping[str, object], key: str) -> list[Fields]:
    """The objects in the list under `key`."""
    found = fields.get(key)
    return [cast(Fields, each) for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def text_at(fields: Mapping[str, object], key: str) -> str:
    """The text under `key`, or an empty one."""
    found = fields.get(key)
    return found if isinstance(found, str) else ""


def number_at(fields: Mapping[str, object], key: str) -> int:
    """The whole number under `key`, or 0."""
    found = fields.get(key)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0
