"""Files that sessions are written to: what their endings mean, and that they are replaced whole or not at all."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

from backstay.system.files import replace_file
from backstay.vocab.errors import UserError

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


def format_of(target: Path) -> Format:
    """What the ending of `target` asks for. Raise `UserError` when it says nothing."""
    kind = ENDINGS.get(target.suffix.lower())
    if kind is None:
        endings = ", ".join(f"{ending} ({meant})" for ending, meant in ENDINGS.items())
        raise UserError(f"{target.name!r} does not say what to write: end it in {endings}.")
    return kind


def write_pieces(target: Path, pieces: Iterable[str]) -> None:
    """Put a text in the place of `target` in one step; a link stays and what it leads to is replaced, a device or a pipe is written to.

    Raise `UserError` when that cannot be done; the old file stays then.
    """
    place = Path(os.path.realpath(target))
    content = (piece.encode() for piece in pieces)
    try:
        if not place.exists() or place.is_file():
            replace_file(place, content)
            return
        with open(os.open(place, os.O_WRONLY | os.O_CLOEXEC), "wb") as file:
            file.writelines(content)
    except OSError as exc:
        raise UserError(_refusal(target, place, exc)) from exc


def _refusal(target: Path, place: Path, exc: OSError) -> str:
    if isinstance(exc, FileNotFoundError):
        return f"Cannot write {str(target)!r}: there is no folder {str(place.parent)!r}. Make it first."
    return f"Cannot write {str(target)!r}: {exc.strerror or exc}."
