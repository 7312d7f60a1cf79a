"""Find what a repository's own git configuration would run: keys that name programs, or lead to a file that does.

In the sections where git knows such keys, only those that are known to be harmless are passed over.
"""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from backstay.config.json_document import LARGEST
from backstay.sandbox.git_files import git_keys, submodule_paths
from backstay.system.files import is_missing, read_regular

_PLAIN_WORDS: Final = frozenset(("", "true", "false", "yes", "no", "on", "off", "0", "1"))


def program_keys(content: str) -> tuple[tuple[str, str], ...]:
    """Return the keys of a git configuration that may run a program, with their values, in order. Raise `Unclear`."""
    return tuple((key, value) for key, value in git_keys(content) if not is_harmless(key, value))


def is_harmless(key: str, value: str) -> bool:
    """Return whether a key of git's configuration, as git prints it, runs nothing with this value."""
    section, _, rest = key.partition(".")
    sub, _, name = rest.rpartition(".")
    if _CHECKS.search(value) and (section in ("format", "pretty") or name == "sort"):
        return False
    if section not in _HARMLESS:
        return True
    if sub.startswith("-"):  # git may pass the name of a remote on as an option
        return False
    if name in _HARMLESS[section]:
        return not (section == "remote" and name.endswith("url") and _runs_helper(value))
    known = _BY_VALUE.get((section, name)) or _BY_VALUE.get((section, "*"))
    if section == "url":
        return not _runs_helper(sub)
    if known is None:
        return False
    return value.lower() in known


def _runs_helper(address: str) -> bool:
    """Return whether git would start a program for an address: `ext::sh -c ...`, or an option in place of an address."""
    return "::" in address.split("/", 1)[0] or address.startswith("-")


_CHECKS: Final = re.compile(r"%[-+ ]?G|signature")
"""A format or an order for which git has signatures checked by a program, which may connect."""
_HARMLESS: Final = {
    "core": frozenset(
        (
            *("repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "precomposeunicode"),
            *("symlinks", "autocrlf", "eol", "safecrlf", "quotepath", "abbrev", "untrackedcache", "preloadindex"),
            *("compression", "loosecompression", "bigfilethreshold", "sparsecheckout", "sparsecheckoutcone"),
            *("longpaths", "protectntfs", "protecthfs", "commentchar", "commentstring", "whitespace", "fscache"),
            *("sharedrepository", "deltabasecachelimit", "packedgitlimit", "packedgitwindowsize"),
            *("multipackindex", "commitgraph", "splitindex", "trustctime", "checkstat", "createobject", "notesref"),
            *("hidedotfiles", "usereplacerefs", "warnambiguousrefs", "fsync", "fsyncmethod", "maxtreedepth"),
        )
    ),
    "remote": frozenset(
        (
            *("url", "pushurl", "fetch", "push", "tagopt", "prune", "prunetags", "mirror", "skipdefaultupdate"),
            *("skipfetchall", "pushdefault", "followremotehead", "gh-resolved"),
        )
    ),
    "submodule": frozenset(
        (
            *("url", "active", "branch", "recurse", "fetchjobs", "shallow", "fetchrecursesubmodules"),
            *("propagatebranches", "alternateerrorstrategy", "alternatelocation", "path"),
        )
    ),
    "diff": frozenset(
        (
            *("renames", "renamelimit", "algorithm", "colormoved", "colormovedws", "mnemonicprefix", "noprefix"),
            *("context", "interhunkcontext", "ignoresubmodules", "statgraphwidth", "statnamewidth"),
            *("wserrorhighlight", "indentheuristic", "suppressblankempty", "wordregex", "dirstat"),
            *("autorefreshindex", "tool", "guitool", "relative", "trustexitcode", "xfuncname", "funcname", "binary"),
            *("cachetextconv", "srcprefix", "dstprefix"),
        )
    ),
    "merge": frozenset(
        (
            *("ff", "conflictstyle", "renames", "renamelimit", "directoryrenames", "renormalize", "stat", "tool"),
            *("guitool", "autostash", "log", "branchdesc", "suppressdest", "verbosity", "verifysignatures", "name"),
            *("recursive", "defaulttoupstream", "autoedit"),
        )
    ),
    "filter": frozenset(("required",)),
    "blame": frozenset(
        ("blankboundary", "coloring", "date", "markignoredlines", "markunblamablelines", "showemail", "showroot")
    ),
    "extensions": frozenset(
        (
            "compatobjectformat",
            "noop",
            "objectformat",
            "preciousobjects",
            "relativeworktrees",
            "worktreeconfig",
        )
    ),
    "credential": frozenset(("username", "usehttppath", "interactive", "sanitizeprompt", "protectprotocol")),
    "gpg": frozenset(("format", "mintrustlevel")),
    "difftool": frozenset(("prompt", "trustexitcode", "guidefault")),
    "mergetool": frozenset(("prompt", "keepbackup", "trustexitcode", "keeptemporaries", "writetotemp", "hideresolved")),
    "uploadpack": frozenset(
        ("allowfilter", "allowanysha1inwant", "allowtipsha1inwant", "allowreachablesha1inwant", "hiderefs")
    ),
    "lfs": frozenset(
        (
            *("repositoryformatversion", "url", "pushurl", "access", "locksverify", "concurrenttransfers", "batch"),
            *("fetchexclude", "fetchinclude", "setlockablereadonly", "basictransfersonly", "activitytimeout"),
        )
    ),
    "trailer": frozenset(("separators", "ifexists", "ifmissing", "where", "key")),
    "protocol": frozenset(("version",)),
    "interactive": frozenset(("singlekey",)),
    "log": frozenset(
        (
            *("abbrevcommit", "date", "decorate", "diffmerges", "excludedecoration", "follow", "graphcolors"),
            *("initialdecorationset", "mailmap", "showroot"),
        )
    ),
    "status": frozenset(
        (
            *("relativepaths", "short", "branch", "aheadbehind", "displaycommentprefix", "renamelimit", "renames"),
            *("showstash", "showuntrackedfiles"),
        )
    ),
    "tar": frozenset(("umask",)),
    **dict.fromkeys(("alias", "browser", "guitool", "hook", "include", "includeif", "instaweb", "man"), frozenset()),
    **dict.fromkeys(("mailmap", "pager", "promisor", "sequence", "ssh", "url", "web"), frozenset()),
}
"""Sections in which git knows keys that run something, connect while git reads, or name a file that it shows; and the keys that do not."""

_BY_VALUE: Final = {
    ("core", "fsmonitor"): _PLAIN_WORDS,
    ("core", "hookspath"): frozenset(("/dev/null",)),
    ("core", "pager"): frozenset(("cat", "")),
    ("pager", "*"): _PLAIN_WORDS,
    ("diff", "submodule"): frozenset(("short", "log")),
    ("log", "showsignature"): frozenset(("", "false", "no", "off", "0")),
    ("status", "submodulesummary"): frozenset(("", "false", "no", "off", "0")),
    ("submodule", "ignore"): frozenset(("all", "dirty")),
    ("submodule", "update"): frozenset(("checkout", "rebase", "merge", "none")),
    ("protocol", "allow"): frozenset(("never",)),
    ("extensions", "refstorage"): frozenset(("files", "reftable")),
    ("filter", "clean"): frozenset(("git-lfs clean -- %f",)),
    ("filter", "smudge"): frozenset(("git-lfs smudge -- %f",)),
    ("filter", "process"): frozenset(("git-lfs filter-process",)),
    ("credential", "helper"): frozenset(("", "cache", "store", "osxkeychain", "manager", "manager-core", "libsecret")),
}
"""Keys that are harmless with these values alone, in small letters."""

_OF_GIT: Final = ("HEAD", "config", "config.worktree")
_PARTS: Final = ("HEAD", "commondir", "config", "config.worktree", "hooks", "objects", "refs")
_WITHOUT_MODULES: Final = frozenset(("objects", "refs", "logs", "hooks", "info", "lfs", "branches", "rr-cache"))
"""Folders of a git folder in which no submodule is kept."""


class TooMany(Exception):
    """There are more folders than may be looked at."""


class Submodules(Struct, frozen=True):
    """The submodules found in a project."""

    folders: tuple[Path, ...]
    """Their git folders, each once."""
    unread: tuple[tuple[Path, str], ...]
    """The indexes that cannot be read, and why: they may name more."""


def own_folders(root: Path, cwd: Path) -> Iterator[Path]:
    """Yield where git may find its configuration: the project's own folder, and a bare repository around the working folder.

    What git takes is for git to say (`find_repository`). These are looked at also where it takes none of them now.
    """
    yield from _git_of(root)
    for folder in (cwd, *cwd.parents):
        if _has_head(folder):
            yield from _with_common(folder)
        if folder == root:
            return


def git_parts(cwd: Path) -> Iterator[Path]:
    """Yield what would make a bare repository of the working folder or one above it: all parts where there is a HEAD, else that.

    The HEAD of the working folder itself is protected by its name.
    """
    for folder in (cwd, *cwd.parents):
        if _has_head(folder):
            yield from (folder / name for name in _PARTS)
        elif folder != cwd:
            yield folder / "HEAD"


def _has_head(folder: Path) -> bool:
    """Return whether a HEAD lies in a folder that git may be content with: a file, or a link that leads anywhere."""
    head = folder / "HEAD"
    return head.is_symlink() or (os.path.lexists(head) and not head.is_dir())


def submodules(own: Iterable[tuple[Path, Path]], most: int) -> Submodules:
    """Find the git folders of submodules and of those in them: what lies in `modules` of `own` folders, and what their indexes name.

    `own` are git folders with their work trees. Raise `TooMany` when more than `most` folders must be looked at, `OSError` when one
    cannot be.
    """
    own = tuple(own)
    found = {
        os.path.realpath(folder): folder for git, _ in own for folder in _find_module_folders(git / "modules", most)
    }
    unread = list[tuple[Path, str]]()
    waiting, known = list(own), set[tuple[str, str]]()
    while waiting:
        git, tree = waiting.pop()
        if (real := (os.path.realpath(git), os.path.realpath(tree))) in known:
            continue
        known.add(real)
        _check(len(known), most)
        try:
            names = submodule_paths(git)
        except (OSError, ValueError) as exc:
            unread.append((git / "index", getattr(exc, "strerror", None) or str(exc)))
            continue
        _check(len(names), most)
        inner = [(folder, tree / name) for name in names for folder in _git_of(tree / name)]
        found |= {os.path.realpath(folder): folder for folder, _ in inner}
        waiting += inner
    for folder, _ in own:
        found.pop(os.path.realpath(folder), None)
    return Submodules(tuple(found.values()), tuple(unread))


def _find_module_folders(modules: Path, most: int) -> Iterator[Path]:
    """Yield the git folders below `modules`, where git keeps those of submodules."""
    waiting, known = [modules], set[str]()
    while waiting:
        folder = waiting.pop()
        if not folder.is_dir() or (real := os.path.realpath(folder)) in known:
            continue
        known.add(real)
        _check(len(known) + len(waiting), most)
        with os.scandir(folder) as listing:
            entries = list(listing)
        is_git = any(entry.name in _OF_GIT for entry in entries)
        if is_git:
            yield folder
        waiting += (
            Path(entry.path) for entry in entries if entry.is_dir() and not (is_git and entry.name in _WITHOUT_MODULES)
        )


def _check(count: int, most: int) -> None:
    if count > most:
        raise TooMany("there are too many folders of git to look at")


def _git_of(tree: Path) -> Iterator[Path]:
    """Yield the git folders of a work tree. That of a worktree or a submodule is named by a file."""
    own = tree / ".git"
    if own.is_dir():
        yield from _with_common(own)
    elif not is_missing(own):
        yield from (each for folder in read_name(own, "gitdir: ") for each in _with_common(folder))


def _with_common(folder: Path) -> Iterator[Path]:
    """Yield a git folder, and the one that it shares its configuration with."""
    yield folder
    yield from read_name(folder / "commondir")


def read_name(file: Path, prefix: str = "") -> Iterator[Path]:
    """Yield the folder that a file names, as git reads it: only the ends of lines do not belong to the name."""
    with contextlib.suppress(OSError):
        content, _ = read_regular(file, LARGEST)
        yield file.parent / os.fsdecode(content.partition(b"\0")[0]).removeprefix(prefix).rstrip("\r\n")
