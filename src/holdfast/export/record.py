"""Writes a session out as one JSON document."""

from pathlib import Path

import anyio.to_thread
import msgspec

from holdfast import shelf
from holdfast.export.files import replace_file
from holdfast.logic.parts import digest
from holdfast.logic.redact import PLAIN
from holdfast.ports import Clock, EventStore
from holdfast.vocab.events import Exported


async def export_record(store: EventStore, session: str, target: Path, *, clock: Clock) -> str:
    """Write the record of `session`, without its secrets, to `target` and note it in the log; return the text."""
    text = await record_text(store, session)
    await anyio.to_thread.run_sync(replace_file, target, text)
    await shelf.add_event(store, session, Exported(format="json", sha256=digest(text.encode())), clock=clock)
    return text


async def record_text(store: EventStore, session: str) -> str:
    """The record of `session` as JSON, without its secrets."""
    record = PLAIN.value(msgspec.to_builtins(await shelf.record(store, session)))
    return msgspec.json.format(msgspec.json.encode(record, order="deterministic"), indent=2).decode() + "\n"
