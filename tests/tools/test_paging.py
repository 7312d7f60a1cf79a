"""The tool `ReadOutput`."""

from pathlib import Path

import pytest

from backstay.ports import ToolOutput
from backstay.tools.output import read_output
from backstay.tools.shell.bash import make_bash
from tests.tools.context import RecordingContext

pytestmark = pytest.mark.anyio


async def _read(content: bytes, **args: object) -> ToolOutput:
    async def fetch(output_id: str) -> bytes:
        return {"o1": content}[output_id]

    return await read_output(fetch).run({"output_id": "o1", **args}, RecordingContext())


@pytest.mark.parametrize(
    ("content", "args", "text"),
    [
        (b"a\nb\nc\n", {}, "     1\ta\n     2\tb\n     3\tc"),
        (b"a\nb\nc", {"offset": 2, "limit": 1}, "     2\tb\n(1 more lines: go on with offset=3.)"),
        (b"\x1b[1ma\x1b[0m\r\n1%\r2%\n\0", {}, "     1\ta\n     2\t2%\n     3\t\ufffd"),
        (b"one\ntwo\nthree\n", {"pattern": "^t"}, "     2\ttwo\n     3\tthree"),
        (b"one\n\ntwo\n", {"pattern": "^$"}, "     2\t"),
        (b"one\ntwo\nthree\n", {"pattern": "t", "limit": 1}, "     2\ttwo\n(1 more lines: go on with offset=3.)"),
        (b"one\n", {"pattern": "x"}, "Nothing from line 1 on: the output has 1 lines, 0 of them asked for."),
        (b"-e\n--pre\n", {"pattern": "-e"}, "     1\t-e"),
    ],
)
async def test_a_page_is_shown(content: bytes, args: dict[str, object], text: str) -> None:
    assert (await _read(content, **args)).text == text


async def test_every_part_of_one_endless_line_can_be_reached() -> None:
    content = b"".join(b"%06d" % number for number in range(20_000))
    offset, seen = 1, ""
    while True:
        page = (await _read(content, offset=offset)).text.split("\n")
        seen += "".join(line.partition("\t")[2] for line in page if "\t" in line)
        assert sum(map(len, page)) < 33_000
        if "go on with offset=" not in page[-1]:
            break
        offset = int(page[-1].partition("offset=")[2].rstrip(".)"))

    assert seen == content.decode()


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ({"output_id": "o2"}, "not_found"),
        ({"offset": 9}, "past_end"),
        ({"pattern": "("}, "bad_pattern"),
        ({"pattern": "a\0"}, "bad_pattern"),
        ({"offset": 0}, "bad_arguments"),
    ],
)
async def test_what_cannot_be_shown_is_said(args: dict[str, object], code: str) -> None:
    output = await _read(b"a\nb\n", **args)

    assert (output.failed, output.code) == (True, code)


async def test_a_pattern_that_explodes_elsewhere_is_harmless() -> None:
    output = await _read(b"a" * 1900 + b"!\n", pattern="(a+)+$")

    assert not output.failed


async def test_a_shortened_output_names_the_id_of_the_whole(tmp_path: Path) -> None:
    kept: dict[str, bytes] = {}

    async def keep(content: bytes) -> str:
        kept["o1"] = content
        return "o1"

    async def fetch(output_id: str) -> bytes:
        return kept[output_id]

    output = await make_bash(keep=keep).run({"command": "seq 30000"}, RecordingContext(tmp_path))
    page = await read_output(fetch).run({"output_id": "o1", "pattern": "^15000$"}, RecordingContext(tmp_path))

    assert "ReadOutput with output_id='o1'" in output.text
    assert page.text == " 15000\t15000"
