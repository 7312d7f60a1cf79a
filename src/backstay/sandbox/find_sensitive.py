"""Finds what is sensitive, or what rules are about, below a folder, for the judge of what goes through all of it. Raises nothing."""

import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Final, Literal

from backstay.permissions.path_rules import PathPattern, about
from backstay.permissions.paths import fold, plain
from backstay.permissions.searches import NOT_TOLD, Lookup
from backstay.permissions.sensitive_paths import is_suspect, mixed_with, sensitive_name
from backstay.sandbox.git import repository_of, tracked_names
from backstay.system.machine import SYSTEM

MOST_FOUND: Final = 200
"""Files that are named; where there are more, nobody could look through all."""
MOST_DENIED: Final = 1000
"""The same of those that rules are about."""
LARGEST: Final = 512 * 1024
"""Bytes of a file that are searched for a credential; a longer one counts as holding one."""

_WANTED: Final = {
    "credential": re.compile(
        rb"://[^/\s:@]*:[^/\s@]+@|(?i:_auth|token|passw|pwd|secret|credential|extraheader|key|pass|pw\b|_sk\b|dsn)|\0"
    ),
    "key": re.compile(rb"PRIVATE KEY|\0|\A\s*(?:[A-Za-z0-9+/_=-]{16,}\s*){1,8}\Z"),
}
"""What a credential stands beside, and how a private key begins. With a NUL a file is no text: it may be a key as bytes; one that has
nothing but a few long words may be a key in hexadecimal or base64."""
_IGNORE_FILES: Final = (".gitignore", ".ignore", ".rgignore", ".git/info/exclude")
_OBJECTS: Final = re.compile(r"[0-9a-f]{2}")
_ENOUGH: Final = 500
"""Names between two looks at the clock."""


class TooMuch(Exception):
    """There is more below a folder than can be looked at in time."""


_File = tuple[str, Literal["file", "link", "folder"]]
"""What is below a folder, as `/name`."""


class Listings:
    """What is below folders: each is gone through once for all that is looked up there."""

    def __init__(self, until: float) -> None:
        self._until = until
        self._found: dict[tuple[str, bool], list[_File]] = {}

    def below(self, folder: str, *, follow: bool = False) -> list[_File]:
        """List a folder to its depths; with `follow` also what links to folders lead to, each once."""
        if (folder, follow) not in self._found:
            self._found[folder, follow] = list(_walk(folder, self._until, follow=follow))
        return self._found[folder, follow]


def find_below(lookup: Lookup, listings: Listings) -> tuple[str, ...]:
    """Name the files that a lookup is about, absolute; `NOT_TOLD` when there are too many, or too much else in the time there is.

    Of sensitive files that mostly hold nothing secret, those that hold something like a credential.
    """
    try:
        paths = list(islice(_found(lookup, listings), (MOST_DENIED if lookup.patterns else MOST_FOUND) + 1))
    except (TooMuch, OSError, ValueError):
        return NOT_TOLD
    if len(paths) > (MOST_DENIED if lookup.patterns else MOST_FOUND):
        return NOT_TOLD
    return tuple(path.encode("utf-8", "replace").decode() for path in paths)


def _found(lookup: Lookup, listings: Listings) -> Iterator[str]:
    if lookup.by_git:
        return _tracked(lookup)
    if not lookup.patterns:
        return _shown(lookup.folder, listings) if lookup.which == "shown" else _all(lookup, listings)
    return _denied(lookup, listings)


def _denied(lookup: Lookup, listings: Listings) -> Iterator[str]:
    """What patterns are about, as it is spelled below the folder or where that leads."""
    pattern, start = about(lookup.patterns, SYSTEM), lookup.folder.rstrip("/")
    starts = [each.rstrip("/") for each in dict.fromkeys((plain(lookup.folder), os.path.realpath(lookup.folder)))]
    reached = [each for each in starts if pattern.may_reach_below(fold(each, SYSTEM))]
    if not reached and lookup.which == "taken":
        return
    unhidden = _unhiding(lookup.folder, listings) if lookup.which == "shown" else None
    for name, kind in listings.below(lookup.folder, follow=lookup.which == "followed"):
        if unhidden is not None and "/." in name and not _is_unhidden(name, unhidden):
            continue
        spelled = [each + name for each in reached]
        if kind == "link" and lookup.which != "taken":
            spelled.append(os.path.realpath(start + name))
        yield from islice((path for path in spelled if pattern.covers(fold(path, SYSTEM))), 1)


def _tracked(lookup: Lookup) -> Iterator[str]:
    """What git has tracked below a folder, named as it lies where every link is followed: so git sees it."""
    start = _seen_by_git(os.path.realpath(lookup.folder), lookup)
    if start is None:
        return iter(())  # there is no repository
    names = tracked_names(start)
    if names is None:
        raise TooMuch
    if not lookup.patterns:
        return (path for path, _ in _sensitive(start, ((name, "file") for name in names)))
    pattern = about(lookup.patterns, SYSTEM)
    before = [start] if lookup.past and _may_have_met(pattern, fold(start, SYSTEM)) else []
    paths = (start.rstrip("/") + name for name in names)
    return iter((*before, *(path for path in paths if pattern.covers(fold(path, SYSTEM)))))


def _may_have_met(pattern: PathPattern, start: str) -> bool:
    return pattern.covers(start) or pattern.may_reach_below(start)


def find_from_the_root(folder: str, path: str) -> tuple[str, ...]:
    """Name the file that a path from the root of the repository means, where `folder` lies below that root."""
    here = os.path.realpath(folder)
    root = repository_of(here)
    return () if root is None or str(root) == here else (plain(f"{root}/{path}", SYSTEM),)


def _seen_by_git(folder: str, lookup: Lookup) -> str | None:
    """The folder whose tracked files are meant; None where there is no repository.

    For other branches it is the whole repository as it is now. Raise `TooMuch` where a denial could be about them, and for files that
    were put away without ever being tracked.
    """
    root = repository_of(folder)
    bare = root is None and any(
        (each / "HEAD").is_file() and (each / "objects").is_dir() for each in (Path(folder), *Path(folder).parents)
    )
    if root is None and not bare:
        return None
    elsewhere = lookup.which == "elsewhere" or (lookup.which == "named" and not os.path.lexists(lookup.folder))
    if bare or (elsewhere and (lookup.patterns or lookup.past)):
        raise TooMuch
    return str(root) if elsewhere or lookup.which == "repository" else folder


def _all(lookup: Lookup, listings: Listings) -> Iterator[str]:
    files = listings.below(lookup.folder, follow=lookup.which == "followed")
    return (path for path, _ in _sensitive(lookup.folder, files))


def _shown(folder: str, listings: Listings) -> Iterator[str]:
    """Without hidden files, unless an ignore file names one to be searched all the same, or ripgrep has settings of its own."""
    patterns = _unhiding(folder, listings)
    found = _sensitive(folder, listings.below(folder))
    return (path for path, inner in found if "/." not in inner or _is_unhidden(inner, patterns))


def _unhiding(folder: str, listings: Listings) -> list[str]:
    """The names that ignore files take back: ripgrep searches those, hidden or not."""
    if "RIPGREP_CONFIG_PATH" in os.environ:
        return ["*"]
    start = folder.rstrip("/")
    own = (
        name for name, kind in listings.below(folder) if kind != "folder" and name.rpartition("/")[2] in _IGNORE_FILES
    )
    return [*_unhidden_above(folder), *(pattern for name in own for pattern in _unhidden_by(start + name))]


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

    for name, kind in files:
        parent, _, last = name.rpartition("/")
        inside = is_covered(parent)
        named = (inside or _is_suspect(last)) and _is_sensitive(base + name)
        if named and not inside and (mixed := mixed_with(fold(base + name, SYSTEM), SYSTEM)):
            named = _holds(_WANTED[mixed], start + name)
        if kind != "folder" and (named or (kind == "link" and _is_sensitive(os.path.realpath(start + name)))):
            yield start + name, name


def _is_suspect(name: str) -> bool:
    return is_suspect(fold(name, SYSTEM), SYSTEM)


def _is_sensitive(path: str) -> bool:
    return bool(sensitive_name(fold(path, SYSTEM), SYSTEM))


def _walk(folder: str, until: float, *, follow: bool) -> Iterator[_File]:
    """All that is below a folder. Objects of git are left out: nobody can search them. What lies behind a link counts as one."""
    start, todo, count = folder.rstrip("/"), [("", False)], 0
    followed = {os.path.realpath(folder)}
    while todo:
        here, linked = todo.pop()
        packed = here.endswith("/.git/objects") and os.path.lexists(f"{start}{here.removesuffix('objects')}HEAD")
        for entry in _listed(f"{start}{here}" or "/"):
            count += 1
            if count % _ENOUGH == 0 and time.monotonic() > until:
                raise TooMuch
            name = f"{here}/{entry.name}"
            if entry.is_symlink():
                yield name, "link"
                if follow and os.path.isdir(entry.path) and (led := os.path.realpath(entry.path)) not in followed:
                    followed.add(led)
                    todo.append((name, True))
            elif not entry.is_dir(follow_symlinks=False):
                yield name, "link" if linked else "file"
            elif not packed or not _OBJECTS.fullmatch(entry.name):
                yield name, "folder"
                todo.append((name, linked))


def _listed(folder: str) -> Iterator[os.DirEntry[str]]:
    """The entries of a folder, as far as they can be listed: what cannot be is not read by the command either."""
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError:  # also in the middle: a process ends, and its folder in /proc with it
        return


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
