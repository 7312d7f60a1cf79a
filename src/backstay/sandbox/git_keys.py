"""Read the files of a git configuration as git reads them, so far as that is certain."""

import re
from collections.abc import Iterator
from typing import Final

_HEADER: Final = re.compile(r'\[([A-Za-z0-9.-]+)(?:[ \t]+"((?:\\[^\n]|[^"\\\n])*)")?[ \t]*\]')
_NAME: Final = re.compile(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*")
_BLANK: Final = re.compile(r"(?:[ \t\r\n]|[#;][^\n]*)*")
_PIECE: Final = re.compile(r'\\(\r?\n|[^\n])|"|\r?\n|([#;])|[^"\\\r\n#;]+|\r')
_ESCAPES: Final = {"n": "\n", "t": "\t", "b": "\b", "\\": "\\", '"': '"'}


class Unclear(ValueError):
    """A configuration that cannot be read with certainty."""


def git_keys(content: str) -> Iterator[tuple[str, str]]:
    """Yield every key of a git configuration with its value: `section.name` or `section.sub.name`. Raise `Unclear`."""
    if "\0" in content:
        raise Unclear("it holds a null byte")
    content, section = content.removeprefix("\ufeff"), ""
    at = _past_blank(content, 0)
    while at < len(content):
        if content[at] == "[":
            header = _HEADER.match(content, at)
            if header is None:
                raise Unclear(_line(content, at))
            section, at = _section(header), header.end()
        else:
            name = _NAME.match(content, at)
            if name is None or not section:
                raise Unclear(_line(content, at))
            value, at = _value(content, name.end())
            yield f"{section}.{name[1].lower()}", value
        at = _past_blank(content, at)


def _past_blank(content: str, at: int) -> int:
    blank = _BLANK.match(content, at)
    return at if blank is None else blank.end()


def _section(header: re.Match[str]) -> str:
    name, old, sub = header[1].lower().partition(".")
    given = re.sub(r"\\(.)", r"\1", header[2]) if header[2] is not None else ""
    return ".".join(filter(None, (name, sub if old else "", given)))


def _value(content: str, at: int) -> tuple[str, int]:
    """Return the value that begins at `at`, where the name ended, and where it ends."""
    if content[at : at + 1] != "=":
        end = re.compile(r"[ \t]*(?:[#;][^\n]*)?(?:\r?\n|$)").match(content, at)
        if end is None:
            raise Unclear(_line(content, at))
        return "true", end.end()
    at, words, quoted = at + 1, "", False
    while at < len(content):
        piece = _PIECE.match(content, at)
        assert piece is not None, "every character has its alternative"
        if piece[1] is not None:
            words += _unescape(piece[1], content, at)
        elif piece[0] == '"':
            quoted = not quoted
        elif piece[0] in ("\n", "\r\n"):
            break
        elif piece[2] and not quoted:
            line = content.find("\n", at)
            return words.strip(), len(content) if line < 0 else line
        else:
            words += piece[0]
        at = piece.end()
    if quoted:
        raise Unclear(_line(content, at))
    return words.strip(), at


def _unescape(text: str, content: str, at: int) -> str:
    if text.endswith("\n"):
        return ""  # the line goes on
    if text not in _ESCAPES:
        raise Unclear(_line(content, at))
    return _ESCAPES[text]


def _line(content: str, at: int) -> str:
    return f"line {content.count(chr(10), 0, at) + 1} cannot be read"
