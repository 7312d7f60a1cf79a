"""Resolve paths on disk for the policy: where they lead, what patterns match, and which files below a folder are sensitive or denied.

Nothing is changed and nothing is raised: what cannot be known in time is `NOWHERE` or `NOT_TOLD`, and the policy asks a person.
"""

import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Final, Literal

from msgspec.structs import replace

from backstay.permissions.path_rules import PathPattern, about
from backstay.permissions.paths import fold, plain
from backstay.permissions.searches import NOT_TOLD, Lookup, lookup_of
from backstay.permissions.sensitive_paths import find_needed_content, is_suspect, sensitive_name
from backstay.sandbox.git_files import list_tracked, repository_of
from backstay.sandbox.plan import private_files
from backstay.system.machine import SYSTEM

MOST_FOUND: Final = 200
"""Files that are named; where there are more, a person could not look through all."""
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
"""A path below a folder, as `/name`, and its kind."""


class Listings:
    """The files below folders: each folder is walked once for all lookups."""

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
        paths = list(islice(_find(lookup, listings), (MOST_DENIED if lookup.patterns else MOST_FOUND) + 1))
    except (TooMuch, OSError, ValueError):
        return NOT_TOLD
    if len(paths) > (MOST_DENIED if lookup.patterns else MOST_FOUND):
        return NOT_TOLD
    return tuple(path.encode("utf-8", "replace").decode() for path in paths)


def _find(lookup: Lookup, listings: Listings) -> Iterator[str]:
    if lookup.compared:
        path, other = lookup.compared
        alone = replace(lookup, compared=())
        found = dict.fromkeys(_find(alone, listings))
        if os.path.lexists(path) and (other == "*" or os.path.lexists(other)):
            found |= dict.fromkeys(_find(replace(alone, folder=path, which="all", past=False), listings))
        return iter(found)
    if lookup.by_git:
        return _find_tracked(lookup)
    if not lookup.patterns:
        return _find_searched(lookup.folder, listings) if lookup.which == "shown" else _all(lookup, listings)
    return _find_denied(lookup, listings)


def _find_denied(lookup: Lookup, listings: Listings) -> Iterator[str]:
    """Yield what patterns are about, as it is spelled below the folder or where that leads."""
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


def _find_tracked(lookup: Lookup) -> Iterator[str]:
    """Find the files that git tracks below a folder, named as they lie where every link is followed: so git sees them."""
    start = _folder_of_git(os.path.realpath(lookup.folder), lookup)
    if start is None:
        return iter(())  # there is no repository
    names = list_tracked(start)
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


def _folder_of_git(folder: str, lookup: Lookup) -> str | None:
    """Return the folder whose tracked files are meant; None where there is no repository.

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


def _find_searched(folder: str, listings: Listings) -> Iterator[str]:
    """Find sensitive files that are not hidden, or that an ignore file or settings of ripgrep make it search all the same."""
    patterns = _unhiding(folder, listings)
    found = _sensitive(folder, listings.below(folder))
    return (path for path, inner in found if "/." not in inner or _is_unhidden(inner, patterns))


def _unhiding(folder: str, listings: Listings) -> list[str]:
    """Return the names that ignore files take back: ripgrep searches those, hidden or not."""
    if "RIPGREP_CONFIG_PATH" in os.environ:
        return ["*"]
    start = folder.rstrip("/")
    own = (
        name for name, kind in listings.below(folder) if kind != "folder" and name.rpartition("/")[2] in _IGNORE_FILES
    )
    return [*_unhidden_above(folder), *(pattern for name in own for pattern in _unhidden_by(start + name))]


def _sensitive(folder: str, files: Iterable[_File]) -> Iterator[tuple[str, str]]:
    """Yield the sensitive ones of the files below a folder: absolute, and as they came."""
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
        if named and not inside and (mixed := find_needed_content(fold(base + name, SYSTEM), SYSTEM)):
            named = _holds(_WANTED[mixed], start + name)
        if kind != "folder" and (named or (kind == "link" and _is_sensitive(os.path.realpath(start + name)))):
            yield start + name, name


def _is_suspect(name: str) -> bool:
    return is_suspect(fold(name, SYSTEM), SYSTEM)


def _is_sensitive(path: str) -> bool:
    return bool(sensitive_name(fold(path, SYSTEM), SYSTEM))


def _walk(folder: str, until: float, *, follow: bool) -> Iterator[_File]:
    """Yield all that is below a folder, but for objects of git, which no search reads. What lies behind a link counts as one."""
    start, todo, count = folder.rstrip("/"), [("", False)], 0
    followed = {os.path.realpath(folder)}
    while todo:
        here, linked = todo.pop()
        packed = here.endswith("/.git/objects") and os.path.lexists(f"{start}{here.removesuffix('objects')}HEAD")
        for entry in _list_entries(f"{start}{here}" or "/"):
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


def _list_entries(folder: str) -> Iterator[os.DirEntry[str]]:
    """Yield the entries of a folder, as far as they can be listed: what cannot be is not read by the command either."""
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError:  # also in the middle: a process ends, and its folder in /proc with it
        return


def _unhidden_above(folder: str) -> Iterator[str]:
    """Yield the names that ignore files of the folders above take back: they hold below, too."""
    here = folder
    while (above := os.path.dirname(here)) != here:
        here = above
        for name in _IGNORE_FILES:
            yield from _unhidden_by(f"{here.rstrip('/')}/{name}")
    yield from _unhidden_by(f"{folder.rstrip('/')}/.git/info/exclude")
    yield from _unhidden_by(os.path.expanduser("~/.config/git/ignore"))


def _unhidden_by(path: str) -> list[str]:
    """Return the last names of the patterns that an ignore file takes back."""
    lines = _begin_of(path).decode("utf-8", "replace").splitlines()
    return [line[1:].strip().rstrip("/").rpartition("/")[2] for line in lines if line.startswith("!")]


def _is_unhidden(inner: str, patterns: list[str]) -> bool:
    parts = inner.strip("/").split("/")
    return any(fnmatchcase(part, pattern) for pattern in dict.fromkeys(patterns) for part in parts)


def _holds(wanted: re.Pattern[bytes], path: str) -> bool:
    """Return whether a file seems to hold something; yes when it cannot be read here, or not to its end."""
    try:
        content = _begin_of(path, strict=True)
        return len(content) >= LARGEST or wanted.search(content) is not None
    except OSError:
        return True


def _begin_of(path: str, *, strict: bool = False) -> bytes:
    """Read the beginning of a regular file; empty when there is none, unless that is an error."""
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


NOWHERE: Final = ""
"""The target of a path that leads to an unknown place. It lies in no folder, and no tool opens it.

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
"""Signs that shells read in different ways: escapes, braces, extended patterns, qualifiers."""
MAGIC: Final = re.compile(r"[*?]|\[[!^]?\]?(?:\[(?P<kind>[:.=]).*?(?P=kind)\]|[^\]/])*\]")


def follow_links(paths: Iterable[str]) -> dict[str, str]:
    """Say for each absolute path, as written, where it leads with every link followed. What is missing keeps its name.

    A hard link to a private file of the person leads to that file. Other hard links are names like any other: package managers fill whole
    folders with links to a store outside.
    """
    walk = _LinkWalk()
    return {path: walk.lead(path) for path in paths}


def private_names() -> Callable[[str], str]:
    """Give a function that says which private file an absolute path is a hard link to; else it gives the path.

    What is private is looked up again each second: a file that is written anew is another one.
    """
    walk, until = _LinkWalk(), 0.0

    def lead(path: str) -> str:
        nonlocal walk, until
        if time.monotonic() > until:
            walk, until = _LinkWalk(), time.monotonic() + 1.0
        return walk.by_content(path)

    return lead


def match(globs: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Say for each absolute pattern where the paths lead that a shell would make of it.

    A pattern that matches nothing stays as it is, as in a shell. One that would match too much, take too long or mean different
    things to different shells is left out: it may match anything. Brackets count as any one character, and `**` reaches any
    depth, behind it hidden names count, as for `find`: rather too much than too little. Patterns of `searches.py` find the files
    below a folder that are sensitive or denied.
    """
    walk = _LinkWalk()
    until = time.monotonic() + SECONDS
    listings = Listings(until)
    found: dict[str, tuple[str, ...]] = {}
    for pattern in globs:
        lookup = lookup_of(pattern)
        if lookup is not None and "\0" in pattern:
            continue  # no file has such a name
        if lookup is None:
            paths = _try_to_expand(pattern, listings, until)
            if paths is not None:
                literal = [pattern] if not paths or "[" in pattern else []
                found[pattern] = tuple(dict.fromkeys(walk.lead(path) for path in (*paths, *literal)))
        elif lookup.which == "revision":
            found[pattern] = find_from_the_root(lookup.folder, lookup.patterns[0])
        elif lookup.which == "shared":
            named = _try_to_expand(lookup.folder, listings, until) if lookup.each else [lookup.folder]
            found[pattern] = tuple(led for led in map(walk.lead, named or ()) if _has_other_names(led))
        elif lookup.which != "handed":
            found[pattern] = _below_each(lookup, listings, until) if lookup.each else find_below(lookup, listings)
        elif f"{lookup.folder.rstrip('/')}/**/{lookup.patterns[0]}" not in found and (
            strange := _strange(lookup, listings, walk)
        ):
            found[pattern] = strange
    return found


def _has_other_names(path: str) -> bool:
    try:
        facts = os.lstat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(facts.st_mode) and facts.st_nlink > 1


def _below_each(lookup: Lookup, listings: Listings, until: float) -> tuple[str, ...]:
    """Find what is below all that a pattern matches."""
    paths = _try_to_expand(lookup.folder, listings, until)
    if paths is None:
        return NOT_TOLD
    other = lookup.compared[1:]
    found = [
        find_below(replace(lookup, folder=path, each=False, compared=(path, *other) if other else ()), listings)
        for path in paths
    ]
    return NOT_TOLD if NOT_TOLD in found else tuple(path for each in found for path in each)


def _strange(lookup: Lookup, listings: Listings, walk: "_LinkWalk") -> tuple[str, ...]:
    """Resolve the files of a name that are links or have odd names, and one of the others; none when they are too many."""
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


def _try_to_expand(pattern: str, listings: Listings, until: float) -> list[str] | None:
    """Return the existing paths that a pattern matches; None when there are too many, or its meaning is unclear."""
    if not pattern.startswith("/") or len(pattern) > LONGEST or _UNCLEAR.search(pattern):
        return None
    try:
        return _expand(pattern, listings, until)
    except (OSError, ValueError, TooMuch):
        return None


class _LinkWalk:
    """Follow links; a path is read once only."""

    def __init__(self) -> None:
        self._targets: dict[str, str | None] = {}
        self._private: dict[tuple[int, int], str] | None = None

    def lead(self, path: str) -> str:
        """Return where `path` leads; `NOWHERE` when that is unknown."""
        if not path.startswith("/"):
            return NOWHERE
        try:
            return _text(self.by_content(self._follow(path)))
        except (OSError, ValueError):
            return NOWHERE

    def by_content(self, path: str) -> str:
        """Return the private file that a path is another name of, or the path."""
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
        """Return what the link at `path` says; None when there is no link."""
        if path not in self._targets:
            self._targets[path] = _read_link(path)
        target = self._targets[path]
        if target is not None and _OF_A_PROCESS.match(path):
            raise ValueError(path)
        return target


def _text(path: str) -> str:
    """Return a path that can be written down, or `NOWHERE`: names need not be text."""
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
    """Return whether there is a link. Raise `OSError` when that may not be known."""
    try:
        return stat.S_ISLNK(os.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _expand(pattern: str, listings: Listings, until: float) -> list[str]:
    """Return the existing paths that `pattern` matches."""
    paths, deep = [""], False
    parts = pattern.split("/")[1:]
    for at, part in enumerate(parts, start=1):
        if not MAGIC.search(part):
            paths = [f"{path}/{part}" for path in paths]
        elif part == "**" and at == len(parts) - 1:
            return _find_at_depth(paths, parts[-1], listings, until)
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
    return _limit(path for path in paths if os.path.lexists(path))


def _find_at_depth(folders: Iterable[str], part: str, listings: Listings, until: float) -> list[str]:
    """Find names below folders, and in folders that links there lead to, as shells do that follow those."""
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
    return _limit(iter(paths))


def _limit(paths: Iterator[str]) -> list[str]:
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
    """Yield what `**` stands for: folders and links to some, and files at the end of a pattern."""
    return (
        name
        for name, kind in listings.below(folder)
        if last or kind == "folder" or (kind == "link" and os.path.isdir(folder + name))
    )


def _names(folder: str, part: str, until: float, *, hidden: bool) -> Iterator[str]:
    """Yield names in `folder` that fit one part of a pattern; one that begins with a dot only where the part does, or with `hidden`."""
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
    """Return the expression of one part of a pattern. Text between two stars is taken where it is found first, and never tried anew."""
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
