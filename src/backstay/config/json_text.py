"""A settings file as text: read once, safely, so that an error can say where it is and what was read is what is used."""

import errno
import hashlib
import json
import os
import stat
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from backstay.config.json_outline import outline
from backstay.stores.disk import open_regular
from backstay.vocab.errors import UserError

LARGEST: Final = 1024 * 1024
"""Bytes that a settings file may have."""
_PIECE: Final = 64 * 1024
_GUARDED: Final = ("permissions", "hooks")
"""Sections in which a key that stands twice would silently lose what the first one denied."""


class JsonText(Struct, frozen=True):
    """The bytes of a file that holds one JSON object."""

    path: Path
    content: bytes
    mode: int = 0
    owner: int = 0
    group: int = 0
    inode: tuple[int, int] = (0, 0)
    """Device and number: tells two names of one file."""

    @classmethod
    def read(cls, path: Path) -> "JsonText":
        """Read a file. Raise `UserError` when it is not there, not readable, or not a JSON object."""
        try:
            content, found = read_regular(path, LARGEST)
        except OSError as exc:
            raise UserError(f"The settings {str(path)!r} cannot be read: {exc.strerror}.") from exc
        _check(path, content)
        inode = (found.st_dev, found.st_ino)
        plain = content.removeprefix(b"\xef\xbb\xbf")
        return cls(path, plain, stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid, inode)

    @property
    def digest(self) -> str:
        """The SHA-256 of the bytes."""
        return hashlib.sha256(self.content).hexdigest()

    def wrong(self, keys: tuple[str, ...], words: str) -> UserError:
        """The error of what stands under `keys`."""
        named = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in ".".join(keys))
        return UserError(f"{self.place(keys)}: {named}: {words}")

    def place(self, keys: tuple[str, ...], value: str | None = None) -> str:
        """The file, and the line that `keys` lead to as far as they are there, or the line of a text below them."""
        return f"{self.path}:{self.line(keys, value)}"

    def line(self, keys: tuple[str, ...], value: str | None = None) -> int:
        """The number of that line."""
        found = outline(self.content)
        node, known = found.find(keys)
        position = node.key_at if known else 0
        return found.line(position if value is None else found.holding(node, value))


def is_missing(path: Path) -> bool:
    """Whether nothing at all stands at `path`. A link that leads nowhere is something, and so is what may not be looked at."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def read_regular(path: Path, largest: int) -> tuple[bytes, os.stat_result]:
    """The bytes of a regular file and what the system says of that very file. Never waits for a pipe or a device.

    Raise `OSError` when it cannot be read, is anything else, or has more than `largest` bytes.
    """
    with open_regular(path) as file:
        found = os.fstat(file.fileno())
        content = bytearray()
        while len(content) <= largest and (piece := file.read(min(_PIECE, largest + 1 - len(content)))):
            content += piece
    if len(content) > largest:
        raise OSError(errno.EFBIG, f"It has more than {largest:,} bytes", str(path))
    return bytes(content), found


class _Object(dict[str, object]):
    """A JSON object that remembers which of its keys stand twice."""

    twice: tuple[str, ...] = ()


def _object(pairs: Sequence[tuple[str, object]]) -> _Object:
    made = _Object(pairs)
    if len(made) < len(pairs):
        count = Counter(name for name, _ in pairs)
        made.twice = tuple(sorted(name for name, number in count.items() if number > 1))
    return made


def _check(path: Path, content: bytes) -> None:
    """Raise `UserError` unless `content` is one JSON object without doubt about what it denies."""
    try:
        found = json.loads(content.decode("utf-8-sig"), object_pairs_hook=_object)
        msgspec.json.decode(content.removeprefix(b"\xef\xbb\xbf"), type=msgspec.Raw)
    except UnicodeDecodeError:
        raise UserError(f"The settings {str(path)!r} are not UTF-8 text.") from None
    except json.JSONDecodeError as exc:
        raise UserError(
            f"{path}:{exc.lineno}: This is not JSON: {exc.msg} (column {exc.colno}). Mend the file or move it away."
        ) from None
    except RecursionError:
        raise UserError(f"The settings {str(path)!r} are nested too deeply.") from None
    except ValueError as exc:  # NaN, half a surrogate pair, a number of thousands of digits
        raise UserError(f"{path}:1: This is not JSON: {exc}. Mend the file or move it away.") from None
    if not isinstance(found, _Object):
        raise UserError(f'{path}:1: Settings are a JSON object, like {{"chat": {{}}}}.')
    for name, each in (("", found), *((name, found.get(name)) for name in _GUARDED)):
        if isinstance(each, _Object) and each.twice:
            where = f"{name}.{each.twice[0]}" if name else each.twice[0]
            raise UserError(f"{path}:1: {where}: The key stands twice, and only one of them would count. Join them.")
