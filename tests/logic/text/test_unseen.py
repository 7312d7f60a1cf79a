"""What a person does not see, a model is not told."""

import pytest

from backstay.logic.text.invisible import Seen, seen


@pytest.mark.parametrize(
    "text",
    [
        "Plain words,\n\twith tabs.",
        "café, 日本語, Ελληνικά",
        "👨‍👩‍👧 ❤️‍🔥 🏳️‍🌈 ✔️",
        "می‌خواهم",
    ],
)
def test_what_people_write_stays_as_it_is(text: str) -> None:
    assert seen(text) == Seen(text, 0, 0)


@pytest.mark.parametrize(
    ("text", "kept", "count"),
    [
        ("a\x1b[31mb\x7f", "a[31mb", 2),
        ("ti\u00ady\u3164\uffa0", "tiy", 3),
        ("".join(chr(0xE0000 + ord(each)) for each in "obey") + "x", "x", 4),
        ("😀" + "".join(chr(0xE0100 + each) for each in b"obey"), "😀", 4),
        ("😀\ufe00\ufe01\ufe02", "😀\ufe00", 2),
        ("न\u200c\u200d\u200c\u200db", "न\u200cb", 3),
        ("left\u202eright\u2066\u200f", "leftright", 3),
    ],
)
def test_what_only_a_model_would_read_is_left_out_and_counted(text: str, kept: str, count: int) -> None:
    assert seen(f"one\n{text}") == Seen(f"one\n{kept}", count, 2)
