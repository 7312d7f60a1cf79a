"""What files held at any point follows from the events after it, whatever was done to them since."""

import hashlib
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.checkpoints.contents_at import contents_at
from backstay.checkpoints.tree import (
    Tree,
    TreeEntry,
    TreeScope,
    entry_of,
    inside,
    pack,
    parents,
    unpack_plan,
    unpack_tree,
)
from backstay.testing.builders import recorded
from backstay.vocab.errors import LogDamaged
from backstay.vocab.event import Event, Recorded
from backstay.vocab.events.files import FileKept, TreeKept

ROOT = b"/w"
NAMES = ("a", "b", "c")
State = Mapping[str, str]
"""What each name holds; a name that is missing is not there."""

edits = st.tuples(st.just("edit"), st.sampled_from(NAMES), st.sampled_from(("", "1", "2", "3")))
programs = st.tuples(st.just("run"), st.dictionaries(st.sampled_from(NAMES), st.sampled_from("123")), st.booleans())
restores = st.tuples(st.just("restore"), st.integers(0, 20), st.booleans())


@given(st.lists(st.one_of(edits, programs, restores), max_size=12))
def test_every_point_is_found_again_after_any_mixture_of_edits_programs_and_restores(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    world = _World()
    points: list[tuple[int, State]] = [(0, {})]
    for kind, what, how in steps:
        if kind == "edit":
            world.edit(what, how)
        elif kind == "run":
            world.run(what)
        else:
            after, state = points[what % len(points)]
            assert world.at(after) == state
            world.restore(state)
        points.append((len(world.log), dict(world.files)))

    for after, state in points:
        assert world.at(after) == state


class _World:
    """Files, and the log of what was done to them."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.log: list[Recorded] = []
        self.trees: dict[str, Tree] = {}
        self._kept: set[str] = set()

    def edit(self, name: str, content: str) -> None:
        self._write(_file_kept(name, self.files.get(name, "")))
        self._set(name, content)

    def run(self, files: State) -> None:
        self._keep_tree("call")
        self.files = dict(files)

    def restore(self, state: State) -> None:
        self._keep_tree("")
        self.files = dict(state)

    def at(self, after: int) -> State:
        """What the plan says that the files held."""
        found = dict(self.files)
        for path, entry in contents_at(self.log, self.trees, {ROOT: self._tree()}, after=after).items():
            name = path.decode().removeprefix("/w/")
            found.pop(name, None)
            if entry.kind == "file":
                found[name] = next(each for each in "123" if _sha(each) == entry.sha256.hex())
        return found

    def _set(self, name: str, content: str) -> None:
        self.files.pop(name, None)
        if content:
            self.files[name] = content

    def _keep_tree(self, call: str) -> None:
        sha = f"{len(self.log):064}"
        self.trees[sha] = self._tree()
        self._write(TreeKept(root="/w", tree=sha, call=call))

    def _tree(self) -> Tree:
        entries = [
            TreeEntry(name.encode(), "file", 0o644, bytes.fromhex(_sha(text))) for name, text in self.files.items()
        ]
        return Tree(ROOT, 0, tuple(entries))

    def _write(self, event: Event) -> None:
        self.log.append(recorded(event, len(self.log) + 1))


def _file_kept(name: str, content: str) -> FileKept:
    if not content:
        return FileKept(path=f"/w/{name}", kind="absent", call="call")
    return FileKept(path=f"/w/{name}", kind="file", sha256=_sha(content), mode=0o644, call="call")


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_what_a_tree_left_out_is_told_by_single_files_alone() -> None:
    tree = Tree(ROOT, 0, (TreeEntry(b"a", "file", 0o644, b"x"),), (b"build",))
    log = (
        recorded(TreeKept(root="/w", tree="t", call="c"), 1),
        recorded(FileKept(path="/w/build/out", kind="file", sha256=_sha("1"), call="c"), 2),
        recorded(FileKept(path="/w/a", kind="absent", call="c"), 3),
        recorded(FileKept(path="/w/later", kind="file", sha256=_sha("2"), call="c"), 4),
    )
    found = contents_at(log, {"t": tree}, {ROOT: Tree(ROOT, 0, (), (b"build",))}, after=0)

    assert {path: entry.kind for path, entry in found.items()} == {
        b"/w/a": "file",
        b"/w/build/out": "file",
        b"/w/later": "absent",
    }


@pytest.mark.parametrize(
    ("path", "lies"),
    [
        (b"/w/a", True),
        (b"/w/a/b", True),
        (b"/w", False),
        (b"/w/", False),
        (b"/wide/a", False),
        (b"/w/../etc", False),
        (b"/w/./a", False),
        (b"/w//a", False),
        (b"/w/.git/config", False),
        (b"/w/a/.git", False),
        (b"/w/a\0b", False),
        (b"a", False),
        (b"", False),
    ],
)
def test_a_path_lies_inside_by_plain_names_alone(path: bytes, lies: bool) -> None:
    assert inside(path, ROOT) is lies


def test_coverage_ends_at_what_was_left_out() -> None:
    covered = TreeScope((b"build", b"a/secret"))
    assert [covered.would_list(path) for path in (b"build", b"build/x/y", b"builder", b"a", b"a/secret/x", b"a/b")] == [
        *(False, False, True),
        *(True, False, True),
    ]
    assert list(parents(b"/w/a/b")) == [b"/w/a", b"/w"]


@pytest.mark.parametrize("content", [b"", b"x", pack(TreeEntry(b"a", "file"))[:-1], b"\x78\x9c" + b"\0" * 20])
def test_a_damaged_listing_or_plan_is_named_as_such(content: bytes) -> None:
    with pytest.raises(LogDamaged, match="cannot be read"):
        unpack_tree(content)
    with pytest.raises(LogDamaged, match="cannot be read"):
        unpack_plan(content)


def test_an_event_with_nonsense_in_it_says_that_nothing_was_kept() -> None:
    entry = entry_of(FileKept(path="/w/a", kind="file", sha256="zz", version="what"))

    assert (entry.sha256, entry.size, entry.inode) == (b"", 0, 0)
