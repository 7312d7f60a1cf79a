"""The text of a settings file: where its values stand."""

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.config.json_document import Node, outline

TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


def node_places(node: Node, value: object) -> Iterator[tuple[Node, object]]:
    """Every node with the value that should stand there."""
    yield node, value
    if isinstance(value, dict):
        assert list(node.inner) == list(value)
        for key, inner in value.items():
            yield from node_places(node.inner[key], inner)
    elif isinstance(value, list):
        assert list(node.inner) == list(range(len(value)))
        for at, inner in enumerate(value):
            yield from node_places(node.inner[at], inner)


@given(value=TREES, indent=st.sampled_from([None, 0, 3]), ascii_only=st.booleans())
def test_every_value_is_found_where_it_stands(value: object, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    found = outline(text.encode())

    for node, inner in node_places(found.root, value):
        assert json.loads(found.text[node.start : node.end]) == inner
        assert found.line(node.key_at) == text.count("\n", 0, node.key_at) + 1


@pytest.mark.parametrize("content", [b"", b"{", b'{"a": ', b"}", b"1 2 3", b'{"a" "b" "c"}', b'["x', b"\xff{", b"{]}"])
def test_what_is_no_json_has_an_outline_too(content: bytes) -> None:
    found = outline(content)

    assert found.line(found.find(("a", "b"))[0].key_at) == 1


def test_of_a_key_that_stands_twice_the_last_is_found() -> None:
    found = outline(b'{"a": 1,\n"b": 2,\n"a": 3}')
    node, known = found.find(("a", "x"))

    assert (known, found.line(node.key_at), found.text[node.start : node.end]) == (1, 3, "3")
