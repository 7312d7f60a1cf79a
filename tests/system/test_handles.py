"""Folders reached by handles: a link on the way is an error, whatever is asked for."""

import os
from pathlib import Path

import pytest

from backstay.system.handles import NotRegular, enter, make_folder, open_regular, walk_to


def test_a_folder_is_reached_step_by_step(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/c.txt").write_text("here")

    with walk_to(str(tmp_path), ["a", "b"]) as folder, open_regular(folder, "c.txt") as handle:
        assert os.read(handle, 10) == b"here"


@pytest.mark.parametrize("names", [["link"], ["a", "link"], ["link", "b"]])
def test_outer_7_a_link_on_the_way_is_refused(tmp_path: Path, names: list[str]) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    (tmp_path / "a/link").symlink_to(tmp_path / "a/b")

    with pytest.raises(OSError, match=r"Not a directory|symbolic links"), walk_to(str(tmp_path), names):
        pass


def test_outer_7_a_folder_that_is_swapped_for_a_link_meanwhile_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "elsewhere/b").mkdir(parents=True)

    def swap(folder: int, name: str) -> int:
        handle = enter(folder, name)
        if name == "a":
            (tmp_path / "a").rename(tmp_path / "old")
            (tmp_path / "a").symlink_to(tmp_path / "elsewhere")
        return handle

    with walk_to(str(tmp_path), ["a", "b"], swap) as folder:
        assert os.fstat(folder).st_ino == (tmp_path / "old/b").stat().st_ino


def test_outer_7_what_is_no_regular_file_is_refused_and_makes_nobody_wait(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "file")

    with walk_to(str(tmp_path), []) as folder:
        with pytest.raises(NotRegular), open_regular(folder, "pipe"):
            pass
        with pytest.raises(OSError, match="symbolic links"), open_regular(folder, "link"):
            pass


def test_outer_7_a_folder_that_somebody_else_made_first_is_no_failure(tmp_path: Path) -> None:
    with walk_to(str(tmp_path), []) as folder:
        make_folder(folder, "a", 0o700)
        make_folder(folder, "a")

    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700


def test_no_handle_stays_open(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    before = len(os.listdir("/proc/self/fd"))
    for names in (["a"], ["a", "nowhere"]):
        try:
            with walk_to(str(tmp_path), names):
                pass
        except FileNotFoundError:
            assert names[-1] == "nowhere"

    assert len(os.listdir("/proc/self/fd")) == before
