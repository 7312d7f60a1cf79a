"""Read JSON of providers leniently: what is missing or of another type counts as empty, and half a character is no error."""

import json
from collections.abc import Mapping

import msgspec

from backstay.vocab.errors import ProviderError

Fields = dict[str, object]
"""A JSON object."""


def read_json(content: bytes) -> object:
    """Return what `content` says, with halved characters as they came. Raise `ValueError` when it is not JSON."""
    try:
        value: object = msgspec.json.decode(content)
    except RecursionError as exc:
        raise ValueError("nested too deeply") from exc
    except ValueError:  # the fast decoder refuses halved characters, which the standard library takes
        try:
            value = json.loads(content.decode("utf-8", "replace"))
        except RecursionError as exc:
            raise ValueError("nested too deeply") from exc
    return value


def read_sound(content: bytes, called: str) -> object:
    """Return what `content` says. Raise `ProviderError` of kind `transport` when it is not sound JSON."""
    try:
        value: object = msgspec.json.decode(content)
    except (ValueError, RecursionError) as exc:
        raise ProviderError("transport", f"{called} is not JSON: {beginning(content)}.") from exc
    return value


def beginning(content: bytes) -> str:
    """Return the first 200 characters of `content` in quotes, for a message."""
    return repr(content[:1000].decode("utf-8", "replace").strip()[:200])


def text_in(fields: Mapping[str, object], key: str) -> str:
    """Return the text under `key`, or an empty one."""
    value = fields.get(key)
    return value if isinstance(value, str) else ""


def fields_in(fields: Mapping[str, object], key: str) -> Fields:
    """Return the object under `key`, or an empty one."""
    value = fields.get(key)
    return value if isinstance(value, dict) else {}


def objects_in(fields: Mapping[str, object], key: str) -> list[Fields]:
    """Return the objects in the list under `key`; everything else in it is left out."""
    value = fields.get(key)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def count_in(fields: Mapping[str, object], key: str) -> int:
    """Return the count under `key`; 0 when it is none."""
    value = fields.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def json_text(value: object) -> str:
    """Return `value` as compact JSON, halved characters included."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def object_text(args: str) -> str:
    """Return the arguments of a call as a JSON object, spelled as they were sent; what is none is quoted in one."""
    args = replace_halves(args) if args.strip() else "{}"
    try:
        if isinstance(msgspec.json.decode(args), dict):
            return args
    except (msgspec.DecodeError, RecursionError):
        pass
    return msgspec.json.encode({"malformed_arguments": args}).decode()


def replace_halves(text: str) -> str:
    """Return a piece of a stream as it can be shown: half a character becomes a mark."""
    return text.encode("utf-8", "replace").decode()


def mend(text: str) -> str:
    """Return `text` with its halved characters joined, and what stays half replaced.

    A server that cuts its text between the halves of a character sends one in each chunk.
    """
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def mend_value(value: object) -> object:
    """Return a value read from JSON, every text of it mended."""
    match value:
        case str():
            return mend(value)
        case list():
            return [mend_value(inner) for inner in value]
        case dict():
            return {mend_value(key): mend_value(inner) for key, inner in value.items()}
        case _:
            return value


def make_unique(id: str, used: set[str]) -> str:
    """Return `id`, or `id` with the first number that makes it differ from all that were used."""
    name, number = id, 1
    while id and name in used:
        number += 1
        name = f"{id}-{number}"
    return name
