"""Where everything stands in a JSON text, so that an error names the right line and a change leaves the rest as it is."""

import json
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct, field

_TOKEN: Final = re.compile(r'\s*(?:([{}\[\],:])|("(?:[^"\\]|\\.)*")|([^\s{}\[\],:"]+))')


class Node(Struct):
    """One value, and what is in it."""

    key_at: int
    """Where its key begins; where it begins itself when it has none."""
    start: int
    end: int = 0
    kind: str = "other"
    """`object`, `array` or `other`."""
    inner: "dict[str | int, Node]" = field(default_factory=dict)
    """What is in it, by key or by index. Of a key that stands twice, the last."""


class Outline(Struct, frozen=True):
    """A text and the places in it."""

    text: str
    root: Node
    breaks: tuple[int, ...]
    """Where lines end."""

    def find(self, keys: Sequence[str], *, in_lists: bool = True) -> tuple[Node, int]:
        """The node that `keys` lead to, as far as they are there, and how many of them were. A number may lead into a list."""
        node, known = self.root, 0
        for key in keys:
            is_index = in_lists and node.kind == "array" and key.isdecimal()
            below = node.inner.get(int(key) if is_index else key)
            if below is None:
                break
            node, known = below, known + 1
        return node, known

    def line(self, position: int) -> int:
        """The number of the line that a position is in."""
        return bisect_left(self.breaks, position) + 1

    def holding(self, node: Node, value: str) -> int:
        """Where the text `value` stands in a list, or the list itself when it is not there."""
        for each in node.inner.values():
            if self.text[each.start] == '"' and json.loads(self.text[each.start : each.end]) == value:
                return each.key_at
        return node.key_at


@lru_cache(maxsize=32)
def outline(content: bytes) -> Outline:
    """The places in `content`, which is JSON in UTF-8. Of what is no JSON, those before that shows."""
    text = content.decode("utf-8", "replace")
    tokens = _tokens(text)
    mark, start, end = next(tokens, ("word", 0, 0))
    root = Node(key_at=start, start=start, end=end, kind=_KINDS.get(mark, "other"))
    open_nodes = [root] if root.kind != "other" else []
    key: tuple[str, int] | None = None
    for mark, start, end in tokens:
        if not open_nodes:
            break
        within = open_nodes[-1]
        if mark in "}]":
            open_nodes.pop().end = end
        elif mark == "string" and within.kind == "object" and key is None:
            key = (json.loads(text[start:end]), start)
        elif mark not in ",:":
            name, key_at = key or (len(within.inner), start)
            node = Node(key_at=key_at, start=start, end=end, kind=_KINDS.get(mark, "other"))
            within.inner.pop(name, None)
            within.inner[name] = node
            key = None
            if node.kind != "other":
                open_nodes.append(node)
    return Outline(text, root, tuple(found.start() for found in re.finditer("\n", text)))


_KINDS: Final = {"{": "object", "[": "array"}


def _tokens(text: str) -> Iterator[tuple[str, int, int]]:
    """Punctuation as it is, `string` and `word`, each with where it begins and ends."""
    position = 0
    while found := _TOKEN.match(text, position):
        position = found.end()
        group = found.lastindex or 1
        yield found[1] or ("string" if group == 2 else "word"), found.start(group), position
