"""The tool `Write`."""

import os
import stat
from pathlib import Path

import pytest

from holdfast.ports import ToolOutput
from holdfast.tools.write import write_file
from tests.tools.context import RecordingContext

pytestmark = pytest.mark.anyio


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


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
async def test_a_read_only_file_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("kept")
    (tmp_path / "a").chmod(0o444)

    output = await _write(tmp_path, "a", "new")

    assert (output.code, (tmp_path / "a").read_text()) == ("no_permission", "kept")
