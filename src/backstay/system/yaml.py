"""YAML 1.2, read by the C parser where there is one: `no` is a text, `010` is ten, and a key stands once.

Loaded by those alone who have YAML to read.
"""

import re
from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, Final

import yaml

from backstay.vocab.errors import UserError

if TYPE_CHECKING:
    from yaml import SafeLoader
else:  # the parser in Python is slow and not wrong
    SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class BrokenYaml(UserError):
    """Text that is not YAML, and why. `line` counts from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


def parse_yaml(text: str) -> Iterator[yaml.Event]:
    """Yield the parser's events. Raise `BrokenYaml` where the text is not YAML."""
    try:
        yield from yaml.parse(text, SafeLoader)
    except (yaml.YAMLError, ValueError, OverflowError) as exc:  # an escape that is no character is a ValueError
        raise _explain_error(exc, text) from None


def read_yaml(text: str) -> object:
    """Return the document that `text` is. Raise `BrokenYaml` for anything but one."""
    try:
        document: object = yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError, OverflowError) as exc:
        raise _explain_error(exc, text) from None
    return document


class _Loader(SafeLoader):
    """Makes maps, lists, texts, numbers, truth values and nothing, as YAML 1.2 says."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 - so it is called; without the guesses of YAML 1.1

    def whole_number(self, node: yaml.ScalarNode) -> int:
        text = str(node.value)
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))

    def once(self, node: yaml.MappingNode) -> dict[Hashable, object]:
        made: dict[Hashable, object] = {}
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable) or key in made:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key!r} stands twice or is no key", problem_mark=key_node.start_mark
                )
            made[key] = self.construct_object(value_node, deep=True)
        return made


_TAG: Final = "tag:yaml.org,2002:"
_SHAPES: Final = {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
    "float": r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
}
for _name, _shape in _SHAPES.items():
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(rf"(?:{_shape})\Z"), None)
_Loader.add_constructor(f"{_TAG}int", _Loader.whole_number)
_Loader.add_constructor(f"{_TAG}map", _Loader.once)


def _explain_error(exc: Exception, text: str) -> BrokenYaml:
    mark = getattr(exc, "problem_mark", None) or getattr(exc, "context_mark", None)
    position = getattr(exc, "position", 0)
    line = mark.line if mark is not None else text.encode("utf-8", "replace").count(b"\n", 0, position)
    line = min(line, text.rstrip("\n").count("\n"))  # what is missing at the end is missed on the last line
    words = getattr(exc, "problem", None) or getattr(exc, "reason", None) or exc
    return BrokenYaml(line + 1, str(words))
