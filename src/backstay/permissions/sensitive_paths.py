"""Special paths: protected (they decide what runs), sensitive (they hold secrets), critical (removing them loses everything)."""

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Final, Literal

import msgspec
from msgspec import Struct

from backstay.permissions.call_site import CallSite
from backstay.permissions.path_rules import name_tokens, shell_tokens
from backstay.permissions.paths import ResolvedPath, fold, plain, within, workspace
from backstay.permissions.wildcards import Tokens, expression, meets

_SYSTEM: Final = frozenset(
    ("usr", "var", "home", "users", "system", "library", "opt", "boot", "windows", "program files", "mnt", "media"),
)
"""Folders of the root whose own folders are as dear as they are."""
_DEVICE: Final = re.compile(r"/dev/(sd|hd|vd|xvd|nvme|disk|mmcblk|loop|md|dm-|mapper|mem|kmem|port|rdisk)")
_DRIVE_ROOT: Final = re.compile(r"[a-z]:(/[^/]*)?")
_RUN_HERE: Final = "a hook, a server, git or a shell runs it here"
Kind = Literal["protected", "sensitive"]
Mixed = Literal["", "credential", "key"]


class PlaceGroup(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names of files and folders that are on a list for one reason."""

    why: str
    names: tuple[str, ...] = ()
    """They hold in any folder. One of a folder covers what is below it."""
    absolute: tuple[str, ...] = ()
    """They begin at the root."""
    home: tuple[str, ...] = ()
    """They hold in the person's home folder alone."""
    mixed: Mixed = ""
    """What some such files hold and most do not: a search of a whole folder asks only about those that do."""
    sealed: Literal["", "folder", "home"] = ""
    """Where the sandbox of programs keeps them from being changed."""


class PlaceList(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of the lists of places."""

    places: tuple[PlaceGroup, ...]
    templates: PlaceGroup
    """What a name of `places` covers and is not meant all the same."""


@cache
def read_places(name: Kind) -> PlaceList:
    """Read one of the lists of places that people may want to see and extend: `*.toml` beside this file."""
    from importlib.resources import files  # noqa: PLC0415 - it loads when a call is first judged, not with the package

    return msgspec.toml.decode(files("backstay.permissions").joinpath(f"{name}.toml").read_bytes(), type=PlaceList)


def find_protected(resolved: ResolvedPath, call_site: CallSite) -> str:
    """Return the protected place that a path lies in; empty when it may be written like any other."""
    here = (plain(call_site.cwd, call_site.os),)
    below = tuple(path for path in resolved.all if within(path, here))
    seen = _place("protected", resolved.all, call_site) or _find_place(
        "protected", below, here, call_site.home, call_site.os
    )
    return seen or _running(resolved, call_site)


def holds_protected(resolved: ResolvedPath, call_site: CallSite) -> str:
    """Return the protected place that a folder may hold by its very name, as `.github` holds `.github/workflows`; empty when none."""
    paths = [_below_root(path, workspace(call_site)) for path in resolved.all]
    held = (name for folder, name in _holders() for path in paths if path.lower().endswith(f"/{folder}"))
    return next(held, "") or (_RUN_HERE if any(within(each, resolved.all) for each in _run_here(call_site)) else "")


def sensitive(paths: tuple[str, ...], call_site: CallSite) -> str:
    """Return the sensitive place that a path lies in, in any of its spellings; empty when it may be read like any other."""
    return _place("sensitive", paths, call_site)


def find_needed_content(path: str, os: str) -> Mixed:
    """Return what a sensitive file must hold to be counted among those of a whole folder; empty when its name is enough."""
    return next((kind for kind, pattern in _patterns_of_content(os) if pattern.match(path)), "")


def sensitive_name(path: str, os: str) -> str:
    """Return the sensitive place that an absolute path lies in, wherever the workspace is; empty when none."""
    return _table("sensitive", os).find(path)


def is_suspect(name: str, os: str) -> bool:
    """Return whether a path with this name in it could be sensitive: asked first of the many names of a whole folder."""
    return _table("sensitive", os).may_have(name)


def glob_meets(kind: Kind, glob: str, call_site: CallSite, *, looked: bool = True) -> bool:
    """Return whether a shell pattern could reach such a path. `*` alone counts as harmless where it was looked up."""
    table = _table(kind, call_site.os)
    seen = _below_root(fold(glob, call_site.os), workspace(call_site))
    folder, _, name = seen.rpartition("/")
    return bool(table.find(folder or "/")) if looked and set(name) <= {"*"} else table.meets(seen)


def _running(resolved: ResolvedPath, call_site: CallSite) -> str:
    folders = _run_here(call_site)
    return _RUN_HERE if folders and any(within(path, folders) for path in resolved.all) else ""


def _run_here(call_site: CallSite) -> tuple[str, ...]:
    return tuple(plain(each, call_site.os) for each in call_site.running)


def _place(kind: Kind, paths: tuple[str, ...], call_site: CallSite) -> str:
    return _find_place(kind, paths, workspace(call_site), call_site.home, call_site.os)


@lru_cache(maxsize=4096)
def _find_place(kind: Kind, paths: tuple[str, ...], roots: tuple[str, ...], home: str, os: str) -> str:
    table = _table(kind, os)
    at_home = plain(home, os) if home else ""
    for path in paths:
        if found := table.find(_below_root(path, roots)):
            return found
        if at_home and within(path, (at_home,)) and (own := table.home.match(path, len(at_home))):
            place = f"{at_home}/{own[1]}"
            if not any(within(path, (root,)) and within(root, (place,)) for root in roots):
                return own[1]
    return ""


def _below_root(path: str, roots: tuple[str, ...]) -> str:
    """Return a path as seen from the workspace: where the person put the workspace says nothing about what is in it."""
    root = max((root for root in roots if within(path, (root,))), key=len, default="/")
    return path if root == "/" else path[len(root) :] or "/"


def critical(resolved: ResolvedPath, call_site: CallSite) -> str:
    """Return what a removal of this path would destroy; empty when it is nothing special."""
    homes = tuple(plain(each, call_site.os) for each in (call_site.home,) if each)
    kept = (*workspace(call_site), plain(call_site.cwd, call_site.os), *homes)
    for path in resolved.all:
        if path == "/":
            return "the whole file system"
        if path in homes:
            return "the home folder"
        if any(within(each, (path,)) for each in kept):
            return "the working folder or one that it lies in"
        parts = path.strip("/").split("/")
        if len(parts) == 1 or (len(parts) == 2 and parts[0] in _SYSTEM):
            return "a folder of the system"
        if call_site.os == "windows" and (_DRIVE_ROOT.fullmatch(path) or (len(parts) == 3 and parts[1] in _SYSTEM)):
            return "a drive or a folder of the system"
    return ""


def device(resolved: ResolvedPath) -> bool:
    """Return whether a write would go straight to a disk or to memory."""
    return any(_DEVICE.match(path) for path in resolved.all)


class _Table(Struct, frozen=True, eq=False):  # there is one for each list and system: told apart by identity, at once
    """The names of one list, ready to be compared. Capitals do not count on any system.

    A file system that does not tell them apart may be mounted anywhere, and what is protected here may be taken to another.
    """

    pattern: re.Pattern[str]
    excepted: re.Pattern[str]
    """Matches up to and with an excepted name; what follows is looked at for itself."""
    home: re.Pattern[str]
    """Matches what follows the home folder."""
    names: tuple[tuple[Tokens, ...], ...]
    """Each name as its segments."""
    last: frozenset[str]
    """The last segments of the names without a wildcard."""
    begins: tuple[str, ...]
    ends: tuple[str, ...]
    """How the last segments of the others begin or, where they begin with a wildcard, end."""

    def may_have(self, name: str) -> bool:
        """Return whether a name may be the last segment of one in the list: quick, and rather too often than too seldom."""
        name = name.lower()
        return name in self.last or name.endswith(self.ends) or name.startswith(self.begins)

    def find(self, path: str) -> str:
        """Return the part of a path that is in the list."""
        if not any(map(self.may_have, path.split("/"))):
            return ""
        past = self.excepted.match(path)
        hit = self.pattern.match(path[past.end() :] or "/" if past else path)
        return (hit[1] or hit[2]) if hit else ""

    def meets(self, glob: str) -> bool:
        """Return whether a shell pattern could be about something in the list."""
        return _may_match(self, glob.lower())


@lru_cache(maxsize=1024)
def _may_match(table: _Table, glob: str) -> bool:
    segments = [shell_tokens(part) for part in glob.strip("/").split("/") if part != "**"]
    return any(
        all(meets(mine, theirs) for mine, theirs in zip(name, segments[at:], strict=False))
        for name in table.names
        for at in range(len(segments) - len(name) + 1)
    )


@cache
def _table(kind: Kind, os: str) -> _Table:
    lists = read_places(kind)
    listed = [_spell(name, os) for group in lists.places for name in group.names]
    fixed = [_spell(name.lstrip("/"), os) for group in lists.places for name in group.absolute]
    own = [_spell(name, os) for group in lists.places for name in group.home]
    spared = [_spell(name, os) for name in lists.templates.names]
    flags = re.DOTALL | re.IGNORECASE
    last = [name.rpartition("/")[2] for name in (*listed, *fixed)]
    return _Table(
        re.compile(rf"(?:.*?/({_any(listed)})|/({_any(fixed)}))(?=/|$)", flags),
        re.compile(rf".*/(?:{_any(spared)})(?=/|$)", flags),
        re.compile(rf"/({_any(own)})(?=/|$)", flags),
        tuple(tuple(name_tokens(part) for part in name.split("/")) for name in (*listed, *fixed)),
        frozenset(name for name in last if "*" not in name),
        tuple(name.partition("*")[0] for name in last if "*" in name[1:] and name[0] != "*"),
        tuple(name.rpartition("*")[2] for name in last if name[0] == "*"),
    )


def _spell(name: str, os: str) -> str:
    return fold(name, os).lower()


@cache
def _patterns_of_content(os: str) -> tuple[tuple[Mixed, re.Pattern[str]], ...]:
    return tuple(
        (
            group.mixed,
            re.compile(rf".*/(?:{_any([fold(name, os) for name in group.names])})$", re.DOTALL | re.IGNORECASE),
        )
        for group in read_places("sensitive").places
        if group.mixed
    )


@cache
def _holders() -> tuple[tuple[str, str], ...]:
    names = [name for group in read_places("protected").places for name in group.names if "/" in name]
    return tuple((name.rpartition("/")[0].lower(), name) for name in names)


def _any(names: Sequence[str]) -> str:
    return "|".join(expression(name_tokens(name)) for name in names) or "(?!)"
