"""JSON that came over the wire as objects and texts, also where it is not quite right."""

import json

import msgspec


def read_json(content: bytes) -> object:
    """What `content` says. Raise `ValueError` when it is not JSON."""
    try:
        value: object = msgspec.json.decode(content)
    except msgspec.DecodeError:
        return _read_leniently(content)
    except RecursionError as exc:
        raise ValueError("nested too deeply") from exc
    return value


def json_text(value: object) -> str:
    """`value` as compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def mended(text: str) -> str:
    """`text` with its halved characters joined, and what stays half replaced.

    A server that cuts its text between the halves of a character sends one in each chunk.
    """
    if _is_whole(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def mended_value(value: object) -> object:
    """A value read from JSON, every text of it mended."""
    match value:
        case str():
            return mended(value)
        case list():
            return [mended_value(inner) for inner in value]
        case dict():
            return {mended_value(key): mended_value(inner) for key, inner in value.items()}
        case _:
            return value


def shown(text: str) -> str:
    """A piece of a stream as it can be shown: half a character becomes a mark."""
    return text if _is_whole(text) else text.encode("utf-8", "replace").decode()


def beginning(content: bytes, length: int = 200) -> str:
    """The first characters of `content`, for a message."""
    return content[: length * 4].decode("utf-8", "replace")[:length]


def _read_leniently(content: bytes) -> object:
    """The standard library takes halved characters, which the fast decoder refuses."""
    try:
        value: object = json.loads(content)
    except RecursionError as exc:
        raise ValueError("nested too deeply") from exc
    return value


def _is_whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
