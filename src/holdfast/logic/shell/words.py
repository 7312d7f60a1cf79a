"""Reading words: quotes, expansions and substitutions, as bash reads them.

What bash would read in a way that depends on its options or version is not guessed at: it raises `Unreadable`, or leaves a doubt.
"""

import re
from abc import abstractmethod
from typing import Final

from holdfast.logic.shell.quoting import unescape
from holdfast.logic.shell.syntax import Arithmetic, Array, Literal, Parameter, Part, Sequence, Substitution, Word

DEEPEST: Final = 24
"""How deep commands may nest before reading stops; no person writes more, and Python's stack is finite."""

_PLAIN: Final = re.compile(r"[^ \t\n|&;()<>$`\\\"']+")
_IN_QUOTES: Final = re.compile(r'[^$`\\"]+')
_IN_BODY: Final = re.compile(r"[^$`\\]+")
_IN_BRACES: Final = re.compile(r"[^$`\\\"'}]+")
_BLANK: Final = re.compile(r"(?:[ \t]|\\\n)*")
_MAY_BE_BLANK: Final = frozenset(" \t\\")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-]")
_SIMPLE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]")
_ARRAY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_ARRAY_GAP: Final = re.compile(r"(?:[ \t\n]|\\\n|(?:(?<=[ \t\n])|(?<=\())#[^\n]*)*")
_ARITHMETIC_QUOTES: Final = re.compile(r"[\"'\\]")
_OPERATORS: Final = frozenset(":-=?+#%/^,@*~")
_TRANSFORMS: Final = frozenset("QULuakKAE")
_NUMBERS: Final = frozenset("#?$!")
NOTHING: Final = Word((), "")


class Unreadable(ValueError):
    """Raised where the text is not certain to mean one thing."""


class WordReader:
    """A place in a text, and the words that begin there."""

    def __init__(self, text: str, depth: int = 0) -> None:
        self.text = text
        self.at = 0
        self.depth = depth
        self.doubts: list[str] = []

    @abstractmethod
    def script(self, closers: frozenset[str]) -> Sequence:
        """Read commands up to a closing word or operator, which is left."""

    @property
    @abstractmethod
    def awaits(self) -> bool:
        """Whether the body of a here-document is still to come."""

    @abstractmethod
    def inside(self, text: str) -> "WordReader":
        """Give a reader for text that lies inside of this one."""

    def peek(self, length: int = 1) -> str:
        """Give the characters that come next; fewer at the end."""
        return self.text[self.at : self.at + length]

    def blanks(self) -> None:
        """Go past blanks and continued lines."""
        if self.text[self.at : self.at + 1] in _MAY_BE_BLANK:
            found = _BLANK.match(self.text, self.at)
            self.at = found.end() if found else self.at

    def deeper(self) -> None:
        """Note that something nests; call `shallower` after it."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise Unreadable(f"commands are nested more than {DEEPEST} deep")

    def shallower(self) -> None:
        """Undo `deeper`."""
        self.depth -= 1

    def word(self) -> Word | None:
        """Read one word, or give nothing when none begins here."""
        start, text, parts = self.at, self.text, list[Part]()
        while self.at < len(text):
            plain = _PLAIN.match(text, self.at)
            if plain:
                self.at = plain.end()
                before = parts[-1] if parts else None
                if isinstance(before, Literal) and not before.quoted:
                    parts[-1] = Literal(before.text + plain[0], False)
                else:
                    parts.append(Literal(plain[0], False))
                continue
            part = self._special(start)
            if part is None:
                break
            parts.extend(part)
        if self.at == start:
            return None
        return Word(tuple(parts), text[start : self.at])

    def body_parts(self) -> tuple[Part, ...]:
        """Read the whole text as the body of a here-document or an arithmetic expression: only expansions mean something."""
        parts = list[Part]()
        while self.at < len(self.text):
            plain = _IN_BODY.match(self.text, self.at)
            if plain:
                self.at = plain.end()
                parts.append(Literal(plain[0], True))
            elif self.peek() == "\\":
                parts.append(Literal(self._escaped("$`\\"), True))
            else:
                parts.extend(self._expansion(quoted=True))
        return tuple(parts)

    def arithmetic_end(self) -> int:
        """Find where the arithmetic that begins with the two parentheses here ends; -1 when they are two subshells."""
        end = self._matching(self.at + 1, "(", ")")
        return end if end > 0 and self.text[end : end + 1] == ")" else -1

    def arithmetic(self, start: int, end: int, *, quoted: bool) -> Arithmetic:
        """Read an arithmetic expression between two places."""
        inner = self.text[start:end]
        if _ARITHMETIC_QUOTES.search(inner):
            self.doubts.append("quotes inside of arithmetic")
        reader = self.inside(inner)
        parts = reader.body_parts()
        self.doubts += reader.doubts
        return Arithmetic(inner, parts, quoted)

    def _special(self, start: int) -> tuple[Part, ...] | None:
        """Read what a character that is not plain begins, or nothing when it ends the word."""
        char, text = self.text[self.at], self.text
        if text.startswith("\\\n", self.at):
            self.at += 2
            return ()
        if char == "\\":
            return (Literal(self._escaped(None), True),)
        if char == "'":
            return (Literal(self._single(), True),)
        if char == '"':
            return self._double()
        if char in "$`":
            return self._expansion(quoted=False)
        if char in "<>" and text[self.at + 1 : self.at + 2] == "(":
            return (self._process(),)
        if char == "(" and _ARRAY.fullmatch(text, start, self.at):
            return (self._array(),)
        return None

    def _escaped(self, only: str | None) -> str:
        """Read a backslash and what it quotes; one before any other character than `only` is itself."""
        following = self.text[self.at + 1 : self.at + 2]
        if following == "\n":
            self.at += 2
            return ""
        if not following:
            self.at += 1
            return "\\"
        self.at += 2
        return following if only is None or following in only else "\\" + following

    def _single(self) -> str:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise Unreadable("a single quote is not closed")
        content, self.at = self.text[self.at + 1 : end], end + 1
        return content

    def _double(self) -> tuple[Part, ...]:
        self.at += 1
        parts: list[Part] = [Literal("", True)]
        while True:
            char = self.peek()
            if not char:
                raise Unreadable("a double quote is not closed")
            if char == '"':
                self.at += 1
                return tuple(parts)
            plain = _IN_QUOTES.match(self.text, self.at)
            if plain:
                self.at = plain.end()
                parts.append(Literal(plain[0], True))
            elif char == "\\":
                parts.append(Literal(self._escaped('$`"\\'), True))
            else:
                parts.extend(self._expansion(quoted=True))

    def _expansion(self, *, quoted: bool) -> tuple[Part, ...]:
        """Read what `$` or a backtick begins."""
        if self.text[self.at] == "`":
            return (self._backticks(quoted),)
        following = self.text[self.at + 1 : self.at + 2]
        if following == "(":
            return (self._parenthesis(quoted),)
        if following == "{":
            return (self._braced(quoted),)
        if following == "[":
            end = self._matching(self.at + 1, "[", "]")
            if end < 0:
                raise Unreadable("$[ is not closed")
            found = self.arithmetic(self.at + 2, end - 1, quoted=quoted)
            self.at = end
            return (found,)
        if not quoted and following == "'":
            return (self._ansi(),)
        if not quoted and following == '"':
            self.at += 1
            return self._double()
        name = _SIMPLE_NAME.match(self.text, self.at + 1)
        if not name:
            self.at += 1
            return (Literal("$", True),)
        self.at = name.end()
        return (Parameter(name[0], True, quoted, number=name[0] in _NUMBERS),)

    def _parenthesis(self, quoted: bool) -> Part:
        if self.peek(3) == "$((":
            self.at += 1
            end = self.arithmetic_end()
            if end > 0:
                found = self.arithmetic(self.at + 2, end - 1, quoted=quoted)
                self.at = end + 1
                return found
            self.at -= 1
        self.at += 2
        return Substitution(self._enclosed(), quoted)

    def _process(self) -> Part:
        self.at += 2
        return Substitution(self._enclosed(), False, process=True)

    def _enclosed(self) -> Sequence:
        if self.awaits:
            raise Unreadable("a substitution between a here-document and its body")
        self.deeper()
        script = self.script(frozenset((")",)))
        if self.peek() != ")":
            raise Unreadable("a substitution is not closed")
        self.at += 1
        self.shallower()
        return script

    def _backticks(self, quoted: bool) -> Part:
        end = self.at + 1
        while end < len(self.text) and self.text[end] != "`":
            end += 2 if self.text[end] == "\\" else 1
        if end >= len(self.text):
            raise Unreadable("a backtick is not closed")
        inner = re.sub(r"\\([$`\\\"])" if quoted else r"\\([$`\\])", r"\1", self.text[self.at + 1 : end])
        reader = self.inside(inner)
        script = reader.script(frozenset())
        if reader.at < len(inner):
            raise Unreadable("the text in backticks is not complete")
        self.doubts += reader.doubts
        self.at = end + 1
        return Substitution(script, quoted)

    def _array(self) -> Part:
        if self.awaits:
            raise Unreadable("an array between a here-document and its body")
        self.deeper()
        self.at += 1
        words = list[Word]()
        while True:
            found = _ARRAY_GAP.match(self.text, self.at)
            self.at = found.end() if found else self.at
            if self.peek() == ")":
                self.at += 1
                self.shallower()
                return Array(tuple(words))
            word = self.word()
            if word is None:
                raise Unreadable("an array is not closed")
            words.append(word)

    def _ansi(self) -> Part:
        end = self.at + 2
        while end < len(self.text) and self.text[end] != "'":
            end += 2 if self.text[end] == "\\" else 1
        if end >= len(self.text):
            raise Unreadable("a quote is not closed")
        content = unescape(self.text[self.at + 2 : end])
        if "\0" in content:
            raise Unreadable("a quote holds a NUL")
        self.at = end + 1
        return Literal(content, True)

    def _braced(self, quoted: bool) -> Part:
        """Read `${...}`."""
        self.deeper()
        start, text = self.at, self.text
        self.at += 2
        prefix = text[self.at] if self.peek() in ("!", "#") and self.peek(2)[1:] not in ("}", "") else ""
        self.at += len(prefix)
        name = _NAME.match(text, self.at)
        if not name:
            raise Unreadable(f"{text[start : start + 12]!r} is not an expansion that bash has")
        self.at = name.end()
        subscript, parts = "", list[Part]()
        if self.peek() == "[":
            end = self._matching(self.at, "[", "]")
            if end < 0:
                raise Unreadable("a subscript is not closed")
            subscript = text[self.at + 1 : end - 1]
            parts += self.arithmetic(self.at + 1, end - 1, quoted=True).parts
            self.at = end
        operator = self.at
        parts += self._argument(quoted)
        argument = text[operator : self.at - 1]
        self.shallower()
        return self._parameter(name[0], prefix, subscript, argument, quoted, tuple(parts))

    def _argument(self, quoted: bool) -> list[Part]:
        """Read up to the brace that closes `${`."""
        parts = list[Part]()
        while True:
            char = self.peek()
            if not char:
                raise Unreadable("${ is not closed")
            if char == "}":
                self.at += 1
                return parts
            plain = _IN_BRACES.match(self.text, self.at)
            if plain:
                self.at = plain.end()
            elif char == "\\":
                self._escaped(None)
            elif char == '"':
                parts.extend(self._double())
            elif char == "'":
                self._quote_in_braces(quoted)
            else:
                parts.extend(self._expansion(quoted=quoted))

    def _quote_in_braces(self, quoted: bool) -> None:
        """Go past a single quote, which quotes or not depending on the operator and the quotes around it."""
        if not quoted:
            self._single()
            return
        end = self.text.find("'", self.at + 1)
        if end >= 0 and re.search(r'[}"]', self.text[self.at : end]):
            raise Unreadable("a single quote inside of ${ in double quotes")
        self.at += 1

    def _parameter(
        self, name: str, prefix: str, subscript: str, argument: str, quoted: bool, parts: tuple[Part, ...]
    ) -> Part:
        if prefix == "!" and not (subscript in ("@", "*") or argument in ("@", "*")):
            self.doubts.append(f"${{!{name}}} names another variable")
        if prefix != "!" and argument.startswith("@") and argument[1:] not in _TRANSFORMS:
            self.doubts.append(f"${{{name}{argument}}} runs commands inside of a value")
        if argument and argument[0] not in _OPERATORS:
            self.doubts.append(f"${{{name}{argument[:8]}}} is not an expansion that bash has")
        counts = "" if subscript in ("@", "*") else subscript
        if argument.startswith(":") and argument[1:2] not in ("-", "=", "?", "+"):
            counts += " " + argument[1:]
        plain = not (prefix or subscript or argument)
        sets = argument.startswith(("=", ":="))
        return Parameter(name, plain, quoted, parts, sets, prefix == "#" or (plain and name in _NUMBERS), counts)

    def _matching(self, at: int, opening: str, closing: str) -> int:
        """Find the place after the bracket that closes the one at a place, quotes skipped; -1 when there is none."""
        depth = 0
        while at < len(self.text):
            char = self.text[at]
            if char == "\\":
                at += 1
            elif char in "'\"`":
                at = self._quote_end(at)
                if at < 0:
                    return -1
            elif char == opening:
                depth += 1
            elif char == closing:
                depth -= 1
                if not depth:
                    return at + 1
            at += 1
        return -1

    def _quote_end(self, at: int) -> int:
        quote = self.text[at]
        at += 1
        while at < len(self.text) and self.text[at] != quote:
            at += 2 if self.text[at] == "\\" and quote != "'" else 1
        return at if at < len(self.text) else -1
