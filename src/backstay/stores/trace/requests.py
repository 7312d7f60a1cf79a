"""Requests in a trace: what is new since the request before, instead of a conversation that is written again each round.

A request's history (the list `messages`, `input` or `contents`) is written as `{"$list": name, "after": name of the list before,
"keep": how many of its items, "new": the others}`, and any other large field as `{"$same": name}` once it was written as
`{"$value": ..., "name": name}`. Names are hashes with a key that is never written, so that they say nothing about what they name.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Final, cast

import msgspec

HISTORIES: Final = ("messages", "input", "contents")
"""What the wire formats call the conversation in a request."""
LARGE: Final = 512
"""Bytes from which on a field is worth a name."""

Fields = dict[str, object]
Clean = Callable[[object], object]


class RequestPacker:
    """Makes the requests of one session small. `clean` is applied to what is written, not to what is only named."""

    def __init__(self, clean: Clean) -> None:
        self._clean = clean
        self._key = secrets.token_bytes(16)
        self._chain: list[str] = []
        self._named: set[str] = set()

    def forget(self) -> None:
        """Write the next request whole: what was written before may be gone."""
        self._chain = []
        self._named = set()

    def pack(self, content: Mapping[str, object]) -> Fields:
        """`content` as it is written."""
        packed = {key: _as_plain(value) for key, value in content.items()}
        where = _holder(packed)
        if where is None:
            return cast(Fields, self._clean(packed))
        if where is packed:
            return self._fields(packed)
        return {key: self._fields(where) if value is where else self._clean(value) for key, value in packed.items()}

    def _fields(self, fields: Fields) -> Fields:
        history = next(key for key in HISTORIES if isinstance(fields.get(key), list))
        return {
            key: self._list(cast(list[object], value)) if key == history else self._field(key, value)
            for key, value in fields.items()
        }

    def _list(self, items: list[object]) -> Fields:
        chain, name = [], ""
        for item in items:
            name = self._name(name.encode() + msgspec.json.encode(item, enc_hook=repr))
            chain.append(name)
        keep = 0
        while keep < min(len(chain), len(self._chain)) and chain[keep] == self._chain[keep]:
            keep += 1
        before = self._chain[-1] if keep else ""
        self._chain = chain
        return {"$list": name, "after": before, "keep": keep, "new": self._clean(items[keep:])}

    def _field(self, key: str, value: object) -> object:
        written = msgspec.json.encode(value, enc_hook=repr)
        # The key is part of the name: under another key the same value may have to be hidden.
        name = self._name(key.encode() + b"\0" + written)
        if len(written) < LARGE:
            return cast(Fields, self._clean({key: value}))[key]
        if name in self._named:
            return {"$same": name}
        self._named.add(name)
        return {"$value": cast(Fields, self._clean({key: value}))[key], "name": name}

    def _name(self, content: bytes) -> str:
        return hashlib.blake2b(content, key=self._key, digest_size=12).hexdigest()


class RequestReader:
    """Makes the requests of one session whole again, in the order in which they were written."""

    def __init__(self) -> None:
        self._name = ""
        self._items: list[object] = []
        self._named: dict[str, object] = {}

    def unpack(self, content: Mapping[str, object]) -> Fields:
        """`content` as it was; what is lost is named as lost."""
        return {key: self._value(value, deep=True) for key, value in content.items()}

    def _value(self, value: object, *, deep: bool) -> object:
        if not isinstance(value, dict):
            return value
        match value:
            case {"$list": str(name), "after": str(before), "keep": int(keep), "new": list(new)} if len(value) == 4:
                return self._whole(name, before, keep, new)
            case {"$same": str(name)} if len(value) == 1:
                return self._named.get(name, {"lost": "a field that was written before"})
            case {"$value": kept, "name": str(name)} if len(value) == 2:
                self._named[name] = kept
                return kept
            case _:
                return {key: self._value(inner, deep=False) for key, inner in value.items()} if deep else value

    def _whole(self, name: str, before: str, keep: int, new: list[object]) -> list[object]:
        known = not keep or before == self._name
        kept: Iterable[object] = self._items[:keep] if known else ({"lost": f"{keep} earlier items"},)
        self._name, self._items = name, [*kept, *new]
        return self._items


def _holder(content: Fields) -> Fields | None:
    """Return the object with the history in it: the content or one that it holds."""
    for fields in (content, *content.values()):
        if isinstance(fields, dict) and any(isinstance(fields.get(key), list) for key in HISTORIES):
            return fields
    return None


def _as_plain(value: object) -> object:
    """`value` as plain data; a body that is JSON text is read."""
    if isinstance(value, str | bytes) and value[:1] in ("{", b"{"):
        try:
            return msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return value
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=repr)
    except (TypeError, ValueError, RecursionError):
        return value
