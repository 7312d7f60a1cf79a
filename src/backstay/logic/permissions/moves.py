"""Files that a script itself puts somewhere: nobody has looked at what will be there when a later command of it opens them."""

import re
from collections.abc import Iterable
from typing import Final

from backstay.logic.acts import Access, Command, Ground, Script
from backstay.logic.permissions.path_rules import shell_tokens
from backstay.logic.permissions.paths import Spot, locate, plain, within, workspace
from backstay.logic.permissions.removals import literal_folder
from backstay.logic.permissions.wildcards import meets

_MOVERS: Final = frozenset(("mv", "gmv", "install", "ginstall"))
_PLACERS: Final = frozenset(("ln", "gln", "rsync", "unzip", "bsdtar", "tar", "gtar", "cpio", "7z", "scp"))
_LINKERS: Final = frozenset(("ln", "gln", "link"))
_COPIERS: Final = frozenset(("cp", "gcp"))
_KEEPING: Final = frozenset("rRadPsH")
_KEEPING_WORDS: Final = ("--recursive", "--archive", "--no-dereference", "--preserve", "--symbolic-link")
_UNPACKED_HERE: Final = frozenset(("unzip", "cpio", "7z"))
_AGAIN: Final = re.compile(r"\b(?:for|while|until|select|function)\b|\(\s*\)|[^&>|]&(?![&>])")
"""Words after which a command that stands first may run last."""


Arguments = tuple[str | None, ...]
_NEVER: Final = (-1, -1, "")


def programs_of(command: Command | None) -> list[tuple[str, Arguments]]:
    """The programs that may do the work, with their arguments: behind `sudo` or `env`, each word may be the one."""
    layers = command.layers if command is not None else ()
    return [((layer.words[0] or "").rpartition("/")[2], layer.words[1:]) for layer in layers if layer.words]


def carries(name: str, rest: Arguments) -> bool:
    """Whether a program puts whole folders or links somewhere."""
    if name in _COPIERS:
        return any(word is None or _keeps(word) for word in rest)
    if name in ("tar", "gtar", "bsdtar"):
        return not rest or any(
            word is None or word.startswith("--") or "x" in word for word in (rest[0], *rest) if _is_mode(word, rest)
        )
    return name in _MOVERS or name in _PLACERS


class Moves:
    """The places that a script fills, as its commands come."""

    def __init__(self, script: Script, text: str, ground: Ground) -> None:
        self._ground = ground
        self._filled_by = dict[str, tuple[int, int, str]]()
        """Paths that are filled: by which command first, by which last, and the path as people know it."""
        self._again = _AGAIN.search(text) is not None
        self.links = any(name in _LINKERS for command in script.commands for name, _ in programs_of(command))
        """Whether a command of it makes links."""
        for number, command in enumerate(script.commands):
            for place in self._filled(command):
                for path in place.both:
                    first, _, name = self._filled_by.get(path, (number, number, place.lexical))
                    self._filled_by[path] = first, number, name
        self._first, self._last, _ = _NEVER
        if self._filled_by:
            self._first = min(first for first, _, _ in self._filled_by.values())
            self._last = max(last for _, last, _ in self._filled_by.values())

    def reached(self, access: Access, number: int) -> str:
        """The place that the command with this number opens after another has filled it; empty when there is none."""
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
        """Whether another command fills a place before the one with this number runs, or may run again; first and last are given."""
        first, last = filled
        return 0 <= first < number or (self._again and last not in (number, -1))

    def _above(self, access: Access) -> list[str]:
        """The path of an access and of each folder above it, which are all that it may lie in."""
        parts = plain(access.path, self._ground.os).split("/")
        return ["", "/", *("/".join(parts[:end]) for end in range(2, len(parts) + 1))]

    def _filled(self, command: Command) -> list[Spot]:
        names = {name for name, rest in programs_of(command) if carries(name, rest)}
        if not names:
            return []
        writes = [each for each in command.accesses if each.kind == "write" and not each.redirect and each.known]
        if names & _UNPACKED_HERE:
            writes = [Access(kind="write", path=self._ground.cwd), *(each for each in command.accesses if each.known)]
        places = {each.path: locate(each.path, self._ground) for each in writes}
        sure = {path for path in places if path.endswith("/")} if names <= _MOVERS else set()
        # with a slash at its end it is a folder that is there already: what goes into it has a place of its own in the list
        return [spot for path, spot in places.items() if not (path in sure and self._has_below(spot, places.values()))]

    @staticmethod
    def _has_below(spot: Spot, others: Iterable[Spot]) -> bool:
        return any(each.lexical.startswith(spot.lexical + "/") for each in others)

    def _by_link(self, access: Access) -> bool:
        """Whether a link lies on the way: what it leads to may be another thing once something was moved."""
        start = f"{literal_folder(access.path)}/_" if access.glob else access.path
        spot = locate(start, self._ground)
        here = plain(self._ground.cwd, self._ground.os)
        led = f"{workspace(self._ground)[0]}{spot.lexical[len(here) :]}" if within(spot.lexical, (here,)) else ""
        return spot.real not in (spot.lexical, led)

    def _is_in(self, access: Access, place: str) -> bool:
        itself = access.kind != "list"
        path = plain(access.path, self._ground.os)
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
    """Whether a word of `tar` may say what it does: options, and the first word in the old style."""
    if word is None:
        return True
    if word.startswith("--"):
        return len(word) > 3 and any(each.startswith(word) for each in ("--extract", "--get"))
    return word.startswith("-") or word == rest[0]
