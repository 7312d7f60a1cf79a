"""Writes a session out as one JSON document."""

import msgspec

from holdfast import shelf
from holdfast.logic.redact import PLAIN
from holdfast.ports import EventStore


async def record_text(store: EventStore, session: str) -> str:
    """The record of `session` as JSON, without its secrets."""
    record = PLAIN.value(msgspec.to_builtins(await shelf.record(store, session)))
    return msgspec.json.format(msgspec.json.encode(record, order="deterministic"), indent=2).decode() + "\n"
