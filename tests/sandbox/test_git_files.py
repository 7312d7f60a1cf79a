"""The names that git tracks, read from its index."""

import os
import subprocess
from pathlib import Path

import pytest

from backstay.sandbox.git_files import list_tracked, submodule_paths

FILES = ("a.py", "src/a.py", "src/deep/ä b.py", "src/deep/" + "long" * 40, ".env", "z")


def git(folder: Path, *words: str) -> str:
    quiet = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    names = {f"GIT_{who}_{what}": "x@x.test" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    done = subprocess.run(
        ["git", *words], cwd=folder, check=True, capture_output=True, env={**os.environ, **quiet, **names}
    )
    return done.stdout.decode()


def names(folder: Path) -> list[str] | None:
    found = list_tracked(str(folder))
    return None if found is None else sorted(found)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with tracked files and one that is not."""
    root = tmp_path / "repo"
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    git(root, "init", "-q")
    git(root, "add", ".")
    (root / "untracked").write_text("x")
    return root


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_every_tracked_file_is_named_in_each_version_of_the_index(repository: Path, version: str) -> None:
    git(repository, "update-index", "--index-version", version)
    (repository / "later").write_text("x")
    git(repository, "add", "--intent-to-add", "later")  # it needs more flags

    assert names(repository) == sorted(f"/{name}" for name in (*FILES, "later"))
    assert names(repository / "src/deep") == sorted(f"/{Path(name).name}" for name in FILES if "deep" in name)


def test_a_linked_work_tree_has_an_index_of_its_own(repository: Path, tmp_path: Path) -> None:
    git(repository, "commit", "-qm", "all")
    git(repository, "worktree", "add", "-q", str(tmp_path / "linked"))
    git(tmp_path / "linked", "rm", "-q", "z")

    assert names(tmp_path / "linked") == sorted(f"/{name}" for name in FILES if name != "z")


def test_what_cannot_be_told_is_not_guessed(repository: Path, tmp_path: Path) -> None:
    assert names(tmp_path) is None

    git(repository, "update-index", "--split-index")
    assert names(repository) is None

    (repository / ".git/index").unlink()
    assert names(repository) == []
    (repository / "src/.git").mkdir()
    assert names(repository / "src") is None

    os.mkfifo(repository / ".git/index")
    assert names(repository) is None

    (repository / ".git/index").unlink()
    (repository / ".git/index").write_bytes(b"DIRC\0\0\0\2\0\0\0\7" + b"x" * 40)
    assert names(repository) is None


@pytest.mark.parametrize("words", ["# no sha256 here", "[x]\nobjectformat = sha256", "[extensions]\nunheard = sha256"])
def test_a_word_in_the_configuration_does_not_change_how_the_index_is_read(repository: Path, words: str) -> None:
    config = repository / ".git/config"
    config.write_text(f"{words}\n{config.read_text()}")

    assert names(repository) == sorted(f"/{name}" for name in FILES)


def test_an_index_of_long_hashes_is_read_in_every_writing_of_the_configuration(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--object-format=sha256")
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    git(tmp_path, "add", ".")
    config = tmp_path / ".git/config"
    assert names(tmp_path) == sorted(f"/{name}" for name in FILES)

    config.write_text(config.read_text().replace("sha256", '"sha"2\\\n56'))

    assert git(tmp_path, "ls-files")
    assert names(tmp_path) == sorted(f"/{name}" for name in FILES)


def test_an_index_that_goes_on_where_it_should_end_is_not_guessed(repository: Path) -> None:
    index = repository / ".git/index"
    content = index.read_bytes()
    index.write_bytes(content[:-20] + b"\0\0\0\0" + content[-20:])

    assert names(repository) is None


def test_an_index_with_whole_folders_names_neither_files_nor_submodules(repository: Path) -> None:
    for words in (("commit", "-qm", "1"), ("sparse-checkout", "set", "--cone", "--sparse-index", "other")):
        git(repository, *words)
    assert "\n040000 " in git(repository, "ls-files", "--stage", "--sparse")

    assert names(repository) is None
    with pytest.raises(ValueError, match=r"whole folders"):
        submodule_paths(repository / ".git")


@pytest.mark.parametrize("name", ["../outs", "/out/of/", "src/../s", ".git/HEA", "a//bcdef", "src/.GIT", "./abcdef"])
def test_an_index_with_names_that_lead_elsewhere_is_not_guessed(repository: Path, name: str) -> None:
    (repository / ("k" * 8)).write_text("x")
    git(repository, "add", "k" * 8)
    index = repository / ".git/index"
    index.write_bytes(index.read_bytes().replace(b"k" * 8, name.encode()))

    assert names(repository) is None


def test_files_that_lie_behind_a_link_now_are_not_guessed(repository: Path, tmp_path: Path) -> None:
    (repository / "src/deep").rename(tmp_path / "deep")
    (repository / "src/deep").symlink_to(tmp_path / "deep")
    assert "deep/" in git(repository, "grep", "-l", "deep"), "git searches them"

    assert names(repository) is None
    assert names(repository / "src") is None
