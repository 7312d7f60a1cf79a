"""The tool `Read`."""

import os
from pathlib import Path

import pytest

from backstay.ports import ToolOutput
from backstay.tools.files import encoding as numbered
from backstay.tools.files.encoding import LINE_CHARS, TOTAL_CHARS
from backstay.tools.files.media_type import LARGEST_IMAGE
from backstay.tools.files.read import LINES, read_file
from backstay.vocab.events.tools import FileSeen
from backstay.vocab.messages import InlineMedia
from tests.tools.context import RecordingContext

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


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

    assert await _read(tmp_path, file_path="a.txt") == ToolOutput(
        text="     1\tcaf\ufffd\n(The file has bytes that are not UTF-8; they are shown as \ufffd.)"
    )


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
        ({"file_path": "text", "offset": 9}, "past_end", "has 1 line;"),
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


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
async def test_wide_text_is_decoded(tmp_path: Path, codec: str) -> None:
    (tmp_path / "a.txt").write_bytes("\ufeffone ü\r\ntwo\n".encode(codec))

    assert (await _read(tmp_path, file_path="a.txt")).text == "     1\tone ü\n     2\ttwo"
    assert (await _read(tmp_path, file_path="a.txt", offset=2)).text == "     2\ttwo"
    assert (await _read(tmp_path, file_path="a.txt", limit=1)).text.endswith("offset=2.)")


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0" + b"\0" * 20, "image/jpeg"),
        (b"GIF89a" + b"\0" * 20, "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
    ],
)
async def test_an_image_is_shown_whatever_its_name(tmp_path: Path, content: bytes, kind: str) -> None:
    (tmp_path / "a.txt").write_bytes(content)

    output = await _read(tmp_path, file_path="a.txt")

    assert output.media == (InlineMedia(media_type=kind, content=content, name="a.txt"),)
    assert f"{kind}, {len(content)} bytes" in output.text


async def test_a_large_image_is_refused_with_words(tmp_path: Path) -> None:
    with (tmp_path / "a.png").open("wb") as file:
        file.write(PNG)
        file.truncate(LARGEST_IMAGE + 1)

    output = await _read(tmp_path, file_path="a.png")

    assert (output.code, output.media) == ("too_large", ())
    assert "Make it smaller" in output.text


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x7fELF\0", "probably a program (ELF)"),
        (b"PK\x03\x04\0", "ZIP"),
        (b"SQLite format 3\0", "SQLite"),
        (b"\0\1\2", "is binary (3 bytes)"),
        (b"\xff\xfe\0", "is binary"),
    ],
)
async def test_a_binary_file_is_refused_with_a_guess_of_what_it_is(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "a.png").write_bytes(content)

    output = await _read(tmp_path, file_path="a.png")

    assert (output.failed, output.code) == (True, "binary")
    assert words in output.text


async def test_a_sparse_huge_file_is_refused_without_reading_it(tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb") as file:
        file.truncate(1 << 42)

    assert (await _read(tmp_path, file_path="a")).code == "binary"


async def test_a_line_without_end_is_not_looked_through_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numbered, "SCANNED", 100_000)
    (tmp_path / "a").write_bytes(b"x" * 200_000)

    output = await _read(tmp_path, file_path="a")

    assert (output.code, "Use `tail`" in output.text) == ("too_large", True)


@pytest.mark.skipif(not os.path.exists("/proc/kmsg"), reason="this system has no such files")
@pytest.mark.parametrize(
    "path", ["/proc/kmsg", "/proc/./kmsg", "/proc/self/root/proc/kmsg", "/proc/self/pagemap", "link"]
)
async def test_files_of_the_kernel_that_wait_or_are_used_up_are_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "link").symlink_to("/proc/kmsg")

    output = await _read(tmp_path, file_path=path)

    assert (output.failed, output.code) == (True, "not_regular")


async def test_files_of_the_kernel_can_be_read(tmp_path: Path) -> None:
    assert "Name:" in (await _read(tmp_path, file_path=f"/proc/{os.getpid()}/status")).text


@pytest.mark.parametrize("wide", ["é", "€", "😀"])
@pytest.mark.parametrize("before", range(5))
async def test_rb_w40_a_cut_never_breaks_a_character(tmp_path: Path, wide: str, before: int) -> None:
    (tmp_path / "a").write_text("a" * before + wide * (LINE_CHARS * 3))

    output = await _read(tmp_path, file_path="a")

    kept = "a" * before + wide * (LINE_CHARS - before)
    left = len((wide * (LINE_CHARS * 2 + before)).encode())
    assert output.text == f"     1\t{kept} [{left} bytes of this line are left out]"


async def test_what_was_read_is_noted_with_its_version(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "link").symlink_to("a")
    context = RecordingContext(tmp_path)

    await read_file.run({"file_path": "link"}, context)
    await read_file.run({"file_path": "none"}, context)

    facts = (tmp_path / "a").stat()
    version = f"{facts.st_size}:{facts.st_mtime_ns}:{facts.st_ino}"
    assert context.noted == [FileSeen(path=str(tmp_path / "a"), version=version)]


@pytest.mark.contract("RB-55")
def test_the_schema_of_a_read_is_the_one_that_people_know() -> None:
    properties = read_file.spec.schema["properties"]

    assert isinstance(properties, dict)
    assert list(properties) == ["file_path", "offset", "limit", "pages"]
    assert read_file.spec.schema["required"] == ["file_path"]
