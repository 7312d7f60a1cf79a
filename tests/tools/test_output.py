"""Output within bounds."""

from hypothesis import given
from hypothesis import strategies as st

from backstay.tools.output import BoundedText, LiveText


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
