"""Rules about shell commands, compared with argument vectors and with the text as written.

`*` stands for any characters, blanks and newlines included. A final ` *` or `:*` is a word boundary that the bare prefix matches too.
Words are joined with a mark that no pattern holds, so that `npm "run test"` is not `npm run test`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from holdfast.logic.acts import Command, Layer, Script
from holdfast.logic.permissions.wildcards import DEEP, Tokens, meets
from holdfast.vocab.rules import Rule

_GAP: Final = "\x1f"
"""What stands between words."""
_UNKNOWN: Final = "\ue000"
"""What stands for a word that is not known before it runs: only a wildcard covers it."""
_LONG: Final = 4_000
"""Characters of a command with unknown words that are compared; a longer one may be anything."""

Match = Literal["no", "maybe", "yes"]

Vouch = Literal["no", "rule", "bare", "whole"]
"""What a rule says for a command: nothing, its pattern covers it, it allows every command, or it is this very text."""


@dataclass(frozen=True, slots=True)
class CommandPattern:
    """A pattern, ready to be compared."""

    raw: str
    exact: bool
    """Without any wildcard."""
    text: re.Pattern[str]
    vector: re.Pattern[str] | None
    tokens: tuple[Tokens, ...]
    """The vector form, for words that are not known."""

    def covers(self, layer: Layer) -> bool:
        """Whether a program and its arguments match, as words or as written."""
        if self.vector is not None and self.vector.fullmatch(_joined(layer.words)):
            return True
        return self.text.fullmatch(layer.text) is not None

    def equals(self, text: str) -> bool:
        """Whether it is this very text."""
        return self.raw == text.strip()


@lru_cache(maxsize=4096)
def command_pattern(pattern: str, *, wide: bool) -> CommandPattern:
    """Read a pattern. What forbids is read widely: a quoted `*` counts as a wildcard, `?` as any character."""
    raw = pattern.strip()
    prefix, tail = (raw[:-2].rstrip(), True) if raw.endswith((" *", ":*")) else (raw, False)
    end = r"(?:\s.*)?" if tail else ""
    text = re.compile(_loose(prefix, wide) + end, re.DOTALL)
    words = _words(prefix, wide)
    if words is None:
        return CommandPattern(raw, "*" not in raw, text, None, ())
    vector = "".join(".*" if c == DEEP else "." if c == _ANY else re.escape(c) for c in words)
    vector_end = rf"(?:{_GAP}.*)?" if tail and words else ".*" if tail else ""
    forms = [tuple(DEEP if c == _ANY else c for c in words)]
    if tail:
        forms.append((*forms[0], _GAP, DEEP) if words else (DEEP,))
    return CommandPattern(raw, "*" not in raw, text, re.compile(vector + vector_end, re.DOTALL), tuple(forms))


def forbidden(rule: Rule, script: Script, text: str, *, folds: bool) -> Match:
    """Whether a rule that forbids or asks is about a script: any command, at any layer, by any name."""
    if rule.pattern is None:
        return "yes"
    pattern = command_pattern(rule.pattern, wide=True)
    if pattern.equals(text) or pattern.text.fullmatch(text.strip()):
        return "yes"
    found: Match = "no"
    for command in script.commands:
        for layer in command.layers:
            match = _about(pattern, layer, folds=folds)
            if match == "yes":
                return "yes"
            found = "maybe" if match == "maybe" else found
    return found


def allowed(rule: Rule, command: Command, script: Script, text: str) -> Vouch:
    """What a rule that allows says for a command.

    The outermost program counts, or one behind programs that change nothing about what they run. An assignment that steers a program
    is not looked past. A command that only an exact rule may allow needs one.
    """
    if rule.pattern is None:
        return "bare" if _has_program(command) and not command.exact else "no"
    pattern = command_pattern(rule.pattern, wide=False)
    if pattern.equals(text):
        return "whole"
    if command.steers:
        alone = len(script.commands) == 1 and "=" in pattern.raw.partition(" ")[0] and not script.problem
        return "rule" if alone and not command.exact and pattern.text.fullmatch(text.strip()) else "no"
    for layer in _reachable(command):
        if command.exact or not _has_program(command):
            if pattern.equals(layer.text):
                return "whole"
        elif pattern.covers(layer):
            return "rule"
    return "no"


def _reachable(command: Command) -> Iterator[Layer]:
    for layer in command.layers:
        yield layer
        if not layer.transparent:
            return


def _has_program(command: Command) -> bool:
    return bool(command.layers) and bool(command.layers[0].words) and command.layers[0].words[0] is not None


def _about(pattern: CommandPattern, layer: Layer, *, folds: bool) -> Match:
    if not layer.words or pattern.covers(layer):
        return "yes" if layer.words else "no"
    unknown = None in layer.words
    if unknown and sum(len(word or "") for word in layer.words) > _LONG:
        return "maybe"
    for words in _spellings(layer.words, folds=folds):
        if pattern.vector is not None and pattern.vector.fullmatch(_joined(words)):
            return "yes"
        if unknown and any(meets(mine, _tokens(words)) for mine in pattern.tokens):
            return "maybe"
    return "no"


def _spellings(words: tuple[str | None, ...], *, folds: bool) -> Iterator[tuple[str | None, ...]]:
    """A command by the name of its program alone, and as a system that folds names would find it."""
    program, *rest = words
    yield words
    if program is None:
        return
    name = re.split(r"[/\\]", program)[-1]
    if folds:
        name = name.casefold().removesuffix(".exe")
    if name and name != program:
        yield (name, *rest)


def _joined(words: tuple[str | None, ...]) -> str:
    return _GAP.join(_UNKNOWN if word is None else word for word in words)


def _tokens(words: tuple[str | None, ...]) -> Tokens:
    tokens: list[str] = []
    for word in words:
        tokens += [DEEP] if word is None else [*word]
        tokens.append(_GAP)
    return tuple(tokens[:-1])


_ANY: Final = "\x00?"


def _loose(prefix: str, wide: bool) -> str:
    """A pattern for the text as written: runs of blanks count as one."""
    pieces = re.split(r"(\s+|\*+|\?)", prefix)
    return "".join(_loose_piece(piece, wide) for piece in pieces)


def _loose_piece(piece: str, wide: bool) -> str:
    if piece.isspace():
        return r"\s+"
    if piece.startswith("*"):
        return ".*"
    return "." if piece == "?" and wide else re.escape(piece)


def _words(prefix: str, wide: bool) -> tuple[str, ...] | None:
    """The characters of a pattern's words with gaps between them, quotes removed; None when its quotes do not close."""
    out: list[str] = []
    quote = ""
    at = 0
    while at < len(prefix):
        char = prefix[at]
        if quote:
            if char == quote:
                quote = ""
            else:
                out.append(DEEP if char == "*" and wide else char)
        elif char in "'\"":
            quote = char
        elif char.isspace():
            if out and out[-1] != _GAP:
                out.append(_GAP)
        elif char == "\\" and at + 1 < len(prefix):
            at += 1
            out.append(prefix[at])
        else:
            out.append(DEEP if char == "*" else _ANY if char == "?" and wide else char)
        at += 1
    return None if quote else tuple(out)
