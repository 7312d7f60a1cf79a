"""Writes a session out as one JSON document."""

from pathlib import Path

import anyio.to_thread
import msgspec

from holdfast import shelf
from holdfast.export.files import note_export, replace_file
from holdfast.logic.redact_given import GIVEN
from holdfast.ports import Clock, EventStore


async def export_record(store: EventStore, session: str, target: Path, *, clock: Clock) -> str:
    """Write the record of `session`, without its secrets, to `target` and note it in the log; return the text."""
    text = await record_text(store, session)
    await anyio.to_thread.run_sync(replace_file, target, text)
    await note_export(store, session, "json", text, clock=clock)
    return text


async def record_text(store: EventStore, session: str) -> str:
    """The record of `session` as JSON, without its secrets."""
    record = GIVEN.value(msgspec.to_builtins(await shelf.record(store, session)))
    return msgspec.json.format(msgspec.json.encode(record, order="deterministic"), indent=2).decode() + "\n"
