"""Structures of kept folder listings and restore plans, how they are packed as blobs, and which paths belong to a folder. Pure."""

import re
import zlib
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

import msgspec

from backstay.vocab import events
from backstay.vocab.errors import LogDamaged

LARGEST: Final = 64 * 1024 * 1024
"""Bytes of a listing or a plan: fifty thousand files need a tenth of it."""
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_VERSION: Final = re.compile(r"\d{1,19}:-?\d{1,19}:\d{1,20}")


class Facts(NamedTuple):
    """The facts that tell a file from itself before or after a change."""

    size: int
    mtime: int
    ctime: int
    inode: int


class TreeEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One name, and what is there."""

    path: bytes
    """In a tree from its root on; in a plan from `/` on."""
    kind: events.EntryKind
    mode: int = 0
    sha256: bytes = b""
    """Of a file's content; empty when it could not be kept."""
    target: bytes = b""
    size: int = 0
    mtime: int = 0
    ctime: int = 0
    inode: int = 0

    @property
    def facts(self) -> Facts:
        """What the file system said of it."""
        return Facts(self.size, self.mtime, self.ctime, self.inode)

    @property
    def version(self) -> str:
        """As `FileSeen` has it."""
        return f"{self.size}:{self.mtime}:{self.inode}"

    def same(self, other: "TreeEntry") -> bool:
        """Return whether nothing has to be done to make the one the other."""
        mine = (self.kind, self.mode, self.sha256, self.target)
        return mine == (other.kind, other.mode, other.sha256, other.target)


class Tree(msgspec.Struct, frozen=True, array_like=True):
    """Everything below a folder."""

    root: bytes
    taken: int
    """Nanoseconds since 1970, before the first name was looked at."""
    entries: tuple[TreeEntry, ...]
    left_out: tuple[bytes, ...] = ()
    """Paths that were left out: ignored files, repositories' own data, devices, unreadable files."""


class TreeScope:
    """The paths that a tree would list, whether or not they exist."""

    def __init__(self, left_out: Iterable[bytes]) -> None:
        self._left_out = frozenset(left_out)

    def would_list(self, path: bytes) -> bool:
        """Return whether the tree would list `path` if it were there."""
        return not self._left_out or not any(above in self._left_out for above in (path, *parents(path)))


def parents(path: bytes) -> Iterable[bytes]:
    """Yield the folders above a path, the nearest first, without the one it starts from."""
    while (cut := path.rfind(b"/")) > 0:
        path = path[:cut]
        yield path


def entry_of(event: events.FileKept) -> TreeEntry:
    """Return what a `FileKept` says, with its whole path."""
    facts = [int(each) for each in event.version.split(":")] if _VERSION.fullmatch(event.version) else [0, 0, 0]
    return TreeEntry(
        path=event.path.encode(),
        kind=event.kind,
        mode=event.mode,
        sha256=bytes.fromhex(event.sha256) if _HASH.fullmatch(event.sha256) else b"",
        target=event.target.encode(),
        size=facts[0],
        mtime=facts[1],
        inode=facts[2],
    )


def pack(value: msgspec.Struct) -> bytes:
    """Pack a listing or a plan as a blob."""
    return zlib.compress(msgspec.msgpack.encode(value), 1)


def unpack_tree(content: bytes) -> Tree:
    """Read the listing in a blob. Raise `LogDamaged` when it is none."""
    try:
        return msgspec.msgpack.decode(unzip(content), type=Tree)
    except (msgspec.MsgspecError, zlib.error) as exc:
        raise LogDamaged(f"A kept listing of files cannot be read: {exc}.") from exc


def unzip(content: bytes) -> bytes:
    """Decompress a packed blob. Raise `zlib.error` when it has too many bytes."""
    reader = zlib.decompressobj()
    plain = reader.decompress(content, LARGEST)
    if reader.unconsumed_tail or not reader.eof:
        raise zlib.error(f"it is cut, or has more than {LARGEST} bytes")
    return plain


SeenAs = Literal["", "update", "forget"]
"""The change of what the session has seen of a file: none, it is as it was then, or it was not seen by then."""


class FileChange(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One path that is to hold something else."""

    want: TreeEntry
    """With its whole path."""
    seen: SeenAs = ""
    now: TreeEntry | None = None
    """The kept content of the path when the plan was made, without its name. Anything else there is not replaced."""


class RestorePlan(msgspec.Struct, frozen=True, array_like=True):
    """Everything that is to be done."""

    roots: tuple[bytes, ...]
    label: str
    """The point, in words for the model and the person."""
    changes: tuple[FileChange, ...]
    problems: tuple[tuple[str, str], ...] = ()
    """Paths that are left as they are, and why."""


def unpack_plan(content: bytes) -> RestorePlan:
    """Read the plan in a blob. Raise `LogDamaged` when it is none."""
    try:
        return msgspec.msgpack.decode(unzip(content), type=RestorePlan)
    except (msgspec.MsgspecError, zlib.error) as exc:
        raise LogDamaged(f"The plan of a restore cannot be read: {exc}. Start the restore again.") from exc


def inside(path: bytes, root: bytes) -> bool:
    """Return whether `path` lies below `root`, by its name alone. A name that leads elsewhere lies nowhere."""
    below = path[len(root) + 1 :]
    return path.startswith(root + b"/") and is_plain(below)


def is_plain(below: bytes) -> bool:
    """Return whether a path below a folder has only names in it, and none of git's own."""
    return bool(below) and not any(part in (b"", b".", b"..", b".git") or b"\0" in part for part in below.split(b"/"))
