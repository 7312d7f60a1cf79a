"""A settings file as text, so that an error can say where it is."""

import json
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from holdfast.vocab.errors import UserError


@dataclass(frozen=True)
class JsonText:
    """The bytes of a file that holds one JSON object."""

    path: Path
    content: bytes
    mode: int = 0

    @classmethod
    def read(cls, path: Path) -> "JsonText":
        """Read a file. Raise `UserError` when it is not there, not readable, or not a JSON object."""
        try:
            content, mode = path.read_bytes(), stat.S_IMODE(path.stat().st_mode)
        except OSError as exc:
            raise UserError(f"The settings {str(path)!r} cannot be read: {exc.strerror}.") from exc
        try:
            found = json.loads(content.decode("utf-8-sig"))
        except UnicodeDecodeError:
            raise UserError(f"The settings {str(path)!r} are not UTF-8 text.") from None
        except json.JSONDecodeError as exc:
            raise UserError(
                f"{path}:{exc.lineno}: This is not JSON: {exc.msg} (column {exc.colno}). Mend the file or move it away."
            ) from None
        except RecursionError:
            raise UserError(f"The settings {str(path)!r} are nested too deeply.") from None
        if not isinstance(found, dict):
            raise UserError(f'{path}:1: Settings are a JSON object, like {{"chat": {{}}}}.')
        return cls(path, content.removeprefix(b"\xef\xbb\xbf"), mode)

    def wrong(self, keys: tuple[str, ...], words: str) -> UserError:
        """The error of what stands under `keys`."""
        return UserError(f"{self.place(keys)}: {'.'.join(keys)}: {words}")

    def place(self, keys: tuple[str, ...]) -> str:
        """The file, and the line that `keys` lead to as far as they are there."""
        text, position = self.content.decode(), 0
        for key in keys:
            found = re.compile(re.escape(json.dumps(key, ensure_ascii=False)) + r"\s*:").search(text, position)
            if found is None:
                break
            position = found.end()
        return f"{self.path}:{text.count(chr(10), 0, position) + 1}"
