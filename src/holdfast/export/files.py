"""Files that sessions are written to: what their endings mean, and that they are replaced whole or not at all."""

import os
import secrets
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


def replace_file(target: Path, text: str) -> None:
    """Put `text` in the place of `target` in one step. Raise `UserError` when that cannot be done; the old file stays then."""
    unfinished = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(unfinished, target)
    except OSError as exc:
        unfinished.unlink(missing_ok=True)
        raise UserError(f"Cannot write {str(target)!r}: {exc.strerror or exc}.") from exc
