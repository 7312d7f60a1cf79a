"""The text of an export in any of its formats, and what a session's log says of it."""

from typing import assert_never

from holdfast.export.files import Format
from holdfast.logic.parts import digest
from holdfast.ports import Clock, EventStore
from holdfast.shelf import add_event
from holdfast.vocab.errors import SessionBusy, StoreMismatch
from holdfast.vocab.events import Exported


async def export_text(store: EventStore, session: str, kind: Format) -> str:
    """What an export of `session` says, without its secrets. Nothing is written."""
    match kind:
        case "workflow":
            from holdfast.export.workflow import workflow_text  # noqa: PLC0415 - it loads the YAML library

            return await workflow_text(store, session)
        case "json":
            from holdfast.export.record import record_text  # noqa: PLC0415 - one format needs nothing of another

            return await record_text(store, session)
        case "markdown" | "html":
            from holdfast.export.transcripts import page  # noqa: PLC0415 - as above

            return await page(store, session, kind)
        case _:
            assert_never(kind)


def exported(kind: Format, text: str) -> Exported:
    """The event that tells of an export."""
    return Exported(format=kind, sha256=digest(text.encode()))


async def note_export(store: EventStore, session: str, kind: Format, text: str, *, clock: Clock) -> bool:
    """Write down that `session` was exported; give False when it is at work or at home elsewhere: the export is good without that."""
    try:
        await add_event(store, session, exported(kind, text), clock=clock)
    except (SessionBusy, StoreMismatch):
        return False
    return True
