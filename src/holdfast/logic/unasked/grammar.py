"""Read a shell command in the small grammar whose meaning is certain; refuse everything else.

    list      pipeline (("&&" | "||" | ";" | newline) pipeline)*
    pipeline  ["!"] simple ("|" simple)*
    simple    (NAME=word)* word* with redirects anywhere
    redirect  [0-2] (">" | ">>" | "<") word,  [0-2] (">&" | "<&") [0-2],  "&>" word,  "<<'CAPITALS'" and its lines
    word      bare characters, '...', "...", \\x, * ? [ ] as wildcards, ~ at the start, and a few expansions
    expansion $HOME, ${HOME}, $PWD, $? and variables that are fit to be shown; a variable that the same text set to plain characters;
              $(list) and "$(cat <<'CAPITALS' ... )"

`bash` and `dash` agree on all of it. Nothing is expanded twice, no value is evaluated, no name of a program comes from an expansion. Reading
is one pass from left to right: each character is looked at once.
"""

import re
import unicodedata
from collections.abc import Mapping
from typing import Final

import msgspec

LONGEST: Final = 200_000
"""Characters of a text that is read."""
MOST_WORDS: Final = 2_000
DEEPEST: Final = 3
"""How many `$(...)` may lie inside of each other."""

_BLANKS: Final = re.compile(r"(?:[ \t]|(?<=[ \t\n;|&])\\\n|(?<![\s\S])\\\n)+")
_COMMENT: Final = re.compile(r"#[^\n]*")
_OPERATOR: Final = re.compile(r"&&|\|\||;|\||\n")
_WRONG_OPERATOR: Final = re.compile(r";[;&]|\|&|&(?![&>])|&>[>&]|[()`]")
_REDIRECT: Final = re.compile(r"([012]?)(>>|>|<)(?![<>|(&])|(&>)(?![>&(])|([012]?)([<>])&([012])(?=[ \t\n;|&<>)]|$)")
_HEREDOC: Final = re.compile(r"0?<<[ \t]*'([A-Z][A-Z0-9_]*)'(?![^ \t\n|&;<>)])")
_CAT: Final = re.compile(r"\$\(cat <<'([A-Z][A-Z0-9_]*)'\n")
_BARE: Final = re.compile(r"[A-Za-z0-9_@%+=:,./^-]+")
_SINGLE: Final = re.compile(r"'([^']*)'")
_IN_DOUBLE: Final = re.compile(r'[^"\\$`]+')
_LITERAL_DOLLAR: Final = re.compile(r"\$(?=[\"' \t\n|&;<>)/.,:%\]}^+=]|$)")
_BARE_DOLLAR: Final = re.compile(r"\$(?=[ \t\n|&;<>)]|$)")
_VARIABLE: Final = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*)|([?#]))")
_SAFE_VALUE: Final = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
_LIKE_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[|\+?=)")
_OWN_NAME: Final = re.compile(r"(?!histchars$)[a-z][a-z0-9]{0,15}")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_UNBALANCED: Final = re.compile(r"['\"`()\\]")


class Outside(Exception):
    """The text is not in the grammar; the message says why, in words that go on after 'because'."""


class Word(msgspec.Struct, frozen=True):
    """One word of a command."""

    text: str
    """As written."""
    value: str | None
    """As the program gets it, wildcards unexpanded; None when it is not known before the command runs."""
    glob: bool = False
    """Whether the shell expands wildcards in it."""
    bare: bool = True
    """Whether nothing in it is quoted: only such a word can be a keyword, an assignment or the name of the shell's own command."""


class Redirect(msgspec.Struct, frozen=True):
    """A file that the shell opens for a command."""

    kind: str
    """`read`, `write`, or `text` for a here-document, whose lines `word` holds."""
    word: Word


class Simple(msgspec.Struct, frozen=True):
    """A command: what is set for it, its words, its redirects."""

    assignments: tuple[tuple[str, Word], ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]


class Piece(msgspec.Struct, frozen=True):
    """A pipeline, what joins it to the one before, and what its words run first by `$(...)`."""

    joined: str
    """`&&`, `||` or `;`; `;` for the first."""
    commands: tuple[Simple, ...]
    inner: tuple[tuple["Piece", ...], ...] = ()


def check_characters(text: str) -> None:
    """Refuse texts that shells or people may read differently, and those that take too long."""
    if len(text) > LONGEST:
        raise Outside(f"it is longer than {LONGEST:,} characters")
    if found := _CONTROL.search(text):
        raise Outside(f"it has the control character U+{ord(found[0]):04X}")
    if not text.isascii():
        for char in set(text):
            if char > "\x7f" and unicodedata.category(char)[0] in "CZ":
                raise Outside(f"it has the character U+{ord(char):04X}, which nobody sees")


class Reader:
    """Reads one text; `known` has the values of variables, None for those that may be shown but are not known."""

    def __init__(self, text: str, known: Mapping[str, str | None], *, old_bash: bool = False) -> None:
        self.text, self.at, self.depth, self.count = text, 0, 0, 0
        self.known = dict(known)
        self.old_bash = old_bash
        self.inner: list[tuple[Piece, ...]] = []
        self.heredoc: tuple[str, int] | None = None
        """The delimiter of the here-document that begins on the next line, and the depth that it was found at."""
        self.body: Word | None = None

    def whole(self) -> tuple[Piece, ...]:
        """Read all of it."""
        pieces = self._list()
        if self.at < len(self.text):
            raise Outside(f"it has {self.text[self.at]!r} where no part of a command can be")
        if self.heredoc:
            raise Outside("a here-document has no end")
        return pieces

    def _list(self) -> tuple[Piece, ...]:
        pieces: list[Piece] = []
        joined = ";"
        while True:
            operator = self._operator()
            while operator == "\n":
                operator = self._operator()
            if operator:
                raise Outside(f"{operator!r} stands where a command should begin")
            if self._ended():
                if joined in ("&&", "||"):
                    raise Outside(f"nothing follows {joined!r}")
                return tuple(pieces)
            pieces.append(self._pipeline(joined))
            self._remember(pieces[-1])
            operator = self._operator()
            if not operator:
                return tuple(pieces)
            joined = ";" if operator == "\n" else operator
            if joined in ("&&", "||"):
                self._skip_lines()

    def _remember(self, piece: Piece) -> None:
        """Take in variables that are set for what follows: only such as no shell and no program gives a meaning to."""
        for command in piece.commands:
            for name, word in command.assignments if not command.words else ():
                if not _OWN_NAME.fullmatch(name) or self.depth:
                    raise Outside(f"it sets {name} for what follows")
                if piece.joined == ";" and len(piece.commands) == 1:
                    self.known[name] = word.value
                else:
                    self.known.pop(name, None)

    def _pipeline(self, joined: str) -> Piece:
        before, self.inner = self.inner, []
        commands = [self._simple(first=True)]
        while self._peek_operator() == "|":
            self._operator()
            self._skip_lines()
            commands.append(self._simple(first=False))
        inner, self.inner = tuple(self.inner), before
        return Piece(joined, tuple(commands), inner)

    def _skip_lines(self) -> None:
        while self._peek_operator() == "\n":
            self._operator()

    def _operator(self) -> str | None:
        """Take the operator that comes next; empty when a word does."""
        self._blanks()
        if self._ended():
            return None
        if _WRONG_OPERATOR.match(self.text, self.at):
            raise Outside(f"{self.text[self.at : self.at + 2].strip()!r} is not one of the operators && || | ;")
        found = _OPERATOR.match(self.text, self.at)
        if not found:
            return ""
        self.at = found.end()
        if found[0] == "\n":
            self._take_heredoc()
        return found[0]

    def _peek_operator(self) -> str:
        self._blanks()
        found = _OPERATOR.match(self.text, self.at)
        return found[0] if found else ""

    def _blanks(self) -> None:
        if found := _BLANKS.match(self.text, self.at):
            self.at = found.end()
        if self.text.startswith("#", self.at) and (self.at == 0 or self.text[self.at - 1] in " \t\n;|&"):
            if self.depth:
                raise Outside("a comment stands inside of $(...)")
            found = _COMMENT.match(self.text, self.at)
            self.at = found.end() if found else self.at

    def _ended(self) -> bool:
        return self.at >= len(self.text) or (self.depth > 0 and self.text[self.at] == ")")

    def _simple(self, *, first: bool) -> Simple:
        assignments: list[tuple[str, Word]] = []
        words: list[Word] = []
        redirects: list[Redirect] = []
        while True:
            self._blanks()
            if self._ended() or _OPERATOR.match(self.text, self.at):
                break
            if redirect := self._redirect():
                redirects.append(redirect)
                continue
            if _WRONG_OPERATOR.match(self.text, self.at):
                raise Outside(f"{self.text[self.at : self.at + 2].strip()!r} is not in the grammar")
            start = self.at
            if not words and (found := _ASSIGNMENT.match(self.text, self.at)):
                self.at = found.end()
                value = self._word(empty=True)
                assignments.append((found[1], value))
            else:
                word = self._word()
                if not words and word.bare and _LIKE_ASSIGNMENT.match(word.text):
                    raise Outside(f"{word.text!r} sets a part of a variable")
                if word.text == "!" and not words and not assignments and first and not redirects:
                    first = False
                    continue
                words.append(word)
            self._no_descriptor(start)
            self.count += 1
            if self.count > MOST_WORDS:
                raise Outside(f"it has more than {MOST_WORDS:,} words")
        if not words and not assignments:
            raise Outside("a redirect or nothing stands where a command should be")
        return Simple(tuple(assignments), tuple(words), tuple(redirects))

    def _no_descriptor(self, start: int) -> None:
        """Refuse `12>file` and `{name}>file`, where the word is no word but says what is redirected."""
        word = self.text[start : self.at]
        if self.text[self.at : self.at + 1] in ("<", ">") and word and (word.isdigit() or word.endswith("}")):
            raise Outside(f"{word!r} names a descriptor")

    def _redirect(self) -> Redirect | None:
        if found := _HEREDOC.match(self.text, self.at):
            if self.heredoc or self.depth or self.body:
                raise Outside("more than one here-document stands in a line, or one inside of $(...)")
            self.at = found.end()
            self.heredoc = (found[1], self.at)
            body = self._find_body()
            return Redirect("text", body)
        found = _REDIRECT.match(self.text, self.at)
        if not found:
            if self.text[self.at] in "<>" or self.text.startswith("&>", self.at):
                raise Outside("it redirects in a way that is not in the grammar")
            return None
        self.at = found.end()
        if found[6]:
            return Redirect("read", Word("/dev/null", "/dev/null"))  # a copy of a descriptor opens nothing
        self._blanks()
        if self._ended() or _OPERATOR.match(self.text, self.at):
            raise Outside("a redirect names no file")
        start = self.at
        word = self._word()
        self._no_descriptor(start)
        if word.value is None or word.glob or not word.value:
            raise Outside("which file a redirect opens is not known before it runs")
        return Redirect("read" if found[2] == "<" else "write", word)

    def _find_body(self) -> Word:
        """Find the lines of the here-document that begins on the next line; the reader passes over them when it gets there."""
        assert self.heredoc is not None
        delimiter, at = self.heredoc
        line = self.text.find("\n", at)
        end = self._end_of_body(line, delimiter)
        self.body = Word("", self.text[line + 1 : end + 1])
        return self.body

    def _end_of_body(self, line: int, delimiter: str) -> int:
        """Give the place of the newline before the line that is exactly the delimiter."""
        if line < 0:
            raise Outside("a here-document has no end")
        end = self.text.find(f"\n{delimiter}\n", line)
        if end < 0 and self.text.endswith(f"\n{delimiter}"):
            end = len(self.text) - len(delimiter) - 1
        if end < line:
            raise Outside(f"no line of the here-document is exactly {delimiter}")
        return end

    def _take_heredoc(self) -> None:
        if self.heredoc is None:
            return
        delimiter, _ = self.heredoc
        end = self._end_of_body(self.at - 1, delimiter)
        if self.body is None or self.body.value != self.text[self.at : end + 1]:
            raise Outside("a here-document begins on another line than it seems to")
        self.at = min(end + len(delimiter) + 2, len(self.text))
        self.heredoc = self.body = None

    def _word(self, *, empty: bool = False) -> Word:
        """Read one word, to the blank or operator that ends it."""
        start, glob, known, quoted = self.at, False, True, False
        if self.text.startswith("#", start):
            raise Outside("a comment stands where a word should be")
        value: list[str] = []
        shape: list[str] = []
        """The unquoted characters, with a NUL for each quoted piece."""
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in " \t\n;|&<>" or (char == ")" and self.depth):
                break
            if found := _BARE.match(self.text, self.at):
                piece, shown = found[0], found[0]
                self.at = found.end()
            elif char in "*?[]":
                piece = shown = char
                glob = glob or char != "]"
                self.at += 1
            elif char in "{}!#~" or (char > "\x7f" and char.isalnum()):
                piece = shown = char
                self.at += 1
            else:
                part, quoted = self._quoted_or_expanded(char), True
                known = known and part is not None
                piece, shown = part or "", "\0"
            value.append(piece)
            shape.append(shown)
        return self._made(self.text[start : self.at], "".join(value), "".join(shape), glob, known, quoted, empty)

    def _made(self, text: str, value: str, shape: str, glob: bool, known: bool, quoted: bool, empty: bool) -> Word:
        if not text and not empty:
            raise Outside(f"{self.text[self.at : self.at + 1]!r} is not in the grammar")
        braced = shape[shape.find("{") : shape.rfind("}")] if "{" in shape else ""
        if "," in braced or ".." in braced:
            raise Outside("braces may become several words")
        if shape in ("{", "}"):
            raise Outside("it groups commands")
        glob = glob and text != "["
        if glob and (not known or any(char in value for char in "\\{}") or _quotes_wildcard(value, shape)):
            raise Outside("wildcards are mixed with quotes or expansions")
        if "~" in shape:
            value = self._tilde(value, shape)
        return Word(text, value if known else None, glob, not quoted)

    def _tilde(self, value: str, shape: str) -> str:
        if re.search(r"[=:]~", shape):
            raise Outside("a ~ behind = or : may be expanded")
        if not shape.startswith("~"):
            return value
        home = self.known.get("HOME")
        if (shape != "~" and not shape.startswith("~/")) or home is None:
            raise Outside("it names the home of somebody")
        return home + value[1:]

    def _quoted_or_expanded(self, char: str) -> str | None:
        """Read one quoted or expanded piece; None when its value is not known."""
        if char == "'":
            found = _SINGLE.match(self.text, self.at)
            if not found:
                raise Outside("a quote does not end")
            self.at = found.end()
            return found[1]
        if char == '"':
            return self._double()
        if char == "\\":
            following = self.text[self.at + 1 : self.at + 2]
            if following in ("", "\n"):
                raise Outside("a line goes on inside of a word")
            self.at += 2
            return following
        if char == "$":
            if _BARE_DOLLAR.match(self.text, self.at):
                self.at += 1
                return "$"
            value = self._expansion()
            if value is not None and not _SAFE_VALUE.fullmatch(value):
                raise Outside("an expansion without quotes has blanks or wildcards")
            return value
        raise Outside(f"{char!r} is not in the grammar")

    def _double(self) -> str | None:
        self.at += 1
        parts: list[str] = []
        known = True
        while True:
            if found := _IN_DOUBLE.match(self.text, self.at):
                parts.append(found[0])
                self.at = found.end()
            char = self.text[self.at : self.at + 1]
            if char == '"':
                self.at += 1
                return "".join(parts) if known else None
            if char == "\\":
                following = self.text[self.at + 1 : self.at + 2]
                if following in ("", "\n"):
                    raise Outside("a line goes on inside of quotes")
                parts.append(following if following in '"\\$`' else f"\\{following}")
                self.at += 2
            elif char == "$" and _LITERAL_DOLLAR.match(self.text, self.at):
                parts.append("$")
                self.at += 1
            elif char == "$":
                value = self._expansion()
                known = known and value is not None
                parts.append(value or "")
            else:
                raise Outside("a quote does not end" if not char else "it has a command between backquotes")

    def _expansion(self) -> str | None:
        if found := _VARIABLE.match(self.text, self.at):
            name = found[1] or found[2] or found[3]
            if name not in self.known:
                raise Outside(f"the value of ${name} is not known")
            self.at = found.end()
            return self.known[name]
        if found := _CAT.match(self.text, self.at):
            return self._cat(found)
        if self.text.startswith("$(", self.at) and not self.text.startswith("$((", self.at):
            self._substitution()
            return None
        raise Outside(f"{self.text[self.at : self.at + 3].strip()!r} begins an expansion that is not in the grammar")

    def _cat(self, found: re.Match[str]) -> str:
        end = self._end_of_body(found.end() - 1, found[1])
        body = self.text[found.end() : end]
        if self.old_bash and _UNBALANCED.search(body):
            raise Outside("old versions of bash misread quotes in such a here-document")
        self.at = end + len(found[1]) + 1
        close = re.compile(r"\n[ \t]*\)").match(self.text, self.at)
        if not close:
            raise Outside("the here-document inside of $(...) is followed by something else than its end")
        self.at = close.end()
        return body.rstrip("\n")

    def _substitution(self) -> None:
        """Read `$(list)`; its output is not known."""
        if self.depth >= DEEPEST or self.heredoc:
            raise Outside("$(...) lies too deep, or beside a here-document")
        self.at += 2
        self.depth += 1
        start = self.at
        before, self.inner = self.inner, []
        pieces = self._list()
        if not pieces:
            raise Outside("$() is empty")
        self.inner = [*before, *self.inner]
        if self.text[self.at : self.at + 1] != ")" or "\n" in self.text[start : self.at]:
            raise Outside("$(...) does not end on its line")
        self.at += 1
        self.depth -= 1
        self.inner.append(pieces)


def _quotes_wildcard(value: str, shape: str) -> bool:
    """Whether a wildcard of a word that has others is quoted."""
    return sum(value.count(char) for char in "*?[]") != sum(shape.count(char) for char in "*?[]")
