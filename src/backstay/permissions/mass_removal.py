"""Removals that would take everything: by a pattern of the shell, or by a `find` that picks nothing."""

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final

from backstay.permissions.call_site import Command
from backstay.permissions.case import JudgeContext
from backstay.permissions.paths import ResolvedPath, plain
from backstay.permissions.sensitive_paths import critical

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
    """The folder that a pattern starts at: what stands before its first wildcard."""
    parts = glob.split("/")
    wild = next((number for number, part in enumerate(parts) if set(part) & set("*?[{")), len(parts) - 1)
    return "/".join(parts[:wild])


def lost_by(case: JudgeContext, glob: str) -> str:
    """What a removal of all that a pattern stands for would take: the contents of a dear folder, or folders of the root."""
    start = literal_folder(glob)
    spot = case.locate(start or "/")
    if "/" in spot.both:
        return "folders of the root"
    rest = glob[len(start) + 1 :].split("/")
    lost = critical(spot, case.ground) if all(map(_is_wide, rest)) else ""
    return f"all that is in {lost}" if lost else ""


def is_picked(command: Command | None, spot: ResolvedPath, case: JudgeContext) -> bool:
    """Whether `find` removes only what some test picks, in the working folder and not in one above it or of the system."""
    if command is None or not command.layers:
        return False
    words = [word or "" for word in command.layers[-1].words]
    own = spot.lexical == plain(case.ground.cwd, case.ground.os)
    return own and "find" in words[0] and all(_picks(branch, spot) for branch in _branches(words[1:]))


def may_pick(command: Command | None, path: str, rule: str) -> bool:
    """Whether a removal that reaches a path may take it or what is below it: `find` takes only what its tests let through."""
    words = [word or "" for word in command.layers[-1].words] if command is not None and command.layers else [""]
    if not words[0].endswith("find") or "-delete" not in words:
        return True
    name = rule.rstrip("/").rpartition("/")[2]
    if "." not in name or name in _FOLDERS or "**" in name:
        return True  # it may be about a folder, and the tests about what is in it
    return any(_lets_through(branch, path) for branch in _branches(words[1 : words.index("-delete")]))


def _lets_through(tests: list[str], path: str) -> bool:
    """Whether a file may pass tests that must all hold. A test that is not understood lets everything through."""
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
    """Whether a part of a pattern may stand for every name, or nearly."""
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


def _picks(words: list[str], spot: ResolvedPath) -> bool:
    for at, word in enumerate(words):
        before, after = words[at - 1] if at else "", words[at + 1] if at + 1 < len(words) else ""
        if before in _NOT:
            if word == "(":
                return False
            continue
        if word in _NAMED and _has_literal(after.replace(spot.lexical, ""), regex="regex" in word):
            return True
        if (word in _AGES and _OLDER.fullmatch(after)) or (word == "-size" and _LARGER.fullmatch(after)):
            return True
        if word == "-empty" or word.startswith("-newer"):
            return True
    return False


def _has_literal(pattern: str, *, regex: bool) -> bool:
    """Whether a pattern asks for at least one letter or digit."""
    text = _CLASS.sub("", pattern)
    if regex:
        text = re.sub(r"\\\w|.[*?]|\{[^}]*\}", "", text)
    return any(char.isalnum() for char in text)
