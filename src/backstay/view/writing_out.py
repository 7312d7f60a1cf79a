"""Writes an open session to a file: as `backstay export` does it, by the one who holds the session."""

from functools import partial
from pathlib import Path

from backstay.export.files import Format, format_of, write_pieces
from backstay.export.texts import export
from backstay.session import Session
from backstay.vocab.event import Draft


async def write_out(session: Session, target: Path) -> tuple[Format, int]:
    """Write `session` to `target` and note it in its log; return what was written, and how many bytes.

    Raise `UserError` when the ending of the file says nothing, or it cannot be written.
    """
    kind = format_of(target)
    made, size = await export(session.store, session.id, kind, partial(write_pieces, target), session.redactor)
    await session.note(Draft(event=made, by="user"))
    return kind, size
