"""What is known at a place in a script: the folder, the values of variables, what was set for later commands."""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from holdfast.logic.acts import Ground
from holdfast.logic.shell.syntax import Node

MOST_FOLDERS: Final = 4
"""How many folders a command may be in before the folder counts as unknown."""

LONGEST: Final = 10_000
"""A longer value counts as unknown: a few doublings would make it longer than any memory."""

UNKNOWN: Final[tuple[str | None, ...]] = (None,)


_SAME: Final = re.compile(r"/\.?(?=/)")
_NUMBER: Final = re.compile(r"\s*[-+]?(?:[0-9]+|0[xX][0-9A-Fa-f]+)\s*")


class Field(msgspec.Struct, frozen=True):
    """A word after expansion: what a program would see, as far as it can be told."""

    value: str | None
    """None when it is not known; the pattern when `glob`."""
    text: str = ""
    """As written."""
    glob: bool = False
    """Whether wildcards in it are expanded: the program sees names that match."""
    start: str = ""
    """What an unknown value begins with for certain."""
    many: bool = False
    """Whether it may become no word, or several."""
    pipe: bool = False
    """Whether it names a pipe of `<(...)`, not a file."""
    number: bool = False
    """Whether it is unknown but a number."""
    hint: str = ""
    """An unknown value as far as it is known, with `$__` for the rest: enough to find commands in it, not to trust it."""


def is_number(held: Field | None) -> bool:
    """Whether a value is a number for certain."""
    if held is None:
        return False
    return held.number or (held.value is not None and _NUMBER.fullmatch(held.value) is not None)


class Scope:
    """What is known at one place. Copied where the shell would start a copy of itself."""

    __slots__ = (
        "changes",
        "counted",
        "exported",
        "exports_all",
        "failed",
        "folders",
        "functions",
        "ground",
        "secrets",
        "stack",
        "steers",
        "unclear",
        "values",
    )

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.folders: tuple[str | None, ...] = (ground.cwd,)
        """Where a command may be that runs after the last one succeeded; None for anywhere."""
        self.failed: tuple[str | None, ...] = self.folders
        """The same after the last one failed."""
        self.values: dict[str, Field | None] = {}
        """Variables that the script set, None for one whose value is not known. Others come from the environment."""
        self.steers: tuple[str, ...] = ()
        """Variables set for all later commands that are not known to be harmless."""
        self.functions: Mapping[str, Node | None] = {}
        """Functions that the script defines; None for one whose body is not certain."""
        self.secrets: frozenset[str] = frozenset()
        """Variables that hold what another one holds whose name says that it is a secret."""
        self.changes: dict[str, bool] = {}
        """Variables that were set, and whether to numbers alone; "/" when the folder may have changed. Copies share it."""
        self.unclear: frozenset[str] = frozenset()
        """Variables whose declaration changes what an assignment stores."""
        self.counted: frozenset[str] = frozenset()
        """Variables that hold numbers: what is assigned to them is evaluated."""
        self.stack: tuple[tuple[str | None, ...], ...] = ()
        self.exported: frozenset[str] = frozenset()
        """Variables that later assignments put into the environment."""
        self.exports_all = False

    def copy(self) -> "Scope":
        """Give a copy that changes on its own."""
        other = Scope.__new__(Scope)
        other.ground, other.folders, other.failed = self.ground, self.folders, self.failed
        other.values, other.steers, other.functions = dict(self.values), self.steers, self.functions
        other.unclear, other.counted, other.stack = self.unclear, self.counted, self.stack
        other.exported, other.exports_all = self.exported, self.exports_all
        other.secrets, other.changes = self.secrets, self.changes
        return other

    def fork(self) -> "Scope":
        """Give a copy for another shell: what changes there does not change here."""
        other = self.copy()
        other.changes = {}
        return other

    def merge(self, other: "Scope") -> None:
        """Take in what holds when the other way may have been gone instead."""
        self.folders = union(self.folders, other.folders)
        self.failed = union(self.failed, other.failed)
        for name in set(self.values) | set(other.values):
            if self.values.get(name) != other.values.get(name) or name not in self.values or name not in other.values:
                both = is_number(self.values.get(name)) and is_number(other.values.get(name))
                self.values[name] = Field(None, number=True) if both else None
        self.steers = tuple(dict.fromkeys(self.steers + other.steers))
        if self.functions != other.functions:
            names = {**self.functions, **other.functions}
            same = {name: self.functions.get(name) is other.functions.get(name) for name in names}
            self.functions = {name: body if same[name] else None for name, body in names.items()}
        self.secrets |= other.secrets
        self.unclear |= other.unclear
        self.counted |= other.counted
        self.stack = self.stack if self.stack == other.stack else ()
        self.exported |= other.exported
        self.exports_all |= other.exports_all

    def settle(self) -> None:
        """Go on to a command that runs whether the last one succeeded or not."""
        if self.failed != self.folders:
            self.folders = self.failed = union(self.folders, self.failed)

    def move(self, folders: tuple[str | None, ...]) -> None:
        """Note that the folder changed, unless the command that changes it fails."""
        self.failed = union(self.folders, self.failed)
        self.folders = folders
        self.changes["/"] = False

    def forget(self) -> None:
        """Note that anything may have happened: every variable and the folder are unknown."""
        self.changes.update(dict.fromkeys((*self.values, "/"), False))
        self.values = dict.fromkeys(self.values)
        self.folders = self.failed = UNKNOWN
        self.stack = ()

    def value(self, name: str) -> Field | None:
        """Look up what a variable holds, when that is certain."""
        if name in self.values:
            return self.values[name]
        if name == "HOME":
            return Field(self.ground.home)
        if name == "PWD":
            here = self.folders[0] if len(self.folders) == 1 else None
            return Field(here) if here is not None else None
        return Field(" \t\n") if name == "IFS" else None

    def assign(self, name: str, value: Field | None) -> None:
        """Note what a variable holds from here on."""
        known = value is not None and value.value is not None and name not in self.unclear
        known = known and value is not None and len(value.value or "") <= LONGEST
        self.values[name] = held = value if known or (value is not None and value.number) else None
        self.changes[name] = self.changes.get(name, True) and is_number(held)

    def since(self, before: dict[str, bool]) -> dict[str, bool]:
        """Give what changed since `changes` was emptied, and note what had changed before again."""
        found = dict(self.changes)
        self.changes.update({name: number and found.get(name, True) for name, number in before.items()})
        return found

    def blur(self, changes: Mapping[str, bool], before: "Scope") -> None:
        """Note that what changed may have changed any number of times since a place before."""
        for name, number in changes.items():
            if name == "/":
                self.folders = self.failed = UNKNOWN
                self.stack = ()
            elif not number:
                self.values[name] = None
            elif name in before.values:
                self.values[name] = Field(None, number=True)
            else:  # from the environment, or a number: as harmless as the environment alone
                self.values.pop(name, None)

    def paths(self, name: str) -> tuple[str, ...]:
        """Make a path absolute, not normalised; one for each folder that the command may be in, "" for unknown."""
        if is_absolute(name, self.ground.os):
            return (self._shortened(name),)
        return tuple("" if folder is None else self._shortened(join(folder, name)) for folder in self.folders)

    def _shortened(self, path: str) -> str:
        """Take out the parts that say nothing, so that a wildcard is looked up where it is; Windows reads `//` as another machine."""
        if ("/./" not in path and "//" not in path) or self.ground.os == "windows":
            return path
        return _SAME.sub("", path)


def union(one: tuple[str | None, ...], other: tuple[str | None, ...]) -> tuple[str | None, ...]:
    """Join two sets of folders, keeping the order."""
    if one == other:
        return one
    joined = tuple(dict.fromkeys(one + other))
    return joined if len(joined) <= MOST_FOLDERS else UNKNOWN


def join(folder: str, name: str) -> str:
    """Put a relative path below a folder."""
    return f"{folder.rstrip('/')}/{name}" if name else folder


def is_absolute(path: str, os: str) -> bool:
    """Whether a path does not depend on a folder."""
    if path.startswith("/"):
        return True
    return os == "windows" and (path.startswith("\\") or (path[1:2] == ":" and path[:1].isalpha()))
