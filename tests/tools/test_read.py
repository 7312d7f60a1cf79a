"""The tool `Read`."""

import os
from pathlib import Path

import pytest

from holdfast.ports import ToolOutput
from holdfast.tools.read import LINE_CHARS, LINES, TOTAL_CHARS, read_file
from tests.tools.context import RecordingContext

pytestmark = pytest.mark.anyio


async def _read(folder: Path, **args: object) -> ToolOutput:
    return await read_file.run(args, RecordingContext(folder))


async def test_lines_come_numbered(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\n\nfour")

    assert await _read(tmp_path, file_path="a.txt") == ToolOutput(
        text="     1\tone\n     2\ttwo\n     3\t\n     4\tfour"
    )


async def test_a_window_says_where_to_read_on(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"{n}\n" for n in range(1, 11)))

    window = await _read(tmp_path, file_path="a.txt", offset=3, limit=2)
    rest = await _read(tmp_path, file_path="a.txt", offset=9)

    assert window == ToolOutput(text="     3\t3\n     4\t4\n(The file goes on: read it with offset=5.)")
    assert rest == ToolOutput(text="     9\t9\n    10\t10")


async def test_a_long_file_stops_after_2000_lines(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\n" * (LINES + 1))

    output = await _read(tmp_path, file_path="a.txt")

    assert output.text.endswith(f"  {LINES}\tx\n(The file goes on: read it with offset={LINES + 1}.)")


async def test_long_lines_are_cut_and_all_lines_together_are_bounded(tmp_path: Path) -> None:
    (tmp_path / "line.txt").write_text("é" * (LINE_CHARS * 30) + "\nnext\n")
    (tmp_path / "wide.txt").write_text(("y" * LINE_CHARS + "\n") * 200)

    long_line = await _read(tmp_path, file_path="line.txt")
    wide = await _read(tmp_path, file_path="wide.txt")

    cut = LINE_CHARS * 29 * 2
    assert long_line.text == f"     1\t{'é' * LINE_CHARS} [{cut} bytes of this line are left out]\n     2\tnext"
    assert len(wide.text) < TOTAL_CHARS + LINE_CHARS * 2
    assert wide.text.endswith("(The file goes on: read it with offset=61.)")


async def test_bytes_that_are_not_utf8_are_shown_as_such(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"caf\xe9")

    assert await _read(tmp_path, file_path="a.txt") == ToolOutput(text="     1\tcaf\ufffd")


async def test_an_empty_file_is_called_empty(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()

    assert await _read(tmp_path, file_path="a.txt") == ToolOutput(
        text=f"(The file {str(tmp_path / 'a.txt')!r} is empty.)"
    )


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        ({"file_path": "missing"}, "not_found", "There is no file"),
        ({"file_path": "text/below"}, "not_found", "not a folder"),
        ({"file_path": "."}, "is_folder", "is a folder"),
        ({"file_path": "binary"}, "binary", "is binary"),
        ({"file_path": "pipe"}, "not_regular", "pipe"),
        ({"file_path": "text", "offset": 9}, "past_end", "has 1 lines"),
        ({"file_path": "loop"}, "os_error", "symbolic links"),
        ({"file_path": "a\0b"}, "bad_path", "cannot be a path"),
        ({"file_path": ""}, "bad_path", "cannot be a path"),
        ({"file_path": "~nobody-of-that-name/x"}, "bad_path", "cannot be resolved"),
        ({"file_path": "text", "offset": 0}, "bad_arguments", "'offset'"),
    ],
)
async def test_what_cannot_be_read_is_said_in_words(
    tmp_path: Path, args: dict[str, object], code: str, words: str
) -> None:
    (tmp_path / "text").write_text("x\n")
    (tmp_path / "binary").write_bytes(b"ELF\0\1")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")

    output = await _read(tmp_path, **args)

    assert (output.failed, output.code) == (True, code)
    assert words in output.text


async def test_paths_start_at_the_sessions_folder_or_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "a").write_text("at home")
    (tmp_path / "b").write_text("here")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir("/")

    assert (await _read(tmp_path, file_path="~/a")).text == "     1\tat home"
    assert (await _read(tmp_path, file_path="home/../b")).text == "     1\there"
    assert (await _read(Path("/nowhere"), file_path=str(tmp_path / "b"))).text == "     1\there"
