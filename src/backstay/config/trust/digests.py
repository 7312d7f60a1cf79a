"""The digests of files in a workspace, within bounds."""

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from backstay.config.private_file import writable_name
from backstay.config.trust.python_modules import find_shadows
from backstay.system.files import read_regular

ABSENT: Final = "absent"
"""In place of the digest of a file that would run if it were there."""
OWN: Final = "own:"
"""Before the name of a file that a program of the person's own would run."""
MOST_FILES: Final = 5_000
MOST_BYTES: Final = 64 * 1024 * 1024


class Digests:
    """Take the digests of files of the workspace `root`, as far as its bounds go."""

    def __init__(self, root: Path, most_files: int = MOST_FILES, most_bytes: int = MOST_BYTES) -> None:
        self.root = root
        self.problem = ""
        """Why not everything could be looked at."""
        self.files_left = most_files
        self._bytes_left = most_bytes

    def of(self, path: Path, *, follow: bool) -> str:
        """Return the digest of a file; of a link its target, and with `follow` also what it leads to."""
        self.count(0)
        try:
            kind = stat.S_IFMT(path.lstat().st_mode)
            if kind == stat.S_IFLNK:
                inner = self.of(Path(os.path.realpath(path)), follow=False) if follow else ""
                return sha(os.fsencode(f"link {os.readlink(path)}\0{inner}"))
            if kind != stat.S_IFREG:
                return "not a regular file"
            content, found = read_regular(path, self._bytes_left)
        except (FileNotFoundError, NotADirectoryError):
            return ABSENT
        except OSError as exc:
            self.problem = self.problem or f"{str(path)!r} cannot be looked at: {exc.strerror}"
            return "cannot be read"
        self.count(len(content))
        return f"{'x' if found.st_mode & stat.S_IXUSR else '-'}{sha(content)}"

    def shadows(self, folder: Path) -> Iterator[Path]:
        """Yield what Python would import from a folder instead of its own modules, as `find_shadows` does."""
        try:
            yield from find_shadows(folder)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as exc:
            self.problem = self.problem or f"{str(folder)!r} cannot be looked into: {exc.strerror}"

    def name(self, path: Path) -> str:
        """Return the name of a file in a survey."""
        text, top = str(path), f"{self.root}{os.sep}"
        return writable_name(text.removeprefix(top) if text.startswith(top) else os.path.relpath(path, self.root))

    def count(self, size: int) -> None:
        """Count one file, or the bytes of one."""
        self.files_left -= not size
        self._bytes_left -= size
        if self.files_left < 0:
            self.problem = self.problem or "there are too many files to look at"


def sha(content: bytes) -> str:
    """Return the digest of some bytes."""
    return hashlib.sha256(content).hexdigest()
