"""Whole outputs, within a limit."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from backstay.tools.shell.spool import Spool


@given(
    pieces=st.lists(st.binary(max_size=25), max_size=12),
    half=st.integers(1, 20),
    in_memory=st.integers(0, 30),
    start=st.integers(0, 120),
)
def test_the_beginning_and_the_end_are_kept(pieces: list[bytes], half: int, in_memory: int, start: int) -> None:
    spool = Spool(half=half, in_memory=min(in_memory, 2 * half))
    for piece in pieces:
        spool.add(piece)
    whole = b"".join(pieces)
    start = min(start, len(whole))

    found, end = spool.read(start)
    spool.close()

    gap_end = max(half, len(whole) - half)
    left_out = gap_end - max(start, half)
    if left_out <= 0:
        assert found == whole[start:]
    else:
        note = f"\n[{left_out} bytes are left out here]\n".encode()
        assert found == whole[start:half] + note + whole[gap_end:]
    assert end == len(whole)


def test_short_output_needs_no_file_and_long_output_leaves_none_behind(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path / "missing"), in_memory=10)
    spool.add(b"short")
    assert (spool.whole(), spool.trouble) == (b"short", "")

    spool.add(b"too long for it")
    assert spool.trouble == "No such file or directory"
    assert spool.whole() == b"short\n[the rest could not be kept: No such file or directory]\n"
    spool.close()

    spool = Spool(str(tmp_path), in_memory=10)
    spool.add(b"too long for memory")
    assert (spool.whole(), list(tmp_path.iterdir())) == (b"too long for memory", [])
    spool.close()
