"""Read the YAML at the top of a Markdown file, its front matter.

Every scalar stays text: what a key means decides what its text means. YAML's own guesses (`no` is false, `1.10` is 1.1) are made only
by `convert_plain`.
"""

import re
from collections.abc import Iterator
from typing import Final, TypeAlias

DEEPEST: Final = 12
MOST_VALUES: Final = 2_000
MOST_OPEN: Final = 200
"""Brackets that may be open at once, those in texts too; of what is no text, far fewer are read."""

Value: TypeAlias = str | list["Value"] | dict[str, "Value"]


class Plain(str):
    """A text without quotes, which YAML may take for a number, a truth value or nothing."""

    __slots__ = ()


class BadYaml(Exception):
    """Text that is not YAML, or more of it than is read here. `line` counts from 1 within the text."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


Read: TypeAlias = tuple[dict[str, Value], dict[str, int]]
"""The values of a mapping, and the line of each key."""


def read_yaml(text: str, *, flow: bool = True) -> Read:
    """Return the mapping that `text` is. No tag, anchor or alias is obeyed. Raise `BadYaml` for anything but a mapping of texts.

    Without `flow`, lists and mappings in brackets are refused too.
    """
    from backstay.system.yaml import BrokenYaml, parse_yaml  # noqa: PLC0415 - 30 ms, for those who have YAML

    _check_brackets(text)
    try:
        return _Tree(flow=flow).build(parse_yaml(text))
    except BrokenYaml as exc:
        raise BadYaml(exc.line, f"This is not YAML: {exc}.") from None


def convert_plain(value: Value) -> object:
    """Return `value` with the texts that have no quotes as what YAML 1.2 takes them for: null, truth values, numbers."""
    if isinstance(value, dict):
        return {key: convert_plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [convert_plain(each) for each in value]
    if not isinstance(value, Plain):
        return value
    if value in _WORDS:
        return _WORDS[value]
    if _INTEGER.fullmatch(value):
        return int(value)
    return float(value) if _FLOAT.fullmatch(value) else str(value)


_WORDS: Final[dict[str, object]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,18}")
_FLOAT: Final = re.compile(r"[-+]?(?:[0-9]{1,18}\.[0-9]{0,18}|\.[0-9]{1,18})(?:[eE][-+]?[0-9]{1,3})?")


class _Tree:
    """Builds values from the events of a YAML parser, without recursion and within bounds."""

    def __init__(self, *, flow: bool) -> None:
        self._flow = flow
        self._open: list[list[Value] | dict[str, Value]] = []
        self._keys: list[str | None] = []
        self._count = 0
        self._root: Value | None = None
        self._lines: dict[str, int] = {}

    def build(self, events: Iterator[object]) -> Read:
        for event in events:
            name, line = type(event).__name__, event.start_mark.line + 1  # type: ignore[attr-defined]  # of the YAML library
            if name in ("StreamStartEvent", "StreamEndEvent", "DocumentEndEvent"):
                continue
            if name == "DocumentStartEvent":
                if self._root is not None:
                    raise BadYaml(line, "A second YAML document begins here. Only one is read.")
                continue
            self._refuse(event, name, line)
            self._take(event, name, line)
        if not isinstance(self._root, dict | None):
            raise BadYaml(1, "The frontmatter must be a mapping, such as `name: value`.")
        return self._root or {}, self._lines

    def _refuse(self, event: object, name: str, line: int) -> None:
        if name == "AliasEvent" or getattr(event, "anchor", None):
            raise BadYaml(line, "Anchors and aliases (`&`, `*`) are not read here. Put the text in quotes.")
        if getattr(event, "tag", None) is not None:
            raise BadYaml(line, "Tags (`!`) are not read here. Put the text in quotes.")
        if not self._flow and getattr(event, "flow_style", None):
            raise BadYaml(line, "Brackets (`[`, `{`) are not read here. Write each item on a line of its own.")
        self._count += 1
        if self._count > MOST_VALUES:
            raise BadYaml(line, f"There are more than {MOST_VALUES:,} values.")

    def _take(self, event: object, name: str, line: int) -> None:
        if name in ("MappingEndEvent", "SequenceEndEvent"):
            self._keys.pop()
            self._open.pop()
        elif name == "ScalarEvent":
            text: str = event.value  # type: ignore[attr-defined]  # of the YAML library
            if not text.isascii() and _HALF.search(text):
                raise BadYaml(line, "There is half a character (a lone surrogate) in this text.")
            plain = not event.style  # type: ignore[attr-defined]  # as above
            self._put(Plain(text) if plain else text, line)
        else:
            if len(self._open) >= DEEPEST:
                raise BadYaml(line, f"Values are nested more than {DEEPEST} deep.")
            made: list[Value] | dict[str, Value] = {} if name == "MappingStartEvent" else []
            self._put(made, line)
            self._open.append(made)
            self._keys.append(None)

    def _put(self, value: Value, line: int) -> None:
        if not self._open:
            self._root = value
            return
        into = self._open[-1]
        if isinstance(into, list):
            into.append(value)
        elif (key := self._keys[-1]) is None:
            self._begin(into, value, line)
        else:
            into[key] = value
            self._keys[-1] = None

    def _begin(self, into: dict[str, Value], key: Value, line: int) -> None:
        if not isinstance(key, str):
            raise BadYaml(line, "A key must be a text.")
        if key in into:
            raise BadYaml(line, f"The key {str(key)!r} stands twice, and only one of them would count.")
        self._keys[-1] = str(key)
        if len(self._open) == 1:
            self._lines[str(key)] = line


def _check_brackets(text: str) -> None:
    """Refuse rows of open brackets before the parser sees them: the one in Python takes seconds for what is then refused as too deep."""
    depth = 0
    for found in _BRACKETS.finditer(text):
        depth = depth + 1 if found[0] in "[{" else max(0, depth - 1)
        if depth > MOST_OPEN:
            raise BadYaml(text.count("\n", 0, found.start()) + 1, f"Values are nested more than {DEEPEST} deep.")


_BRACKETS: Final = re.compile(r"[\[\]{}]")
_HALF: Final = re.compile("[\ud800-\udfff]")
