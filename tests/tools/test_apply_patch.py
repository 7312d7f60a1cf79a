"""The tool `apply_patch`."""

import os
import stat
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from backstay.ports import ToolOutput
from backstay.tools.files.apply_patch import NotApplied, PlannedFile, apply_patch, write_all
from backstay.tools.files.locked_file import hold
from backstay.tools.files.read import read_file
from backstay.tools.files.target import FileTarget, Refused
from tests.tools.context import RecordingContext


async def _patch(folder: Path, *lines: str, context: RecordingContext | None = None) -> ToolOutput:
    patch = "\n".join(("*** Begin Patch", *lines, "*** End Patch"))
    return await apply_patch.run({"patch": patch}, context or RecordingContext(folder))


def _contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


async def test_a_patch_adds_changes_moves_and_removes_files(tmp_path: Path) -> None:
    for name in ("change", "move", "gone"):
        (tmp_path / name).write_text("1\n2\n")
    (tmp_path / "move").chmod(0o751)
    context = RecordingContext(tmp_path)

    output = await _patch(
        tmp_path,
        "*** Add File: new/folder/file",
        "+x",
        "+y",
        "*** Update File: change",
        "@@",
        "-2",
        "+two",
        "*** Update File: move",
        "*** Move to: new/moved",
        "-1",
        "+one",
        "*** Delete File: gone",
        context=context,
    )

    assert _contents(tmp_path) == {"change": "1\ntwo\n", "new/folder/file": "x\ny\n", "new/moved": "one\n2\n"}
    assert stat.S_IMODE((tmp_path / "new/moved").stat().st_mode) == 0o751
    shown = {name: repr(str(tmp_path / name)) for name in ("new/folder/file", "change", "move", "new/moved", "gone")}
    assert output == ToolOutput(
        text=f"Added {shown['new/folder/file']}: 2 lines.\n"
        f"Updated {shown['change']} at line 2.\n@@ -1,2 +1,2 @@\n 1\n-2\n+two\n"
        f"Updated {shown['move']} at line 1 and moved to {shown['new/moved']}.\n@@ -1,2 +1,2 @@\n-1\n+one\n 2\n"
        f"Removed {shown['gone']}."
    )
    assert {event.path: bool(event.version) for event in context.seen_files} == {
        str(tmp_path / "new/folder/file"): True,
        str(tmp_path / "change"): True,
        str(tmp_path / "move"): False,
        str(tmp_path / "new/moved"): True,
        str(tmp_path / "gone"): False,
    }


async def test_a_patch_may_be_called_input(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbf1\r\n2\r\n")

    output = await apply_patch.run(
        {"input": "*** Begin Patch\n*** Update File: a\n@@ -1,2 +1,2 @@\n 1\n-2\n+two\n*** End Patch\n"},
        RecordingContext(tmp_path),
    )

    assert (output.failed, (tmp_path / "a").read_bytes()) == (False, b"\xef\xbb\xbf1\r\ntwo\r\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"caf\xe9\n1\n", b"caf\xe9\n\xfc\n"),
        ("\ufeffa\r\n1\r\n".encode("utf-16-le"), "\ufeffa\r\nü\r\n".encode("utf-16-le")),
        (b"a\xff\xc3\xa9\n1", b"a\xff\xc3\xa9\n\xc3\xbc"),
    ],
)
async def test_encodings_and_line_ends_stay(tmp_path: Path, before: bytes, after: bytes) -> None:
    (tmp_path / "a").write_bytes(before)

    output = await _patch(tmp_path, "*** Update File: a", "-1", "+ü")

    assert ((tmp_path / "a").read_bytes(), output.failed) == (after, False)


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (["*** Update File: none", "-1", "+2"], "not_found"),
        (["*** Update File: b", "-none", "+2"], "no_match"),
        (["*** Update File: b", "-1", "+1"], "no_change"),
        (["*** Add File: b", "+x"], "exists"),
        (["*** Update File: b", "*** Move to: c", "-1", "+2"], "exists"),
        (["*** Delete File: none"], "not_found"),
        (["*** Delete File: folder"], "is_folder"),
        (["*** Delete File: link"], "is_link"),
        (["*** Update File: link", "*** Move to: d", "-1", "+2"], "is_link"),
        (["*** Delete File: locked"], "no_permission"),
        (["*** Update File: locked", "-1", "+2"], "no_permission"),
        (["*** Update File: hard", "-1", "+2"], "hard_links"),
        (["*** Update File: binary", "-1", "+2"], "binary"),
        (["*** Update File: pipe", "-1", "+2"], "not_regular"),
        (["*** Add File: b/below", "+x"], "not_found"),
        (["*** Add File: deep/new/\0", "+x"], "bad_patch"),
        (["nonsense"], "bad_patch"),
    ],
)
async def test_when_one_file_is_wrong_no_file_is_changed(tmp_path: Path, lines: list[str], code: str) -> None:
    for name in ("a", "b", "c", "locked"):
        (tmp_path / name).write_text("1\n")
    (tmp_path / "locked").chmod(0o444)
    (tmp_path / "binary").write_bytes(b"\0\n1\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("b")
    (tmp_path / "hard").write_text("1\n")
    (tmp_path / "hard2").hardlink_to(tmp_path / "hard")
    os.mkfifo(tmp_path / "pipe")
    before = sorted(os.listdir(tmp_path))
    contents = _contents(tmp_path)

    output = await _patch(tmp_path, "*** Add File: deep/er/new", "+x", "*** Update File: a", "-1", "+2", *lines)

    assert (output.failed, output.code) == (True, code)
    assert (sorted(os.listdir(tmp_path)), _contents(tmp_path)) == (before, contents)


async def test_sections_of_one_file_are_made_one_after_the_other(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n")
    (tmp_path / "b").write_text("b\n")
    (tmp_path / "alias").symlink_to("a")

    output = await _patch(
        tmp_path,
        *("*** Update File: a", "-1", "+2", "*** Update File: alias", "-2", "+3"),
        *("*** Update File: b", "*** Move to: c", "*** Add File: b", "+new b"),
    )

    assert not output.failed
    assert _contents(tmp_path) == {"a": "3\n", "alias": "3\n", "b": "new b\n", "c": "b\n"}
    assert (tmp_path / "alias").is_symlink()


async def test_a_file_that_changed_since_it_was_seen_is_changed_as_it_is_and_not_removed(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n")
    context = RecordingContext(tmp_path)
    await read_file.run({"file_path": "a"}, context)
    (tmp_path / "a").write_text("0\n1\n")

    removed = await _patch(tmp_path, "*** Delete File: a", context=context)
    changed = await _patch(tmp_path, "*** Update File: a", "-1", "+2", context=context)

    assert (removed.code, "Read it again" in removed.text) == ("changed", True)
    assert ("had changed since you last saw it" in changed.text, (tmp_path / "a").read_text()) == (True, "0\n2\n")


@pytest.mark.parametrize("failing", range(4))
def test_when_a_write_fails_those_before_are_put_back_and_it_is_said(tmp_path: Path, failing: int) -> None:
    names = ("a", "b", "new", "removed")
    for name in ("a", "b", "removed"):
        (tmp_path / name).write_text(f"{name}\n")
        (tmp_path / name).chmod(0o640)
    before = {name: (tmp_path / name).stat().st_mode for name in ("a", "b", "removed")}
    stack = ExitStack()
    files = [
        PlannedFile(stack.enter_context(hold(FileTarget(str(tmp_path / name), str(tmp_path / name))))) for name in names
    ]
    for file in files:
        file.content = None if file.shown.endswith("removed") else b"patched\n"

    # somebody who takes no lock is faster with one of the files
    if names[failing] == "new":
        (tmp_path / "new").write_text("theirs\n")
    else:
        (tmp_path / names[failing]).write_text("theirs and longer\n")
    with stack, pytest.raises(NotApplied) as caught:
        write_all(files)

    theirs = {"new": "theirs\n"} if names[failing] == "new" else {names[failing]: "theirs and longer\n"}
    assert _contents(tmp_path) == {"a": "a\n", "b": "b\n", "removed": "removed\n"} | theirs
    assert {name: (tmp_path / name).stat().st_mode for name in before} == before
    assert str(caught.value).startswith(
        f"The patch was not applied: {str(tmp_path / names[failing])!r} could not be written."
    )
    assert str(caught.value).endswith("Nothing is changed.")


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="no extended attributes here")
def test_a_removed_file_is_put_back_with_all_that_it_had(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        path.write_text("kept\n")
        path.chmod(0o604)
        os.setxattr(path, "user.note", b"kept")
    with ExitStack() as stack:
        files = [PlannedFile(stack.enter_context(hold(FileTarget(str(path), str(path))))) for path in paths]
        for file in files:
            file.content = None
        paths[1].write_text("theirs\n")
        with pytest.raises(NotApplied, match="Put back as they were"):
            write_all(files)

    assert [path.read_text() for path in paths] == ["kept\n", "theirs\n"]
    assert (stat.S_IMODE(paths[0].stat().st_mode), os.getxattr(paths[0], "user.note")) == (0o604, b"kept")


async def test_a_patch_is_not_led_outside_by_a_link_that_came_after_the_judgement(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/a").write_text("1\n")
    (tmp_path / "w").symlink_to("outside")
    paths = [f"{tmp_path}/w/a", f"{tmp_path}/w/b"]
    context = RecordingContext(tmp_path, links={path: path for path in paths})

    for lines in (["*** Update File: w/a", "-1", "+2"], ["*** Delete File: w/a"], ["*** Add File: w/b", "+x"]):
        assert (await _patch(tmp_path, *lines, context=context)).code == "moved"
    assert _contents(tmp_path / "outside") == {"a": "1\n"}


async def test_a_path_of_the_patch_that_nobody_judged_is_refused(tmp_path: Path) -> None:
    context = RecordingContext(tmp_path, links={f"{tmp_path}/a": f"{tmp_path}/a"})

    output = await _patch(tmp_path, "*** Add File: a", "+x", "*** Add File: b", "+x", context=context)

    assert (output.code, os.listdir(tmp_path)) == ("not_judged", [])


async def test_both_names_of_the_patch_at_once_are_refused(tmp_path: Path) -> None:
    output = await apply_patch.run({"patch": "x", "input": "y"}, RecordingContext(tmp_path))

    assert (output.code, "not both" in output.text) == ("bad_patch", True)


def test_a_patch_waits_for_a_file_that_is_held(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n")
    target = FileTarget(str(tmp_path / "a"), str(tmp_path / "a"))
    order: list[str] = []

    def second() -> None:
        with hold(target) as held:
            order.append(held.read().decode())

    with hold(target) as held:
        thread = threading.Thread(target=second)
        thread.start()
        held.replace(b"2\n")
        order.append("first")
    thread.join()

    assert order == ["first", "2\n"]


def test_a_refusal_has_words_and_a_code() -> None:
    assert Refused("code", "half \ud800 words").output == ToolOutput(text="half ? words", failed=True, code="code")
