"""What a folder held at one moment: the listing that a `TreeKept` cites, and single entries of it. Pure.

Names are bytes, as file systems have them. A listing also names what was left out, so that nobody takes "not listed" for "not there".
"""

import re
import zlib
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from backstay.vocab.errors import LogDamaged
from backstay.vocab.event_files import EntryKind, FileKept

LARGEST: Final = 64 * 1024 * 1024
"""Bytes of a listing or a plan: fifty thousand files need a tenth of it."""
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_VERSION: Final = re.compile(r"\d{1,19}:-?\d{1,19}:\d{1,20}")


class Facts(NamedTuple):
    """What tells a file from itself before or after a change."""

    size: int
    mtime: int
    ctime: int
    inode: int


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One name, and what is there."""

    path: bytes
    """In a tree from its root on; in a plan from `/` on."""
    kind: EntryKind
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

    def same(self, other: "Entry") -> bool:
        """Whether there is nothing to do to make the one the other."""
        mine = (self.kind, self.mode, self.sha256, self.target)
        return mine == (other.kind, other.mode, other.sha256, other.target)


class Tree(msgspec.Struct, frozen=True, array_like=True):
    """Everything below a folder."""

    root: bytes
    taken: int
    """Nanoseconds since 1970, before the first name was looked at."""
    entries: tuple[Entry, ...]
    left_out: tuple[bytes, ...] = ()
    """What was not looked at: ignored files, repositories' own data, devices, what may not be read."""


class Coverage:
    """Which paths a tree speaks of."""

    def __init__(self, left_out: Iterable[bytes]) -> None:
        self._left_out = frozenset(left_out)

    def covers(self, path: bytes) -> bool:
        """Whether the tree would list `path` if it were there."""
        return not self._left_out or not any(above in self._left_out for above in (path, *parents(path)))


def parents(path: bytes) -> Iterable[bytes]:
    """The folders above a path, the nearest first, without the one it starts from."""
    while (cut := path.rfind(b"/")) > 0:
        path = path[:cut]
        yield path


def entry_of(event: FileKept) -> Entry:
    """What a `FileKept` says, with its whole path."""
    facts = [int(each) for each in event.version.split(":")] if _VERSION.fullmatch(event.version) else [0, 0, 0]
    return Entry(
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
    """A listing or a plan as a blob."""
    return zlib.compress(msgspec.msgpack.encode(value), 1)


def unpack_tree(content: bytes) -> Tree:
    """The listing in a blob. Raise `LogDamaged` when it is none."""
    try:
        return msgspec.msgpack.decode(unzipped(content), type=Tree)
    except (msgspec.MsgspecError, zlib.error) as exc:
        raise LogDamaged(f"A kept listing of files cannot be read: {exc}.") from exc


def unzipped(content: bytes) -> bytes:
    """The bytes of a packed blob. Raise `zlib.error` when there are too many of them."""
    reader = zlib.decompressobj()
    plain = reader.decompress(content, LARGEST)
    if reader.unconsumed_tail or not reader.eof:
        raise zlib.error(f"it is cut, or has more than {LARGEST} bytes")
    return plain
