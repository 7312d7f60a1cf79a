"""The hash over a plugin's files, the copy of them, names, and the order of versions."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.plugins.ids import PluginId, check_name, compare
from backstay.plugins.tree import TreeLimits, copy_tree, tree_digest
from backstay.vocab.errors import UserError
from tests.plugins.shop import plugin, repository, write


def test_the_hash_is_over_every_name_kind_and_byte(tmp_path: Path) -> None:
    folder = plugin(tmp_path / "p")
    seen = {tree_digest(folder)}
    guard = folder / "hooks/guard.py"

    guard.write_text("other")
    seen.add(tree_digest(folder))
    guard.chmod(0o755)
    seen.add(tree_digest(folder))
    guard.rename(folder / "hooks/Guard.py")
    seen.add(tree_digest(folder))
    (folder / "empty").mkdir()
    seen.add(tree_digest(folder))
    (folder / "l").symlink_to("empty")
    seen.add(tree_digest(folder))
    (folder / "l").unlink()
    (folder / "l").symlink_to("hooks")
    seen.add(tree_digest(folder))

    assert len(seen) == 7
    os.utime(folder / ".mcp.json", (1, 1))
    assert tree_digest(folder) in seen


def test_a_copy_has_the_same_hash_without_history_and_caches(tmp_path: Path) -> None:
    folder = plugin(tmp_path / "p")
    (folder / "inside").symlink_to("hooks/guard.py")
    before = tree_digest(folder)
    repository(folder)
    write(folder, {"hooks/__pycache__/guard.pyc": "x"})

    copy_tree(folder, tmp_path / "copy")

    assert tree_digest(tmp_path / "copy") == before
    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o700
    assert os.readlink(tmp_path / "copy/inside") == "hooks/guard.py"


def test_compiled_python_that_a_hook_left_is_removed_and_not_held_against_the_plugin(tmp_path: Path) -> None:
    folder = plugin(tmp_path / "p")
    before = tree_digest(folder)
    write(folder, {"hooks/__pycache__/guard.cpython-311.pyc": "planted"})

    assert tree_digest(folder) != before
    assert tree_digest(folder, remove_bytecode=True) == before
    assert not (folder / "hooks/__pycache__").exists()


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "gone", "d/../../outside"])
def test_rb_w15_a_link_that_leads_out_or_nowhere_is_refused_by_name(tmp_path: Path, target: str) -> None:
    write(tmp_path, {"outside/x": "secret"})
    folder = plugin(tmp_path / "p")
    (folder / "d").symlink_to(".")
    (folder / "evil").symlink_to(target)

    for work in (lambda: copy_tree(folder, tmp_path / "copy"), lambda: tree_digest(folder)):
        with pytest.raises(UserError, match="The link 'evil'"):
            work()


def test_pipes_are_refused_and_too_much_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "p", {"a/b/c/d": "1", "big": "x" * 100})
    for limits in (TreeLimits(files=2), TreeLimits(total=50), TreeLimits(one=50), TreeLimits(depth=2)):
        with pytest.raises(UserError, match=r"too much for a plugin|folders deep"):
            tree_digest(folder, limits)
    os.mkfifo(folder / "pipe")
    with pytest.raises(UserError, match="'pipe'"):
        tree_digest(folder)


ORDER = (
    ("0.9", "1.0.0a1", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0"),
    ("1.0", "1.0.post1", "1.0.1", "1.2", "1.9.0", "1.10.0", "2", "10.0"),
)


@pytest.mark.parametrize("versions", ORDER)
def test_rb_w56_versions_are_compared_as_versions(versions: tuple[str, ...]) -> None:
    for place, one in enumerate(versions):
        for other_place, other in enumerate(versions):
            wanted = "same" if place == other_place else "newer" if place > other_place else "older"
            assert compare(one, other) == wanted, (one, other)


def test_versions_that_only_look_different_are_the_same_and_commits_are_no_versions() -> None:
    assert compare("1.0", "1.0.0") == compare("v1.2", "1.2.0") == compare("1.0+linux", "1.0") == "same"
    assert compare("7f3a9c12ab34", "1.0") == compare("1.0", "main") == compare("abc", "abd") == "other"
    assert compare("abc", "abc") == "same"


@given(st.text(max_size=30), st.text(max_size=30))
def test_comparing_never_fails_and_is_the_same_from_both_sides(one: str, other: str) -> None:
    opposite = {"newer": "older", "older": "newer", "same": "same", "other": "other"}

    assert compare(other, one) == opposite[compare(one, other)]


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "a\\b", "-rf", ".hidden", "a b", "a\n", "é", "a..b", "x" * 65, "a@b"]
)
def test_rb_w15_names_that_could_be_paths_or_flags_are_refused(name: str) -> None:
    with pytest.raises(UserError, match="cannot name a plugin"):
        check_name(name, "plugin")
    with pytest.raises(UserError):
        PluginId.parse(f"ok@{name}" if name != "a@b" else "a@b@c")
