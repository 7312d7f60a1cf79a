"""A second reader: tree-sitter's grammar of bash must not see a command that ours does not.

Neither reader is perfect. A text that both read alike is as certain as it gets; where they differ, a person decides.
"""

import re
from collections.abc import Set
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

from holdfast.logic.shell.grammar import ScriptReader
from holdfast.logic.shell.syntax import Sequence

if TYPE_CHECKING:
    from tree_sitter import Parser, Query

_PLAIN: Final = re.compile(
    r"""(?:[A-Za-z0-9_./:,+@%=^~ \t\n;|&*?-]++|>(?![(!])|'[^'\n]*+'|"[^"$`\\\n]*+")*+""",
)
"""Texts like these have one reading; the second reader is not asked."""
_MISREAD: Final = re.compile(r"<<")
"""What tree-sitter is known to report as an error although it is none: several redirects around here-documents and here-strings."""
_QUERY: Final = "(command_name) @name"


@lru_cache(maxsize=16)  # a call is read when its paths are looked at, and again when it is judged
def read_twice(text: str, depth: int = 0) -> tuple[Sequence, tuple[str, ...]]:
    """Read a whole script with both readers; give its tree and what is doubtful about it. Raises `Unreadable`."""
    reader = ScriptReader(text, depth)
    script = reader.whole()
    if not _PLAIN.fullmatch(text):
        differs = disagreement(text, {simple.words[0].text for simple in reader.found if simple.words})
        if differs:
            reader.doubts.append(differs)
    return script, tuple(reader.doubts)


def disagreement(text: str, found: Set[str]) -> str:
    """Say how the second reader differs from the words that were found to begin commands; nothing when it does not."""
    parser, query = _grammar()
    content = text.replace("\\\n", "  ").encode("utf-8", "replace")
    root = parser.parse(content).root_node
    if root.has_error and not _MISREAD.search(text):
        return "a second reader cannot read it"
    if root.has_error:
        return ""
    for name in _names(query, root, content):
        if name not in found and name not in ("time", "coproc"):
            return f"a second reader sees the command {name!r}"
    return ""


def _names(query: "Query", root: object, content: bytes) -> list[str]:
    from tree_sitter import Node, QueryCursor  # noqa: PLC0415  # loaded with the grammar, when the first command needs it

    assert isinstance(root, Node)
    nodes = QueryCursor(query).captures(root).get("name", [])
    return [content[node.start_byte : node.end_byte].decode("utf-8", "replace") for node in nodes]


@cache
def _grammar() -> "tuple[Parser, Query]":
    import tree_sitter_bash  # noqa: PLC0415  # a plain command needs no grammar, and loading one costs 20 ms
    from tree_sitter import Language, Parser, Query  # noqa: PLC0415

    language = Language(tree_sitter_bash.language())
    return Parser(language), Query(language, _QUERY)
