"""What a disk may hold after a power cut.

Everything that was written since a file's last sync is there, lost, or torn at a sector; every name that was made, moved or removed since
its folder's last sync is there or not, each independently of the others. That is less than file systems promise and all that POSIX does.
"""

import itertools
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

SECTOR: Final = 512


@dataclass(frozen=True, slots=True)
class Made:
    """A file got its first name."""

    path: str
    file: int


@dataclass(frozen=True, slots=True)
class Wrote:
    """Bytes went into a file."""

    file: int
    offset: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Cut:
    """A file was made shorter or longer."""

    file: int
    size: int


@dataclass(frozen=True, slots=True)
class Synced:
    """Everything in a file is on the disk."""

    file: int


@dataclass(frozen=True, slots=True)
class Named:
    """A file got another name; with `instead`, that one is gone in the same moment."""

    path: str
    file: int
    instead: str = ""


@dataclass(frozen=True, slots=True)
class Removed:
    """A name of a file or a folder is gone."""

    path: str


@dataclass(frozen=True, slots=True)
class MadeFolder:
    """A folder was made."""

    path: str


@dataclass(frozen=True, slots=True)
class SyncedFolder:
    """The names in a folder are on the disk."""

    path: str


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The store said that these events are safe."""

    session: str
    seq: int


Op = Made | Wrote | Cut | Synced | Named | Removed | MadeFolder | SyncedFolder | Acknowledged
DOUBTFUL: Final = (Made, Wrote, Cut, Named, Removed, MadeFolder)
"""Operations that a power cut may undo."""


@dataclass(eq=False, slots=True)
class _File:
    safe: bytearray = field(default_factory=bytearray)
    doubtful: list[Wrote | Cut] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class _Folder:
    safe: "dict[str, _File | _Folder]" = field(default_factory=dict)
    now: "dict[str, _File | _Folder]" = field(default_factory=dict)
    doubtful: "list[dict[str, _File | _Folder | None]]" = field(default_factory=list)
    """Changes of names that happen together."""

    def change(self, names: "dict[str, _File | _Folder | None]") -> None:
        _rename(self.now, names)
        self.doubtful.append(names)

    def sync(self) -> None:
        for names in self.doubtful:
            _rename(self.safe, names)
        self.doubtful.clear()


class Disk:
    """A disk that operations are done on, one after the other, and of which images can be taken at any moment."""

    def __init__(self) -> None:
        self._root = _Folder()
        self._files: dict[int, _File] = {}

    def do(self, op: Op) -> None:
        """Do one operation."""
        match op:
            case Made(path=path, file=file):
                self._files[file] = _File()
                self._change(path, self._files[file])
            case Wrote(file=file) | Cut(file=file):
                self._files[file].doubtful.append(op)
            case Synced(file=file):
                self._files[file].safe = _written(self._files[file].safe, self._files[file].doubtful)
                self._files[file].doubtful.clear()
            case Named(path=path, file=file, instead=instead):
                self._change(path, self._files[file], instead)
            case Removed(path=path):
                self._change(path, None)
            case MadeFolder(path=path):
                self._change(path, _Folder())
            case SyncedFolder(path=path):
                self._folder(path).sync()
            case Acknowledged():
                pass

    def image(self, target: Path, chance: random.Random) -> None:
        """Write what a power cut in this moment may leave into the folder `target`."""
        keeps = chance.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        _put(self._root, target, chance, keeps)

    def _change(self, path: str, node: "_File | _Folder | None", instead: str = "") -> None:
        parent, _, name = path.rpartition("/")
        names: dict[str, _File | _Folder | None] = {name: node}
        if instead:
            other, _, old = instead.rpartition("/")
            assert other == parent, "a move between folders is not modelled"
            names = {old: None, **names}
        self._folder(parent).change(names)

    def _folder(self, path: str) -> _Folder:
        found = self._root
        for part in filter(None, path.split("/")):
            inner = found.now[part]
            assert isinstance(inner, _Folder), path
            found = inner
        return found


def _put(folder: _Folder, target: Path, chance: random.Random, keeps: float) -> None:
    names = dict(folder.safe)
    for change in folder.doubtful:
        if chance.random() < keeps:
            _rename(names, change)
    target.mkdir(exist_ok=True)
    for name, node in names.items():
        if isinstance(node, _Folder):
            _put(node, target / name, chance, keeps)
        else:
            left = [torn for op in node.doubtful for torn in _left(op, chance, keeps)]
            (target / name).write_bytes(_written(node.safe, left))


def _left(op: Wrote | Cut, chance: random.Random, keeps: float) -> list[Wrote | Cut]:
    """What is left of one operation: all, nothing, or some sectors."""
    luck = chance.random()
    if luck < keeps * 0.8:
        return [op]
    if isinstance(op, Cut) or luck > 0.8 + keeps * 0.2:
        return []
    first = SECTOR - op.offset % SECTOR
    places = [0, *range(first, len(op.content), SECTOR), len(op.content)]
    pieces = list(itertools.pairwise(places))
    some = [piece for piece in pieces if chance.random() < 0.5]
    pieces = chance.choice((some, pieces[: chance.randrange(len(pieces) + 1)]))
    return [Wrote(op.file, op.offset + start, op.content[start:end]) for start, end in pieces]


def _written(safe: bytearray, ops: "list[Wrote | Cut]") -> bytearray:
    content = bytearray(safe)
    for op in ops:
        size = op.size if isinstance(op, Cut) else op.offset
        if len(content) < size:
            content += bytes(size - len(content))
        if isinstance(op, Cut):
            del content[size:]
        else:
            content[size : size + len(op.content)] = op.content
    return content


def _rename(names: "dict[str, _File | _Folder]", change: "dict[str, _File | _Folder | None]") -> None:
    for name, node in change.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node
