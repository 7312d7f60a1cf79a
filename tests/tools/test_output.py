"""Output within bounds."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.tools.output import BoundedText


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
