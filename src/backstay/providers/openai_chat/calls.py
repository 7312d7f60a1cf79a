"""Tool calls put together from their pieces, however a server numbers and names them.

The rule is that pieces with one index are one call. Servers break it: they leave the index or the id out, send a call whole, repeat its
name with every piece, or give every call the index 0.
"""

import msgspec
from msgspec import Struct, field

from backstay.providers.loose import json_text, mended, shown, unused
from backstay.vocab.deltas import ToolArgsDelta
from backstay.vocab.messages import ToolCall


class OpenCall(Struct, eq=False):
    """A call whose pieces are still arriving."""

    index: int | None
    id: str = ""
    name: str = ""
    args: list[str] = field(default_factory=list)
    extra: dict[str, object] = field(default_factory=dict)
    """What only the server that sent it can read, such as the signature of a thought."""


class Calls:
    """The calls of one answer."""

    def __init__(self) -> None:
        self._calls: list[OpenCall] = []

    def take(self, entries: object) -> list[ToolArgsDelta]:
        """Add the pieces of a `tool_calls` list."""
        if not isinstance(entries, list):
            return []
        return [self._take(entry) for entry in entries if isinstance(entry, dict)]

    def take_function(self, entry: object) -> list[ToolArgsDelta]:
        """Add a piece of the one call that `function_call`, the older form, can have."""
        return [self._take({"index": 0, "function": entry})] if isinstance(entry, dict) else []

    @property
    def bound(self) -> bool:
        """Whether a call carries something that must go back to the server that sent it."""
        return any(call.extra for call in self._calls)

    def parts(self) -> tuple[list[ToolCall], list[str]]:
        """The calls, no two with the same id, and what was odd about them."""
        parts: list[ToolCall] = []
        notes: list[str] = []
        used: set[str] = set()
        for call in self._named():
            name = unused(call.id, used)
            if name != call.id:
                notes.append(f"two calls came with the id {call.id!r}; one is called {name!r}")
            used.add(name)
            parts.append(ToolCall(id="", name=mended(call.name), args=mended("".join(call.args)), provider_id=name))
        return parts, notes

    def native(self) -> list[dict[str, object]]:
        """The calls as they are sent back; the writer puts in ids and arguments."""
        return [{**call.extra, "type": "function", "function": {"name": mended(call.name)}} for call in self._named()]

    def _named(self) -> list[OpenCall]:
        """The calls that say anything."""
        return [call for call in self._calls if call.id or call.name or any(call.args)]

    def _take(self, entry: dict[str, object]) -> ToolArgsDelta:
        function = entry.get("function")
        inner: dict[str, object] = function if isinstance(function, dict) else {}
        id, name, args = _text(entry.get("id")), _text(inner.get("name")), _arguments(inner.get("arguments"))
        index = entry.get("index")
        call = self._find(index if isinstance(index, int) else None, id, name, args)
        call.id = call.id or id
        call.name = _grown(call.name, name)
        call.args.append(args)
        call.extra.update((key, value) for key, value in entry.items() if key not in _OURS and value is not None)
        return ToolArgsDelta(index=self._calls.index(call), name=shown(call.name), text=shown(args))

    def _find(self, index: int | None, id: str, name: str, args: str) -> OpenCall:
        for call in reversed(self._calls):
            fits = call.index == index if index is not None else call.id == id if id else call is self._calls[-1]
            if fits:
                if _begins_another(call, id, name, args):
                    break
                return call
        self._calls.append(OpenCall(index=index))
        return self._calls[-1]


_OURS = frozenset(("id", "index", "type", "function"))


def _begins_another(call: OpenCall, id: str, name: str, args: str) -> bool:
    """Whether a piece that could continue `call` is the beginning of the next one instead."""
    if id and call.id and id != call.id:
        return True
    if not name or not call.name:
        return False
    if call.index is None and name != call.name:
        return True
    return bool(args.strip()) and _is_whole("".join(call.args))


def _is_whole(args: str) -> bool:
    if not args.rstrip().endswith("}"):
        return False
    try:
        msgspec.json.decode(args)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
    return True


def _grown(name: str, piece: str) -> str:
    """A name that comes in pieces is joined; one that is repeated is not."""
    if not piece or piece == name:
        return name
    return piece if piece.startswith(name) else name + piece


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _arguments(value: object) -> str:
    """The text of arguments; some servers send the object itself."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json_text(value)
