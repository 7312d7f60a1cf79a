"""Work out what has to be written and removed so that files are as they were at an earlier point. Pure.

The files belong to the session as a whole and not to a branch of its conversation: on every branch, a turn found the files as
the event before it left them. So what a path held at a point follows from the events after the point in the order of the log, siblings
included: the first of them that says what the path held says what it held at the point.
"""

import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from backstay.vocab import events
from backstay.vocab.errors import LogDamaged
from backstay.vocab.event import Recorded

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
    """Tells which paths a tree would list, whether or not they exist."""

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


def contents_at(
    records: Iterable[Recorded], trees: Mapping[str, Tree], present: Mapping[bytes, Tree | None], *, after: int
) -> dict[bytes, TreeEntry]:
    """Return what each path held after the event `after`, where that is known and differs from now, or may.

    `present` has the trees of now, by root; `trees` those that `first_tree` names, by the hash of their blobs.
    """
    kept = [record for record in records if record.seq > after]
    found: dict[bytes, TreeEntry] = {}
    for root, now in present.items():
        first = first_tree(kept, root)
        base = trees[first[1]] if first is not None else now
        covered = TreeScope(base.left_out) if base is not None else None
        if base is not None and base is not now:
            found |= _in_tree(base, now)
        until = first[0] if first is not None else 0
        for path, (seq, entry) in _earliest(kept, root).items():
            says = covered is not None and covered.would_list(path[len(root) + 1 :])
            if not says or not until or seq < until:
                found[path] = entry
            elif path not in found:
                found[path] = TreeEntry(path=path, kind="absent")
    return found


def first_tree(records: Iterable[Recorded], root: bytes) -> tuple[int, str] | None:
    """Find the first whole tree of `root` in `records`; return its position and the hash of its blob."""
    for record in records:
        event = record.event
        if isinstance(event, events.TreeKept) and event.tree and event.root.encode() == root:
            return record.seq, event.tree
    return None


def find_outside(records: Iterable[Recorded], roots: Sequence[bytes], *, after: int) -> tuple[str, ...]:
    """Find the paths that events speak of and that lie in no folder of the session: nothing of them is put back."""
    named = {
        record.event.path
        for record in records
        if record.seq > after
        and isinstance(record.event, events.FileKept)
        and not any(inside(record.event.path.encode(), root) for root in roots)
    }
    return tuple(sorted(named))


def find_hidden(base: Tree, now: Tree) -> Iterator[bytes]:
    """Find what `now` leaves out although it is there, and `base` would have listed: it is new, and not kept."""
    covered, listed = TreeScope(base.left_out), {each.path for each in base.entries}
    return (path for path in now.left_out if path not in listed and covered.would_list(path))


def find_not_kept(base: Tree, now: Tree, ignored: Collection[bytes]) -> Iterator[bytes]:
    """Find what was not kept as git ignored it: first what `now` does not leave out, as it is gone, then what is `ignored`."""
    still = frozenset(now.left_out)
    yield from (path for path in base.left_out if path not in still and is_plain(path))
    yield from (path for path in base.left_out if path in still and path in ignored)


def inside(path: bytes, root: bytes) -> bool:
    """Return whether `path` lies below `root`, by its name alone. A name that leads elsewhere lies nowhere."""
    below = path[len(root) + 1 :]
    return path.startswith(root + b"/") and is_plain(below)


def is_plain(below: bytes) -> bool:
    """Return whether a path below a folder has only names in it, and none of git's own."""
    return bool(below) and not any(part in (b"", b".", b"..", b".git") or b"\0" in part for part in below.split(b"/"))


def find_foreign_changes(records: Iterable[Recorded], present: Mapping[str, str]) -> tuple[str, ...]:
    """Find the paths of `present` that differ from what the session left there or last saw, and no program of it ran since.

    `present` has their versions as they are now. What the session never saw is not among them: its history is unknown.
    """
    seen: dict[str, str] = {}
    for record in records:
        if isinstance(record.event, events.FileSeen):
            seen[record.event.path] = record.event.version
        elif isinstance(record.event, events.TreeKept | events.RestoreStarted):
            seen.clear()
    seen = {
        path: version for path, version in seen.items() if version
    }  # without one it was forgotten, as a restore says
    return tuple(sorted(path for path, version in present.items() if seen.get(path, version) != version))


def versions_at(records: Iterable[Recorded], *, after: int) -> dict[str, str]:
    """Return the versions of files that the session had seen by the event `after`."""
    found: dict[str, str] = {}
    for record in records:
        if record.seq <= after and isinstance(record.event, events.FileSeen):
            found[record.event.path] = record.event.version
    return found


def _in_tree(base: Tree, now: Tree | None) -> dict[bytes, TreeEntry]:
    """Return what `base` says of every path of it and of `now`."""
    prefix = base.root + b"/"
    found = {prefix + each.path: msgspec.structs.replace(each, path=prefix + each.path) for each in base.entries}
    covered = TreeScope(base.left_out)
    for each in now.entries if now is not None else ():
        path = prefix + each.path
        if path not in found and covered.would_list(each.path):
            found[path] = TreeEntry(path=path, kind="absent")
    return found


def _earliest(kept: Iterable[Recorded], root: bytes) -> dict[bytes, tuple[int, TreeEntry]]:
    found: dict[bytes, tuple[int, TreeEntry]] = {}
    for record in kept:
        if isinstance(record.event, events.FileKept):
            entry = entry_of(record.event)
            if entry.path not in found and inside(entry.path, root):
                found[entry.path] = (record.seq, entry)
    return found
