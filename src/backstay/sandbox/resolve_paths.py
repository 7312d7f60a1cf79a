"""Looks at the file system for the policy: where paths lead, and what patterns match. Changes nothing, raises nothing."""

import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

from msgspec.structs import replace

from backstay.permissions.searches import NOT_TOLD, Lookup, lookup_of
from backstay.sandbox.find_sensitive import Listings, TooMuch, find_below, find_from_the_root
from backstay.sandbox.plan import private_files

NOWHERE: Final = ""
"""Where a path leads of which nobody can say where it leads. It lies in no folder, and no tool opens it.

It stands for loops of links, folders that may not be searched, names that no file can have or that are no text, and the links of
`/proc/PID`, which lead every process elsewhere.
"""
LINKS: Final = 40
"""Links that are followed on one path, as the kernel does."""
MATCHES: Final = 1000
"""Paths that a pattern may match."""
SECONDS: Final = 2.0
"""Time for all patterns together. Not shorter: on a busy machine a moment without the processor would become a question."""
LONGEST: Final = 4096
"""Characters of a pattern."""

_OF_A_PROCESS: Final = re.compile(r"/proc/\d+/")
_UNCLEAR: Final = re.compile(r"[\\{}()]")
"""What shells read in different ways: escapes, braces, extended patterns, qualifiers."""
MAGIC: Final = re.compile(r"[*?]|\[[!^]?\]?(?:\[(?P<kind>[:.=]).*?(?P=kind)\]|[^\]/])*\]")


def look(paths: Iterable[str]) -> dict[str, str]:
    """Say for each absolute path, as written, where it leads with every link followed. What is missing keeps its name.

    A hard link to a private file of the person leads to that file. Other hard links are names like any other: package managers fill whole
    folders with links to a store outside.
    """
    walk = _Walk()
    return {path: walk.lead(path) for path in paths}


def private_names() -> Callable[[str], str]:
    """Give a function that says which private file an absolute path is a hard link to; else it gives the path.

    What is private is looked up again each second: a file that is written anew is another one.
    """
    walk, until = _Walk(), 0.0

    def lead(path: str) -> str:
        nonlocal walk, until
        if time.monotonic() > until:
            walk, until = _Walk(), time.monotonic() + 1.0
        return walk.by_content(path)

    return lead


def match(globs: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Say for each absolute pattern where the paths lead that a shell would make of it.

    A pattern that matches nothing stays as it is, as in a shell. One that would match too much, take too long or mean different
    things to different shells is left out: it may match anything. Brackets count as any one character, and `**` reaches any
    depth, behind it hidden names count, as for `find`: rather too much than too little. Patterns of `searches.py` find the files
    below a folder that are sensitive or denied.
    """
    walk = _Walk()
    until = time.monotonic() + SECONDS
    listings = Listings(until)
    found: dict[str, tuple[str, ...]] = {}
    for pattern in globs:
        lookup = lookup_of(pattern)
        if lookup is None:
            paths = _expanded(pattern, listings, until)
            if paths is not None:
                literal = [pattern] if not paths or "[" in pattern else []
                found[pattern] = tuple(dict.fromkeys(walk.lead(path) for path in (*paths, *literal)))
        elif lookup.which == "revision":
            found[pattern] = find_from_the_root(lookup.folder, lookup.patterns[0])
        elif lookup.which != "handed":
            found[pattern] = _below_each(lookup, listings, until) if lookup.each else find_below(lookup, listings)
        elif f"{lookup.folder.rstrip('/')}/**/{lookup.patterns[0]}" not in found and (
            strange := _strange(lookup, listings, walk)
        ):
            found[pattern] = strange
    return found


def _below_each(lookup: Lookup, listings: Listings, until: float) -> tuple[str, ...]:
    """What is below all that a pattern matches."""
    paths = _expanded(lookup.folder, listings, until)
    if paths is None:
        return NOT_TOLD
    found = [find_below(replace(lookup, folder=path, each=False), listings) for path in paths]
    return NOT_TOLD if NOT_TOLD in found else tuple(path for each in found for path in each)


def _strange(lookup: Lookup, listings: Listings, walk: "_Walk") -> tuple[str, ...]:
    """Where those of the files with a name lead that are links or have odd names, and one of the others; none when they are too many."""
    fits, start = re.compile(_as_regex(lookup.patterns[0]), re.DOTALL), lookup.folder.rstrip("/")
    led, usual, found = walk.lead(lookup.folder).rstrip("/"), "", dict[str, None]()
    try:
        for name, kind in listings.below(lookup.folder):
            if fits.fullmatch(name.rpartition("/")[2]):
                leads = walk.lead(start + name) if kind == "link" else walk.by_content(led + name)
                if leads == led + name and _USUAL.fullmatch(name):
                    usual = usual or leads
                else:
                    found.update(dict.fromkeys((_text(leads), _text(start + name))))
    except TooMuch:
        return ()
    return (*found, *([usual] if usual else [])) if len(found) <= MATCHES else ()


_USUAL: Final = re.compile(r"(?:/[\w.@+,=][\w.@+,=-]*)+")


def _expanded(pattern: str, listings: Listings, until: float) -> list[str] | None:
    """The existing paths that a pattern matches; None when there are too many, or nobody can say what it means."""
    if not pattern.startswith("/") or len(pattern) > LONGEST or _UNCLEAR.search(pattern):
        return None
    try:
        return _expand(pattern, listings, until)
    except (OSError, ValueError, TooMuch):
        return None


class _Walk:
    """Follows links; a place that was looked at once is not looked at again."""

    def __init__(self) -> None:
        self._targets: dict[str, str | None] = {}
        self._private: dict[tuple[int, int], str] | None = None

    def lead(self, path: str) -> str:
        """Where `path` leads; `NOWHERE` when that cannot be told."""
        if not path.startswith("/"):
            return NOWHERE
        try:
            return _text(self.by_content(self._follow(path)))
        except (OSError, ValueError):
            return NOWHERE

    def by_content(self, path: str) -> str:
        """The private file that a path is another name of, or the path."""
        try:
            facts = os.lstat(path)
        except OSError:
            return path
        if facts.st_nlink < 2 or not stat.S_ISREG(facts.st_mode):
            return path
        if self._private is None:
            self._private = private_files()
        return self._private.get((facts.st_dev, facts.st_ino), path)

    def _follow(self, path: str) -> str:
        ahead = path.split("/")[::-1]
        here = ""
        links = 0
        while ahead:
            part = ahead.pop()
            if part in ("", "."):
                continue
            if part == "..":
                here = here.rpartition("/")[0]
                continue
            target = self._target(f"{here}/{part}")
            if target is None:
                here = f"{here}/{part}"
                continue
            links += 1
            if links > LINKS:
                return NOWHERE
            here = "" if target.startswith("/") else here
            ahead.extend(target.split("/")[::-1])
        return here or "/"

    def _target(self, path: str) -> str | None:
        """What the link at `path` says; None when there is no link."""
        if path not in self._targets:
            self._targets[path] = _read_link(path)
        target = self._targets[path]
        if target is not None and _OF_A_PROCESS.match(path):
            raise ValueError(path)
        return target


def _text(path: str) -> str:
    """A path that can be written down, or `NOWHERE`: names need not be text."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return NOWHERE
    return path


def _read_link(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError as exc:
        if _is_link(path):
            raise ValueError(path) from exc
        return None


def _is_link(path: str) -> bool:
    """Whether there is a link. Raise `OSError` when that may not be known."""
    try:
        return stat.S_ISLNK(os.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _expand(pattern: str, listings: Listings, until: float) -> list[str]:
    """The existing paths that `pattern` matches."""
    paths, deep = [""], False
    parts = pattern.split("/")[1:]
    for at, part in enumerate(parts, start=1):
        if not MAGIC.search(part):
            paths = [f"{path}/{part}" for path in paths]
        elif part == "**" and at == len(parts) - 1:
            return _found_below(paths, parts[-1], listings, until)
        elif "**" in part:
            deep = True
            paths = [
                f"{path}{name}"
                for path in paths
                for name in ("/.", *_folders(path or "/", listings, last=at == len(parts)))
            ]
        else:
            # the part itself stands for what the command may make there
            paths = [
                _below(path, name) for path in paths for name in (part, *_names(path or "/", part, until, hidden=deep))
            ]
        if time.monotonic() > until:
            raise TooMuch
    return _limited(path for path in paths if os.path.lexists(path))


def _found_below(folders: Iterable[str], part: str, listings: Listings, until: float) -> list[str]:
    """What has a name below folders, and in folders that links there lead to, as for the shells that follow those."""
    fits = re.compile(_as_regex(part), re.DOTALL)
    paths = list[str]()
    for folder in folders:
        for name, kind in listings.below(folder or "/"):
            if fits.fullmatch(name.rpartition("/")[2]):
                paths.append(f"{folder}{name}")
            if kind == "link" and os.path.isdir(f"{folder}{name}"):
                paths += [f"{folder}{name}/{each}" for each in _names(f"{folder}{name}", part, until, hidden=True)]
        if len(paths) > MATCHES:
            break
    return _limited(iter(paths))


def _limited(paths: Iterator[str]) -> list[str]:
    found = list(islice(paths, MATCHES + 1))
    if len(found) > MATCHES:
        raise TooMuch
    return found


def _below(folder: str, name: str) -> str:
    """Name what lies in a folder. Above one that is not there lies what its path says."""
    if name in (".", "..") and not os.path.lexists(folder):
        return folder if name == "." else folder.rpartition("/")[0]
    return f"{folder}/{name}"


def _folders(folder: str, listings: Listings, *, last: bool) -> Iterator[str]:
    """What `**` stands for: folders and links to some, and files at the end of a pattern."""
    return (
        name
        for name, kind in listings.below(folder)
        if last or kind == "folder" or (kind == "link" and os.path.isdir(folder + name))
    )


def _names(folder: str, part: str, until: float, *, hidden: bool) -> Iterator[str]:
    """The names in `folder` that fit one part of a pattern; a name that begins with a dot only where the part does, or with `hidden`."""
    fits = re.compile(_as_regex(part), re.DOTALL)
    dotted = part.startswith(".")
    for name in (*((".", "..") if dotted else ()), *_entries(folder, until)):
        if fits.fullmatch(name) and (hidden or dotted or not name.startswith(".")):
            yield name


def _entries(folder: str, until: float) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return _in_time((entry.name for entry in entries), until)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _in_time(names: Iterator[str], until: float) -> list[str]:
    kept: list[str] = []
    for name in names:
        if time.monotonic() > until:
            raise TooMuch
        kept.append(name)
    return kept


def _as_regex(part: str) -> str:
    """The expression of one part of a pattern. What stands between two stars is taken where it is found first, and never tried anew."""
    ends = 0
    pieces = [""]
    for magic in MAGIC.finditer(part):
        pieces[-1] += re.escape(part[ends : magic.start()])
        if magic[0] == "*":
            pieces.append("")
        else:
            pieces[-1] += "."
        ends = magic.end()
    pieces[-1] += re.escape(part[ends:])
    first, *others = pieces
    middle = "".join(f"(?>.*?{piece})" for piece in others[:-1])
    return f"{first}{middle}.*{others[-1]}" if others else first
