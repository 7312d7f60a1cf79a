"""A folder is taken down as it is, and nothing outside of it is looked at."""

import os
import socket
from pathlib import Path

import pytest
from msgspec.structs import replace

from backstay.checkpoints.tree import Tree, pack, unpack_tree
from backstay.checkpoints.walk_tree import PORTION, RACY_NS, TreeRefused, TreeWalk, WalkLimits


def take(
    root: Path, before: Tree | None = None, *, left_out: tuple[bytes, ...] = (), limits: WalkLimits | None = None
) -> TreeWalk:
    """Take a folder down, with what `before` says stored."""
    stored = {each.sha256.hex() for each in before.entries} if before else set()
    walk = TreeWalk(os.fsencode(root), left_out, before, stored, limits or WalkLimits())
    for _ in walk.portions():
        pass
    return walk


def listed(tree: Tree | None) -> dict[bytes, str]:
    """The entries in words."""
    assert tree is not None
    return {each.path: f"{each.kind} {each.mode:o} {each.target.decode()}".rstrip() for each in tree.entries}


def test_contents_modes_links_and_empty_folders_are_taken_down(tmp_path: Path) -> None:
    (tmp_path / "folder" / "empty").mkdir(parents=True)
    (tmp_path / "folder").chmod(0o750)
    (tmp_path / "folder" / "run.sh").write_text("x")
    (tmp_path / "folder" / "run.sh").chmod(0o4755)
    (tmp_path / "link").symlink_to("/nowhere")
    (tmp_path / ".git").mkdir()
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")).write_text("not a text name")
    tree = take(tmp_path).tree

    assert listed(tree) == {
        b"folder": "folder 750",
        b"folder/empty": "folder 755",
        b"folder/run.sh": "file 755",
        b"link": "link 0 /nowhere",
        b"\xff": "file 644",
    }
    assert tree is not None
    assert tree.left_out == (b".git",)
    assert unpack_tree(pack(tree)) == tree


def test_a_link_to_a_folder_is_a_link_and_nothing_behind_it_is_read(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    inside.mkdir()
    (inside / "way").symlink_to(outside)

    assert listed(take(inside).tree) == {b"way": f"link 0 {outside}"}


def test_pipes_sockets_and_what_is_named_are_left_out(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "x").write_text("x")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "sock"))
        tree = take(tmp_path, left_out=(b"build",)).tree

    assert tree is not None
    assert (tree.entries, tree.left_out) == ((), (b"build", b"pipe", b"sock"))


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (WalkLimits(files=2), "more than 2 files"),
        (WalkLimits(size=2), "more than 2 bytes"),
        (WalkLimits(depth=0), "more than 0 deep"),
        (WalkLimits(seconds=-1), "takes more than"),
    ],
)
def test_a_folder_beyond_a_limit_is_not_taken(limits: WalkLimits, words: str, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for name in ("a/1", "a/2", "3"):
        (tmp_path / name).write_text("x")
    with pytest.raises(TreeRefused, match=words):
        take(tmp_path, limits=limits)


def test_nothing_of_a_folder_that_is_too_large_is_read(tmp_path: Path) -> None:
    for number in range(3):
        with (tmp_path / str(number)).open("wb") as file:
            file.truncate(PORTION)
    walk = TreeWalk(os.fsencode(tmp_path), limits=WalkLimits(files=2))
    with pytest.raises(TreeRefused):
        next(walk.portions())


def test_a_folder_that_is_gone_is_not_taken(tmp_path: Path) -> None:
    with pytest.raises(TreeRefused, match="cannot be listed"):
        take(tmp_path / "gone")


def test_a_file_that_looks_as_before_is_not_read_again(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    first = take(tmp_path).tree
    assert first is not None
    remembered = replace(first.entries[0], sha256=b"?" * 32)  # whoever reads the file finds another hash
    later = Tree(first.root, first.taken + RACY_NS * 10, (remembered,))
    second = take(tmp_path, later).tree
    (tmp_path / "a").chmod(0o600)
    third = take(tmp_path, later).tree
    assert second is not None
    assert third is not None

    assert second.entries == (remembered,)
    assert (third.entries[0].sha256, third.entries[0].mode) == (first.entries[0].sha256, 0o600)


def test_a_file_that_changed_a_moment_ago_is_read_again_although_it_looks_the_same(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    first = take(tmp_path).tree
    facts = (tmp_path / "a").stat()
    with (tmp_path / "a").open("r+") as file:
        file.write("two")
    os.utime(tmp_path / "a", ns=(facts.st_atime_ns, facts.st_mtime_ns))
    second = take(tmp_path, first).tree

    assert first is not None
    assert second is not None
    assert first.entries[0].sha256 != second.entries[0].sha256
