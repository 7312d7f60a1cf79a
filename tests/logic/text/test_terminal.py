"""Strangers' words on their way to a person."""

from backstay.logic.text.invisible import shown
from backstay.logic.text.lines import LONGEST, note, told


def test_a_note_is_one_short_line_without_secrets() -> None:
    secret = "ghp_" + "A1b2C3d4E5f6" * 3

    assert note(f"a\n\x1b[31mb\t{secret}") == "a ␛[31mb [REDACTED]"
    assert len(note("x" * 1000)) == LONGEST


def test_lines_stay_lines() -> None:
    assert shown("a\tb\nc\x07\u202e\x7f") == "a\tb\nc␇<U+202E>␡"


def test_ten_notes_are_told_and_none_twice() -> None:
    found = list(told(["same", "same", *(f"note {number}" for number in range(12))]))

    assert found == ["same", *(f"note {number}" for number in range(9)), "and 3 more: backstay doctor"]


def test_what_waits_for_trust_is_said_elsewhere() -> None:
    notes = [
        "'a' is not used: the workspace is not trusted. See: backstay trust",
        "Broken.",
        "The plugin 'x' waits for trust.",
    ]

    assert list(told(notes, trusted=False)) == ["Broken."]
    assert list(told(notes)) == notes
