"""Writes an open session to a file: as `holdfast export` does it, by the one who holds the session."""

from pathlib import Path

import anyio.to_thread

from holdfast.export.files import ENDINGS, Format, replace_file
from holdfast.export.record import record_text
from holdfast.logic.parts import digest
from holdfast.logic.state import state_of
from holdfast.logic.workflow import scaffold
from holdfast.session import Session
from holdfast.vocab.errors import UserError
from holdfast.vocab.event import Draft
from holdfast.vocab.events import Exported


async def write_out(session: Session, target: Path) -> tuple[Format, int]:
    """Write `session` to `target` and note it in its log; return what was written, and how many bytes.

    Raise `UserError` when the ending of the file says nothing, or it cannot be written.
    """
    kind = ENDINGS.get(target.suffix.lower())
    if kind is None:
        endings = ", ".join(f"{ending} ({meant})" for ending, meant in ENDINGS.items())
        raise UserError(f"{target.name!r} does not say what to write: end it in {endings}.")
    text = await _text(session, kind)
    content = text.encode()
    await anyio.to_thread.run_sync(replace_file, target, text)
    await session.note(Draft(event=Exported(format=kind, sha256=digest(content)), by="user"))
    return kind, len(content)


async def _text(session: Session, kind: Format) -> str:
    match kind:
        case "workflow":
            return await _workflow(session)
        case "json":
            return await record_text(session.store, session.id)
        case _:
            from holdfast.export.transcripts import page  # noqa: PLC0415 - only pages need it

            return await page(session.store, session.id, kind)


async def _workflow(session: Session) -> str:
    from holdfast.export.yaml_text import to_yaml  # noqa: PLC0415 - it loads the YAML library

    return to_yaml(scaffold(state_of(session.id, await session.events())))
