"""Lists of skills, agents and commands, and texts that share a part."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.instructions import Listed
from backstay.instructions.parts import LONGEST, clip_bytes, fair_shares, fit_files, fit_text, listing, listing_limit
from backstay.instructions.safe_reader import TextFile


def test_what_fits_is_described_in_its_order() -> None:
    text, cut = listing((Listed(name="b", description="Second.\nline"), Listed(name="a")), 1_000)

    assert (text, cut) == ("- b: Second. line\n- a", False)


def test_a_long_description_is_shortened() -> None:
    text, cut = listing((Listed(name="a", description="x" * 5_000),), 10_000)

    assert cut
    assert text == f"- a: {'x' * (LONGEST - 1)}…"


def test_two_hundred_skills_are_all_named_within_one_percent_of_the_window() -> None:
    entries = tuple(Listed(name=f"skill-{number}", description="word " * 40) for number in range(200))

    text, cut = listing(entries, listing_limit(200_000))

    assert cut
    assert len(text.encode()) <= 8_000
    assert text.count("\n- skill-") > 10
    assert all(f"skill-{number}" in text for number in range(200))


def test_more_names_than_there_is_room_for_are_counted() -> None:
    entries = tuple(Listed(name=f"a-rather-long-name-of-{number}", description="d" * 100) for number in range(3_000))

    text, _ = listing(entries, 2_000)

    assert len(text.encode()) <= 2_000
    assert text.startswith("- a-rather-long-name-of-0: ddd")
    described, named = text.count("- a-rather"), text.count("a-rather") - text.count("- a-rather")
    assert f" and {3_000 - described - named:,} more." in text


LISTED = st.builds(Listed, name=st.text(min_size=1, max_size=150), description=st.text(max_size=400))


@given(entries=st.lists(LISTED, max_size=30), limit=st.integers(2_000, 9_000))
def test_a_list_keeps_its_limit_and_each_entry_its_line(entries: list[Listed], limit: int) -> None:
    text, _ = listing(entries, limit)

    assert len(text.encode()) <= limit
    assert len(text.splitlines()) <= len(entries) + 1


@given(sizes=st.lists(st.integers(0, 5_000), max_size=20), room=st.integers(0, 20_000))
def test_shares_are_fair(sizes: list[int], room: int) -> None:
    shares = fair_shares(sizes, room)

    assert sum(shares) <= room
    assert all(share <= size for share, size in zip(shares, sizes, strict=True))
    cut = [share for share, size in zip(shares, sizes, strict=True) if share < size]
    assert not cut or max(shares) <= min(cut) + 1
    assert cut == [] or sum(shares) >= room - len(sizes)


FILES = st.builds(
    lambda name, text: TextFile(path=Path("/p") / name, shown=name, text=text, size=len(text.encode())),
    st.text('ab"<é\n', min_size=1, max_size=30),
    st.text(max_size=3_000),
)


@given(files=st.lists(FILES, min_size=1, max_size=12), limit=st.integers(1_500, 12_000), untrusted=st.booleans())
def test_files_keep_the_limit_of_their_part(files: list[TextFile], limit: int, untrusted: bool) -> None:
    found = fit_files(files, limit, untrusted=untrusted, ahead="Words.", after="More words.")

    assert len(found.text.encode()) <= limit
    assert found.text.startswith("Words.")
    assert found.text.endswith("More words.")
    tag = "strangers-file" if untrusted else "file"
    assert found.text.count(f"\n</{tag}>") == found.text.count(f"<{tag} path=") == len(found.sources)
    assert found.cut == (len(found.sources) < len(files) or "[cut here" in found.text)


@pytest.mark.parametrize(
    ("text", "most", "expected"), [("abc", 3, "abc"), ("abcé", 4, "abc"), ("one\ntwo", 5, "one"), ("", 0, "")]
)
def test_a_text_is_clipped_between_letters_and_after_a_line_where_one_is_near(
    text: str, most: int, expected: str
) -> None:
    assert clip_bytes(text, most) == expected


def test_a_cut_says_so() -> None:
    assert fit_text("x" * 100, 50).text == "x" * 24 + "\n[cut here: there is more]"
