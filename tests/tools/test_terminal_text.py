"""Output as a terminal would leave it."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.tools.output import LONGEST_ESCAPE, LONGEST_LINE, SettledLines, TextDecoder, read_screen

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
    plain, lines = TextDecoder(), SettledLines()
    edges = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    parts = [lines.add(plain.add(raw[start:end])) for start, end in itertools.pairwise(edges)]
    parts.append(lines.add(plain.add(b"", final=True), final=True))

    assert ("".join(parts), plain.replaced) == read_screen(raw)
    assert not set("".join(parts)) & {"\x1b", "\0", "\x07", "\r", "\b"}


def test_what_never_ends_is_not_waited_for() -> None:
    plain, lines = TextDecoder(), SettledLines()

    assert len(plain.add(b"\x1b]" + b"x" * LONGEST_ESCAPE)) > 0
    assert lines.add("y" * LONGEST_LINE) == ""
    assert lines.add("y") == "y" * (LONGEST_LINE + 1)
