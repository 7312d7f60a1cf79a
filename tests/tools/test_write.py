"""The tool `Write`."""

import os
import stat
from pathlib import Path

import pytest

from backstay.ports import ToolOutput
from backstay.tools.files.read import read_file
from backstay.tools.files.write import write_file
from tests.tools.context import RecordingContext


async def _write(folder: Path, file_path: str, content: str) -> ToolOutput:
    return await write_file.run({"file_path": file_path, "content": content}, RecordingContext(folder))


async def test_a_new_file_gets_its_folders(tmp_path: Path) -> None:
    output = await _write(tmp_path, "a/b/c.txt", "grüße\r\n")

    target = tmp_path / "a" / "b" / "c.txt"
    assert output == ToolOutput(text=f"Created {str(target)!r}: 9 bytes.")
    assert target.read_bytes() == "grüße\r\n".encode()
    assert os.listdir(target.parent) == ["c.txt"]


async def test_a_replaced_file_keeps_its_mode(tmp_path: Path) -> None:
    target = tmp_path / "run.sh"
    target.write_text("old")
    target.chmod(0o751)

    output = await _write(tmp_path, "run.sh", "new")

    assert output.text.startswith("Replaced")
    assert (target.read_text(), stat.S_IMODE(target.stat().st_mode)) == ("new", 0o751)


async def test_a_new_file_gets_the_mode_that_the_umask_leaves(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()

    await _write(tmp_path, "made", "x")

    assert (tmp_path / "made").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("exists", [True, False])
async def test_a_link_stays_a_link_and_its_target_is_written(tmp_path: Path, exists: bool) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real/file")
    if exists:
        (tmp_path / "real" / "file").write_text("old")

    await _write(tmp_path, "link", "new")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "file").read_text() == "new"


async def test_a_reader_of_the_old_file_still_sees_it_whole(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with (tmp_path / "a").open() as reader:
        await _write(tmp_path, "a", "new and longer")
        assert reader.read() == "old"


@pytest.mark.parametrize(
    ("file_path", "content", "code"),
    [
        ("folder", "x", "is_folder"),
        ("pipe", "x", "not_regular"),
        ("loop", "x", "os_error"),
        ("text/below", "x", "not_found"),
        ("new/", "x", "is_folder"),
        ("new/folder/text", "\ud800", "bad_text"),
        ("half\ud800", "x", "bad_path"),
        ("text", "\ud800", "bad_text"),
        ("", "x", "bad_path"),
    ],
)
async def test_what_cannot_be_written_leaves_everything_as_it_was(
    tmp_path: Path, file_path: str, content: str, code: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("kept")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    before = sorted(os.listdir(tmp_path))

    output = await _write(tmp_path, file_path, content)

    assert (output.failed, output.code) == (True, code)
    assert sorted(os.listdir(tmp_path)) == before
    assert (tmp_path / "text").read_text() == "kept"


@pytest.mark.parametrize(
    ("before", "content", "after", "words"),
    [
        (b"a\r\nb\r\n", "c\nd\n", b"c\r\nd\r\n", "CRLF line ends as before"),
        (b"a\r\nb\n", "c\nd\n", b"c\nd\n", ""),
        (b"a\r\n", "c\r\nd\n", b"c\r\nd\n", ""),
        (b"\xef\xbb\xbfa\n", "b\n", b"\xef\xbb\xbfb\n", "UTF-8 with a mark as before"),
        (b"\xef\xbb\xbfa\n", "\ufeffb\n", b"\xef\xbb\xbfb\n", ""),
        ("\ufeffa\r\n".encode("utf-16-le"), "ü\n", "\ufeffü\r\n".encode("utf-16-le"), "UTF-16 and CRLF"),
        (b"caf\xe9", "th\xe9", b"th\xe9", "latin-1 as before"),
        (b"caf\xe9", "\u20ac", b"\xe2\x82\xac", "it was latin-1 and is UTF-8 now"),
        (b"\0binary", "text", b"text", ""),
        (b"", "x\n", b"x\n", ""),
    ],
)
async def test_a_replaced_file_keeps_its_encoding_and_its_line_ends(
    tmp_path: Path, before: bytes, content: str, after: bytes, words: str
) -> None:
    (tmp_path / "a").write_bytes(before)

    output = await _write(tmp_path, "a", content)

    assert (tmp_path / "a").read_bytes() == after
    assert words in output.text
    assert ("as before" in output.text) == ("as before" in words or "UTF-16" in words)


async def test_what_was_replaced_unseen_is_said(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo\nthree")

    output = await _write(tmp_path, "a", "new")

    assert output.text.endswith("3 bytes. You had not seen it: it held 13 bytes in 3 lines.")


async def test_a_file_that_changed_since_it_was_seen_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("seen")
    context = RecordingContext(tmp_path)
    args: dict[str, object] = {"file_path": "a", "content": "mine"}
    await read_file.run({"file_path": "a"}, context)
    path.write_text("theirs, and newer")

    refused = await write_file.run(args, context)
    assert (refused.failed, refused.code, path.read_text()) == (True, "changed", "theirs, and newer")
    assert "Read it again" in refused.text

    await read_file.run({"file_path": "a"}, context)
    assert await write_file.run(args, context) == ToolOutput(text=f"Replaced {str(path)!r}: 4 bytes.")
    assert path.read_text() == "mine"


async def test_a_file_that_is_gone_since_it_was_seen_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("seen")
    context = RecordingContext(tmp_path)
    await read_file.run({"file_path": "a"}, context)
    (tmp_path / "a").unlink()

    output = await write_file.run({"file_path": "a", "content": "new"}, context)

    assert (output.failed, (tmp_path / "a").read_text()) == (False, "new")


async def test_two_writes_after_each_other_need_no_reading(tmp_path: Path) -> None:
    context = RecordingContext(tmp_path)

    outputs = [await write_file.run({"file_path": "a", "content": text}, context) for text in ("one", "two")]

    assert [output.failed for output in outputs] == [False, False]


@pytest.mark.contract("RB-55")
def test_the_schema_of_a_write_is_the_one_that_people_know() -> None:
    assert write_file.spec.schema["required"] == ["file_path", "content"]
