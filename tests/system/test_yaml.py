"""Values of YAML 1.2, and nothing that YAML 1.1 would guess."""

import pytest

from backstay.system.yaml import BrokenYaml, read_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[no, on, y, true, False, ~, null, '']", ["no", "on", "y", True, False, None, None, ""]),
        ("[010, 0o10, 0x1f, -7, 1_000, '1']", [10, 8, 31, -7, "1_000", "1"]),
        ("[1.5, 1e3, .5, 1:30, 2026-01-01, =, <<]", [1.5, 1000.0, 0.5, "1:30", "2026-01-01", "=", "<<"]),
        ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
        ("<<: {a: 1}", {"<<": {"a": 1}}),
        ("text: >-\n  one\n  two", {"text": "one two"}),
        ("", None),
    ],
)
def test_plain_words_are_what_yaml_1_2_says(text: str, value: object) -> None:
    assert read_yaml(text) == value


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: 2\na: 3", 3, "'a' stands twice"),
        ("a: 1\n---\nb: 2", 2, "another document"),
        ("a: 1\nb: [", 2, "node content"),
        ("a: 1\nb: \x07", 2, "control characters"),
        ("a: !!python/object:os.system x", 1, "could not determine a constructor"),
        ("{a: 1}: b", 1, "no key"),
        ("a: \ud800", 1, "surrogates"),
    ],
)
def test_what_is_not_one_document_of_plain_values_is_refused_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(BrokenYaml, match=words) as caught:
        read_yaml(text)

    assert caught.value.line == line
