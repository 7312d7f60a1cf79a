"""Careful reading of JSON that somebody else wrote: whatever it holds, no surprise comes out."""

import json

import msgspec

Fields = dict[str, object]


def read_json(content: bytes) -> object:
    """The value that `content` says, or None when it is not JSON.

    Half of a surrogate pair, which some servers send when a character falls between two pieces, is kept: see `mended`.
    """
    try:
        value: object = msgspec.json.decode(content)
    except (ValueError, RecursionError):
        try:
            value = json.loads(content.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return None
    return value


def text_in(fields: Fields, key: str) -> str:
    """The text under `key`; empty when there is none."""
    value = fields.get(key)
    return value if isinstance(value, str) else ""


def fields_in(fields: Fields, key: str) -> Fields:
    """The object under `key`; empty when there is none."""
    value = fields.get(key)
    return value if isinstance(value, dict) else {}


def objects_in(fields: Fields, key: str) -> list[Fields]:
    """The objects in the list under `key`; whatever else is in it is left out."""
    value = fields.get(key)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def count_in(fields: Fields, key: str) -> int:
    """The number of tokens under `key`; 0 when it is none."""
    value = fields.get(key)
    return value if isinstance(value, int) and value > 0 else 0


def written(value: object) -> str:
    """`value` as compact JSON; a text is taken as it is."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def mended(items: list[Fields]) -> list[Fields]:
    """`items` as they can be written: halves of surrogate pairs are put together, lone ones replaced."""
    try:
        msgspec.json.encode(items)
    except UnicodeEncodeError:
        return msgspec.convert(_mended(items), list[Fields])
    return items


def is_object(text: str) -> bool:
    """Whether `text` is a JSON object."""
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (ValueError, RecursionError):
        return False


def arguments(text: str) -> str:
    """The arguments of a call as they may be sent: always a JSON object, whatever the model wrote."""
    if not text.strip():
        return "{}"
    return text if is_object(text) else msgspec.json.encode({"malformed_arguments": text}).decode()


def _mended(value: object) -> object:
    match value:
        case str():
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        case list():
            return [_mended(each) for each in value]
        case dict():
            return {_mended(key): _mended(each) for key, each in value.items()}
        case _:
            return value
