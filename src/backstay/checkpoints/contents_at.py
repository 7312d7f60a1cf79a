"""Find what files held at an earlier point, and what of it a restore cannot bring back. Pure.

The files belong to the session as a whole and not to a branch of its conversation: on every branch, a turn found the files as
the event before it left them. So what a path held at a point follows from the events after the point in the order of the log, siblings
included: the first of them that says what the path held says what it held at the point.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from backstay.checkpoints.tree import RestorePlan, Tree, TreeEntry, TreeScope, entry_of, inside, is_plain
from backstay.vocab import events
from backstay.vocab.event import Recorded


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


class LeftFiles(NamedTuple):
    """The contents that a restore left, of which the session itself changed none since."""

    entries: Mapping[bytes, TreeEntry]
    scopes: Mapping[bytes, TreeScope]
    """By folder."""
    unknown: Collection[bytes]

    @classmethod
    def by(cls, plan: RestorePlan, trees: Iterable[Tree], later: Iterable[Recorded]) -> "LeftFiles":
        """Put together what was kept before the restore and what its plan changed; `later` are the events from then on."""
        entries: dict[bytes, TreeEntry] = {}
        scopes: dict[bytes, TreeScope] = {}
        for tree in trees:
            scopes[tree.root] = TreeScope(tree.left_out)
            entries |= {tree.root + b"/" + each.path: each for each in tree.entries}
        entries |= {change.want.path: change.want for change in plan.changes}
        unknown: set[bytes] = set()
        for record in later:
            match record.event:
                case events.FileKept(path=path, call=call) if call:
                    unknown.add(path.encode())
                case events.FileSeen(path=path, version=version) if version:
                    unknown.add(path.encode())
                case events.RestoreFinished(problems=problems):
                    unknown.update(each.path.encode() for each in problems)
                case _:
                    pass
        return cls(entries, scopes, unknown)

    def differs(self, path: bytes, now: TreeEntry) -> bool:
        """Return whether `path` holds something that is known not to have been left there."""
        if now.kind not in ("file", "link") or path in self.unknown:
            return False
        left = self.entries.get(path)
        if left is not None:
            return (left.kind, left.sha256, left.target) != (now.kind, now.sha256, now.target)
        return any(inside(path, root) and each.would_list(path[len(root) + 1 :]) for root, each in self.scopes.items())


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
