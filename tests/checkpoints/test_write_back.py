"""Single paths are put back, again and again if need be, and never by way of a link."""

import hashlib
import os
from pathlib import Path

import pytest

from backstay.checkpoints.tree import TreeEntry
from backstay.checkpoints.write_back import NotPutBack, put_back, set_mode
from backstay.vocab.events.files import EntryKind
from tests.checkpoints.kept import tree_of


def want(path: Path, kind: EntryKind, content: str = "", mode: int = 0o644) -> TreeEntry:
    """An entry for `path`."""
    sha = hashlib.sha256(content.encode()).digest() if kind == "file" else b""
    return TreeEntry(os.fsencode(path), kind, mode, sha, content.encode() if kind == "link" else b"")


def put(root: Path, entry: TreeEntry, content: str = "") -> bool:
    """Put one path back."""
    return put_back(entry, content.encode(), (os.fsencode(root),), "plan")


@pytest.mark.parametrize("there", ["nothing", "file", "link", "folder"])
@pytest.mark.parametrize("kind", ["file", "link", "folder", "absent"])
def test_whatever_is_there_becomes_what_is_wanted_and_a_second_time_changes_nothing(
    there: str, kind: EntryKind, tmp_path: Path
) -> None:
    path = tmp_path / "deep" / "x"
    path.parent.mkdir()
    match there:
        case "file":
            path.write_text("old")
        case "link":
            path.symlink_to("old")
        case "folder":
            path.mkdir()
        case _:
            pass
    entry = want(path, kind, "new" if kind in ("file", "link") else "", 0o755)
    there_already = (there, kind) in (("nothing", "absent"), ("folder", "folder"))
    assert put(tmp_path, entry, "new") is not there_already
    after = tree_of(tmp_path)

    assert put(tmp_path, entry, "new") is False
    assert tree_of(tmp_path) == after
    expected = {"file": path.is_file, "link": path.is_symlink, "folder": path.is_dir}
    assert expected[kind]() if kind != "absent" else not os.path.lexists(path)
    assert sorted(os.listdir(tmp_path / "deep")) == ([] if kind == "absent" else ["x"])


def test_what_a_run_that_was_cut_off_left_behind_is_taken_away(tmp_path: Path) -> None:
    entry = want(tmp_path / "a", "file", "new")
    assert put(tmp_path, entry, "new")
    mark = hashlib.sha256(b"plan" + entry.path).hexdigest()[:16]
    (tmp_path / f".backstay-{mark}.tmp").write_text("half of a ne")
    assert not put(tmp_path, entry, "new")

    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("kind", ["file", "absent", "folder", "link"])
def test_a_folder_on_the_way_that_became_a_link_is_not_followed(kind: EntryKind, tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "x").write_text("mine")
    (root / "way").symlink_to(outside)
    entry = want(root / "way" / "x", kind, "new" if kind in ("file", "link") else "")
    if kind == "absent":
        assert not put(root, entry)
    else:
        with pytest.raises(NotPutBack, match="a link or no folder"):
            put(root, entry, "new")

    assert (outside / "x").read_text() == "mine"
    assert os.listdir(outside) == ["x"]


def test_a_root_that_became_a_link_is_refused(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    root.symlink_to(outside)
    with pytest.raises(NotPutBack):
        put(root, want(root / "x", "file", "new"), "new")

    assert os.listdir(outside) == []


def test_a_folder_with_something_in_it_that_was_not_kept_stays(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine").write_text("mine")
    for entry in (want(tmp_path / "folder", "absent"), want(tmp_path / "folder", "file", "new")):
        with pytest.raises(NotPutBack, match="not empty"):
            put(tmp_path, entry, "new")

    assert tree_of(tmp_path).keys() == {"folder", "folder/mine"}


def test_a_pipe_is_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NotPutBack, match="a pipe"):
        put(tmp_path, want(tmp_path / "pipe", "file", "new"), "new")


def test_a_content_of_another_hash_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(NotPutBack, match="was not kept"):
        put(tmp_path, want(tmp_path / "a", "file", "new"), "other")

    assert os.listdir(tmp_path) == []


def test_folders_get_their_modes_and_files_no_rights_of_others(tmp_path: Path) -> None:
    put(tmp_path, want(tmp_path / "folder", "folder"))
    put(tmp_path, want(tmp_path / "folder" / "run", "file", "x", 0o4755), "x")
    set_mode(want(tmp_path / "folder", "folder", mode=0o2750), (os.fsencode(tmp_path),))

    assert tree_of(tmp_path)["folder"] == "folder 2750"
    assert (tmp_path / "folder" / "run").stat().st_mode & 0o7777 == 0o755
