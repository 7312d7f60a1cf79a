"""What a person reads in passing."""

from backstay.headless.messages import LONGEST_NOTE, first_notes, one_line_note


def test_a_note_is_one_short_line_without_secrets() -> None:
    secret = "ghp_" + "A1b2C3d4E5f6" * 3

    assert one_line_note(f"a\n\x1b[31mb\t{secret}") == "a ␛[31mb [REDACTED]"
    assert len(one_line_note("x" * 1000)) == LONGEST_NOTE


def test_ten_notes_are_told_and_none_twice() -> None:
    found = list(first_notes(["same", "same", *(f"note {number}" for number in range(12))]))

    assert found == ["same", *(f"note {number}" for number in range(9)), "and 3 more: backstay doctor"]


def test_what_waits_for_trust_is_said_elsewhere() -> None:
    notes = [
        "'a' is not used: the workspace is not trusted. See: backstay trust",
        "Broken.",
        "The plugin 'x' waits for trust.",
    ]

    assert list(first_notes(notes, trusted=False)) == ["Broken."]
    assert list(first_notes(notes)) == notes
