"""The digests of files in a workspace, within bounds."""

import hashlib
import os
import stat
import sys
import sysconfig
from collections.abc import Iterator
from importlib.machinery import all_suffixes
from pathlib import Path
from typing import Final

from backstay.config.private_file import writable_name
from backstay.system.files import read_regular

ABSENT: Final = "absent"
"""In place of the digest of a file that would run if it were there."""
OWN: Final = "own:"
"""Before the name of a file that a program of the person's own would run."""
MOST_FILES: Final = 5_000
MOST_BYTES: Final = 64 * 1024 * 1024
_ENDINGS: Final = (*dict.fromkeys((*all_suffixes(), ".so", ".pyd")),)
"""Of files that Python imports, of any version."""
_PLATFORM: Final = sysconfig.get_config_var("SOABI").partition("-")[2].partition("-")[2]
EXTENSION_ENDINGS: Final = (".so", ".abi3.so", ".pyd", *(f".cpython-3{minor}-{_PLATFORM}.so" for minor in range(8, 21)))
"""Of compiled modules, which Python takes before `.py`; of the versions there are and the next ones."""


def is_module_file(name: str, module: str) -> bool:
    """Return whether Python, in some version, may import a file of this name as the module."""
    return name.partition(".")[0] == module and name.endswith(_ENDINGS)


class Contents:
    """Looks at files of the workspace `root`, as far as its bounds go."""

    def __init__(self, root: Path, most_files: int = MOST_FILES, most_bytes: int = MOST_BYTES) -> None:
        self.root = root
        self.problem = ""
        """Why not everything could be looked at."""
        self.files_left = most_files
        self._bytes_left = most_bytes

    def content(self, path: Path, *, follow: bool) -> str:
        """Return the digest of a file; of a link its target, and with `follow` also what it leads to."""
        self.count(0)
        try:
            kind = stat.S_IFMT(path.lstat().st_mode)
            if kind == stat.S_IFLNK:
                inner = self.content(Path(os.path.realpath(path)), follow=False) if follow else ""
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
        """Return what Python would import from a folder instead of its own modules: `re.py`, or a package `json`."""
        try:
            with os.scandir(folder) as listing:
                for entry in listing:
                    name, dot, _ = entry.name.partition(".")
                    if name not in sys.stdlib_module_names:
                        continue
                    if dot and is_module_file(entry.name, name):
                        yield Path(entry.path)
                    elif not dot:
                        yield from _beginnings(entry.path)
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


def _beginnings(folder: str) -> Iterator[Path]:
    """Yield the files that make a folder a package."""
    try:
        yield from (Path(folder, each) for each in os.listdir(folder) if each.startswith("__init__."))
    except OSError:  # a file, or a folder that Python could not look into either
        return


def sha(content: bytes) -> str:
    """Return the digest of some bytes."""
    return hashlib.sha256(content).hexdigest()
