"""Looks below a folder for files that may hold secrets, for the judge of a search that goes through all of it. Raises nothing."""

import os
import re
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Final

from holdfast.logic.permissions.paths import fold
from holdfast.logic.permissions.places import is_suspect, mixed_with, sensitive_name
from holdfast.logic.permissions.searches import NOT_TOLD, Which
from holdfast.workspaces.git_index import repository_of, tracked_names

MOST_FOUND: Final = 200
"""Files that are named; where there are more, nobody could look through all."""
LARGEST: Final = 64 * 1024
"""Bytes of a file that are searched for a credential; a longer one counts as holding one."""

_SYSTEM: Final = "darwin" if sys.platform == "darwin" else "windows" if sys.platform == "win32" else "linux"
_WANTED: Final = {
    "credential": re.compile(
        rb"://[^/\s:@]*:[^/\s@]+@|(?i:_auth|token|passw|pwd|secret|credential|extraheader|key|pass|pw\b|_sk\b|dsn)|\0"
    ),
    "key": re.compile(rb"PRIVATE KEY|\0|\A\s*(?:[A-Za-z0-9+/_=-]{16,}\s*){1,8}\Z"),
}
"""What a credential stands beside, and how a private key begins. With a NUL a file is no text: it may be a key as bytes; one that has
nothing but a few long words may be a key in hexadecimal or base64."""
_IGNORE_FILES: Final = (".gitignore", ".ignore", ".rgignore", ".git/info/exclude")
_ENOUGH: Final = 500
"""Names between two looks at the clock."""


class _TooMuch(Exception):
    """There is more below a folder than can be looked at in time."""


_File = tuple[str, bool]
"""A file below a folder, as `/name`, and whether it is a link."""


def find_sensitive(folder: str, which: Which, until: float) -> tuple[str, ...]:
    """Name the sensitive files below `folder`, absolute; `NOT_TOLD` when there are too many, or too much else until `until`.

    Of files that mostly hold nothing secret, those that hold something like a credential.
    """
    try:
        paths = (
            _shown(folder, until)
            if which == "shown"
            else _all(folder, until)
            if which == "all"
            else _tracked(_seen_by_git(folder, which))
        )
        found = []
        for path in paths:
            found.append(path.encode("utf-8", "replace").decode())
            if len(found) > MOST_FOUND:
                return NOT_TOLD
        return tuple(found)
    except (_TooMuch, OSError, ValueError):
        return NOT_TOLD


def find_tracked(folder: str, which: Which, glob: str) -> tuple[str, ...]:
    """Name the tracked files that match a glob, absolute, `*` standing for folders too; `NOT_TOLD` when that cannot be told."""
    start = _seen_by_git(folder, which)
    names = iter(()) if start is None else tracked_names(start)
    if names is None:
        return NOT_TOLD
    paths = (start.rstrip("/") + name for name in names) if start is not None else iter(())
    found = tuple(islice((path for path in paths if matches_below(path, glob)), MOST_FOUND))
    return tuple(path.encode("utf-8", "replace").decode() for path in found)


def matches_below(path: str, glob: str) -> bool:
    """Whether a glob matches a path or a folder above it; a wildcard may stand for folders."""
    return fnmatchcase(path, glob) or fnmatchcase(path, f"{glob}/*")


def _seen_by_git(folder: str, which: Which) -> str | None:
    """The folder whose tracked files are meant: the root of the repository, unless it is about what is below `folder`."""
    if which == "tracked" or (which == "named" and os.path.lexists(folder)):
        return folder
    root = repository_of(folder)
    if root is not None:
        return str(root)
    bare = any(
        (each / "HEAD").is_file() and (each / "objects").is_dir() for each in (Path(folder), *Path(folder).parents)
    )
    return folder if bare else None


def _all(folder: str, until: float) -> Iterator[str]:
    return (path for path, _ in _sensitive(folder, _walk(folder, until)))


def _shown(folder: str, until: float) -> Iterator[str]:
    """Without hidden files, unless an ignore file names one to be searched all the same, or ripgrep has settings of its own."""
    if "RIPGREP_CONFIG_PATH" in os.environ:
        return _all(folder, until)
    unhiding: list[str] = [*_unhidden_above(folder)]
    found = list(_sensitive(folder, _walk(folder, until, unhiding)))
    return (path for path, inner in found if "/." not in inner or _is_unhidden(inner, unhiding))


def _tracked(folder: str | None) -> Iterator[str]:
    if folder is None:
        return iter(())  # there is no repository
    names = tracked_names(folder)
    if names is None:
        raise _TooMuch
    return (path for path, _ in _sensitive(folder, ((name, False) for name in names)))


def _sensitive(folder: str, files: Iterable[_File]) -> Iterator[tuple[str, str]]:
    """The sensitive ones of the files below a folder: absolute, and as they came."""
    start = folder.rstrip("/")
    base = "" if _is_sensitive(start) else start  # where a folder lies says nothing of what is in it
    covered = {"": False}

    def is_covered(parent: str) -> bool:
        if parent not in covered:
            above, _, last = parent.rpartition("/")
            covered[parent] = is_covered(above) or (_is_suspect(last) and _is_sensitive(base + parent))
        return covered[parent]

    for name, is_link in files:
        parent, _, last = name.rpartition("/")
        inside = is_covered(parent)
        named = (inside or _is_suspect(last)) and _is_sensitive(base + name)
        if named and not inside and (mixed := mixed_with(fold(base + name, _SYSTEM), _SYSTEM)):
            named = _holds(_WANTED[mixed], start + name)
        if named or (is_link and _is_sensitive(os.path.realpath(start + name))):
            yield start + name, name


def _is_suspect(name: str) -> bool:
    return is_suspect(fold(name, _SYSTEM), _SYSTEM)


def _is_sensitive(path: str) -> bool:
    return bool(sensitive_name(fold(path, _SYSTEM), _SYSTEM))


def _walk(folder: str, until: float, unhiding: list[str] | None = None) -> Iterator[_File]:
    """Every file below a folder. Objects of git are left out: nobody can search them."""
    start, todo, count = folder.rstrip("/"), [""], 0
    while todo:
        here = todo.pop()
        try:
            entries = os.scandir(f"{start}{here}" or "/")
        except OSError:
            continue  # what cannot be listed here is not read by the command either
        with entries:
            for entry in entries:
                count += 1
                if count % _ENOUGH == 0 and time.monotonic() > until:
                    raise _TooMuch
                name = f"{here}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    if not name.endswith("/.git/objects"):
                        todo.append(name)
                    continue
                if unhiding is not None and entry.name in _IGNORE_FILES:
                    unhiding += _unhidden_by(f"{start}{name}")
                yield name, entry.is_symlink()


def _unhidden_above(folder: str) -> Iterator[str]:
    """What ignore files of the folders above say: they hold below, too."""
    here = folder
    while (above := os.path.dirname(here)) != here:
        here = above
        for name in _IGNORE_FILES:
            yield from _unhidden_by(f"{here.rstrip('/')}/{name}")
    yield from _unhidden_by(f"{folder.rstrip('/')}/.git/info/exclude")
    yield from _unhidden_by(os.path.expanduser("~/.config/git/ignore"))


def _unhidden_by(path: str) -> list[str]:
    """The last names of the patterns that an ignore file takes back."""
    lines = _begin_of(path).decode("utf-8", "replace").splitlines()
    return [line[1:].strip().rstrip("/").rpartition("/")[2] for line in lines if line.startswith("!")]


def _is_unhidden(inner: str, patterns: list[str]) -> bool:
    parts = inner.strip("/").split("/")
    return any(fnmatchcase(part, pattern) for pattern in dict.fromkeys(patterns) for part in parts)


def _holds(wanted: re.Pattern[bytes], path: str) -> bool:
    """Whether a file seems to hold something; yes when it cannot be read here, or not to its end."""
    try:
        content = _begin_of(path, strict=True)
        return len(content) >= LARGEST or wanted.search(content) is not None
    except OSError:
        return True


def _begin_of(path: str, *, strict: bool = False) -> bytes:
    """The beginning of a regular file; nothing when there is none, unless that is an error."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            return os.read(handle, LARGEST) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
        finally:
            os.close(handle)
    except OSError:
        if strict:
            raise
        return b""
