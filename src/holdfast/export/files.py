"""Files that sessions are written to: what their endings mean, and that they are replaced whole or not at all."""

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from holdfast.logic.parts import digest
from holdfast.ports import Clock, EventStore
from holdfast.shelf import add_event
from holdfast.vocab.errors import SessionBusy, UserError
from holdfast.vocab.events import Exported

Format = Literal["workflow", "json", "markdown", "html"]
ENDINGS: Final[dict[str, Format]] = {
    ".yaml": "workflow",
    ".yml": "workflow",
    ".json": "json",
    ".md": "markdown",
    ".markdown": "markdown",
    ".html": "html",
    ".htm": "html",
}
"""What a file's ending says about what is written."""


def replace_file(target: Path, text: str) -> None:
    """Put `text` in the place of `target` in one step; a link stays and what it leads to is replaced, a device or a pipe is written to.

    Raise `UserError` when that cannot be done; the old file stays then.
    """
    place = Path(os.path.realpath(target))
    if place.exists() and not place.is_file():
        _pour(place, target, text)
        return
    unfinished = place.with_name(f".{place.name}.{secrets.token_hex(4)}")
    try:
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(unfinished, place)
    except OSError as exc:
        unfinished.unlink(missing_ok=True)
        raise UserError(_refusal(target, place, exc)) from exc


def _pour(place: Path, target: Path, text: str) -> None:
    try:
        with open(place, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as exc:
        raise UserError(_refusal(target, place, exc)) from exc


def _refusal(target: Path, place: Path, exc: OSError) -> str:
    if isinstance(exc, FileNotFoundError):
        return f"Cannot write {str(target)!r}: there is no folder {str(place.parent)!r}. Make it first."
    return f"Cannot write {str(target)!r}: {exc.strerror or exc}."


async def note_export(store: EventStore, session: str, kind: Format, text: str, *, clock: Clock) -> None:
    """Write down that `session` was exported, unless somebody is at work in it: the export is good without that."""
    with suppress(SessionBusy):
        await add_event(store, session, Exported(format=kind, sha256=digest(text.encode())), clock=clock)
