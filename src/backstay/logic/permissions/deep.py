"""Commands that read or take away everything below a folder, also what no word of theirs names."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from backstay.logic.acts import Access, Command
from backstay.logic.permissions.moves import Arguments, carries, programs_of

_BY_NATURE: Final = frozenset(
    (
        "rg",
        "ag",
        "ack",
        "ugrep",
        "ug",
        "rgrep",
        "tar",
        "gtar",
        "bsdtar",
        "rsync",
        "7z",
        "zip",
        "pax",
        "shar",
        "diff",
        "gdiff",
        "colordiff",
        "sdiff",
    )
)
"""Those that go through a folder when they are given one. On a single file nothing is below it, which is seen by looking."""
_GREPS: Final = frozenset(f"{kind}grep" for kind in ("", "e", "f", "z", "ze", "zf", "bz", "xz", "lz", "zstd", "g"))
_PACKERS: Final = frozenset(("zcat", "gzcat", "gzip", "gunzip", "zstd", "zstdcat", "unzstd", "scp"))
_REMOVERS: Final = frozenset(("rm", "grm"))
_MOVERS: Final = frozenset(("mv", "gmv", "find", "gfind", "rsync"))
"""Those that take away a folder with everything in it."""
_GREP_VALUES: Final = "efmABCdDX"
_GREP_WORDS: Final = ("--recursive", "--dereference-recursive", "--directories")


def is_deep(access: Access, command: Command | None) -> bool:
    """Whether a command reads everything below a folder too."""
    if command is None or access.kind != "read" or access.redirect or not command.layers:
        return False
    return access.deep or any(goes_below(*each) for each in programs_of(command))


@lru_cache(maxsize=256)
def goes_below(name: str, rest: Arguments) -> bool:
    """Whether a program reads everything below a folder that it is given."""
    if name in _BY_NATURE or (name in ("cp", "gcp") and carries(name, rest)):
        return True
    if name in ("mv", "gmv"):
        return True  # what is denied by its place could be read at the new one
    if name == "git":
        return git_searches(rest)
    if name in _GREPS:
        return any(_grep_descends(*each) for each in _options(rest, _GREP_VALUES))
    return name in _PACKERS and _is_recursive(rest)


def takes_all(access: Access, command: Command | None) -> bool:
    """Whether a command takes away or replaces everything below a folder too."""
    if command is None:
        return False
    if access.rewrites == "tree":
        return True
    return access.kind == "remove" and any(
        name in _MOVERS or (name in _REMOVERS and _is_recursive(rest)) for name, rest in programs_of(command)
    )


@lru_cache(maxsize=256)
def _is_recursive(rest: Arguments) -> bool:
    return any(option in (None, "-r", "-R") or _begins(option, ("--recursive",)) for option, _ in _options(rest, ""))


def git_searches(rest: Arguments) -> bool:
    """Whether `git` with these arguments goes through the files of a folder."""
    return "grep" in rest or any(word is not None and _begins(word, ("--no-index",)) for word in rest)


def _options(rest: Arguments, valued: str) -> Iterator[tuple[str | None, str]]:
    """Each option with what may be its value, clusters taken apart; None for a word that may be one."""
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
    """Whether a word is one of these options or the beginning of one."""
    return len(word) > 2 and any(name.startswith(word) for name in names)
