"""A quick reader of the YAML that nearly every Markdown file begins with.

It knows a part of YAML and knows that it does: for anything else it says nothing, and the real reader is asked. Where it does answer, the
real reader would say the same; a property test holds it to that.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

from holdfast.extensions.yaml_values import Plain, Read, Value


def read_plain(text: str) -> Read | None:
    """The mapping that `text` is, or None when that takes more than this reader knows."""
    if _ODD.search(text):
        return None
    try:
        return _Reader(text.split("\n")).read()
    except _Beyond:
        return None


class _Beyond(Exception):
    """The text is more than the quick reader knows."""


_ODD: Final = re.compile("[^\n\x20-\x7e\u00a0-\u2027\u202a-\ud7ff\uf900-\ufefe\uff00-\uffef\U00010000-\U0010fffd]")
"""Characters that YAML forbids or takes for the end of a line, and tabs."""
_KEY: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*):(?: (.*))?")
_DOUBLE: Final = re.compile(r'"((?:[^"\\]|\\["\\nt/])*)"(?: +#.*)?')
_SINGLE: Final = re.compile(r"'((?:[^']|'')*)'(?: +#.*)?")
_CLOSING: Final = re.compile(r'(?<!\\)"')
_ESCAPE: Final = re.compile(r'\\(["\\nt/])')
_ESCAPES: Final = {"n": "\n", "t": "\t"}
_PLAIN: Final = re.compile(r"(?:[^-?:,\[\]{}#&*!|>@`%\"' ]|-[A-Za-z0-9])(?:[^:#]|:(?=[^ ])|(?<! )#)*")
"""A text without quotes: no `: `, no ` #`, no beginning that means something."""
_FLOW: Final = re.compile(r"\[(.*)\](?: +#.*)?")
_IN_FLOW: Final = re.compile(
    r"[A-Za-z0-9_./](?:[A-Za-z0-9_./()$~+=;<>-]|[*](?=[^ ]|$)|:(?=[*])| (?=[A-Za-z0-9_./(*]))*"
)
_BLOCK: Final = re.compile(r"([|>])([+-]?)(?: +#.*)?")
_ITEM: Final = re.compile(r"( *)- (.*)")


class _Reader:
    """Walks over the lines once."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._at = 0

    def read(self) -> Read:
        values: dict[str, Value] = {}
        where: dict[str, int] = {}
        while self._skip():
            line = self._at + 1
            key, rest = self._key(self._lines[self._at], indent=0)
            self._at += 1
            if key in values:
                raise _Beyond
            values[key], where[key] = self._value(rest), line
        return values, where

    def _skip(self) -> bool:
        """Pass blank lines and comments; say whether a line is left."""
        while self._at < len(self._lines):
            line = self._lines[self._at].strip(" ")
            if line and line[0] != "#":
                return True
            self._at += 1
        return False

    def _key(self, line: str, *, indent: int) -> tuple[str, str]:
        found = _KEY.fullmatch(line, indent)
        if found is None or line[:indent].strip(" "):
            raise _Beyond
        return found[1], (found[2] or "").strip(" ")

    def _value(self, rest: str) -> Value:
        if not rest:
            return self._below()
        if rest[0] in "|>":
            return self._block(rest)
        if rest[0] == "[":
            return self._alone(lambda: _flow(rest))
        if rest[0] in "\"'":
            return self._quoted(rest)
        return self._folded([rest])

    def _alone(self, read: Callable[[], Value]) -> Value:
        """A value of one line: nothing that could belong to it follows."""
        self._nothing_indented()
        return read()

    def _nothing_indented(self) -> None:
        if self._indent_ahead() > 0:
            raise _Beyond

    def _indent_ahead(self) -> int:
        """How far the next line that says something is indented; a comment counts, because it ends some values."""
        for line in self._lines[self._at :]:
            if stripped := line.lstrip(" "):
                return len(line) - len(stripped)
        return 0

    def _quoted(self, rest: str) -> Value:
        """A text in quotes, which may go on in indented lines up to the closing quote."""
        pieces, breaks = [rest], 0
        closed = _closes(rest[1:], rest[0])
        while not closed:
            line = self._lines[self._at] if self._at < len(self._lines) else "-"
            if line and line[0] != " ":
                raise _Beyond
            self._at += 1
            piece = line.strip(" ")
            if piece:
                pieces += ("\n" * breaks or " ", piece)
                closed = _closes(piece, rest[0])
            breaks = 0 if piece else breaks + 1
        return self._alone(lambda: _scalar("".join(pieces)))

    def _folded(self, pieces: list[str]) -> Value:
        """A text without quotes that may go on in indented lines."""
        while self._at < len(self._lines) and self._lines[self._at][:1] == " " and self._lines[self._at].strip(" "):
            pieces.append(self._lines[self._at].strip(" "))
            self._at += 1
        self._nothing_indented()
        if len(pieces) == 1:
            return _scalar(pieces[0])
        # a line that goes on may begin with what a whole text may not; of that this reader knows only quotes
        if not all(_PLAIN.fullmatch(piece.lstrip("\"'") or "x") for piece in pieces):
            raise _Beyond
        if not _PLAIN.fullmatch(" ".join(pieces)):
            raise _Beyond
        return Plain(" ".join(pieces))

    def _below(self) -> Value:
        """What stands below a key: a list in one of its forms, a mapping, or nothing."""
        before = self._at
        if not self._skip():
            return Plain("")
        line = self._lines[self._at]
        indent = len(line) - len(line.lstrip(" "))
        if line[indent] == "-":
            return self._list(indent, outer=0)
        if indent and line[indent] == "[":
            self._at += 1
            return self._alone(lambda: _flow(line.strip(" ")))
        if indent and _KEY.fullmatch(line, indent):
            return self._mapping(indent)
        if indent:
            self._at += 1
            return self._folded([line.strip(" ")])
        self._at = before
        return Plain("")

    def _list(self, indent: int, *, outer: int) -> Value:
        """The items of a list; it ends at a line that is no item and is indented like what the list belongs to."""
        items: list[Value] = []
        while self._skip():
            line = self._lines[self._at]
            found = _ITEM.fullmatch(line)
            if found is None or len(found[1]) != indent:
                depth = len(line) - len(line.lstrip(" "))
                if depth not in (0, outer) or line[depth] == "-":
                    raise _Beyond
                break
            self._at += 1
            items.append(_scalar(found[2].strip(" ")))
        return items

    def _mapping(self, indent: int) -> Value:
        values: dict[str, Value] = {}
        while self._skip():
            line = self._lines[self._at]
            if line[0] != " ":
                break
            key, rest = self._key(line, indent=indent)
            if key in values:
                raise _Beyond
            self._at += 1
            values[key] = self._within(rest, indent)
        return values

    def _within(self, rest: str, indent: int) -> Value:
        """A value of a mapping that is itself a value."""
        if rest[:1] == "[":
            return _flow(rest)
        if rest:
            return _scalar(rest)
        if self._skip():
            line = self._lines[self._at]
            depth = len(line) - len(line.lstrip(" "))
            if line[depth] == "-" and depth >= indent:
                return self._list(depth, outer=indent)
        return Plain("")

    def _block(self, rest: str) -> Value:
        """A text of many lines, after `|` or `>`."""
        found = _BLOCK.fullmatch(rest)
        if found is None:
            raise _Beyond
        lines: list[str] = []
        while self._at < len(self._lines) and (not self._lines[self._at].strip(" ") or self._lines[self._at][0] == " "):
            lines.append(self._lines[self._at])
            self._at += 1
        return _block_text(lines, folded=found[1] == ">", chomp=found[2])


def _closes(text: str, quote: str) -> bool:
    """Whether a text in quotes seems to end here; whether it does is seen when it is read as a whole."""
    return text.count("'") % 2 == 1 if quote == "'" else _CLOSING.search(text) is not None


def _scalar(text: str) -> str:
    if text[:1] == '"':
        found = _DOUBLE.fullmatch(text)
        if found is None:
            raise _Beyond
        return _ESCAPE.sub(lambda each: _ESCAPES.get(each[1], each[1]), found[1])
    if text[:1] == "'":
        found = _SINGLE.fullmatch(text)
        if found is None:
            raise _Beyond
        return found[1].replace("''", "'")
    bare = text.partition(" #")[0].rstrip(" ")
    if not _PLAIN.fullmatch(bare):
        raise _Beyond
    return Plain(bare)


def _flow(text: str) -> Value:
    found = _FLOW.fullmatch(text)
    if found is None:
        raise _Beyond
    inner = found[1].strip(" ")
    return [_flow_item(each.strip(" ")) for each in inner.split(",")] if inner else []


def _flow_item(text: str) -> Value:
    if text[:1] in ("'", '"') and text[-1:] == text[:1] and not set(text[1:-1]) & {"'", '"', "\\"} and len(text) > 1:
        return text[1:-1]
    if not _IN_FLOW.fullmatch(text):
        raise _Beyond
    return Plain(text)


def _block_text(lines: list[str], *, folded: bool, chomp: str) -> str:
    said = [line for line in lines if line.strip(" ")]
    if not said:
        raise _Beyond
    indent = len(said[0]) - len(said[0].lstrip(" "))
    if any(line[:indent].strip(" ") for line in lines) or any(
        len(line) > indent and not line.strip(" ") for line in lines
    ):
        raise _Beyond
    if any(len(line) < indent and line.strip(" ") for line in lines) or lines[0] is not said[0]:
        raise _Beyond
    cut = [line[indent:] for line in lines]
    while not cut[-1]:
        cut.pop()
    if chomp == "+" and len(cut) < len(lines):
        raise _Beyond
    return ("\n".join(cut) if not folded else _fold(cut)) + ("" if chomp == "-" else "\n")


def _fold(lines: list[str]) -> str:
    """Lines as one text: a line break becomes a blank, a blank line becomes a line break."""
    if any(line[:1] == " " for line in lines):
        raise _Beyond
    paragraphs = "\n".join(lines)
    return re.sub(r"(?<!\n)\n(\n*)", lambda found: found[1] or " ", paragraphs)
