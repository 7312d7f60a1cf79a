"""Keep what files hold before calls of the session change them, so that they can be restored.

Before a tool edits files, what they hold becomes a `FileKept` each, once for each path and turn. Before a program or a child session runs,
which could change anything, the folders of the session become a `TreeKept` each, once a turn. Both are durable before the call begins, and
their contents are blobs named by their hashes: nothing that was kept is ever written over, however many calls run at once.
"""

import functools
import glob
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
from msgspec import Struct, field
from msgspec.structs import replace

from backstay.checkpoints.tree import Tree, TreeEntry, inside, pack, parents, unpack_tree
from backstay.checkpoints.walk_tree import TreeRefused, TreeWalk, WalkLimits, list_ignored, read_entry
from backstay.config.locations import config_dir
from backstay.logic.stored_content import digest, replace_surrogates
from backstay.runtime.services import Services
from backstay.stores.trace import trace_folder
from backstay.system.folders import data_dir
from backstay.vocab import events
from backstay.vocab.errors import BlobMissing, LogDamaged
from backstay.vocab.event import Draft, Event
from backstay.vocab.specs import ToolSpec

TOGETHER: Final = 400
"""Hashes that one `ContentsKept` names."""


class FolderState(Struct):
    """A folder of the session at one moment."""

    root: bytes
    tree: Tree | None
    event: events.TreeKept
    """The event to write, without a call."""
    blobs: Mapping[str, bytes]
    own: Collection[bytes] = ()
    """Backstay's own paths in it, from the root on."""
    ignored: Collection[bytes] = ()
    """The paths in it that git ignores."""


class FileCapture(Struct, dict=True):
    """Keep the files of one open session."""

    services: Services
    folders: Sequence[str]
    """The folders that the session works in."""
    limits: WalkLimits = field(default_factory=WalkLimits)
    recalled: bool = False
    """Whether it is known what earlier openings of the session have kept. Of a new session it is known from the beginning: nothing."""
    restoring: anyio.Lock = field(default_factory=anyio.Lock)
    """Held during a restore: one at a time."""
    _lock: anyio.Lock = field(default_factory=anyio.Lock)
    _turn: str = ""
    _paths: set[bytes] = field(default_factory=set)
    """The paths that are kept of this turn."""
    _watched: bool = False
    """Whether the trees of this turn are kept."""
    _stored: set[str] = field(default_factory=set)
    _newest: dict[bytes, tuple[str, Tree]] = field(default_factory=dict)
    _off: dict[bytes, str] = field(default_factory=dict)
    """The reason why a folder is not kept; found out once for each opening of the session."""

    @functools.cached_property
    def roots(self) -> tuple[bytes, ...]:
        """The folders, links followed, without those that lie in another one."""
        found = sorted({os.path.realpath(os.fsencode(each)) for each in self.folders if each})
        return tuple(each for each in found if not any(inside(each, other) for other in found))

    async def before(self, spec: ToolSpec, call: str, places: Iterable[str], cause: str) -> None:
        """Keep what a call of a tool may change. `places` are its paths, every link followed."""
        if _runs_programs(spec) or (spec.touches == "edits" and self._runs_on()):
            await self.keep_trees(call, cause)
        if spec.touches == "edits":
            await self.keep_files(places, call, cause)

    async def keep_files(self, places: Iterable[str], call: str, cause: str) -> None:
        """Write down what `places` hold, those that were not written down in this turn."""
        async with self._lock:
            self._begin_turn()
            await self._recall()
            found: dict[bytes, TreeEntry] = {}
            blobs: dict[str, bytes] = {}
            for path in self._new(places):
                for entry, content in await anyio.to_thread.run_sync(self._take_down, path):
                    found.setdefault(entry.path, entry)
                    if content is not None and entry.sha256.hex() not in self._stored:
                        blobs[entry.sha256.hex()] = content
            if found:
                await self._deliver([_event_of(entry, call) for entry in found.values()], blobs, cause)
                self._paths.update(found)  # not before: what could not be written down is not kept

    async def keep_trees(self, call: str, cause: str) -> None:
        """Write down what the folders hold, once a turn."""
        async with self._lock:
            self._begin_turn()
            if self._watched:
                return
            for root in self.roots:
                problem = self._off.get(root, "")
                if problem:
                    await self._deliver(
                        [events.TreeKept(root=os.fsdecode(root), problem=problem, call=call)], {}, cause
                    )
                    continue
                state = await self._take(root, cause)
                await self._deliver([replace(state.event, call=call)], state.blobs, cause)
            self._watched = True

    async def present(self) -> tuple[FolderState, ...]:
        """Take down what the folders hold now. Contents are durable when this returns; the caller writes the trees down."""
        async with self._lock:
            self._watched = False
            return tuple([await self._take(root, "") for root in self.roots])

    def mark_stored(self, blobs: Iterable[str]) -> None:
        """Know that the caller wrote these down."""
        self._stored.update(blobs)

    def forget(self) -> None:
        """Rely on nothing that was kept so far."""
        self._stored.clear()
        self._newest.clear()
        self.recalled = True

    # --- how -----------------------------------------------------------------------------------------------------------------------

    def _runs_on(self) -> bool:
        """Return whether a program of an earlier call may still be running: it can change files in any turn."""
        return any(_lives(process.group) for process in self.services.state.progress.left)

    def _begin_turn(self) -> None:
        turn = self.services.state.progress.turn
        if turn is not None and turn.id != self._turn:
            self._turn, self._watched = turn.id, False
            self._paths.clear()

    def _new(self, places: Iterable[str]) -> list[bytes]:
        """Return the paths to take down: in a folder of the session, and not kept yet in this turn."""
        found = dict.fromkeys(os.fsencode(place) for place in places if place)
        return [path for path in found if path not in self._paths and self._root_of(path) is not None]

    def _root_of(self, path: bytes) -> bytes | None:
        return next((root for root in self.roots if inside(path, root)), None)

    def _take_down(self, path: bytes) -> list[tuple[TreeEntry, bytes | None]]:
        """Take down `path`, and the missing folders above it, which a tool that writes there makes."""
        root = self._root_of(path)
        assert root is not None
        try:
            entry, content = read_entry(root, path, most=self.limits.size)
        except OSError:
            return []  # no tool can write there either
        if entry.kind != "absent":
            return [(entry, content)]
        missing = [
            TreeEntry(each, "absent") for each in parents(path) if inside(each, root) and not os.path.lexists(each)
        ]
        return [(each, None) for each in (entry, *missing) if each.path not in self._paths]

    async def _take(self, root: bytes, cause: str) -> FolderState:
        await self._recall()
        sha, before = self._newest.get(root, ("", None))
        own = self._own_places(root)
        hidden = await list_ignored(os.fsdecode(root))
        walk = TreeWalk(root, {*hidden, *own}, before, self._stored, self.limits)
        portions = walk.portions()
        event = events.TreeKept(root=os.fsdecode(root))
        try:
            if os.fsdecode(root) != replace_surrogates(os.fsdecode(root)):
                raise TreeRefused("its name is not UTF-8, so that no event can hold it")
            while (portion := await anyio.to_thread.run_sync(next, portions, None)) is not None:
                await self._deliver(_contents(portion), portion, cause)
        except TreeRefused as exc:
            problem = f"{event.root!r} is not kept: {exc}"
            self._off[root] = problem
            return FolderState(root, None, events.TreeKept(root=event.root, problem=problem), {})
        finally:
            portions.close()  # type: ignore[attr-defined]  # a generator, whose handles must not stay open
        tree = walk.tree
        assert tree is not None
        self._off.pop(root, None)
        blobs: dict[str, bytes] = {}
        same = before is not None and (tree.entries, tree.left_out) == (before.entries, before.left_out)
        if not same or sha not in self._stored:  # a tree that was looked at is not always written down
            packed = await anyio.to_thread.run_sync(pack, tree)
            sha = digest(packed)
            blobs[sha] = packed
            self._newest[root] = (sha, tree)
        event = events.TreeKept(root=event.root, tree=sha, files=walk.files, size=walk.size)
        return FolderState(root, tree, event, blobs, own, hidden)

    def _own_places(self, root: bytes) -> set[bytes]:
        """Return Backstay's own paths in the folder: the store, which changes with every event, and the person's decisions."""
        ours = [Path(os.path.realpath(each)) for each in (data_dir(), config_dir())]
        trace = trace_folder(self.services.store.url)
        if trace is not None:
            place = Path(os.path.realpath(trace.parent))
            ours += place.glob(f"{glob.escape(trace.stem)}*")
        return {each[len(root) + 1 :] for each in map(os.fsencode, ours) if each.startswith(root + b"/")}

    async def _recall(self) -> None:
        """Find out, once, what earlier openings of the session have kept."""
        if self.recalled:
            return
        self.recalled = True
        newest: dict[bytes, str] = {}
        for record in (await self.services.store.read(self.services.session)).records:
            match record.event:
                case events.CheckpointsPurged():
                    newest.clear()
                    self._stored.clear()
                case events.ContentsKept(blobs=blobs):
                    self._stored.update(blobs)
                case events.FileKept(sha256=sha) if sha:
                    self._stored.add(sha)
                case events.TreeKept(root=root, tree=tree) if tree:
                    self._stored.add(tree)
                    newest[os.fsencode(root)] = tree
                case _:
                    pass
        for folder, sha in newest.items():
            try:
                self._newest[folder] = sha, unpack_tree(await self.services.store.blob(sha))
            except (BlobMissing, LogDamaged):
                continue  # it is taken down anew

    async def _deliver(self, events: Sequence[Event], blobs: Mapping[str, bytes], cause: str) -> None:
        drafts = [Draft(event=event, cause=cause) for event in events]
        await self.services.inbox.deliver(*drafts, blobs=blobs, wakes=bool(cause))  # looking alone sets nothing going
        self._stored.update(blobs)


def make_kept_event(entry: TreeEntry) -> events.FileKept | None:
    """Make the event of what a path holds before it is put back; None when its name cannot be written."""
    try:
        entry.path.decode(), entry.target.decode()
    except UnicodeDecodeError:
        return None
    return _event_of(entry, "")


def _runs_programs(spec: ToolSpec) -> bool:
    """Return whether a call can change any file: it starts a program, or asks a server that is one."""
    return spec.touches == "runs" or (spec.touches == "web" and spec.effect != "pure")


def _lives(group: int) -> bool:
    """Return whether a process group has members. Its number may be reused by now, which only costs a needless walk."""
    try:
        os.killpg(group, 0)
    except OSError:
        return False
    return True


def _event_of(entry: TreeEntry, call: str) -> events.FileKept:
    return events.FileKept(
        path=os.fsdecode(entry.path),
        kind=entry.kind,
        sha256=entry.sha256.hex(),
        target=os.fsdecode(entry.target),
        mode=entry.mode,
        version=entry.version if entry.inode else "",
        call=call,
    )


def _contents(portion: Mapping[str, bytes]) -> list[Event]:
    hashes = sorted(portion)
    return [events.ContentsKept(blobs=tuple(hashes[at : at + TOGETHER])) for at in range(0, len(hashes), TOGETHER)]
