"""The tool `Edit`."""

import os
import stat
import tempfile
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backstay.ports import ToolOutput
from backstay.tools.files.edit import Rewritten, edit_file, multi_edit, revise
from backstay.tools.files.locked_file import TRIES
from backstay.tools.files.read import read_file
from backstay.tools.files.target import FileTarget
from tests.tools.context import RecordingContext


async def _edit(path: Path, old: str, new: str, *, replace_all: bool = False) -> ToolOutput:
    args: dict[str, object] = {"file_path": path.name, "old_string": old, "new_string": new}
    return await edit_file.run(args | ({"replace_all": True} if replace_all else {}), RecordingContext(path.parent))


async def test_an_edit_shows_what_it_changed_with_the_files_line_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("".join(f"line {n}\n" for n in range(1, 21)))
    path.chmod(0o640)

    output = await _edit(path, "line 10\n", "line ten\nand more\n")

    assert output == ToolOutput(
        text=f"Edited {str(path)!r} at line 10.\n"
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
    assert output.text.startswith(f"Edited {str(path)!r} at line 1 (3 times).\n@@ -1,3 +1,3 @@")


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


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        # mixed line ends: every line keeps its own
        (b"a\nb\r\nc\n", "a\nb\nc", "a\nB\nc", b"a\nB\r\nc\n"),
        (b"a\r\nb\nc\r\n", "a\nb\nc\n", "a\nb\nnew\nc\n", b"a\r\nb\nnew\r\nc\r\n"),
        (b"a\r\nb\r\n", "b\n", "b\nc\n", b"a\r\nb\r\nc\r\n"),
        (b"a\r\nb", "b", "b\nc", b"a\r\nb\r\nc"),
        (b"a\r\nb\r\n", "\n", "\n\n", None),
        (b"a\r\nb\r\n", "a\r\nb\r\n", "a\nb\n", b"a\nb\n"),
        (b"a\rb\rc", "b", "x", b"a\rx\rc"),
        (b"a\r\n\r\nb\nc", "\n\n", "\n", b"a\r\nb\nc"),
        # marks and wide encodings
        ("\ufeffone\r\ntwo\r\n".encode("utf-16-le"), "two", "zwei ü", "\ufeffone\r\nzwei ü\r\n".encode("utf-16-le")),
        ("\ufeffone\ntwo\n".encode("utf-16-be"), "two\n", "2\n3\n", "\ufeffone\n2\n3\n".encode("utf-16-be")),
        ("\ufeffone 😀".encode("utf-32-le"), "one", "eins", "\ufeffeins 😀".encode("utf-32-le")),
        (b"\xef\xbb\xbfa\n", "a", "b", b"\xef\xbb\xbfb\n"),
        # latin-1 stays latin-1, also for what is put in; broken UTF-8 stays as it is
        (b"caf\xe9 old", "caf\xe9", "th\xe9", b"th\xe9 old"),
        (b"caf\xe9 old", "old", "\xfcber", b"caf\xe9 \xfcber"),
        (b"\xc3\xa9 \xff old", "old", "\xfc", b"\xc3\xa9 \xff \xc3\xbc"),
        (b"\x93quoted\x94 old", "old", "new", b"\x93quoted\x94 new"),
        (b"x" * 9000 + b"\0 old", "old", "new", b"x" * 9000 + b"\0 new"),
    ],
)
async def test_encodings_and_line_ends_stay(
    tmp_path: Path, before: bytes, old: str, new: str, after: bytes | None
) -> None:
    path = tmp_path / "a"
    path.write_bytes(before)

    output = await _edit(path, old, new)

    assert path.read_bytes() == (after or before)
    assert output.failed == (after is None)
    output.text.encode()


@pytest.mark.parametrize(
    ("content", "new", "words"),
    [
        (b"caf\xe9 old", "\u20ac", "latin-1, which has no '\u20ac'"),
        (b"\x93quoted\x94 old", "\xfc", "only ASCII"),
        (b"\x83\x65\x83\x58 old", "\u30c6", "only ASCII"),
        (b"plain old", "\udcff", "surrogates"),
    ],
)
async def test_text_that_the_file_cannot_hold_is_refused(tmp_path: Path, content: bytes, new: str, words: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(content)

    output = await _edit(path, "old", new)

    assert (output.code, path.read_bytes()) == ("bad_text", content)
    assert words in output.text


@given(
    before=st.binary(max_size=60),
    after=st.binary(max_size=60),
    old=st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8),
    new=st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8),
)
@settings(max_examples=150, deadline=None)
def test_rb_w34_every_byte_outside_the_match_stays(before: bytes, after: bytes, old: str, new: str) -> None:
    content = before + old.encode() + after
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a"
        path.write_bytes(content)

        output = anyio.run(_edit_once, path, old, new)

        now = path.read_bytes()
        if output.failed:
            assert now == content
        else:
            head, tail = _kept(content, now)
            assert len(content) - head - tail <= len(old.encode("utf-16")) * 2
            assert now[:head] == content[:head]
            assert now[len(now) - tail :] == content[len(content) - tail :]
            if b"\r" not in content and content.isascii() and new.isascii():
                assert now == content.replace(old.encode(), new.encode())
        assert os.listdir(folder) == ["a"]


async def _edit_once(path: Path, old: str, new: str) -> ToolOutput:
    return await _edit(path, old, new)


def _kept(before: bytes, after: bytes) -> tuple[int, int]:
    """How many bytes at the beginning and at the end are the same."""
    most = min(len(before), len(after))
    head = next((n for n in range(most) if before[n] != after[n]), most)
    tail = next((n for n in range(most - head) if before[-1 - n] != after[-1 - n]), most - head)
    return head, tail


@pytest.mark.parametrize(
    ("content", "old", "words"),
    [
        ("def f():\n    return 1\n", "def f():\n  return 1\n", "only in its indentation (line 1)"),
        ("a = 1  \nb = 2\n", "a = 1\nb = 2\n", "only in blanks at the ends of lines (line 1)"),
        ("x\na  =  1\n", "a = 1", "only in blanks within lines (line 2)"),
        ("a\nb\n", "a\r\nb\r\n", "only in its line ends (line 1)"),
        ("say \u201chi\u201d\n", 'say "hi"', "signs that look alike"),
        ("a\u00a0b\n", "a b", "only in"),
        ("caf\u0065\u0301\n", "caf\u00e9", "composed characters"),
        ("Hello\n", "hello", "upper and lower case (line 1)"),
        ("one\ntwo\n", "     1\tone\n     2\ttwo", "line numbers of Read"),
        ("one\ntwo\n", "one\\ntwo", "escapes such as"),
        ("x", "\ufffd", "not UTF-8"),
    ],
)
async def test_a_text_that_is_nearly_there_is_explained(tmp_path: Path, content: str, old: str, words: str) -> None:
    path = tmp_path / "a"
    path.write_text(content, newline="")

    output = await _edit(path, old, "new")

    assert output.code == "no_match"
    assert words in output.text
    assert path.read_bytes() == content.encode()


async def test_the_nearest_three_lines_are_shown_with_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a"
    lines = [f"other {n}" for n in range(1, 40)]
    lines[10], lines[20], lines[30], lines[35] = (
        "def total(items, rate):",
        "def totals(items):",
        "def total_of(items):",
        "total",
    )
    path.write_text("\n".join(lines))

    output = await _edit(path, "def total(items):\n    pass", "new")

    assert output.text.endswith(
        "The most similar lines:\n"
        "    11\tdef total(items, rate):\n    21\tdef totals(items):\n    31\tdef total_of(items):"
    )


@pytest.mark.parametrize(
    ("edits", "after"),
    [
        ([("a", "b"), ("b\n", "c\n")], "c\nx\n"),
        ([("a", "b"), ("x", "y")], "b\ny\n"),
    ],
)
async def test_several_edits_are_made_in_order(tmp_path: Path, edits: list[tuple[str, str]], after: str) -> None:
    (tmp_path / "f").write_text("a\nx\n")
    args: dict[str, object] = {
        "file_path": "f",
        "edits": [{"old_string": old, "new_string": new} for old, new in edits],
    }

    output = await multi_edit.run(args, RecordingContext(tmp_path))

    assert (tmp_path / "f").read_text() == after
    assert output.text.startswith(f"Edited {str(tmp_path / 'f')!r} at line 1 (2 times).\n@@ -1,2 +1,2 @@")


@pytest.mark.parametrize(
    ("last", "code", "words"),
    [
        (("none", "x"), "no_match", "Edit 2 of 2: old_string does not occur"),
        (("", "x"), "empty_old_string", "Edit 2 of 2: old_string is empty"),
        (("b", "a"), "no_change", "Nothing would change"),
    ],
)
async def test_several_edits_are_made_all_or_none(tmp_path: Path, last: tuple[str, str], code: str, words: str) -> None:
    (tmp_path / "f").write_text("a\nx\n")
    edits = [{"old_string": "a", "new_string": "b"}, {"old_string": last[0], "new_string": last[1]}]

    output = await multi_edit.run({"file_path": "f", "edits": edits}, RecordingContext(tmp_path))

    assert (output.code, (tmp_path / "f").read_text()) == (code, "a\nx\n")
    assert words in output.text


async def test_an_edit_of_a_file_that_changed_since_is_made_on_what_is_there_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("one\ntwo\n")
    context = RecordingContext(tmp_path)
    await read_file.run({"file_path": "a"}, context)
    path.write_text("zero\none\ntwo\n")

    first = await edit_file.run({"file_path": "a", "old_string": "two", "new_string": "2"}, context)
    second = await edit_file.run({"file_path": "a", "old_string": "2", "new_string": "3"}, context)

    assert path.read_text() == "zero\none\n3\n"
    assert "had changed since you last saw it" in first.text
    assert "had changed" not in second.text
    facts = path.stat()
    assert context.version_of(str(path)) == f"{facts.st_size}:{facts.st_mtime_ns}:{facts.st_ino}"


async def test_a_change_by_a_program_without_locks_in_the_middle_of_an_edit_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("mine\n")
    seen: list[bytes] = []

    def rewrite(_: FileTarget, content: bytes) -> Rewritten:
        if not seen:
            with path.open("a") as file:
                file.write("theirs\n")
        seen.append(content)
        return Rewritten(content.upper(), "done")

    assert await revise(RecordingContext(tmp_path), "a", rewrite) == ToolOutput(text="done")
    assert (path.read_text(), seen) == ("MINE\nTHEIRS\n", [b"mine\n", b"mine\ntheirs\n"])


async def test_an_edit_gives_up_when_somebody_else_is_always_faster(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("mine\n")

    def rewrite(_: FileTarget, content: bytes) -> Rewritten:
        path.write_bytes(content + b"theirs\n")
        return Rewritten(b"mine", "done")

    output = await revise(RecordingContext(tmp_path), "a", rewrite)

    assert (output.failed, output.code) == (True, "changed")
    assert path.read_text() == "mine\n" + "theirs\n" * TRIES


@pytest.mark.contract("RB-55")
def test_the_schema_of_an_edit_is_the_one_that_people_know() -> None:
    properties = edit_file.spec.schema["properties"]

    assert isinstance(properties, dict)
    assert list(properties) == ["file_path", "old_string", "new_string", "replace_all"]
    assert edit_file.spec.schema["required"] == ["file_path", "old_string", "new_string"]
    assert (edit_file.spec.name, multi_edit.spec.name) == ("Edit", "MultiEdit")


@pytest.mark.contract("RB-55")
async def test_rb_w40_the_start_line_comes_first_however_long_the_difference_is(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("head\n" + "x\n" * 700)

    output = await _edit(path, "x", "y", replace_all=True)

    lines = output.text.splitlines()
    assert lines[0] == f"Edited {str(path)!r} at line 2 (700 times)."
    assert lines[-1].endswith("more lines of the difference)")
    assert len(lines) == 82


async def test_a_text_that_is_everywhere_is_counted_within_bounds(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("a" * 100_000)

    output = await _edit(path, "aa", "b")

    assert "occurs more than 1000 times" in output.text
