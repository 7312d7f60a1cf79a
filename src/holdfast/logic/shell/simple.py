"""Reading simple commands: assignments, words, redirects and here-documents."""

import re
from abc import abstractmethod
from typing import Final

from holdfast.logic.shell.syntax import Array, Assignment, Literal, Node, Redirect, Simple, Word
from holdfast.logic.shell.words import NOTHING, Unreadable, WordReader

_RESERVED: Final = re.compile(
    r"if|then|elif|else|fi|do|done|case|esac|while|until|for|select|function|time|coproc|\{|\}|!|\[\[|\]\]"
)
_PLAIN_WORDS: Final = re.compile(
    r"([A-Za-z_./][A-Za-z0-9_./:,+@%-]*)(?=[ \t\n;|&)]|\Z)(?:[ \t]+[A-Za-z0-9_./:,+@%=^-]+(?=[ \t\n;|&)]|\Z))*+"
)
_ENDS: Final = frozenset(("", "\n", ";", "|", "&", ")"))
FUNCTION: Final = re.compile(r"[ \t]*\([ \t]*\)")
_REDIRECT: Final = re.compile(
    r"([0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\})?(<<<|<<-|<<|<&|<>|<(?!\()|>>|>&|>\||>(?!\()|&>>|&>)"
)
_ASSIGNED: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^\]]*\])?(\+?)=")
_ELEMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\[")
_COMMENT: Final = re.compile(r"#[^\n]*")


class SimpleReader(WordReader):
    """A place in a text, and the simple command that begins there."""

    def __init__(self, text: str, depth: int = 0) -> None:
        super().__init__(text, depth)
        self.awaited: list[tuple[Redirect, str, bool]] = []
        """Here-documents whose bodies come after this line: the redirect, the line that ends it, whether it is quoted."""
        self.found: list[Simple] = []
        """Every simple command so far: what is known when the rest turns out to be unreadable."""

    @property
    def awaits(self) -> bool:
        """Whether the body of a here-document is still to come."""
        return bool(self.awaited)

    @abstractmethod
    def function(self, name: str) -> Node:
        """Read the body of a function whose name was read."""

    def gap(self) -> None:
        """Go past blanks, comments and line ends, and read the here-documents that were awaited."""
        while True:
            self.blanks()
            char = self.peek()
            if char == "\n":
                self.at += 1
                self._bodies()
            elif char == "#":
                found = _COMMENT.match(self.text, self.at)
                self.at = found.end() if found else self.at
            else:
                return

    def simple(self) -> Node:
        """Read one simple command, or the function that it turns out to define."""
        assignments, words, redirects = list[Assignment](), self.plain_words(), list[Redirect]()
        if len(words) == 1 and FUNCTION.match(self.text, self.at):
            return self._defined(words[0], assignments, redirects)
        while not (words and self._at_end()):
            self.blanks()
            if self._redirect(redirects):
                continue
            if self.peek() == "#":
                break
            word = self.word()
            if word is None:
                break
            if not words:
                assigned = _assignment(word)
                if assigned:
                    assignments.append(assigned)
                    continue
                if FUNCTION.match(self.text, self.at):
                    return self._defined(word, assignments, redirects)
                if _RESERVED.fullmatch(word.text):
                    raise Unreadable(f"{word.text!r} is not expected there")
            words.append(word)
        if not (words or assignments or redirects):
            raise Unreadable(f"{self.peek(12)!r} is not expected there" if self.peek() else "a command is missing")
        simple = Simple(tuple(assignments), tuple(words), tuple(redirects))
        self.found.append(simple)
        return simple

    def _at_end(self) -> bool:
        char = self.text[self.at : self.at + 1]
        return char in _ENDS and not (char == "&" and self.text[self.at + 1 : self.at + 2] == ">")

    def plain_words(self) -> list[Word]:
        """Read the words that have no special character at once; most commands have no others."""
        found = _PLAIN_WORDS.match(self.text, self.at)
        if not found or _RESERVED.fullmatch(found[1]):
            return []
        self.at = found.end()
        return [Word((Literal(word, False),), word, True) for word in found[0].split()]

    def _defined(self, word: Word, assignments: list[Assignment], redirects: list[Redirect]) -> Node:
        if assignments or redirects or word.literal is None:
            raise Unreadable("a function's name is not plain")
        return self.function(word.literal)

    def redirects(self) -> tuple[Redirect, ...]:
        """Read the redirects that follow a compound command."""
        redirects = list[Redirect]()
        self.blanks()
        while self._redirect(redirects):
            self.blanks()
        return tuple(redirects)

    def _redirect(self, into: list[Redirect]) -> bool:
        char = self.peek()
        if char not in "<>&{0123456789" or not char:
            return False
        found = _REDIRECT.match(self.text, self.at)
        if not found:
            return False
        self.at = found.end()
        self.blanks()
        start, operator = self.at, found[2]
        word = self.word()
        if word is None:
            raise Unreadable("a redirect has no target")
        if operator in ("<<", "<<-"):
            self._await(word, operator, into)
        elif operator in (">", ">>") and word.text.startswith("!"):
            raise Unreadable("'>!' is not the same in every shell")
        else:
            text = found[0] + self.text[start : self.at]
            into.append(Redirect(operator, word, text, bool(found[1]) and found[1].startswith("{")))
        return True

    def _await(self, word: Word, operator: str, into: list[Redirect]) -> None:
        delimiter = word.literal
        if delimiter is None or "\n" in delimiter:
            raise Unreadable("the end of a here-document is not plain")
        quoted = any(isinstance(part, Literal) and part.quoted for part in word.parts)
        redirect = Redirect(operator, NOTHING, operator + word.text)
        into.append(redirect)
        self.awaited.append((redirect, delimiter, quoted))

    def _bodies(self) -> None:
        """Read the here-documents that the line before announced."""
        for redirect, delimiter, quoted in self.awaited:
            body = self._lines_to(delimiter, tabs=redirect.operator == "<<-")
            if quoted:
                redirect.target = Word((Literal(body, True),), body)
                continue
            reader = self.inside(body)
            redirect.target = Word(reader.body_parts(), body)
            self.doubts += reader.doubts
        self.awaited.clear()

    def _lines_to(self, delimiter: str, *, tabs: bool) -> str:
        lines = list[str]()
        while self.at < len(self.text):
            end = self.text.find("\n", self.at)
            line = self.text[self.at :] if end < 0 else self.text[self.at : end]
            self.at = len(self.text) if end < 0 else end + 1
            line = line.lstrip("\t") if tabs else line
            if line == delimiter:
                self.at -= 1 if end >= 0 else 0
                return "".join(lines)
            lines.append(line + "\n")
        raise Unreadable("a here-document does not end")


def _assignment(word: Word) -> Assignment | None:
    """Read a word as an assignment, when it is one."""
    first = word.parts[0]
    if not isinstance(first, Literal) or first.quoted:
        return None
    found = _ASSIGNED.match(first.text)
    if found:
        rest = (Literal(first.text[found.end() :], False), *word.parts[1:])
        value = Word(rest if found.end() < len(first.text) else word.parts[1:], word.text[found.end() :])
        whole = not found[2] and not found[3] and not any(isinstance(part, Array) for part in word.parts)
        return Assignment(found[1], value, whole, found[2] or "")
    element = _ELEMENT.match(first.text)
    if not element:
        return None
    if "]=" in word.text or "]+=" in word.text:
        return Assignment(element[1], Word(word.parts, word.text), False, word.text)
    if "]" not in word.text:
        raise Unreadable("a subscript with blanks")
    return None
