"""Writes an open session to a file: as `holdfast export` does it, by the one who holds the session."""

from pathlib import Path

import anyio.to_thread

from holdfast.export.files import Format, format_of, replace_file
from holdfast.export.texts import export_text, exported
from holdfast.session import Session
from holdfast.vocab.event import Draft


async def write_out(session: Session, target: Path) -> tuple[Format, int]:
    """Write `session` to `target` and note it in its log; return what was written, and how many bytes.

    Raise `UserError` when the ending of the file says nothing, or it cannot be written.
    """
    kind = format_of(target)
    text = await export_text(session.store, session.id, kind)
    await anyio.to_thread.run_sync(replace_file, target, text)
    await session.note(Draft(event=exported(kind, text), by="user"))
    return kind, len(text.encode())
