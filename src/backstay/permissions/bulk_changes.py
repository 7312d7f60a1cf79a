"""Commands that read, move or remove everything below a folder, and what such a removal would take."""

import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from backstay.permissions.call_site import Access, CallSite, Command, Script
from backstay.permissions.judgement import JudgeContext
from backstay.permissions.path_rules import shell_tokens
from backstay.permissions.paths import ResolvedPath, locate, plain, within, workspace
from backstay.permissions.sensitive_paths import critical
from backstay.permissions.wildcards import meets

_MOVERS_OF_FILES: Final = frozenset(("mv", "install"))
_PLACERS: Final = frozenset(("ln", "rsync", "unzip", "bsdtar", "tar", "cpio", "7z", "scp"))
_LINKERS: Final = frozenset(("ln", "link"))
_KEEPING: Final = frozenset("rRadPsH")
_KEEPING_WORDS: Final = ("--recursive", "--archive", "--no-dereference", "--preserve", "--symbolic-link")
_UNPACKED_HERE: Final = frozenset(("unzip", "cpio", "7z"))
_AGAIN: Final = re.compile(r"\b(?:for|while|until|select|function)\b|\(\s*\)|[^&>|]&(?![&>])")
"""Words after which a command that stands first may run last."""


Arguments = tuple[str | None, ...]
_NEVER: Final = (-1, -1, "")


def programs_of(command: Command | None) -> list[tuple[str, Arguments]]:
    """Return the programs that may do the work, with their arguments: behind `sudo` or `env`, each word may be the one."""
    layers = command.layers if command is not None else ()
    return [((layer.words[0] or "").rpartition("/")[2], layer.words[1:]) for layer in layers if layer.words]


def carries(name: str, rest: Arguments) -> bool:
    """Return whether a program puts whole folders or links somewhere."""
    if name == "cp":
        return any(word is None or _keeps(word) for word in rest)
    if name in ("tar", "bsdtar"):
        return not rest or any(
            word is None or word.startswith("--") or "x" in word for word in (rest[0], *rest) if _is_mode(word, rest)
        )
    return name in _MOVERS_OF_FILES or name in _PLACERS


class Moves:
    """The places that a script fills, as its commands come."""

    def __init__(self, script: Script, text: str, call_site: CallSite) -> None:
        self._call_site = call_site
        self._filled_by = dict[str, tuple[int, int, str]]()
        """Paths that are filled: by which command first, by which last, and the path as people know it."""
        self._again = _AGAIN.search(text) is not None
        self.links = any(name in _LINKERS for command in script.commands for name, _ in programs_of(command))
        """Whether a command of it makes links."""
        for number, command in enumerate(script.commands):
            for place in self._find_filled_paths(command):
                for path in place.both:
                    first, _, name = self._filled_by.get(path, (number, number, place.lexical))
                    self._filled_by[path] = first, number, name
        self._first, self._last, _ = _NEVER
        if self._filled_by:
            self._first = min(first for first, _, _ in self._filled_by.values())
            self._last = max(last for _, last, _ in self._filled_by.values())

    def find_filled_path(self, access: Access, number: int) -> str:
        """Return the place that the command with this number opens after another has filled it; empty when there is none."""
        if not access.known or not self._counts((self._first, self._last), number):
            return ""
        if self._by_link(access):
            return literal_folder(access.path) if access.glob else access.path
        near = self._filled_by if access.glob or ".." in access.path.split("/") else self._above(access)
        for path in near:
            first, last, name = self._filled_by.get(path, _NEVER)
            if self._counts((first, last), number) and self._is_in(access, path):
                return name
        return ""

    def _counts(self, filled: tuple[int, int], number: int) -> bool:
        """Return whether another command fills a place before the one with this number runs, or may run again; first and last are given."""
        first, last = filled
        return 0 <= first < number or (self._again and last not in (number, -1))

    def _above(self, access: Access) -> list[str]:
        """Return the path of an access and of each folder above it, which are all that it may lie in."""
        parts = plain(access.path, self._call_site.os).split("/")
        return ["", "/", *("/".join(parts[:end]) for end in range(2, len(parts) + 1))]

    def _find_filled_paths(self, command: Command) -> list[ResolvedPath]:
        names = {name for name, rest in programs_of(command) if carries(name, rest)}
        if not names:
            return []
        writes = [each for each in command.accesses if each.kind == "write" and not each.redirect and each.known]
        if names & _UNPACKED_HERE:
            writes = [
                Access(kind="write", path=self._call_site.cwd),
                *(each for each in command.accesses if each.known),
            ]
        places = {each.path: locate(each.path, self._call_site) for each in writes}
        sure = {path for path in places if path.endswith("/")} if names <= _MOVERS_OF_FILES else set()
        # with a slash at its end it is a folder that is there already: what goes into it has a place of its own in the list
        return [
            resolved
            for path, resolved in places.items()
            if not (path in sure and self._has_below(resolved, places.values()))
        ]

    @staticmethod
    def _has_below(resolved: ResolvedPath, others: Iterable[ResolvedPath]) -> bool:
        return any(each.lexical.startswith(resolved.lexical + "/") for each in others)

    def _by_link(self, access: Access) -> bool:
        """Return whether a link lies on the way: what it leads to may be another thing once something was moved."""
        start = f"{literal_folder(access.path)}/_" if access.glob else access.path
        resolved = locate(start, self._call_site)
        here = plain(self._call_site.cwd, self._call_site.os)
        led = (
            f"{workspace(self._call_site)[0]}{resolved.lexical[len(here) :]}"
            if within(resolved.lexical, (here,))
            else ""
        )
        return resolved.real not in (resolved.lexical, led)

    def _is_in(self, access: Access, place: str) -> bool:
        itself = access.kind != "list"
        path = plain(access.path, self._call_site.os)
        if ".." in access.path.split("/") and f"{place}/" in access.path:
            return True
        if not access.glob:
            return (itself and path == place) or path.startswith(place.rstrip("/") + "/")
        depth = place.rstrip("/").count("/") + 1
        parts = path.split("/")
        if len(parts) < depth or (len(parts) == depth and not itself):
            return False
        return meets(shell_tokens("/".join(parts[:depth])), tuple(place.rstrip("/")))


def _keeps(word: str) -> bool:
    if word.startswith("--"):
        return len(word) > 2 and any(each.startswith(word.partition("=")[0]) for each in _KEEPING_WORDS)
    return word.startswith("-") and bool(_KEEPING & set(word))


def _is_mode(word: str | None, rest: tuple[str | None, ...]) -> bool:
    """Return whether a word of `tar` may say what it does: options, and the first word in the old style."""
    if word is None:
        return True
    if word.startswith("--"):
        return len(word) > 3 and any(each.startswith(word) for each in ("--extract", "--get"))
    return word.startswith("-") or word == rest[0]


_BY_NATURE: Final = frozenset(
    (
        "rg",
        "ag",
        "ack",
        "ugrep",
        "ug",
        "rgrep",
        "tar",
        "bsdtar",
        "rsync",
        "7z",
        "zip",
        "pax",
        "shar",
        "diff",
        "colordiff",
        "sdiff",
    )
)
"""Those that go through a folder when they are given one. On a single file nothing is below it, which is seen by looking."""
_GREPS: Final = frozenset(f"{kind}grep" for kind in ("", "e", "f", "z", "ze", "zf", "bz", "xz", "lz", "zstd"))
_PACKERS: Final = frozenset(("zcat", "gzcat", "gzip", "gunzip", "zstd", "zstdcat", "unzstd", "scp"))
_MOVERS: Final = frozenset(("mv", "find", "rsync"))
"""Those that take away a folder with everything in it."""
_GREP_VALUES: Final = "efmABCdDX"
_GREP_WORDS: Final = ("--recursive", "--dereference-recursive", "--directories")


def is_deep(access: Access, command: Command | None) -> bool:
    """Return whether a command reads everything below a folder too."""
    if command is None or access.kind != "read" or access.redirect or not command.layers:
        return False
    return access.deep or any(goes_below(*each) for each in programs_of(command))


@lru_cache(maxsize=256)
def goes_below(name: str, rest: Arguments) -> bool:
    """Return whether a program reads everything below a folder that it is given."""
    if name in _BY_NATURE or (name == "cp" and carries(name, rest)):
        return True
    if name == "mv":
        return True  # what is denied by its place could be read at the new one
    if name == "git":
        return git_searches(rest)
    if name in _GREPS:
        return any(_grep_descends(*each) for each in _options(rest, _GREP_VALUES))
    return name in _PACKERS and _is_recursive(rest)


def takes_all(access: Access, command: Command | None) -> bool:
    """Return whether a command takes away or replaces everything below a folder too."""
    if command is None:
        return False
    if access.rewrites == "tree":
        return True
    return access.kind == "remove" and any(
        name in _MOVERS or (name == "rm" and _is_recursive(rest)) for name, rest in programs_of(command)
    )


@lru_cache(maxsize=256)
def _is_recursive(rest: Arguments) -> bool:
    return any(option in (None, "-r", "-R") or _begins(option, ("--recursive",)) for option, _ in _options(rest, ""))


def git_searches(rest: Arguments) -> bool:
    """Return whether `git` with these arguments goes through the files of a folder."""
    return "grep" in rest or any(word is not None and _begins(word, ("--no-index",)) for word in rest)


def _options(rest: Arguments, valued: str) -> Iterator[tuple[str | None, str]]:
    """Yield each option with what may be its value, clusters taken apart; None for a word that may be one."""
    for at, word in enumerate(rest):
        after = (rest[at + 1] if at + 1 < len(rest) else "") or ""
        if word is None:
            yield None, ""
        elif word == "--":
            return
        elif word.startswith("--"):
            name, equals, value = word.partition("=")
            yield name, value if equals else after
        elif word.startswith("-"):
            for place, letter in enumerate(word[1:], start=2):
                yield f"-{letter}", word[place:] or after
                if letter in valued:
                    break


def _grep_descends(option: str | None, value: str) -> bool:
    if option is None or option in ("-r", "-R"):
        return True
    if option == "-d" or _begins(option, ("--directories",)):
        return value.startswith("r")
    return _begins(option, _GREP_WORDS)


def _begins(word: str, names: tuple[str, ...]) -> bool:
    """Return whether a word is one of these options or the beginning of one."""
    return len(word) > 2 and any(name.startswith(word) for name in names)


_NAMED: Final = frozenset(
    f"-{test}" for test in ("name", "iname", "path", "ipath", "wholename", "iwholename", "regex", "iregex")
)
_AGES: Final = frozenset(("-mtime", "-atime", "-ctime", "-mmin", "-amin", "-cmin"))
_OLDER: Final = re.compile(r"\+[1-9]\d*")
_LARGER: Final = re.compile(r"\+[1-9]\d*[kMGTP]|0[a-zA-Z]?")
_FOLDERS: Final = frozenset(
    (".git", ".github", ".gitlab", ".vscode", ".idea", ".claude", ".backstay", ".husky", ".circleci", ".config")
)
"""Names with a dot that are folders."""
_NOT: Final = ("!", "-not")
_CLASS: Final = re.compile(r"\[[!^]?\]?(?:\[:\w+:\]|[^\]])*\]")
_WIDE_CLASS: Final = re.compile(r"\[[!^]|a-z|:(?:alnum|alpha|lower|graph|print):", re.IGNORECASE)


def literal_folder(glob: str) -> str:
    """Return the folder that a pattern starts at: what stands before its first wildcard."""
    parts = glob.split("/")
    wild = next((number for number, part in enumerate(parts) if set(part) & set("*?[{")), len(parts) - 1)
    return "/".join(parts[:wild])


def describe_loss(context: JudgeContext, glob: str) -> str:
    """Return what a removal of all that a pattern stands for would take: the contents of a dear folder, or folders of the root."""
    start = literal_folder(glob)
    resolved = context.locate(start or "/")
    if "/" in resolved.both:
        return "folders of the root"
    rest = glob[len(start) + 1 :].split("/")
    lost = critical(resolved, context.call_site) if all(map(_is_wide, rest)) else ""
    return f"all that is in {lost}" if lost else ""


def is_picked(command: Command | None, resolved: ResolvedPath, context: JudgeContext) -> bool:
    """Return whether `find` removes only what some test picks, in the working folder and not in one above it or of the system."""
    if command is None or not command.layers:
        return False
    words = [word or "" for word in command.layers[-1].words]
    own = resolved.lexical == plain(context.call_site.cwd, context.call_site.os)
    return own and "find" in words[0] and all(_picks(branch, resolved) for branch in _branches(words[1:]))


def may_pick(command: Command | None, path: str, rule: str) -> bool:
    """Return whether a removal that reaches a path may take it or what is below it: `find` takes only what its tests let through."""
    words = [word or "" for word in command.layers[-1].words] if command is not None and command.layers else [""]
    if not words[0].endswith("find") or "-delete" not in words:
        return True
    name = rule.rstrip("/").rpartition("/")[2]
    if "." not in name or name in _FOLDERS or "**" in name:
        return True  # it may be about a folder, and the tests about what is in it
    return any(_lets_through(branch, path) for branch in _branches(words[1 : words.index("-delete")]))


def _lets_through(tests: list[str], path: str) -> bool:
    """Return whether a file may pass tests that must all hold. A test that is not understood lets everything through."""
    if "-empty" in tests and "-type" in tests and "d" in tests:
        return False
    return all(
        before in _NOT
        or test not in ("-name", "-iname", "-path", "-wholename")
        or "\\" in pattern
        or "[" in pattern
        or fnmatchcase(
            (path if "name" not in test or "whole" in test else path.rpartition("/")[2]).lower(), _from_here(pattern)
        )
        for before, test, pattern in zip(["", *tests], tests, [*tests[1:], ""], strict=False)
    )


def _from_here(pattern: str) -> str:
    return f"*{pattern.lower().removeprefix('.')}" if pattern.startswith("./") else pattern.lower()


def _is_wide(part: str) -> bool:
    """Return whether a part of a pattern may stand for every name, or nearly."""
    seen = _CLASS.sub(lambda found: "*" if _WIDE_CLASS.search(found[0]) else "x", part)
    return set(seen) <= set("*.?")


def _branches(words: Sequence[str]) -> Iterator[list[str]]:
    branch: list[str] = []
    for word in words:
        if word in ("-o", "-or", ","):
            yield branch
            branch = []
        else:
            branch.append(word)
    yield branch


def _picks(words: list[str], resolved: ResolvedPath) -> bool:
    for at, word in enumerate(words):
        before, after = words[at - 1] if at else "", words[at + 1] if at + 1 < len(words) else ""
        if before in _NOT:
            if word == "(":
                return False
            continue
        if word in _NAMED and _has_literal(after.replace(resolved.lexical, ""), regex="regex" in word):
            return True
        if (word in _AGES and _OLDER.fullmatch(after)) or (word == "-size" and _LARGER.fullmatch(after)):
            return True
        if word == "-empty" or word.startswith("-newer"):
            return True
    return False


def _has_literal(pattern: str, *, regex: bool) -> bool:
    """Return whether a pattern asks for at least one letter or digit."""
    text = _CLASS.sub("", pattern)
    if regex:
        text = re.sub(r"\\\w|.[*?]|\{[^}]*\}", "", text)
    return any(char.isalnum() for char in text)
