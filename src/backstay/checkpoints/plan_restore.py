"""Make the plan of a restore: what the files held at a point, what they hold now, and what has to change.

What they hold now goes into the log first. So nothing that a restore replaces is lost, the person's own changes included.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import anyio.to_thread
from msgspec import Struct, field
from msgspec.structs import replace

from backstay.checkpoints.capture import FileCapture, FolderState, make_kept_event
from backstay.checkpoints.contents_at import (
    LeftFiles,
    contents_at,
    find_foreign_changes,
    find_hidden,
    find_not_kept,
    find_outside,
    first_tree,
    versions_at,
)
from backstay.checkpoints.points import Point, RestoreReport, before_programs, explain_unwatched, restores_of
from backstay.checkpoints.tree import (
    FileChange,
    RestorePlan,
    SeenAs,
    Tree,
    TreeEntry,
    TreeScope,
    inside,
    pack,
    unpack_plan,
    unpack_tree,
)
from backstay.checkpoints.walk_tree import NEVER_ENTERED, read_entry
from backstay.checkpoints.write_back import OUTSIDE
from backstay.logic.stored_content import digest
from backstay.vocab import events
from backstay.vocab.errors import BlobMissing, LogDamaged, UserError
from backstay.vocab.event import Draft, Event, Recorded

HIDDEN: Final = "it is new, and nothing is kept of it: it is ignored, cannot be read, or belongs to git"
GONE: Final = "the whole folder is gone; make it again, empty, and put the files back once more"
SHOWN: Final = 1000
"""Paths that a report names."""
SHOWN_LATER: Final = 20
"""Paths that a report names because others changed them after the point."""
NAMED: Final = 5
"""Paths that git ignores and a report names."""


class Ready(Struct, kw_only=True):
    """A restore that only needs to be written down."""

    report: RestoreReport
    drafts: tuple[Draft, ...] = ()
    """Empty when every file is as it should be."""
    blobs: Mapping[str, bytes] = field(default_factory=dict)


async def plan_restore(
    capture: FileCapture, records: Sequence[Recorded], point: Point, *, with_conversation: bool
) -> Ready:
    """Look at the files and say what has to be done so that they are as they were at `point`.

    `with_conversation`: the conversation goes back to the same point, so the model knows of the files what it knew then. Then raise
    `UserError` when what programs did since cannot be undone: the conversation would forget what the files still show.
    """
    states = await capture.present()
    if with_conversation and (problem := _explain_loss(records, states, point)):
        rest = f" `/rewind {point.number} files` puts back what can be."
        raise UserError(f"The files cannot go back to {point.label}: {problem}.{point.alone}{rest}")
    trees = await _first_trees(capture, records, [state.root for state in states], point)
    left = await _read_left_files(capture, records)
    maker = _PlanMaker(capture, records, point, with_conversation, states, trees, left)
    return await anyio.to_thread.run_sync(maker.make)


def _explain_loss(records: Sequence[Recorded], states: Iterable[FolderState], point: Point) -> str:
    """Explain why what programs did after a point cannot be undone; empty when it can."""
    for state in states:
        kept = _before_programs(records, state, point)
        if kept and not os.path.lexists(state.root):
            return GONE
        if kept and (kept[0].problem or state.event.problem):
            return f"programs ran, and {kept[0].problem or state.event.problem}"
    return ""


def _before_programs(records: Iterable[Recorded], state: FolderState, point: Point) -> list[events.TreeKept]:
    """Return what was kept of a folder as a whole since a point, when programs ran since; empty when none did."""
    found = [
        (record.event, before_programs(record))
        for record in records
        if record.seq > point.after
        and isinstance(record.event, events.TreeKept)
        and record.event.root == state.event.root
    ]
    return [event for event, _ in found] if any(ran for _, ran in found) else []


async def _first_trees(
    capture: FileCapture, records: Sequence[Recorded], roots: Iterable[bytes], point: Point
) -> dict[str, Tree]:
    later = [record for record in records if record.seq > point.after]
    trees: dict[str, Tree] = {}
    for root in roots:
        first = first_tree(later, root)
        if first is None:
            continue
        try:
            tree = await anyio.to_thread.run_sync(unpack_tree, await capture.services.store.blob(first[1]))
        except (BlobMissing, LogDamaged) as exc:
            raise UserError(f"The files cannot go back to {point.label}: {exc}") from exc
        if tree.root != root:
            raise UserError(
                f"The files cannot go back to {point.label}: what was kept is of {os.fsdecode(tree.root)!r}."
            )
        trees[first[1]] = tree
    return trees


async def _read_left_files(capture: FileCapture, records: Sequence[Recorded]) -> LeftFiles | None:
    """Return what the newest restore left; None when there is none, or nobody can say what the files were by then."""
    newest = next((each for each in reversed(restores_of(records)) if each.over), None)
    if newest is None:
        return None
    later = [record for record in records if record.seq > newest.after]
    if any(isinstance(record.event, events.TreeKept) and before_programs(record) for record in later):
        return None
    store, trees, plan = capture.services.store, [], None
    try:
        for record in later:
            match record.event:
                case events.TreeKept(tree=sha) if sha and plan is None:
                    trees.append(await anyio.to_thread.run_sync(unpack_tree, await store.blob(sha)))
                case events.RestoreStarted(plan=sha) if sha:
                    plan = unpack_plan(await store.blob(sha))
                case _:
                    pass
    except (BlobMissing, LogDamaged):
        return None
    return LeftFiles.by(plan, trees, later) if plan is not None else None


class _PlanMaker(Struct):
    capture: FileCapture
    records: Sequence[Recorded]
    point: Point
    with_conversation: bool
    states: Sequence[FolderState]
    trees: Mapping[str, Tree]
    left: LeftFiles | None
    changes: list[FileChange] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)
    way_back: list[Event] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    later: tuple[str, ...] = ()
    """Paths that others changed between the end of the turn that is meant and the moment when they were kept."""
    _seen: Mapping[str, str] = {}

    def make(self) -> Ready:
        """Make the plan. Runs in a thread."""
        after = self.point.after
        roots = [state.root for state in self.states]
        self._seen = versions_at(self.records, after=after)
        for path in find_outside(self.records, roots, after=after):
            self.problems.append((path, OUTSIDE))
        want = contents_at(self.records, self.trees, {state.root: state.tree for state in self.states}, after=after)
        if self.point.ends_turn:
            kept = {path.decode("utf-8", "replace"): each.version for path, each in want.items() if each.inode}
            self.later = find_foreign_changes((each for each in self.records if each.seq <= after), kept)
        for state in self.states:
            self._compare(state, want)
            self._name_hidden(state, want)
        self.changes.sort(key=lambda change: change.want.path)
        return self._ready(tuple(roots))

    def _compare(self, state: FolderState, want: Mapping[bytes, TreeEntry]) -> None:
        if state.tree is None and not os.path.lexists(state.root):
            self._leave(TreeEntry(state.root, "folder"), GONE)
            return
        prefix = state.root + b"/"
        there = {prefix + each.path: each for each in state.tree.entries} if state.tree is not None else {}
        covered = TreeScope(state.tree.left_out) if state.tree is not None else None
        for path, entry in want.items():
            if not path.startswith(prefix):
                continue
            if not inside(path, state.root):
                self._leave(entry, OUTSIDE)
            elif covered is not None and covered.would_list(path[len(prefix) :]):
                now = there.get(path, TreeEntry(path, "absent"))
                if not entry.same(now):
                    self._change(entry, now)
            else:
                self._change_unlisted(state.root, entry)

    def _name_hidden(self, state: FolderState, want: Mapping[bytes, TreeEntry]) -> None:
        """Report what was not there and is left out now, as git ignores it since: it stays."""
        first = first_tree((each for each in self.records if each.seq > self.point.after), state.root)
        if first is None or state.tree is None:
            return
        for below in find_hidden(self.trees[first[1]], state.tree):
            path = state.root + b"/" + below
            if path not in want and below not in state.own:
                self._leave(TreeEntry(path, "absent"), HIDDEN)

    def _describe_ignored(self, state: FolderState) -> str:
        """Describe what git ignores, when programs ran that may have changed it; empty when there is nothing to say."""
        first = first_tree((each for each in self.records if each.seq > self.point.after), state.root)
        if first is None or state.tree is None or not _before_programs(self.records, state, self.point):
            return ""
        left = find_not_kept(self.trees[first[1]], state.tree, state.ignored)
        found = [each for each in left if each not in state.own and os.path.basename(each) not in NEVER_ENTERED]
        names = [each.decode("utf-8", "replace") for each in found[:NAMED]]
        shown = ", ".join(name if name.isprintable() else repr(name) for name in names)
        more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        words = (
            f"What git ignores is not kept: what programs did to {shown}{more} in {state.event.root!r} stays as it is."
        )
        return words if found else ""

    def _change_unlisted(self, root: bytes, entry: TreeEntry) -> None:
        """Plan a path that the tree of now says nothing about: take down what it holds by itself."""
        try:
            now, content = read_entry(root, entry.path, most=self.capture.limits.size)
        except OSError as exc:
            self._leave(entry, str(exc.strerror or exc).lower())
            return
        if entry.same(now):
            return
        kept = make_kept_event(now)
        if kept is None or (now.kind == "file" and content is None):
            self._leave(entry, "what it holds now cannot be kept")
            return
        self.way_back.append(kept)
        if content is not None:
            self.blobs[digest(content)] = content
        self._change(entry, now)

    def _change(self, entry: TreeEntry, now: TreeEntry) -> None:
        if entry.kind == "file" and not entry.sha256:
            self._leave(entry, "what it held was too large, or could not be read")
            return
        path = entry.path.decode("utf-8", "replace")
        self.changes.append(FileChange(entry, self._update_of(path, entry), replace(now, path=b"")))
        if now.kind == "file" and now.inode:
            self.versions[path] = now.version

    def _leave(self, entry: TreeEntry, why: str) -> None:
        self.problems.append((entry.path.decode("utf-8", "replace"), why))

    def _update_of(self, path: str, entry: TreeEntry) -> SeenAs:
        """Return what becomes of the model's knowledge of a file: at the point it knew an earlier version, or none."""
        if not self.with_conversation or path not in self.capture.services.state.seen:
            return ""
        seen = self._seen.get(path, "")
        if not seen:
            return "forget"
        return "update" if seen == entry.version else ""

    def _find_foreign(self) -> tuple[str, ...]:
        found = set(find_foreign_changes(self.records, self.versions))
        for change in self.changes:
            if change.now is not None and self.left is not None and self.left.differs(change.want.path, change.now):
                found.add(change.want.path.decode("utf-8", "replace"))
        return tuple(sorted(found))

    def _ready(self, roots: tuple[bytes, ...]) -> Ready:
        report = RestoreReport(
            point=self.point.label,
            paths=tuple(change.want.path.decode("utf-8", "replace") for change in self.changes[:SHOWN]),
            problems=tuple(events.FileProblem(path=path, problem=why) for path, why in self.problems),
            changed_by_others=self._find_foreign(),
            warnings=(
                *(
                    f"{path} was changed after {self.point.label}, before it was kept: that change is in it"
                    for path in self.later[:SHOWN_LATER]
                ),
                *explain_unwatched(self.records, after=self.point.after),
                *(words for state in self.states if (words := self._describe_ignored(state))),
                *(f"{state.event.problem}; what is new in it stays" for state in self.states if state.event.problem),
            ),
        )
        if not self.changes and not self.point.undoes:  # an undo is noted all the same: the next one goes further back
            return Ready(report=report)
        packed = pack(RestorePlan(roots, self.point.label, tuple(self.changes), tuple(self.problems)))
        plan = digest(packed)
        blobs = {**self.blobs, plan: packed}
        for state in self.states:
            blobs |= state.blobs
        started = events.RestoreStarted(
            to=self.point.event, plan=plan, files=len(self.changes), undoes=self.point.undoes
        )
        before = [*(state.event for state in self.states), *self.way_back]
        drafts = (*(Draft(event=event) for event in before), Draft(event=started, by="user"))
        return Ready(report=report, drafts=drafts, blobs=blobs)
