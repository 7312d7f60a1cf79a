"""Differences as typed lines: whatever two texts are, the lines lead from one to the other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.logic.state.file_diffs import (
    LINE_CHARS,
    MOST_LINES,
    Diff,
    DiffLine,
    diff_replacement,
    diff_texts,
    parse_unified_diff,
)

texts = st.lists(st.sampled_from(["a", "b", "c", "", "  d", "-x", "+y", "@@ -1 +1 @@"]), max_size=12).map(
    lambda lines: "".join(f"{line}\n" for line in lines)
)


def applied(before: str, diff: Diff) -> str:
    """`before` with `diff` applied by its line numbers."""
    old = before.split("\n")[:-1]
    gone = {line.line for line in diff if line.type == "remove"}
    left = iter([line for number, line in enumerate(old, 1) if number not in gone])
    came = {line.line: line.text for line in diff if line.type == "add"}
    new: list[str] = []
    for number in range(1, len(old) - len(gone) + len(came) + 1):
        new.append(came[number] if number in came else next(left))
    return "".join(f"{line}\n" for line in new)


@given(texts, texts)
def test_a_difference_leads_from_one_text_to_the_other(before: str, after: str) -> None:
    diff = diff_texts(before, after)
    assert applied(before, diff) == after
    assert (diff == ()) == (before == after)
    lines = after.split("\n")
    assert all(lines[each.line - 1] == each.text for each in diff if each.type in ("context", "add"))


@given(texts, texts)
def test_a_difference_can_be_written_and_read_again(before: str, after: str) -> None:
    signs = {"hunk": "", "context": " ", "remove": "-", "add": "+"}
    diff = diff_texts(before, after)
    text = "\n".join(signs[line.type] + line.text for line in diff)
    assert parse_unified_diff(f"Edited 'x' at line 1.\n{text}\n(2 more lines of the difference)\n+not a line") == diff


def test_lines_have_their_type_and_number() -> None:
    before = "".join(f"{n}\n" for n in range(1, 10))
    assert diff_texts(before, before.replace("5\n", "five\nand a half\n")) == (
        DiffLine(type="hunk", text="@@ -2,7 +2,8 @@"),
        DiffLine(type="context", text="2", line=2),
        DiffLine(type="context", text="3", line=3),
        DiffLine(type="context", text="4", line=4),
        DiffLine(type="remove", text="5", line=5),
        DiffLine(type="add", text="five", line=5),
        DiffLine(type="add", text="and a half", line=6),
        DiffLine(type="context", text="6", line=7),
        DiffLine(type="context", text="7", line=8),
        DiffLine(type="context", text="8", line=9),
    )


def test_a_replacement_has_numbers_when_its_place_is_known() -> None:
    assert diff_replacement("a\nb", "c", 7) == (
        DiffLine(type="hunk", text="@@ -7,2 +7,1 @@"),
        DiffLine(type="remove", text="a", line=7),
        DiffLine(type="remove", text="b", line=8),
        DiffLine(type="add", text="c", line=7),
    )
    assert diff_replacement("a", "b") == (DiffLine(type="remove", text="a"), DiffLine(type="add", text="b"))


@pytest.mark.parametrize("lines", [MOST_LINES + 1, 5_000])
def test_a_huge_change_is_cut_and_says_so(lines: int) -> None:
    diff = diff_texts("x" * 10_000 + "\n", "".join(f"{n}\n" for n in range(lines)))
    assert len(diff) == MOST_LINES + 1
    assert diff[-1] == DiffLine(type="hunk", text="(there is more)")
    assert max(len(line.text) for line in diff) == LINE_CHARS + 1


def test_a_difference_that_was_cut_off_ends_where_it_was() -> None:
    text = "@@ -1,5 +1,5 @@\n a\n-b\nThe file had changed since you last saw it.\n+z"
    assert [line.type for line in parse_unified_diff(text)] == ["hunk", "context", "remove"]
