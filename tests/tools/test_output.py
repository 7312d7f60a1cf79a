"""Long outputs: terminal text decoded, kept within bounds, and read page by page."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.ports import ToolOutput
from backstay.tools.output import (
    LONGEST_ESCAPE,
    LONGEST_LINE,
    BoundedText,
    LineBuffer,
    LiveText,
    TextDecoder,
    read_output,
    read_screen,
)
from backstay.tools.shell.bash import make_bash
from tests.tools.context import RecordingContext


@given(pieces=st.lists(st.text(max_size=12)), head=st.integers(0, 10), tail=st.integers(1, 10))
def test_the_beginning_and_the_end_are_kept_and_the_rest_is_counted(pieces: list[str], head: int, tail: int) -> None:
    output = BoundedText(head, tail)
    for piece in pieces:
        output.add(piece)

    whole = "".join(pieces)
    left_out = len(whole) - head - tail
    if left_out <= 0:
        assert output.text == whole
    else:
        assert output.text == f"{whole[:head]}\n[{left_out} characters are left out here]\n{whole[-tail:]}"


def test_a_flood_is_cut_for_the_watcher_and_told() -> None:
    shown: list[str] = []
    live = LiveText(shown.append, per_second=4)

    for text, now in (("ab", 7.0), ("cde", 7.5), ("fg", 7.9), ("hi", 8.0), ("jklm", 8.1)):
        live.add(text, now)
    live.close()
    live.close()

    assert shown == [
        "ab",
        "cd",
        "\n[3 characters are not shown live]\n",
        "hi",
        "jk",
        "\n[2 characters are not shown live]\n",
    ]


PIECES = (b"a", b"\n", b"\r", b"\b", b"\x1b", b"\x1b[31m", b"\x1b[", b"\x1b]0;t\x07", b"\x1b]8;;u\x1b\\", b"\x1b(B")
ODD_PIECES = (b"\xc3", b"\xa9", b"\xff", b"\0", b"\x07", b"\x1bP", b"0;1", b"m", "é€😀".encode())
ODD = st.lists(st.sampled_from(PIECES + ODD_PIECES), max_size=30).map(b"".join)


@pytest.mark.parametrize(
    ("raw", "text", "replaced"),
    [
        (b"plain\n", "plain\n", 0),
        (b"\x1b[1;31mred\x1b[0m\x1b[K", "red", 0),
        (b"\x1b]0;a title\x07x\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "xlink", 0),
        (b"\x1b(B\x1b=\x1bMx\x1b[?25l\x1b[2 q", "x", 0),
        (b"\x1bPdevice\x1b\\x", "x", 0),
        (b"\x1b]never ends\nx", "]never ends\nx", 0),
        (b"a\x07b\x0ec\x7f", "abc", 0),
        (b"10%\r20%\r30%\nnext\r\n", "30%\nnext\n", 0),
        (b"kept\r", "kept", 0),
        (b"\r\r\n", "\n", 0),
        (b"ab\b\bcd\b!", "c!", 0),
        (b"\b\bx", "x", 0),
        (b"a\0b\xffc\x01", "a\ufffdb\ufffdc\ufffd", 3),
        ("é€😀 \ufffd".encode(), "é€😀 \ufffd", 0),
        ("half \u20ac".encode()[:-1], "half \ufffd\ufffd", 2),
    ],
)
def test_what_is_left_on_the_screen(raw: bytes, text: str, replaced: int) -> None:
    assert read_screen(raw) == (text, replaced)


@given(raw=ODD, cuts=st.lists(st.integers(0, 60), max_size=6))
def test_where_the_pieces_end_makes_no_difference(raw: bytes, cuts: list[int]) -> None:
    plain, lines = TextDecoder(), LineBuffer()
    edges = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    parts = [lines.add(plain.add(raw[start:end])) for start, end in itertools.pairwise(edges)]
    parts.append(lines.add(plain.add(b"", final=True), final=True))

    assert ("".join(parts), plain.replaced) == read_screen(raw)
    assert not set("".join(parts)) & {"\x1b", "\0", "\x07", "\r", "\b"}


def test_what_never_ends_is_not_waited_for() -> None:
    plain, lines = TextDecoder(), LineBuffer()

    assert len(plain.add(b"\x1b]" + b"x" * LONGEST_ESCAPE)) > 0
    assert lines.add("y" * LONGEST_LINE) == ""
    assert lines.add("y") == "y" * (LONGEST_LINE + 1)


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
