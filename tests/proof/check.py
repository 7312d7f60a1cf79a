"""Compares what a command did with what the verdict named."""

import fnmatch
import os
import posixpath
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.proof.trace import Event

SHELLS: Final = ("bash", "dash")
_XARGS_VALUED: Final = ("-n", "-L", "-P", "-I", "-d", "-s", "-a", "-E")
_CHANGES: Final = ("write", "remove")
_KEEPS: Final = re.compile(r"\bgit\b.*\b(?:add|stash|commit|rm|clean)\b", re.DOTALL)
"""What git takes into its own store, and shows to nobody by that."""
_SOURCES: Final = frozenset((".", "source"))
"""By these the shell itself runs a file of the workspace, in which anything may stand."""


class Said(msgspec.Struct, frozen=True):
    """What the judge said of a command."""

    decision: str
    detail: str = ""
    does: tuple[str, ...] = ()
    sure: tuple[bool, ...] = ()
    """Of each command whether it is proved. The trees before had no such word, and believed what they called reading and editing."""
    commands: tuple[tuple[tuple[str | None, ...], ...], ...] = ()
    """Of each command its layers, of each layer its words."""
    touches: tuple[tuple[str, str, bool, bool], ...] = ()
    """Of each file: kind, path, whether it has wildcards, whether all below it is meant."""

    @property
    def proved(self) -> bool:
        """Whether every command is."""
        return all(self.sure)

    @property
    def programs(self) -> frozenset[str]:
        """The first words of all layers, and what `xargs` runs."""
        first = [words[0] for layers in self.commands for words in layers if words]
        return frozenset(filter(None, [*first, *(_run_by(words) for layers in self.commands for words in layers)]))

    @property
    def loose(self) -> frozenset[str]:
        """Programs that a rule allows and no table knows: what they do with files is their own."""
        pairs = zip(self.sure, self.commands, strict=True)
        return frozenset(
            posixpath.basename(words[0]) for sure, layers in pairs if not sure for words in layers if words and words[0]
        )


def _run_by(words: Sequence[str | None]) -> str | None:
    """Give the program that `xargs` runs."""
    if not words or posixpath.basename(words[0] or "") != "xargs":
        return None
    rest = iter(words[1:])
    for word in rest:
        if word in _XARGS_VALUED:
            next(rest, None)
        elif not (word or "-").startswith("-"):
            return word
    return "echo"


class Allowance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a program does besides."""

    runs: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    home: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    reads_system: tuple[str, ...] = ()
    writes_system: tuple[str, ...] = ()
    connections: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    tracked: bool = False
    parents: bool = False
    opens: bool = False
    """Whether it opens the files that it only looks at."""
    beside: str = ""


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """Where a command ran, and by which leave."""

    root: str
    tracked: frozenset[str]
    text: str
    bare: bool = False
    """Whether a rule without a pattern allows commands as such: then what runs must be seen, and nothing denied or secret is touched."""
    denied: tuple[str, ...] = ()
    """Files below the root that a rule denies, by patterns."""
    secrets: tuple[str, ...] = ()
    """Files below the root that hold secrets, by patterns."""

    @property
    def work(self) -> str:
        """The workspace."""
        return f"{self.root}/work"


def violations(said: Said, events: Sequence[Event], ground: Ground) -> list[str]:
    """Say what was done and not named."""
    return found_by(Check(said, ground), events)


def found_by(check: "Check", events: Sequence[Event]) -> list[str]:
    """Say what was done and not named, by a check that was made before the command ran, when links led where they led."""
    drivers = events[0].parents if events else ()
    found = dict[str, None]()
    for event in events:
        if event.kind == "born":
            check.born(event)
        elif event.process not in drivers and (wrong := check.look(event)):
            found[wrong] = None
    return list(found)


class Check:
    """What may be done, by what the judge named."""

    def __init__(self, said: Said, ground: Ground) -> None:
        self.said, self.ground = said, ground
        self.named = [_Named(*touch) for touch in said.touches]
        self.running = dict[int, str]()
        self.ran = dict[int, frozenset[str]]()
        """All that a process and those it comes from have run."""
        self.loose = said.loose
        self.weak = ground.bare and not said.proved

    def born(self, event: Event) -> None:
        """Note the program of a new process: its parent may become another before the child does."""
        if event.process not in self.running and self.running:
            self.running[event.process] = next(
                (self.running[each] for each in event.parents if each in self.running), ""
            )

    def look(self, event: Event) -> str:
        programs = [self.running[process] for process in (event.process, *event.parents) if process in self.running]
        program = programs[0] if programs else ""
        own = self.weak and not self.loose.isdisjoint({*self._ran_before(event), *(_SOURCES & self.loose)})
        match event.kind:
            case "exec":
                return self._executed(event, program, own=own)
            case "connect":
                free = any(
                    f'"{socket}' in event.path
                    for socket in (*_table()["connections"], *_allowance(program).connections)
                )
                return "" if free or own else f"connects: {event.path}"
            case "other":
                free = event.path.partition("(")[0] in _allowance(program or "bash").calls
                return "" if free or own else f"calls {event.path}"
            case "born":
                return ""
            case "write" | "remove":
                return (
                    ""
                    if self._may_write(event.path, program, removed=event.kind == "remove")
                    else f"changes {self._short(event.path)}"
                )
            case "read" | "folder":
                return "" if self._may_read(event.path, program, event.kind) else f"reads {self._short(event.path)}"

    def _ran_before(self, event: Event) -> frozenset[str]:
        return next((self.ran[each] for each in (event.process, *event.parents) if each in self.ran), frozenset())

    def _short(self, path: str) -> str:
        return path.replace(self.ground.root, "ROOT")

    def _executed(self, event: Event, before: str, *, own: bool) -> str:
        if not self.running:  # the first is the shell that the driver starts
            self.running[event.process] = ""
            return ""
        name = posixpath.basename(event.path)
        self.ran[event.process] = self._ran_before(event) | {name}
        self.running[event.process] = name
        if own or self._may_execute(event, name, before):
            return ""
        return f"executes {self._short(event.path)}{f' (from {before})' if before else ''}: {' '.join(event.arguments)[:200]!r}"

    def _may_execute(self, event: Event, name: str, before: str) -> bool:
        path = _normal(event.path, self.ground.work)
        inside = path.startswith(f"{self.ground.root}/")
        if not inside and any(fnmatch.fnmatchcase(name, each) for each in _allowance(before).runs):
            return True
        if before and before not in _table()["runners"] and not self.weak:
            return False
        for word in self.said.programs:
            if word == name and (not inside or path == f"{self.ground.root}/bin/{name}"):
                return True
            if "/" in word and _real(posixpath.join(self.ground.work, word)) == _real(path):
                return True
        return name == "cat" and event.arguments == ("cat",) and "$(cat <<'" in self.ground.text

    def _may_write(self, path: str, program: str, *, removed: bool) -> bool:
        path = _normal(path, self.ground.work)
        if path == f"{self.ground.root}/output":  # what the shell prints goes there: `touch -` changes its times
            return True
        if self.weak:  # a denial of reading does not keep a file from being removed
            return removed or not self._is_held(path)
        if path in _table()["devices"] or path.startswith(("/proc/self/fd/", f"{self.ground.root}/tmp/")):
            return True
        if any(named.kind in _CHANGES and named.covers(path, below=True) for named in self.named):
            return True
        allowance = _allowance(program)
        if any(_fits(path, f"{self.ground.work}/{each}") for each in allowance.writes):
            return True
        if any(re.fullmatch(each, path) for each in allowance.writes_system):
            return True
        if allowance.parents and any(
            named.kind == "write" and named.path.startswith(f"{path}/") for named in self.named
        ):
            return True
        folder, name = posixpath.split(path)
        if allowance.beside and re.fullmatch(allowance.beside, name):
            beside = [
                posixpath.dirname(each)
                for named in self.named
                if named.kind == "write"
                for each in (named.path, named.real)
            ]
            return folder in beside
        return program in self.loose and not self._is_held(path)

    def _may_read(self, path: str, program: str, kind: str) -> bool:
        path = _normal(path, self.ground.work)
        real = _real(path)
        if os.path.isdir(real):
            kind = "folder"
        if any(_fits(each, f"{self.ground.root}/{denied}") for each in (path, real) for denied in self.ground.denied):
            return kind == "folder" or (program == "git" and _KEEPS.search(self.ground.text) is not None)
        allowance = _allowance(program)
        if self.weak:  # df opens what it is asked about, and shows nothing of it
            return allowance.opens or not self._is_held(path)
        if any(re.fullmatch(each, path) for each in allowance.reads_system):
            return True
        shown = "folder" if allowance.opens else kind
        if any(
            named.covers(path, below=named.deep or kind == "folder")
            for named in self.named
            if _shows(named.kind, shown)
        ):
            return True
        if kind == "folder" and (path == self.ground.work or any(named.leads_through(path) for named in self.named)):
            return True
        if not path.startswith(f"{self.ground.root}/"):
            run_guarded = any(re.fullmatch(each, path) for each in _table()["guarded"])
            return (
                (path.startswith(tuple(_table()["system"])) and not run_guarded)
                or kind == "folder"
                or program in self.loose
            )
        if any(_fits(path, f"{self.ground.work}/{each}") for each in allowance.reads):
            return True
        if any(_fits(path, f"{self.ground.root}/home/{each}") for each in allowance.home):
            return True
        if allowance.tracked and (kind == "folder" or path.removeprefix(f"{self.ground.work}/") in self.ground.tracked):
            return True
        return program in self.loose and not self._is_held(path)

    def _is_held(self, path: str) -> bool:
        """Whether a file is denied, or a secret whose name stands in the text."""
        for each in dict.fromkeys((path, _real(path))):
            if any(_fits(each, f"{self.ground.root}/{denied}") for denied in self.ground.denied):
                return True
            if (
                any(_fits(each, f"{self.ground.root}/{secret}") for secret in self.ground.secrets)
                and posixpath.basename(path) in self.ground.text
            ):
                return True
        return False


def _shows(named: str, kind: str) -> bool:
    return named == "read" or (kind == "folder" and named in ("list", "remove", "write"))


class _Named:
    """A file that the verdict names."""

    def __init__(self, kind: str, path: str, glob: bool, deep: bool) -> None:
        self.kind, self.deep, self.glob = kind, deep, glob
        self.path = posixpath.normpath(path) if path else ""
        self.real = "" if glob else _real(self.path)
        self.patterns = _patterns_of(self.path) if glob else ()
        """For wildcards: as named, and below the folder that the part without wildcards leads to."""

    def covers(self, path: str, *, below: bool) -> bool:
        """Whether a path is this one, or below it."""
        if not self.path:
            return False
        for each in dict.fromkeys((path, _real(path))):
            for own in filter(None, (self.path, self.real)):
                if each == own or (below and each.startswith(f"{own.rstrip('/')}/")):
                    return True
            parts = [each, *(_ancestors(each) if below else ())] if self.patterns else []
            if any(pattern.fullmatch(part) for pattern in self.patterns for part in parts):
                return True
        return False

    def leads_through(self, folder: str) -> bool:
        """Whether a folder has to be looked into to find it."""
        return self.path.startswith(f"{folder.rstrip('/')}/") or (
            (self.glob and _literal(self.path).startswith(folder))
            or (self.glob and folder.startswith(_literal(self.path)))
        )


def _literal(pattern: str) -> str:
    return re.split(r"[*?\[]", pattern, maxsplit=1)[0].rpartition("/")[0] + "/"


def _patterns_of(path: str) -> tuple[re.Pattern[str], ...]:
    folder = _literal(path)
    led = f"{_real(folder).rstrip('/')}/{path[len(folder) :]}"
    return tuple(_translated(each) for each in dict.fromkeys((path, led)))


def _ancestors(path: str) -> Iterable[str]:
    while len(path) > 1:
        path = posixpath.dirname(path)
        yield path


@cache
def _translated(pattern: str) -> re.Pattern[str]:
    """Read a pattern of the shell; `**` is any depth."""
    parts = list[str]()
    pattern = re.sub(r"\[[!^]?(?:\[:[a-z]+:\]|[^\]/])*\]", _any_or_literal, pattern)
    every = pattern.split("/")
    for number, part in enumerate(every):
        if part == "**" and number + 1 < len(every):
            parts.append("(?:.*/)?")
            continue
        plain = fnmatch.translate(part).removeprefix("(?s:").removesuffix(r")\Z")
        hidden = (
            ""
            if part.startswith(".") or part[:1] not in ("*", "?", "[") or (parts and parts[-1] == "(?:.*/)?")
            else r"(?!\.)"
        )
        parts.append(hidden + plain.replace(".*", "[^/]*") + "/")
    return re.compile("".join(parts).removesuffix("/"), re.DOTALL)


def _any_or_literal(found: re.Match[str]) -> str:
    """Take a bracket with a class in it for any character: what the class means is the shell's own matter."""
    return "?" if "[:" in found[0] else found[0]


def _fits(path: str, pattern: str) -> bool:
    return _translated(pattern).fullmatch(path) is not None or (
        pattern.endswith("/**") and path.startswith(pattern.removesuffix("**"))
    )


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except OSError:  # the links of /proc/PID may not be looked at
        return path


def _normal(path: str, base: str) -> str:
    whole = posixpath.normpath(posixpath.join(base, path))
    return whole[1:] if whole.startswith("//") else whole  # Linux reads both alike


@cache
def _table() -> Mapping[str, Any]:  # Any: what the table holds becomes Allowance below
    return tomllib.loads(Path(__file__).with_name("allowances.toml").read_text(encoding="utf-8"))


@cache
def _allowance(program: str) -> Allowance:
    return msgspec.convert(_table()["programs"].get(program, {}), Allowance)
