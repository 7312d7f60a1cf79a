"""Words after expansion, as far as they are known, and the folders that a command may run in."""

import posixpath
import re
from typing import Final

import msgspec

from backstay.permissions.call_site import CallSite

MOST_FOLDERS: Final = 4
"""How many folders a command may be in before the folder counts as unknown."""
UNKNOWN: Final[tuple[str | None, ...]] = (None,)
_SAME: Final = re.compile(r"/\.?(?=/)")


class Field(msgspec.Struct, frozen=True):
    """A word after expansion."""

    value: str | None
    """None when it is not known; the pattern when `glob`."""
    text: str = ""
    """As written."""
    glob: bool = False
    """Whether the shell expands wildcards in it."""
    many: bool = False
    """Whether it may become no word, or several."""


class Site(msgspec.Struct, frozen=True):
    """Where a command may run."""

    call_site: CallSite
    folders: tuple[str | None, ...]
    """None for anywhere."""

    def paths(self, name: str) -> tuple[str, ...]:
        """Make a path absolute, not normalised; one for each folder that the command may be in, "" for unknown."""
        if is_absolute(name, self.call_site.os):
            return (self._shorten(name),)
        return tuple("" if folder is None else self._shorten(join(folder, name)) for folder in self.folders)

    def enter(self, target: Field) -> "Site":
        """Give the place after a `cd` that may fail, or that only a subshell makes."""
        if not target.value or target.glob or target.value == "-":
            return Site(self.call_site, UNKNOWN)
        there = tuple(posixpath.normpath(path) if path else None for path in self.paths(target.value))
        folders = tuple(dict.fromkeys((*self.folders, *there)))
        return Site(self.call_site, folders if len(folders) <= MOST_FOLDERS else UNKNOWN)

    def below(self, target: Field) -> "Site":
        """Give the place of a program that is told to go to a folder (`git -C`, `env --chdir`)."""
        if not target.value or target.glob:
            return Site(self.call_site, UNKNOWN)
        return Site(self.call_site, tuple(path or None for path in self.paths(target.value)))

    def _shorten(self, path: str) -> str:
        """Take out the parts that say nothing, so that a wildcard is looked up where it is; Windows reads `//` as another machine."""
        if ("/./" not in path and "//" not in path) or self.call_site.os == "windows":
            return path
        return _SAME.sub("", path)


def join(folder: str, name: str) -> str:
    """Put a relative path below a folder."""
    return f"{folder.rstrip('/')}/{name}" if name else folder


def is_absolute(path: str, os: str) -> bool:
    """Return whether a path does not depend on a folder."""
    if path.startswith("/"):
        return True
    return os == "windows" and (path.startswith("\\") or (path[1:2] == ":" and path[:1].isalpha()))


def base_name(name: str, os: str) -> str:
    """Give the name that a program is known by."""
    base = name.rpartition("/")[2]
    if os == "linux":
        return base
    base = base.rpartition("\\")[2].lower() if os == "windows" else base.lower()
    return base.removesuffix(".exe")
