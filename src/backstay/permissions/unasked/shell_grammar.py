"""Read a shell command in the small grammar whose meaning is certain; refuse everything else.

    list      pipeline (("&&" | "||" | ";" | newline) pipeline)*
    pipeline  ["!"] simple ("|" simple)*
    simple    (NAME=word)* word* with redirects anywhere
    redirect  [0-2] (">" | ">>" | "<") word,  [0-2] (">&" | "<&") [0-2],  "&>" word,  "<<'CAPITALS'" and its lines
    word      bare characters, '...', "...", \\x, * ? [ ] as wildcards, ~ at the start, and a few expansions
    expansion $HOME, ${HOME}, $PWD, $? and variables that are fit to be shown; a variable that the same text set to plain characters;
              $(list) and "$(cat <<'CAPITALS' ... )"

`bash` and `dash` agree on all of it. Nothing is expanded twice, no value is evaluated, no name of a program comes from an expansion.
Reading is one pass from left to right: each character is looked at once.
"""

import re
import unicodedata
from collections.abc import Mapping
from typing import Final

import msgspec

LONGEST: Final = 50_000
"""Characters of a text that is read, and of all that its variables become."""
MOST_WORDS: Final = 2_000
DEEPEST: Final = 3
"""How many `$(...)` may lie inside of each other."""

_BLANKS: Final = re.compile(r"(?:[ \t]|(?<=[ \t\n;|&])\\\n|(?<![\s\S])\\\n)+")
_OPERATOR: Final = re.compile(r"&&|\|\||;|\||\n")
_WRONG_OPERATOR: Final = re.compile(r";[;&]|\|&|&(?![&>])|&>[>&]|[()`]")
_REDIRECT: Final = re.compile(r"([012]?)(>>|>|<)(?![<>|(&])|(&>)(?![>&(])|([012]?)([<>])&([012])(?=[ \t\n;|&<>)]|$)")
_HEREDOC: Final = re.compile(r"0?<<[ \t]*'([A-Z][A-Z0-9_]*)'(?![^ \t\n|&;<>)])")
_CAT: Final = re.compile(r"\$\(cat <<'([A-Z][A-Z0-9_]*)'(?=\n)")
_CLOSE: Final = re.compile(r"[ \t]*\)")
_BARE: Final = re.compile(r"(?:[A-Za-z0-9_@%+=:,./^*?\[\]{}!#~-]|[^\W\x00-\x7f])+")
_WILD: Final = re.compile(r"[*?\[]")
_LATE_TILDE: Final = re.compile(r"[=:]~")
_SINGLE: Final = re.compile(r"'([^']*)'")
_IN_DOUBLE: Final = re.compile(r'[^"\\$`]+')
_LITERAL_DOLLAR: Final = re.compile(r"\$(?=[\"' \t\n|&;<>)/.,:%\]}^+=]|$)")
_BARE_DOLLAR: Final = re.compile(r"\$(?=[ \t\n|&;<>)]|$)")
_VARIABLE: Final = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*)|([?#]))")
_PLAIN_OUTPUT: Final = re.compile(
    r"\$\((?:date|pwd|ls|whoami|hostname|uname|nproc|id|arch|wc|git (?:rev-parse|describe|branch))(?: [A-Za-z0-9_ ./+:%=-]*)?\)"
    r"|\$\(git log (?:-1|-n 1) --(?:format|pretty)=(?:format:)?%(?:[hHtT]|[ac][tIi])\)"
)
"""What prints no wildcard behind a slash."""
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
    """`read`, `write`, `copy` of a descriptor, or `text` for a here-document, whose lines `word` holds."""
    word: Word


class Simple(msgspec.Struct, frozen=True):
    """A command: what is set for it, its words, its redirects."""

    assignments: tuple[tuple[str, Word], ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]


class Piece(msgspec.Struct, frozen=True):
    """A pipeline, what joins it to the one before (`&&`, `||` or `;`), and what its words run first by `$(...)`."""

    joined: str
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

    def __init__(self, text: str, known: Mapping[str, str | None], *, bash: bool, old_bash: bool) -> None:
        self.text, self.at, self.depth, self.count, self.expanded = text, 0, 0, 0, 0
        self.known, self.bash, self.old_bash = dict(known), bash, old_bash
        self.printed = frozenset[str]()
        """Variables that the text sets: if one is not known, it may hold wildcards that a command prints."""
        self.inner: list[tuple[Piece, ...]] = []
        self.lines: tuple[int, int] | None = None
        """Where the line ends behind which a here-document begins, and where what follows it begins."""

    def whole(self) -> tuple[Piece, ...]:
        """Read all of it."""
        pieces = self._list()
        if self.at < len(self.text) or self.lines or not pieces:
            raise Outside("it has no command, or something is left over behind it")
        return pieces

    def _list(self) -> tuple[Piece, ...]:
        pieces: list[Piece] = []
        joined = ";"
        while True:
            self._lines()
            if self._is_ended() and joined == ";":
                return tuple(pieces)
            pieces.append(self._pipeline(joined))
            operator = self._operator()
            if not operator:
                return tuple(pieces)
            joined = ";" if operator == "\n" else operator

    def _pipeline(self, joined: str) -> Piece:
        before, self.inner = self.inner, []
        self._blanks()
        negated = self.text.startswith("! ", self.at)
        self.at += 2 if negated else 0
        commands = [self._simple()]
        if negated and any(word.value == "cd" for word in commands[0].words[:1]):
            raise Outside("where it is after ! cd is not plain")
        while self._peek() == "|":
            self._operator()
            self._lines()
            commands.append(self._simple())
        inner, self.inner = tuple(self.inner), before
        piece = Piece(joined, tuple(commands), inner)
        self._remember(piece)
        return piece

    def _remember(self, piece: Piece) -> None:
        """Take in variables that are set for what follows: only such as no shell and no program gives a meaning to."""
        for command in piece.commands:
            if len(command.assignments) > 1 and not command.words:
                raise Outside("it sets several variables at once")
            for name, word in command.assignments if not command.words else ():
                if not _OWN_NAME.fullmatch(name) or self.depth or piece.joined != ";" or len(piece.commands) > 1:
                    raise Outside(f"it sets {name} for what follows")
                self.known[name] = word.value
                if not _PLAIN_OUTPUT.fullmatch(word.text.strip('"')):
                    self.printed |= {name}

    def _lines(self) -> None:
        while self._peek() == "\n":
            self._operator()

    def _peek(self) -> str:
        self._blanks()
        found = _OPERATOR.match(self.text, self.at)
        return found[0] if found else ""

    def _operator(self) -> str:
        """Take the operator that comes next; empty at the end."""
        operator = self._peek()
        self._no_other_operator()
        if operator == "\n" and self.lines:
            if self.lines[0] != self.at:
                raise Outside("a here-document begins on another line than it seems to")
            self.at, self.lines = self.lines[1], None
        else:
            self.at += len(operator)
        return operator

    def _no_other_operator(self) -> None:
        if not self._is_ended() and (found := _WRONG_OPERATOR.match(self.text, self.at)):
            raise Outside(f"only && || | and ; may stand between commands, not {found[0]!r}")

    def _blanks(self) -> None:
        if found := _BLANKS.match(self.text, self.at):
            self.at = found.end()
        if self.text.startswith("#", self.at) and (self.at == 0 or self.text[self.at - 1] in " \t\n;|&"):
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end
            if self.depth:
                raise Outside("a comment stands inside of $(...)")

    def _is_ended(self) -> bool:
        return self.at >= len(self.text) or (self.depth > 0 and self.text[self.at] == ")")

    def _simple(self) -> Simple:
        assignments, words, redirects = list[tuple[str, Word]](), list[Word](), list[Redirect]()
        while self._peek() == "" and not self._is_ended():
            if redirect := self._redirect():
                redirects.append(redirect)
                continue
            self._no_other_operator()
            found = _ASSIGNMENT.match(self.text, self.at) if not words else None
            self.at = found.end() if found else self.at
            word = self._word(empty=found is not None)
            if found:
                assignments.append((found[1], word))
            elif not words and word.bare and _LIKE_ASSIGNMENT.match(word.text):
                raise Outside(f"{word.text!r} sets a part of a variable")
            else:
                words.append(word)
            self.count += 1
            if self.count > MOST_WORDS:
                raise Outside(f"it has more than {MOST_WORDS:,} words")
        if not words and not assignments:
            raise Outside("something else stands where a command should be")
        return Simple(tuple(assignments), tuple(words), tuple(redirects))

    def _redirect(self) -> Redirect | None:
        if found := _HEREDOC.match(self.text, self.at):
            line = self.text.find("\n", found.end())
            if self.lines or self.depth or line < 0:
                raise Outside("a here-document has no lines, or stands beside another or inside of $(...)")
            self.at = found.end()
            lines, end = self._body(line, found[1])
            self.lines = (line, end)
            return Redirect("text", Word("", lines))
        found = _REDIRECT.match(self.text, self.at)
        if not found:
            if self.text[self.at] in "<>" or self.text.startswith("&>", self.at):
                raise Outside("only plain files and here-documents like <<'EOF' may be redirected")
            return None
        self.at = found.end()
        if found[3] and not self.bash:
            raise Outside("only bash reads &> as a redirect")
        if found[6]:  # a copy of a descriptor opens nothing
            return Redirect("read" if "0" in found[4] or found[5] == "<" else "copy", Word("/dev/null", "/dev/null"))
        self._blanks()
        word = self._word()
        if not word.value or word.glob:
            raise Outside("which file a redirect opens is not known before it runs")
        return Redirect("read" if found[2] == "<" else "write", word)

    def _body(self, line: int, delimiter: str) -> tuple[str, int]:
        """Give the lines behind a newline up to the one that is exactly the delimiter, and the place behind that."""
        end = f"{self.text}\n".find(f"\n{delimiter}\n", line)
        if end < 0:
            raise Outside(f"no line of the here-document is exactly {delimiter}")
        return self.text[line + 1 : end + 1], min(end + len(delimiter) + 2, len(self.text))

    def _word(self, *, empty: bool = False) -> Word:
        """Read one word, to the blank or operator that ends it."""
        start, glob, known = self.at, False, True
        value, shape = "", ""
        """`shape` has the unquoted characters, with a NUL for each quoted or expanded piece."""
        while self.at < len(self.text) and self.text[self.at] not in " \t\n;|&<>" and not self._is_ended():
            char = self.text[self.at]
            if found := _BARE.match(self.text, self.at):
                glob = glob or _WILD.search(found[0]) is not None
                self.at = found.end()
                value += found[0]
                shape += found[0]
            else:
                piece = self._double() if char == '"' else self._piece(char, sets=empty)
                known = known and piece is not None
                value += piece or ""
                shape += "\0"
        text = self.text[start : self.at]
        braced = shape[shape.find("{") : shape.rfind("}")] if "{" in shape else ""
        if (not text and not empty) or shape[:1] == "#" or shape in ("{", "}") or "," in braced or ".." in braced:
            raise Outside(f"{(text or self.text[self.at : self.at + 1])!r} is not a plain word")
        if self.text[self.at : self.at + 1] in ("<", ">") and (text.isdigit() or text.endswith("}")):
            raise Outside(f"{text!r} names a descriptor")
        glob = glob and text != "["
        if glob and (set("{}\\") & set(value) or ("\0" in shape and not (known and _same_wildcards(value, shape)))):
            raise Outside("wildcards are mixed with braces, quotes or expansions")
        return Word(text, self._home(value, shape) if known else None, glob, "\0" not in shape)

    def _home(self, value: str, shape: str) -> str:
        """Put the home in the place of a `~` that begins a word."""
        if _LATE_TILDE.search(shape) or (shape[:1] == "~" and shape[1:2] not in ("", "/")):
            raise Outside("a ~ stands for something that is not known")
        return f"{self.known['HOME']}{value[1:]}" if shape[:1] == "~" else value

    def _piece(self, char: str, *, sets: bool) -> str | None:
        """Read one quoted or expanded piece; None when its value is not known. In what `sets` a variable wildcards stay as they are."""
        if found := _SINGLE.match(self.text, self.at):
            self.at = found.end()
            return found[1]
        following = self.text[self.at + 1 : self.at + 2]
        if char == "\\" and following not in ("", "\n"):
            self.at += 2
            return following
        if _BARE_DOLLAR.match(self.text, self.at):
            self.at += 1
            return "$"
        start = self.at
        value = self._expansion()
        written = self.text[start : self.at]
        printed = value is None and (written.startswith("$(") or written.strip("${}") in self.printed)
        if printed and not sets and not _PLAIN_OUTPUT.fullmatch(written):
            raise Outside(f"what {written} stands for may have wildcards, and it has no quotes")
        if value is not None and not _SAFE_VALUE.fullmatch(value):
            raise Outside("an expansion without quotes has blanks or wildcards")
        return value

    def _double(self) -> str | None:
        """Read what stands between double quotes."""
        self.at += 1
        value, known = "", True
        while not self.text.startswith('"', self.at):
            following = self.text[self.at + 1 : self.at + 2]
            if found := _IN_DOUBLE.match(self.text, self.at):
                value += found[0]
                self.at = found.end()
            elif self.text.startswith("\\", self.at) and following not in ("", "\n"):
                value += following if following in '"\\$`' else f"\\{following}"
                self.at += 2
            elif _LITERAL_DOLLAR.match(self.text, self.at):
                value += "$"
                self.at += 1
            else:
                piece = self._expansion()
                known = known and piece is not None
                value += piece or ""
        self.at += 1
        return value if known else None

    def _expansion(self) -> str | None:
        """Read what begins with `$`; None when its value is not known."""
        if found := _VARIABLE.match(self.text, self.at):
            name = found[1] or found[2] or found[3]
            if name not in self.known:
                raise Outside(f"the value of ${name} is not known")
            self.at = found.end()
            value = self.known[name]
            self.expanded += len(value or "")
            if self.expanded > LONGEST:
                raise Outside("its variables become too long")
            return value
        if found := _CAT.match(self.text, self.at):
            lines, self.at = self._body(found.end(), found[1])
            close = _CLOSE.match(self.text, self.at)
            # inside of $(...), a line that only begins with the delimiter may end the lines for bash
            if not close or f"\n{found[1]}" in f"\n{lines}" or (self.old_bash and _UNBALANCED.search(lines)):
                raise Outside("the lines of a here-document inside of $(...) may end elsewhere than it seems")
            self.at = close.end()
            return lines.rstrip("\n")
        if (
            not self.text.startswith("$(", self.at)
            or self.text.startswith("$((", self.at)
            or self.depth >= DEEPEST
            or self.lines
        ):
            raise Outside(f"{self.text[self.at : self.at + 3].strip()!r} is not in the grammar, or a quote has no end")
        return self._substitution()

    def _substitution(self) -> str | None:
        """Read `$(list)`, whose output is not known."""
        start, before, self.inner = self.at, self.inner, []
        self.at += 2
        self.depth += 1
        pieces = self._list()
        self.inner = [*before, *self.inner, pieces]
        if not pieces or not self.text.startswith(")", self.at) or "\n" in self.text[start : self.at]:
            raise Outside("$(...) is empty or does not end on its line")
        self.at += 1
        self.depth -= 1
        return None


def _same_wildcards(value: str, shape: str) -> bool:
    """Return whether no wildcard of a word is quoted, so that each means what it looks like."""
    return all(value.count(char) == shape.count(char) for char in "*?[]")
