"""Texts for a shell in which nothing runs but what is written as a command.

A shell evaluates more than commands: subscripts of arrays, arithmetic, some expansions, and what its own commands are given. What is not
listed as harmless in `followed.toml` is refused.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from backstay.config.followed_table import NotFollowed, command_table

if TYPE_CHECKING:
    from tree_sitter import Node

_EVALUATED: Final = re.compile(r"\$\(|`")
"""In a text that is no command yet: a command, once somebody evaluates it."""
_ARITHMETIC: Final = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge"))
_NUMBERS: Final = re.compile(r"-?\d+|\$[?#]|\$\{#?[?#]?\}")


def require_commands(root: "Node", content: bytes) -> None:
    """Raise `NotFollowed` for a text in which something may run that is not written as a command."""
    table = command_table()
    for node in below(root):
        if node.is_named and node.type not in table.shell:
            raise NotFollowed(f"it has what nobody looks through ({node.type.replace('_', ' ')})")
        match node.type:
            case "for_statement":
                _require_plain_names(node, content)
            case "declaration_command" | "unset_command":
                if node.children[0].type not in ("export", "readonly", "unset") or any(
                    _is_word(each) for each in node.children
                ):
                    raise NotFollowed("it declares variables in a way that the shell evaluates")
                _require_plain_names(node, content)
            case "compound_statement" if node.children[0].type == "((":
                raise NotFollowed("it computes, which the shell evaluates")
            case "expansion" if not table.expansions >= {each.type for each in node.children}:
                raise NotFollowed("it has an expansion that sets or evaluates something")
            case "variable_assignment" | "test_command" if _is_evaluated(node, content):
                raise NotFollowed("it holds a text that the shell may evaluate")
            case "test_command":
                _require_plain_test(node, content)


def below(node: "Node") -> Iterator["Node"]:
    """A node and all that is in it, in order."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        yield each
        waiting += reversed(each.children)


def text_of(node: "Node", content: bytes) -> str:
    """What is written there."""
    return content[node.start_byte : node.end_byte].decode("utf-8", "replace")


def _is_word(node: "Node") -> bool:
    return node.is_named and node.type not in ("variable_assignment", "variable_name")


def _require_plain_names(node: "Node", content: bytes) -> None:
    for each in node.children:
        if each.type == "variable_name" and command_table().steers(name := text_of(each, content)):
            raise NotFollowed(f"it sets {name}")


def _is_evaluated(node: "Node", content: bytes) -> bool:
    """Whether there is a command in quotes that keep it from being one here."""
    return any(each.type == "raw_string" and _EVALUATED.search(text_of(each, content)) for each in below(node))


def _require_plain_test(node: "Node", content: bytes) -> None:
    double = node.children[0].type == "[["
    for each in below(node):
        operators = [text_of(child, content) for child in each.children if child.type == "test_operator"]
        if {"-v", "-R"} & set(operators):
            raise NotFollowed("it looks at a variable whose name the shell evaluates")
        if double and _ARITHMETIC & set(operators):
            values = [text_of(child, content) for child in each.children if child.type != "test_operator"]
            if not all(_NUMBERS.fullmatch(value.strip('"')) for value in values):
                raise NotFollowed("it compares numbers that the shell evaluates")
