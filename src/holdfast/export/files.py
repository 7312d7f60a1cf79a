"""Files that are replaced whole or not at all."""

import os
import secrets
from pathlib import Path

from holdfast.vocab.errors import UserError


def replace_file(target: Path, text: str) -> None:
    """Put `text` in the place of `target` in one step. Raise `UserError` when that cannot be done; the old file stays then."""
    unfinished = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        unfinished.write_text(text, encoding="utf-8")
        os.replace(unfinished, target)
    except OSError as exc:
        unfinished.unlink(missing_ok=True)
        raise UserError(f"Cannot write {str(target)!r}: {exc.strerror or exc}.") from exc
