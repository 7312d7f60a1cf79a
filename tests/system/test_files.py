"""A file is there whole or not at all, whoever replaces it."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from backstay.export.formats import write_pieces
from backstay.system.files import has_changed, replace_file, stamp_at
from backstay.system.handles import walk_to

LONGEST = "n" * 250 + ".html"


def test_a_new_file_is_for_its_user_only(tmp_path: Path) -> None:
    replace_file(tmp_path / "a", b"new")

    assert (tmp_path / "a").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


def test_a_mode_is_given_whatever_the_umask_says(tmp_path: Path) -> None:
    replace_file(tmp_path / "a", b"new", mode=0o664, durable=False)

    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o664


def test_what_breaks_off_leaves_the_old_file_alone(tmp_path: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield b"half"
        raise KeyboardInterrupt

    (tmp_path / "a").write_bytes(b"old")

    with pytest.raises(KeyboardInterrupt):
        replace_file(tmp_path / "a", broken())

    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"a": b"old"}


def test_a_folder_in_the_place_of_the_file_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()

    with pytest.raises(OSError, match="a"):
        replace_file(tmp_path / "a", b"new")

    assert os.listdir(tmp_path) == ["a"]


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"old")
    (tmp_path / "a").symlink_to("outside")

    replace_file(tmp_path / "a", b"new")

    assert (tmp_path / "outside").read_bytes() == b"old"
    assert not (tmp_path / "a").is_symlink()


def test_a_name_below_an_open_folder_is_replaced(tmp_path: Path) -> None:
    (tmp_path / ".a.tmp").write_bytes(b"half of what a crash left")

    with walk_to(str(tmp_path), ()) as folder:
        replace_file("a", (b"n", b"ew"), folder=folder, partial=".a.tmp")

    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"a": b"new"}


def test_an_export_may_have_the_longest_name_there_is(tmp_path: Path) -> None:
    write_pieces(tmp_path / LONGEST, ["new"])

    assert os.listdir(tmp_path) == [LONGEST]


def test_a_change_that_keeps_size_and_date_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"old")
    before = file.stat()
    stamps = {str(file): stamp_at(file), str(tmp_path / "b"): stamp_at(tmp_path / "b"), "\0": stamp_at("\0")}

    assert not has_changed(stamps)
    file.write_bytes(b"new")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert has_changed(stamps)


def test_a_file_that_comes_is_a_change(tmp_path: Path) -> None:
    stamps = {str(tmp_path / "b"): stamp_at(tmp_path / "b")}

    (tmp_path / "b").touch()

    assert has_changed(stamps)
