"""What is written reads back as it was, whatever the strings look like."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.export.workflow import to_yaml
from backstay.system.yaml import read_yaml

ODD = [
    "2026-11-16",
    "yes",
    "No",
    "0o17",
    "1:30",
    "1e3",
    "",
    " x",
    "- a",
    "a: b",
    "#",
    "null",
    "~",
    "\x85",
    "\u2028",
    "\ufeff",
    "é",
    "😀",
]


@pytest.mark.parametrize("text", ODD)
def test_odd_strings_stay_strings(text: str) -> None:
    assert read_yaml(to_yaml({"k": [text, {"deep": text}]})) == {"k": [text, {"deep": text}]}


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=5), values, max_size=4))
def test_every_document_reads_back(document: dict[str, object]) -> None:
    text = to_yaml(document)
    assert read_yaml(text) == document
    assert to_yaml(document) == text
