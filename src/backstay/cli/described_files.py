"""A file system that is only described: what a line of cases says about links and names."""

import re
from collections.abc import Iterable, Iterator, Mapping

from backstay.logic.permissions.path_rules import about
from backstay.logic.permissions.paths import System, plain
from backstay.logic.permissions.places import sensitive_name
from backstay.logic.permissions.searches import NOT_TOLD, Lookup, lookup_of
from backstay.workspaces.looking import MAGIC


class DescribedFiles:
    """A file system that is only described."""

    def __init__(self, files: Mapping[str, object], cwd: str, home: str, system: System) -> None:
        self._links: dict[str, str] = {}
        self._paths: set[str] = set()
        self._system = system
        for name, content in files.items():
            path = _absolute(name, cwd, home)
            if isinstance(content, str) and content.startswith("symlink:"):
                target = content.removeprefix("symlink:")
                self._links[path] = target.replace("~", home, 1) if target.startswith("~/") else target
            parts = path.split("/")
            self._paths.update("/".join(parts[:end]) for end in range(2, len(parts) + 1))

    def follow(self, path: str) -> str:
        """Where a path leads with every link followed; empty when links run in a circle."""
        done: list[str] = []
        todo = [part for part in path.split("/") if part]
        for _ in range(2000):
            if not todo:
                return "/" + "/".join(done)
            part = todo.pop(0)
            if part == "..":
                done = done[:-1]
            elif part != ".":
                here = "/" + "/".join((*done, part))
                target = self._links.get(here)
                if target is None:
                    done.append(part)
                else:
                    done = [] if target.startswith("/") else done
                    todo = [each for each in target.split("/") if each] + todo
        return ""

    def links(self, paths: Iterable[str]) -> dict[str, str]:
        """Where paths lead."""
        return {path: self.follow(path) for path in paths if path}

    def match(self, glob: str) -> tuple[str, ...]:
        """The paths that a pattern matches, links followed; what `git` has tracked is every file."""
        if (lookup := lookup_of(glob)) is not None:
            if lookup.which in ("handed", "revision"):
                return ()
            folders = self.match(lookup.folder) if lookup.each else (lookup.folder,)
            return tuple(path for folder in folders for path in self._below(folder, lookup))
        parts = glob.split("/")
        deep = parts.index("**") if "**" in parts else len(parts)
        text = "/".join(_segment(part, hidden=at > deep) for at, part in enumerate(parts))
        pattern = re.compile(text.replace("(?:.*/)?/", "(?:.*/)?"), re.DOTALL)
        return tuple(sorted({self.follow(path) for path in self._paths if pattern.fullmatch(path)}))

    def _below(self, folder: str, lookup: Lookup) -> Iterator[str]:
        """What is described below a folder, there or where it leads, that a lookup is about."""
        if lookup.which == "elsewhere" or (lookup.which == "named" and folder not in self._paths):
            yield from NOT_TOLD
            return
        pattern = about(lookup.patterns, self._system) if lookup.patterns else None
        for start in dict.fromkeys(
            "/" if lookup.which == "repository" else each for each in (folder, self.follow(folder))
        ):
            inner = start.rstrip("/") + "/"
            if pattern is not None and lookup.past and pattern.may_reach_below(start):
                yield start
            for path in sorted(self._paths):
                if path.startswith(inner) and (lookup.which != "shown" or "/." not in path[len(inner) - 1 :]):
                    kept = pattern.covers(plain(path, self._system)) if pattern else sensitive_name(path, self._system)
                    if kept:
                        yield path


def _absolute(name: str, cwd: str, home: str) -> str:
    if name.startswith("~/"):
        return home + name[1:]
    path = name if name.startswith("/") else f"{cwd}/{name}"
    return re.sub(r"/(\./)*/*", "/", path).rstrip("/")


def _segment(part: str, *, hidden: bool) -> str:
    if part == "**":
        return "(?:.*/)?"
    out = "" if hidden or part.startswith((".", "[")) else r"(?!\.)"
    at = 0
    while at < len(part):
        bracket = MAGIC.match(part, at) if part[at] == "[" else None
        if bracket is not None:
            out += "[^/]"  # rather too much than too little, as where the files are real
            at = bracket.end() - 1
        else:
            out += {"*": "[^/]*", "?": "[^/]"}.get(part[at], re.escape(part[at]))
        at += 1
    return out
