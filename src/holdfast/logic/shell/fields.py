"""Expanding words: braces, tildes, variables, splitting, wildcards. What cannot be told is unknown, never guessed."""

import re
from collections.abc import Iterator
from collections.abc import Sequence as Listed
from typing import Final

from holdfast.logic.shell.braces import MOST, Token, TooMany, expand_braces
from holdfast.logic.shell.quoting import unescape
from holdfast.logic.shell.scope import LONGEST, Field, Scope
from holdfast.logic.shell.syntax import (
    AndOr,
    Arithmetic,
    Array,
    Literal,
    Node,
    Parameter,
    Pipeline,
    Sequence,
    Simple,
    Substitution,
    Word,
)

MOST_BRACES: Final = 40
_TAME: Final = re.compile(r"[^{~*?\[]*")
_LITERAL_WILD: Final = re.compile(r"\[[*?\[]\]")
_TILDE: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*=)?~([^/:]*)")
_SETTLED: Final = re.compile(r"(?:[^{}]|\{[^{},.]*\})*", re.DOTALL)
"""What braces may be left: bash's rules for stray ones are not plain."""
_BLANKS: Final = re.compile(r"[ \t\n]+")
_QUOTED_WILD: Final = re.compile(r"[*?\[]")


def expand(word: Word, scope: Scope) -> list[Field]:
    """Give the words that a word becomes."""
    if len(word.parts) == 1:
        part = word.parts[0]
        if isinstance(part, Literal) and (part.quoted or _TAME.fullmatch(part.text)):
            return [Field(part.text, word.text)]
    if not any(isinstance(part, Literal) and not part.quoted and "{" in part.text for part in word.parts):
        return _told_apart(list(_fields(word.parts, word.text, scope)))
    if scope.ground.shell in ("sh", "dash") or word.text.count("{") > MOST_BRACES:
        return [Field(None, word.text, many=True)]
    try:
        words = expand_braces(_tokens(word))
    except TooMany:
        return [Field(None, word.text, many=True)]
    if not all(_SETTLED.fullmatch("".join(map(_shape, tokens))) for tokens in words):
        return [Field(None, word.text, many=True)]
    return _told_apart([field for tokens in words for field in _fields(_joined(tokens), word.text, scope)])


def expand_one(word: Word, scope: Scope) -> Field:
    """Give the single value of a word where the shell neither splits nor looks for files: an assignment, a here-string."""
    fields = list(_fields(word.parts, word.text, scope, whole=True))
    return fields[0] if len(fields) == 1 else Field("", word.text)


def _told_apart(fields: list[Field]) -> list[Field]:
    """Give each of several fields of one word a text of its own."""
    if len(fields) < 2:
        return fields
    return [field if field.value is None else Field(field.value, field.value, field.glob) for field in fields]


def _shape(token: Token) -> str:
    """What a token looks like to bash, which sees quoted commas and dots where we do not."""
    if isinstance(token, str):
        return token
    return "," if isinstance(token, Literal) and ("," in token.text or "." in token.text) else "q"


def _tokens(word: Word) -> list[Token]:
    tokens = list[Token]()
    for part in word.parts:
        if isinstance(part, Literal) and not part.quoted:
            tokens.extend(part.text)
        else:
            tokens.append(part)
    return tokens


def _joined(tokens: Listed[Token]) -> tuple[Token, ...]:
    """Join neighbouring characters again."""
    parts, run = list[Token](), list[str]()
    for token in tokens:
        if isinstance(token, str):
            run.append(token)
            continue
        if run:
            parts.append(Literal("".join(run), False))
            run.clear()
        parts.append(token)
    if run:
        parts.append(Literal("".join(run), False))
    return tuple(parts)


class _Building:
    """A field that grows part by part."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.clear()

    def clear(self) -> None:
        self.value: list[str] = []
        self.pattern: list[str] = []
        self.start: str | None = None
        self.told = ""
        self.length = 0
        self.any = self.glob = self.many = self.pipe = self.number = False

    def add(self, text: str, *, quoted: bool) -> None:
        self.any = self.any or quoted or bool(text)
        self.length += len(text)
        if self.length > LONGEST:
            self.hide(many=not quoted)
            return
        self.value.append(text)
        self.pattern.append(_QUOTED_WILD.sub(r"[\g<0>]", text) if quoted else text)
        if not quoted and not self.glob:
            self.glob = _QUOTED_WILD.search(text) is not None

    def hide(self, *, many: bool, number: bool = False, told: str = "") -> None:
        if self.start is None:
            self.start = "".join(self.value)
            self.number = number and not self.start
        else:
            self.number = False
        self.value.append(told or "$__")
        self.any, self.many = True, self.many or many

    def done(self) -> Iterator[Field]:
        if self.any:
            yield self._field()
        self.clear()

    def _field(self) -> Field:
        if self.start is not None:
            return Field(None, self.text, False, self.start, self.many, False, self.number, "".join(self.value))
        pattern = "".join(self.pattern)
        if self.glob and _is_wild(_LITERAL_WILD.sub("x", pattern)):
            return Field(pattern, self.text, True)
        return Field("".join(self.value), self.text, pipe=self.pipe, hint=self.told)


def _is_wild(pattern: str) -> bool:
    opening = pattern.find("[")
    return "*" in pattern or "?" in pattern or 0 <= opening < pattern.rfind("]")


def _fields(parts: Listed[Token], text: str, scope: Scope, *, whole: bool = False) -> Iterator[Field]:
    """Expand everything but braces. With `whole`, as in an assignment, nothing is split and wildcards stay."""
    building = _Building(text)
    for at, part in enumerate(parts):
        match part:
            case Literal(content, quoted):
                if not quoted and "~" in content:
                    _tilde(content, building, scope, first=not at, last=at == len(parts) - 1, whole=whole)
                else:
                    building.add(content, quoted=quoted or whole)
            case Parameter():
                yield from _parameter(part, building, scope, quoted=part.quoted or whole)
            case Substitution(script, quoted, process):
                if process:
                    building.add("/dev/fd/63", quoted=True)
                    building.pipe, building.told = True, _told(script)
                else:
                    building.hide(many=not (quoted or whole), told=_told(script))
            case Arithmetic():
                building.hide(many=False, number=True)
            case Array() | str():
                building.hide(many=False)
    yield from building.done()


def _tilde(text: str, building: _Building, scope: Scope, *, first: bool, last: bool, whole: bool) -> None:
    """Add text that has a tilde, which means a home folder at the beginning of a word or of a value."""
    found = _TILDE.match(text) if first else None
    rest = text[found.end() :] if found else text
    if ":~" in rest and (whole or (found and found[1])):
        building.hide(many=False)
        return
    if not found:
        building.add(text, quoted=whole)
        return
    home = _home(found[2], scope) if rest or last else None
    if home is None:
        building.hide(many=False)
        return
    building.add((found[1] or "") + home, quoted=True)
    building.add(rest, quoted=whole)


def _home(name: str, scope: Scope) -> str | None:
    if name == "+":
        here = scope.value("PWD")
        return here.value if here else None
    home = scope.value("HOME")
    if home is None or home.value is None:
        return None
    return home.value if not name or name == home.value.rstrip("/").rpartition("/")[2] else None


def _parameter(part: Parameter, building: _Building, scope: Scope, *, quoted: bool) -> Iterator[Field]:
    held = scope.value(part.name) if part.plain else None
    if held is None or held.value is None:
        number = part.number or (held is not None and held.number)
        listed = part.quoted and (part.name == "@" or not part.plain)
        building.hide(many=not (quoted or number) or listed, number=number)
        return
    if quoted:
        building.add(held.value, quoted=not held.glob)
        building.glob = building.glob or held.glob
        return
    bare = building.text in (f"${part.name}", f"${{{part.name}}}")  # only then is the very wildcard looked up
    if "IFS" in scope.values or (held.glob and not (bare and _stays_whole(held, scope))):
        building.hide(many=True)
        return
    if held.glob:
        building.add(held.value, quoted=False)
        return
    pieces = _BLANKS.split(held.value)
    if len(pieces) > MOST:
        building.hide(many=True)
        return
    for at, piece in enumerate(pieces):
        if at:
            yield from building.done()
        building.add(piece, quoted=False)


def _told(script: Node) -> str:
    """Give what a substitution prints, when that is plain to see; it is not to be trusted."""
    match script:
        case Sequence(((only, False),)):
            return _told(only)
        case AndOr(first, ()):
            return _told(first)
        case Pipeline() if len(script.elements) == 1 and not script.negated:
            return _told(script.elements[0])
    printed = said(script)
    return printed.hint if printed is not None else ""


def said(node: Node) -> Field | None:
    """Give the text that a command puts into a pipe, when it is plain to see; it is not to be trusted."""
    if not isinstance(node, Simple) or len(node.words) < 2:
        return None
    words = [word.literal for word in node.words]
    if words[0] not in ("echo", "printf") or node.redirects:
        return None
    start = 2 if words[1] in ("-e", "-n", "-ne", "-en", "--") else 1
    return Field(None, "", hint=unescape(" ".join(word if word is not None else "$__" for word in words[start:])))


def _stays_whole(held: Field, scope: Scope) -> bool:
    """Whether no name that a wildcard matches has a blank or a wildcard of its own; one that was not looked up yet will be."""
    pattern = held.value or ""
    found = [name for path in scope.paths(pattern) for name in scope.ground.globs.get(path, ())]
    return not _BLANKS.search(pattern) and not any(_BLANKS.search(name) or _QUOTED_WILD.search(name) for name in found)
