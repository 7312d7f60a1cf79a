"""List the commands of a shell text from the syntax tree of tree-sitter, wherever they stand in it."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

import msgspec

from backstay.permissions.shell.expand import Field

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MOST_VALUES: Final = 50
MOST_NODES: Final = 5_000
"""Parts of a text that are looked at."""
_WILD: Final = re.compile(r"[*?\[]|[@!+]\(")
_ESCAPE: Final = re.compile(r"\\(\n|[\s\S])")
_QUOTED_ESCAPE: Final = re.compile(r"\\(\n|[\"\\$`])")
_NAME: Final = re.compile(r"(?<![\w${])[A-Za-z_]\w*")
"""A name that may be that of a variable which is set: its uses have a `$` before them."""
_VARIABLE: Final = re.compile(r"\"?\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?\"?")
_PLAIN_WORDS: Final = ("word", "number", "test_operator", "file_descriptor", "special_variable_name")


class Seen(msgspec.Struct):
    """A command as it stands in the text."""

    fields: list[Field]
    redirects: list[tuple[str, Field]]
    """Operator and file."""
    given: list[Field]
    """The here-documents that it reads."""
    fed: bool
    """Whether it reads a pipe or a file."""
    steers: tuple[str, ...] = ()
    """Variables that are set for it and are not known to be harmless."""
    sets: tuple[Field, ...] = ()
    """What it sets for what follows, when it does nothing else: `NAME=value`. A program may take that for a command (`PAGER`)."""
    values: tuple[Field, ...] = ()
    """All that is assigned before it: `NAME=value`."""
    repeated: bool = False
    """Whether it may run more than once, or later than where it stands."""


def read_tree(text: str, home: str) -> list[Seen]:
    """Find the commands of a text that is not certain, in the order of writing."""
    content = text.encode("utf-8", "replace")
    walk = _Walk(content, home)
    walk.go(_parser().parse(content).root_node)
    return walk.commands


@cache
def _parser() -> "Parser":
    import tree_sitter_bash  # noqa: PLC0415  # a plain command needs no grammar, and loading one costs 20 ms
    from tree_sitter import Language, Parser  # noqa: PLC0415

    return Parser(Language(tree_sitter_bash.language()))


class _Walk:
    """Goes through a tree without recursion: it may be as deep as the text is long."""

    def __init__(self, content: bytes, home: str) -> None:
        self.content, self.home = content, home
        self.commands: list[Seen] = []
        self.held: dict[str, list[Field] | None] = {"HOME": [Field(home)]}
        """What variables hold that are set once, and before they are used; None for others."""
        self.mentioned = Counter(_NAME.findall(content.decode("utf-8", "replace")))

    def go(self, root: "Node") -> None:
        stack: list[tuple[Node, tuple[Node, ...], bool]] = [(root, (), False)]
        """What is to be visited, with the redirects around it and whether a pipe feeds it."""
        count = 0
        while stack:
            node, redirects, fed = stack.pop()
            count += 1
            if count > MOST_NODES:
                return
            children = tuple(node.named_children)
            match node.type:
                case "command" | "declaration_command" | "unset_command" | "test_command":
                    self._command(node, redirects, fed=fed)
                    redirects, fed = (), False
                case "redirected_statement":
                    own = tuple(each for each in children if each.type.endswith("_redirect"))
                    redirects = (*redirects, *own)
                    if children[0].type not in ("command", "pipeline", "list"):
                        self._note_opened_files(children)
                case "heredoc_redirect":
                    pass  # what hangs below it belongs to the command that it feeds
                case "for_statement" | "variable_assignment" if children and children[0].type in (
                    "variable_name",
                    "subscript",
                ):
                    if children[0].type == "variable_name":
                        self._hold(children)
                    values = (
                        field for child in children[1:] if child.type != "do_group" for field in self._fields(child)
                    )
                    fields = [Field(f"{self._source(children[0])}={each.value or each.text}") for each in values]
                    self.commands.append(Seen([], [], [], fed=False, values=tuple(fields)))
                case "heredoc_body" | "string" | "concatenation":
                    redirects = ()
                case _:
                    self._note_opened_files(children)
            stack += [self._visit(node, at, child, redirects, fed=fed) for at, child in enumerate(children)][::-1]

    def _visit(
        self, node: "Node", at: int, child: "Node", redirects: "tuple[Node, ...]", *, fed: bool
    ) -> "tuple[Node, tuple[Node, ...], bool]":
        """Say what is around a part. Behind a here-document's delimiter, the rest of a pipe hangs below it."""
        if child.type.endswith("_redirect"):
            return child, (), False
        piped = (node.type == "pipeline" and at > 0) or (node.type == "heredoc_redirect" and child.type == "pipeline")
        return child, redirects, fed or piped

    def _command(self, node: "Node", redirects: "tuple[Node, ...]", *, fed: bool) -> None:
        words = [child for child in node.children if child.is_named or node.type != "command"]
        own = [child for child in words if child.type.endswith("_redirect")]
        sets = "variable_assignment" if node.type == "command" else ""
        fields = [field for child in words if child not in own and child.type != sets for field in self._fields(child)]
        if node.type == "test_command":
            bracket = self._source(node.children[0])
            fields = [Field(bracket, bracket), *self._words_of_test(node.children[1:-1])]
        seen = Seen(fields, [], [], fed)
        for redirect in (*redirects, *own):
            if redirect.type == "file_redirect":
                seen.redirects += self._redirect(redirect)
            else:
                seen.fields += self._behind(redirect, seen)
                seen.given += [Field(self._text(each)) for each in self._texts(redirect)]
        seen.fed = fed or any(operator.startswith("<") for operator, _ in seen.redirects)
        self.commands.append(seen)

    def _behind(self, node: "Node", seen: Seen) -> Iterator[Field]:
        """Give the words behind a here-document's delimiter, and note the redirects there: tree-sitter hangs them below it."""
        for child in node.named_children:
            if child.type == "file_redirect":
                seen.redirects += self._redirect(child)
            elif node.type == "heredoc_redirect" and not child.type.startswith(
                ("heredoc_", "file_descriptor", "pipeline", "list")
            ):
                yield from self._fields(child)

    def _note_opened_files(self, children: "Sequence[Node]") -> None:
        """Note files that are opened for no command of their own: `$(<file)`, `{ ...; } > file`."""
        opened = [each for child in children if child.type == "file_redirect" for each in self._redirect(child)]
        if opened:
            self.commands.append(Seen([], opened, [], fed=False))

    def _words_of_test(self, nodes: "Sequence[Node]") -> Iterator[Field]:
        """Give the words of a test, which stand in a tree of their own."""
        for node in nodes:
            if node.type.endswith("_expression"):
                yield from self._words_of_test(node.children)
            else:
                yield Field(self._value(node)[0], self._source(node))

    def _hold(self, children: "Sequence[Node]") -> None:
        """Note what a variable holds: the value of an assignment, the words of a loop."""
        name, *values = children
        fields = [field for value in values if value.type != "do_group" for field in self._fields(value)]
        known = fields and all(field.value is not None for field in fields) and len(fields) <= MOST_VALUES
        variable = self._source(name)
        self.held[variable] = fields if known and self.mentioned[variable] == 1 else None

    def _fields(self, node: "Node") -> list[Field]:
        """Give a word; a variable that is known becomes all that it may hold."""
        name = _VARIABLE.fullmatch(self._source(node))
        held = self.held.get(name[1]) if name else None
        if not held:
            return [self._field(node)]
        source = self._source(node)
        if source.startswith('"'):
            return [Field(each.value, source, each.glob) for each in held]
        parts = [(part, each.glob) for each in held for part in (each.value or "").split()]  # it becomes several words
        return [Field(part, source, glob or _WILD.search(part) is not None) for part, glob in parts]

    def _redirect(self, node: "Node") -> Iterator[tuple[str, Field]]:
        operator = next((child.type for child in node.children if not child.is_named), ">")
        targets = [child for child in node.named_children if child.type != "file_descriptor"]
        for target in targets[:1]:
            field = self._field(target)
            if operator not in (">&", "<&") or not re.fullmatch(r"[0-9]*-?", field.value or "x"):
                yield operator, field

    def _texts(self, node: "Node") -> "Iterator[Node]":
        """Give the pieces of text in a command or a here-document that may be a script."""
        stack = [node]
        while stack:
            each = stack.pop()
            if each.type in ("raw_string", "string", "heredoc_body", "ansi_c_string"):
                yield each
            else:
                stack += each.named_children

    def _text(self, node: "Node") -> str:
        text = self._source(node)
        return text[1:-1] if node.type in ("raw_string", "string") else text.removeprefix("$'").removesuffix("'")

    def _source(self, node: "Node") -> str:
        return self.content[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def _field(self, node: "Node") -> Field:
        """Give a word as the program sees it, as far as that is known."""
        text = self._source(node)
        if node.type == "command_name" and node.named_child_count == 1:
            node = node.named_children[0]
        value, glob = self._value(node)
        braces = node.type == "concatenation" and "{" in text and ("," in text or ".." in text)
        if value is None or braces:
            return Field(None, text, many=not text.startswith('"'))
        if value.startswith("~") and text.startswith("~"):
            if value[1:2] not in ("", "/"):
                return Field(None, text)
            value = self.home + value[1:]
        return Field(value, text, glob)

    def _value(self, node: "Node") -> tuple[str | None, bool]:
        """Give the value of a piece of a word and whether it has wildcards; None when it is not known."""
        text = self._source(node)
        match node.type:
            case "raw_string":
                return text[1:-1], False
            case "string" if all(child.type == "string_content" for child in node.named_children):
                return _QUOTED_ESCAPE.sub(_unescape, text[1:-1]), False
            case "simple_expansion" | "expansion" if (name := _VARIABLE.fullmatch(text)) and (
                held := self.held.get(name[1])
            ):
                return (held[0].value, held[0].glob) if len(held) == 1 else (None, False)
            case "process_substitution":
                return "/dev/fd/63", False
            case "string" | "concatenation" | "command_name" | "translated_string":
                return self._join_pieces(node)
            case kind if kind in _PLAIN_WORDS and (node.named_child_count or "`" in text):
                return None, False
            case kind if kind in _PLAIN_WORDS or not node.is_named:
                wild = _WILD.search(_ESCAPE.sub("", text)) is not None
                return _ESCAPE.sub(_unescape, text), wild
            case "string_content":
                return _QUOTED_ESCAPE.sub(_unescape, text), False
            case _:
                return None, False

    def _join_pieces(self, node: "Node") -> tuple[str | None, bool]:
        """Join the pieces of a word. What stands between those that have a name is text."""
        value, glob, at = "", False, node.start_byte + (node.type == "string")
        for child in node.named_children:
            piece, wild = self._value(child)
            if piece is None:
                return None, False
            value += self.content[at : child.start_byte].decode("utf-8", "replace") + piece
            glob, at = glob or wild, child.end_byte
        return value + self.content[at : node.end_byte - (node.type == "string")].decode("utf-8", "replace"), glob


def _unescape(found: re.Match[str]) -> str:
    return "" if found[1] == "\n" else found[1]
