"""The tool `Edit`."""

import os
import stat
from pathlib import Path

import pytest

from holdfast.ports import ToolOutput
from holdfast.tools.edit import edit_file
from tests.tools.context import RecordingContext

pytestmark = pytest.mark.anyio


async def _edit(path: Path, old: str, new: str, *, replace_all: bool = False) -> ToolOutput:
    args: dict[str, object] = {"file_path": path.name, "old_string": old, "new_string": new}
    return await edit_file.run(args | ({"replace_all": True} if replace_all else {}), RecordingContext(path.parent))


async def test_an_edit_shows_what_it_changed_with_the_files_line_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("".join(f"line {n}\n" for n in range(1, 21)))
    path.chmod(0o640)

    output = await _edit(path, "line 10\n", "line ten\nand more\n")

    assert output == ToolOutput(
        text=f"Edited {str(path)!r}.\n"
        "@@ -7,7 +7,8 @@\n line 7\n line 8\n line 9\n-line 10\n+line ten\n+and more\n line 11\n line 12\n line 13"
    )
    assert path.read_text().splitlines()[8:12] == ["line 9", "line ten", "and more", "line 11"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\nc\r\n"),
        (b"a\r\nb\r\n", "b", "b\nc", b"a\r\nb\r\nc\r\n"),
        (b"a\r\nb\r\n", "a\r\nb", "x\r\ny", b"x\r\ny\r\n"),
        (b"a\nb\r\nc\n", "b\nc", "d\nc", b"a\nd\r\nc\n"),
        (b"a\nb\r\nc\nd\n", "c\nd", "e\nf", b"a\nb\r\ne\nf\n"),
        (b"a\nb\n", "a\nb", "x\ny", b"x\ny\n"),
        (b"\xef\xbb\xbfcaf\xe9 old \xff", "old", "new", b"\xef\xbb\xbfcaf\xe9 new \xff"),
        (b"no end", "end", "end\n", b"no end\n"),
        (b"gone here", "gone ", "", b"here"),
    ],
)
async def test_line_ends_and_other_bytes_stay(tmp_path: Path, before: bytes, old: str, new: str, after: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(before)

    output = await _edit(path, old, new)

    assert path.read_bytes() == after
    assert not output.failed
    output.text.encode()  # what a model is told can be stored


async def test_every_occurrence_is_replaced_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("x 1\nx 2\nx 3\n")

    output = await _edit(path, "x", "y", replace_all=True)

    assert path.read_text() == "y 1\ny 2\ny 3\n"
    assert output.text.startswith(f"Edited {str(path)!r} (3 times).\n@@ -1,3 +1,3 @@")


async def test_a_large_change_is_not_shown_whole(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("x\n" * 100)

    some = await _edit(path, "x", "y", replace_all=True)
    path.write_text("x\n" * 100_000)
    all_of_it = await _edit(path, "x", "y", replace_all=True)

    assert some.text.endswith("(121 more lines of the difference)")
    assert all_of_it.text.endswith("(The change is too large to show.)")


@pytest.mark.parametrize(
    ("content", "old", "new", "code", "words"),
    [
        (b"a", "", "x", "empty_old_string", "Write"),
        (b"a", "a", "a", "no_change", "the same"),
        (b"a", "b", "x", "no_match", "does not occur"),
        (b"a\nb\na\n", "a", "x", "not_unique", "occurs 2 times"),
        (b"a\nb\na\n", "a", "x", "not_unique", "(lines 1, 3)"),
        (b"aaa", "aa", "x", "not_unique", "occurs 2 times"),
        (b"a " * 9, "a", "x", "not_unique", "lines 1, 1, 1, 1, 1, ..."),
        (b"a\0b", "a", "x", "binary", "is binary"),
        (b"abc", "b", "\ud800", "bad_text", "surrogates"),
    ],
)
async def test_what_cannot_be_edited_is_said_and_left_alone(
    tmp_path: Path, content: bytes, old: str, new: str, code: str, words: str
) -> None:
    path = tmp_path / "a"
    path.write_bytes(content)

    output = await _edit(path, old, new)

    assert (output.failed, output.code) == (True, code)
    assert words in output.text
    assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["a"]


async def test_a_missing_file_and_a_folder_are_said(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()

    assert (await _edit(tmp_path / "missing", "a", "b")).code == "not_found"
    assert (await _edit(tmp_path / "folder", "a", "b")).code == "is_folder"


async def test_a_link_is_edited_through(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")

    await _edit(tmp_path / "link", "old", "new")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
