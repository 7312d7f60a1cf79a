"""Keep a reply in its provider's own form, which must be sent back so that the model can continue from its own reasoning."""

from collections.abc import Sequence
from typing import Final

import msgspec

from backstay.providers.http.loose_json import Fields, make_unique, object_text, objects_in, text_in

CALLS: Final = {"function_call": "arguments", "custom_tool_call": "input"}
"""The items that are calls of our tools, and where each keeps what the model wrote."""

_CLIENT_CALLS: Final = ("local_shell_call", "shell_call", "apply_patch_call", "computer_call", "tool_search_call")
"""Calls that the provider expects the client to answer, in an item of its own kind."""
_PLAIN: Final = {
    "message": frozenset(("id", "type", "role", "status", "content")),
    "function_call": frozenset(("id", "type", "status", "call_id", "name", "arguments")),
}
"""The fields of items that a message's parts say as well."""


def compact_json(value: object) -> str:
    """Return `value` as compact JSON; a text is taken as it is, and nothing as an empty one."""
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def opaque_of(items: Sequence[Fields]) -> bytes:
    """Return the items of a reply as input items (a JSON array); empty when they say no more than the reply's parts.

    Nothing is stored at the provider, so reasoning is kept only when it carries itself: its encrypted form, or its
    text. Reasoning that leads to nothing, and a call that nobody will answer, would make the next request invalid.
    """
    kept = [_with_sound_arguments(item) for item in _sendable(items)]
    return msgspec.json.encode(kept) if any(not _is_plain(item) for item in kept) else b""


def without_reasoning(opaque: bytes) -> bytes:
    """Return `opaque` for a model that does not reason and refuses such items."""
    items = msgspec.json.decode(opaque, type=list[Fields])
    return msgspec.json.encode([item for item in items if item.get("type") != "reasoning"])


def custom_calls(opaque: bytes) -> frozenset[str]:
    """Return the ids of the calls in `opaque` whose results need the form of custom tools."""
    if b'"custom_tool_call"' not in opaque:
        return frozenset()
    items = msgspec.json.decode(opaque, type=list[Fields])
    return frozenset(text_in(item, "call_id") for item in items if item.get("type") == "custom_tool_call")


def with_own_ids(items: Sequence[Fields]) -> tuple[list[Fields], tuple[str, ...]]:
    """Return `items` with a call id of its own for every call, and what had to be changed for that."""
    taken: set[str] = set()
    changed: list[Fields] = []
    notes: list[str] = []
    for item in items:
        if text_in(item, "type") not in CALLS:
            changed.append(item)
            continue
        sent = text_in(item, "call_id")
        own = make_unique(sent or f"call_{len(taken)}", taken)
        taken.add(own)
        if own != sent:
            notes.append(
                f"the provider used the call id {sent!r} twice" if sent else "the provider sent a call without id"
            )
        changed.append(item if own == sent else {**item, "call_id": own})
    return changed, tuple(notes)


def _sendable(items: Sequence[Fields]) -> list[Fields]:
    answered = {text_in(item, "call_id") for item in items if text_in(item, "type").endswith("_output")}
    kept: list[Fields] = []
    leads_on = False
    for item in reversed(items):
        kind = text_in(item, "type")
        if kind == "reasoning":
            if leads_on and _carries_itself(item):
                kept.append(item)
        elif kind in _CLIENT_CALLS and (call := text_in(item, "call_id")) and call not in answered:
            leads_on = False
        else:
            leads_on = True
            kept.append(item)
    return kept[::-1]


def _carries_itself(reasoning: Fields) -> bool:
    return bool(text_in(reasoning, "encrypted_content")) or any(
        text_in(piece, "text") for piece in objects_in(reasoning, "content")
    )


def _with_sound_arguments(item: Fields) -> Fields:
    if item.get("type") != "function_call":
        return item
    sent = item.get("arguments")
    sound = object_text(compact_json(sent))
    return item if sound == sent else {**item, "arguments": sound}


def _is_plain(item: Fields) -> bool:
    fields = _PLAIN.get(text_in(item, "type"), frozenset())
    if any(key not in fields for key, value in item.items() if value is not None):
        return False
    return all(piece.get("type") in ("output_text", "refusal") for piece in objects_in(item, "content"))
