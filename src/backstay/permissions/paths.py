"""Paths as they are written, as they read without detours, and as they lead with every link followed."""

import re
import unicodedata
from functools import lru_cache
from typing import Final, Literal, TypeAlias

import msgspec

from backstay.permissions.call_site import CallSite

System: TypeAlias = Literal["linux", "darwin", "windows"]

FREE: Final = frozenset(f"/dev/{name}" for name in ("null", "stdin", "stdout", "stderr", "tty"))
"""What may be opened for reading and writing by anybody."""
FREE_TO_READ: Final = FREE | frozenset(f"/dev/{name}" for name in ("zero", "random", "urandom"))

_DRIVE: Final = re.compile(r"/?([A-Za-z]):(?=/|$)")
_MOUNTED: Final = re.compile(r"/(?:mnt/|cygdrive/)?([a-z])(?=/|$)")
"""How the shells of Windows write a drive."""
_ALIASES: Final = re.compile(r"/proc/[^/]+/(?:task/[^/]+/)?(root|cwd)(?=/|$)")
_SPECIAL: Final = re.compile(
    r"/proc/[^/]+/(?:task/[^/]+/)?(root|cwd|fd|fdinfo|map_files|mem|environ|exe)(/|$)|/dev/fd(/|$)"
)
_HOME_VARIABLE: Final = re.compile(r"/\$(?:HOME|\{HOME\})(?=/|$)", re.IGNORECASE)
_SHORT_NAME: Final = re.compile(r"~\d")
_MAC_ALIASES: Final = ("/private/var", "/private/tmp", "/private/etc")
_MAC_DATA: Final = "/system/volumes/data"


class ResolvedPath(msgspec.Struct, frozen=True):
    """A path of a call, in all its spellings. What allows needs every one of `both`; what forbids any of `all`."""

    written: str
    """Absolute, not normalised."""
    lexical: str
    """Without `.`, `..` and doubled slashes, as the system compares names."""
    real: str
    """Where it leads, likewise."""
    all: tuple[str, ...]
    inside: bool
    """Whether it lies in the workspace, as written and as it leads."""
    odd: str = ""
    """Why it cannot be taken at its word."""

    @property
    def both(self) -> tuple[str, str]:
        """As written and as it leads."""
        return self.lexical, self.real


def locate(path: str, call_site: CallSite) -> ResolvedPath:
    """Find a path of a call: `path` is absolute and not normalised."""
    return _locate(path, call_site.links.get(path, path), call_site.cwd, call_site.home, call_site.roots, call_site.os)


@lru_cache(maxsize=4096)
def _locate(path: str, led: str, cwd: str, home: str, folders: tuple[str, ...], os: System) -> ResolvedPath:
    """Return a pure function of names, which come again and again: what links say is among the arguments."""
    call_site = CallSite(cwd=cwd, home=home, roots=folders, os=os)
    lexical = plain(path, os)
    real = plain(led, os) if led else ""
    spellings = dict.fromkeys((lexical, *((real,) if real else ())))
    for each in tuple(spellings):
        spellings.update(dict.fromkeys(_aliases(each, call_site)))
    roots = workspace(call_site)
    lexical_roots = (*roots, plain(cwd, os)) if folders else roots
    inside = within(lexical, lexical_roots) and bool(real) and within(real, roots)
    return ResolvedPath(path, lexical, real, tuple(spellings), inside, _oddity(path, spellings, real, call_site))


def workspace(call_site: CallSite) -> tuple[str, ...]:
    """Return the folders that a call may work in."""
    return _roots(call_site.roots or (call_site.cwd,), call_site.os)


@lru_cache(maxsize=256)
def _roots(roots: tuple[str, ...], os: str) -> tuple[str, ...]:
    return tuple(plain(root, os) for root in roots)


def absolute(path: str, call_site: CallSite) -> str:
    """Return a path argument of a tool as an absolute path, not normalised: the home for `~`, and the working folder, are filled in.

    Variables stay as they are: no file tool knows them.
    """
    text = path.replace("\\", "/") if call_site.os == "windows" else path
    if text == "~" or text.startswith("~/"):
        return call_site.home.rstrip("/") + text[1:]
    if text.startswith("~"):
        user, slash, rest = text[1:].partition("/")
        if user == call_site.home.rstrip("/").rpartition("/")[2]:
            return call_site.home.rstrip("/") + slash + rest
    if text.startswith("/") or (call_site.os == "windows" and _DRIVE.match(text)):
        return text
    return f"{call_site.cwd.rstrip('/')}/{text}"


def within(path: str, folders: tuple[str, ...]) -> bool:
    """Return whether a path is one of the folders or lies below one, component by component."""
    return any(folder in ("/", path) or path.startswith(folder + "/") for folder in folders)


@lru_cache(maxsize=8192)
def plain(path: str, os: str = "linux") -> str:
    """Return a path without `.`, `..` and doubled slashes, folded as the system folds names. Links are not followed."""
    if os == "windows":
        path = path.replace("\\", "/")
    parts: list[str] = []
    for part in path.split("/"):
        name = _windows_name(part) if os == "windows" else part
        if name == "..":
            if parts and not (os == "windows" and len(parts) == 1 and parts[0].endswith(":")):
                parts.pop()
        elif name not in ("", "."):
            parts.append(name)
    text = "/".join(parts)
    if not (os == "windows" and _DRIVE.match(text)):
        text = "/" + text
    return fold(text, os)


def fold(text: str, os: str) -> str:
    """Text as the system compares names: case and Unicode form do not count on macOS and Windows."""
    if os == "linux":
        return text
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
    return "".join(c for c in folded if unicodedata.category(c) != "Cf") if os == "darwin" else folded


def _windows_name(part: str) -> str:
    if part in (".", ".."):
        return part
    head, colon, _ = part.partition(":")
    if colon and len(head) == 1:
        return part
    return head.rstrip(". ") or (".." if part.startswith("..") else "")


def _aliases(path: str, call_site: CallSite) -> list[str]:
    """Other names of the same place, for what forbids."""
    found = []
    hit = _ALIASES.match(path)
    if hit:
        base = "" if hit[1] == "root" else call_site.cwd.rstrip("/")
        found.append(plain(base + path[hit.end() :] or "/", call_site.os))
    if (
        call_site.roots
        and within(path, (roots := workspace(call_site))[:1])
        and not within(here := plain(call_site.cwd, call_site.os), roots)
    ):
        found.append(here + path[len(roots[0]) :])  # the working folder is a link to the first root
    here = plain(call_site.cwd, call_site.os).rstrip("/")
    if path.startswith(here) and (hit := _HOME_VARIABLE.match(path, len(here))):
        found.append(plain(call_site.home + path[hit.end() :], call_site.os))  # what whoever wrote it meant
    if call_site.os == "windows" and (hit := _MOUNTED.match(path)):
        found.append(f"{hit[1]}:{path[hit.end() :]}")
    if call_site.os == "darwin":
        if path.startswith(_MAC_DATA + "/"):
            found.append(path[len(_MAC_DATA) :])
        if path.startswith(_MAC_ALIASES):
            found.append(path[len("/private") :])
    return found


def _oddity(path: str, spellings: dict[str, None], real: str, call_site: CallSite) -> str:
    if not real:
        return "nobody can say where it leads"
    if any(_SPECIAL.match(each) for each in spellings):
        return "it is another name for a file that the system hands out"
    if "/~" in path and path.rpartition("/~")[0] in (call_site.cwd.rstrip("/"), ""):
        return "it names somebody's home folder"
    if _HOME_VARIABLE.match(path.removeprefix(call_site.cwd.rstrip("/"))):
        return "it names a variable, and no tool fills that in"
    if call_site.os == "windows":
        text = path.replace("\\", "/")
        if text.startswith("//"):
            return "it is on another machine or a device"
        if _SHORT_NAME.search(text):
            return "it may be a short name of another file"
        if ":" in text[2:] or "%" in text:
            return "it names a stream or a variable"
    return ""
