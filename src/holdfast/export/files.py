"""Files that sessions are written to: what their endings mean, and that they are replaced whole or not at all."""

import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

from holdfast.vocab.errors import UserError

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


def replace_file(target: Path, pieces: Iterable[str]) -> None:
    """Put a text in the place of `target` in one step; a link stays and what it leads to is replaced, a device or a pipe is written to.

    Raise `UserError` when that cannot be done; the old file stays then.
    """
    place = Path(os.path.realpath(target))
    in_place = place.exists() and not place.is_file()
    written = place if in_place else place.with_name(f".{place.name}.{secrets.token_hex(4)}")
    flags = os.O_WRONLY if in_place else os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        with open(os.open(written, flags, 0o600), "w", encoding="utf-8") as file:
            file.writelines(pieces)
        if not in_place:
            os.replace(written, place)
    except OSError as exc:
        raise UserError(_refusal(target, place, exc)) from exc
    finally:
        if not in_place:
            written.unlink(missing_ok=True)


def _refusal(target: Path, place: Path, exc: OSError) -> str:
    if isinstance(exc, FileNotFoundError):
        return f"Cannot write {str(target)!r}: there is no folder {str(place.parent)!r}. Make it first."
    return f"Cannot write {str(target)!r}: {exc.strerror or exc}."
