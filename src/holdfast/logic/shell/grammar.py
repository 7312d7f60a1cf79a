"""Reading commands: lists, pipes, groups, loops and the rest of bash's grammar, as a tree.

Strict where bash is lenient: whatever bash reads in a way that is not plain raises `Unreadable`.
"""

import re
from typing import Final
from typing import Literal as Choice

from holdfast.logic.shell.simple import FUNCTION, SimpleReader
from holdfast.logic.shell.syntax import (
    AndOr,
    Choose,
    Coprocess,
    Count,
    Function,
    Group,
    Literal,
    Loop,
    Node,
    Pipeline,
    Sequence,
    Simple,
    Test,
    Word,
)
from holdfast.logic.shell.words import NOTHING, Unreadable

_RESERVED: Final = re.compile(
    r"(?:if|then|elif|else|fi|do|done|case|esac|while|until|for|select|function|time|coproc|in|\{|\}|!|\[\[|\]\])"
    r"(?=[ \t\n;&|()<>]|\Z)"
)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REGEX_PLAIN: Final = re.compile(r"[()|<>&;]+")
_CASE_END: Final = re.compile(r";;&|;;|;&")
_NONE: Final = frozenset[str]()


class ScriptReader(SimpleReader):
    """A place in a text, and the commands that begin there."""

    def whole(self) -> Sequence:
        """Read all of the text as a script. Raises `Unreadable`."""
        words = self.plain_words()
        if words and self.at == len(self.text):
            return Sequence(((Simple((), tuple(words), ()), False),))
        self.at = 0
        script = self.script(_NONE)
        if self.at < len(self.text):
            raise Unreadable(f"{self.text[self.at : self.at + 12]!r} is not expected there")
        return script

    def inside(self, text: str) -> "ScriptReader":
        """Give a reader for text that lies inside of this one."""
        self.deeper()
        self.shallower()
        reader = ScriptReader(text, self.depth + 1)
        reader.found = self.found
        return reader

    def script(self, closers: frozenset[str]) -> Sequence:
        """Read commands up to a closing word or operator, which is left."""
        items, awaited = list[tuple[Node, bool]](), len(self.awaited)
        while True:
            self.gap()
            if self.at >= len(self.text) or self._closes(closers):
                break
            node = self._and_or()
            self.blanks()
            ends = self.peek()
            items.append((node, ends == "&"))
            if ends and ends in ";&" and not _CASE_END.match(self.text, self.at):
                self.at += 1
            elif ends not in ("\n", "#", "") and not self._closes(closers):
                raise Unreadable(f"{self.peek(12)!r} is not expected there")
        if len(self.awaited) > awaited:
            raise Unreadable("a here-document has no body")
        return Sequence(tuple(items))

    def _closes(self, closers: frozenset[str]) -> bool:
        if self.peek() == ")":
            return ")" in closers
        if _CASE_END.match(self.text, self.at):
            return ";;" in closers
        return self._reserved() in closers

    def _reserved(self) -> str:
        found = _RESERVED.match(self.text, self.at)
        return found[0] if found else ""

    def _take(self, word: str) -> None:
        """Go past a reserved word that must come now."""
        self.gap()
        if self._reserved() != word:
            raise Unreadable(f"{word!r} is missing")
        self.at += len(word)

    def _and_or(self) -> Node:
        first = self._pipeline()
        rest = list[tuple[str, Node]]()
        while True:
            self.blanks()
            operator = self.peek(2)
            if operator not in ("&&", "||"):
                break
            self.at += 2
            self.gap()
            rest.append((operator, self._pipeline()))
        return AndOr(first, tuple(rest)) if rest else first

    def _pipeline(self) -> Node:
        negated, timed = False, list[str]()
        while (word := self._reserved()) in ("!", "time"):
            self.at += len(word)
            self.blanks()
            if word == "!":
                negated = not negated
                continue
            timed.append("time")
            found = re.compile(r"(-p|--)(?=[ \t])").match(self.text, self.at)
            while found:
                timed.append(found[0])
                self.at = found.end()
                self.blanks()
                found = re.compile(r"(-p|--)(?=[ \t])").match(self.text, self.at)
        if (timed or negated) and self.peek() in ("", "\n", ";", "&", "|", ")"):
            return Pipeline((Simple((), (), ()),), negated, tuple(timed))
        elements = [self._command()]
        while True:
            self.blanks()
            if self.peek() != "|" or self.peek(2) == "||":
                break
            self.at += 2 if self.peek(2) == "|&" else 1
            self.gap()
            elements.append(self._command())
        if len(elements) == 1 and not negated and not timed:
            return elements[0]
        return Pipeline(tuple(elements), negated, tuple(timed))

    def _command(self) -> Node:
        word = self._reserved()
        if not word and self.peek() != "(":
            return self.simple()
        self.deeper()
        node = self._compound(word)
        self.shallower()
        return node

    def _compound(self, word: str) -> Node:
        match word:
            case "":
                return self._parenthesised()
            case "{":
                self.at += 1
                body = self._until("}")
                return Group(body, False, self.redirects())
            case "if":
                return self._if()
            case "while" | "until":
                self.at += 5
                condition = self._until("do", filled=True)
                return Loop("while", self._until("done"), condition, redirects=self.redirects())
            case "for" | "select":
                self.at += len(word)
                return self._for("for" if word == "for" else "select")
            case "case":
                return self._case()
            case "[[":
                return self._test()
            case "function":
                self.at += 8
                self.blanks()
                return self.function(self._plain_name())
            case "coproc":
                return self._coproc()
            case "in":
                return self.simple()
            case _:
                raise Unreadable(f"{word!r} is not expected there")

    def _until(self, closer: str, *, filled: bool = True) -> Sequence:
        body = self.script(frozenset((closer,)))
        if filled and not body.items:
            raise Unreadable(f"there is nothing before {closer!r}")
        self._take(closer)
        return body

    def _parenthesised(self) -> Node:
        if self.peek(2) == "((":
            end = self.arithmetic_end()
            if end > 0:
                value = self.arithmetic(self.at + 2, end - 1, quoted=True)
                self.at = end + 1
                return Count(value, self.redirects())
        self.at += 1
        body = self.script(frozenset((")",)))
        if self.peek() != ")" or not body.items:
            raise Unreadable("a subshell is not closed")
        self.at += 1
        return Group(body, True, self.redirects())

    def _if(self) -> Node:
        conditions, bodies = list[Sequence](), list[Sequence]()
        self.at += 2
        while True:
            conditions.append(self._until("then"))
            bodies.append(self.script(frozenset(("elif", "else", "fi"))))
            word = self._reserved()
            self.at += len(word)
            if word == "else":
                bodies.append(self._until("fi"))
                break
            if word != "elif":
                break
        if word not in ("else", "fi"):
            raise Unreadable("'fi' is missing")
        return Choose((), tuple(conditions), tuple(bodies), self.redirects())

    def _for(self, kind: Choice["for", "select"]) -> Node:
        self.blanks()
        if self.peek(2) == "((":
            end = self.arithmetic_end()
            if end < 0:
                raise Unreadable("the loop's arithmetic is not closed")
            counts = self.arithmetic(self.at + 2, end - 1, quoted=True)
            self.at = end + 1
            self.blanks()
            self.at += 1 if self.peek() == ";" else 0
            self._take("do")
            return Loop("for", self._until("done"), counts=counts, redirects=self.redirects())
        name = self._plain_name()
        self.gap()
        words = None
        if self._reserved() == "in":
            self.at += 2
            words = self._words_to_line_end()
        elif self.peek() == ";":
            self.at += 1
        self._take("do")
        return Loop(kind, self._until("done"), variable=name, words=words, redirects=self.redirects())

    def _words_to_line_end(self) -> tuple[Word, ...]:
        words = list[Word]()
        while True:
            self.blanks()
            if self.peek() in (";", "\n"):
                self.at += 1 if self.peek() == ";" else 0
                return tuple(words)
            word = self.word()
            if word is None or word.text.startswith("#"):
                raise Unreadable("the words of a loop do not end")
            words.append(word)

    def _case(self) -> Node:
        self.at += 4
        self.blanks()
        subject = self.word()
        if subject is None:
            raise Unreadable("'case' has no word")
        self._take("in")
        words, bodies = [subject], list[Sequence]()
        while True:
            self.gap()
            if self._reserved() == "esac":
                self.at += 4
                return Choose(tuple(words), (), tuple(bodies), self.redirects())
            words += self._patterns()
            bodies.append(self.script(frozenset((";;", "esac"))))
            ends = _CASE_END.match(self.text, self.at)
            if ends:
                self.at = ends.end()
            elif self._reserved() != "esac":
                raise Unreadable("'esac' is missing")

    def _patterns(self) -> list[Word]:
        words = list[Word]()
        self.at += 1 if self.peek() == "(" else 0
        while True:
            self.blanks()
            word = self.word()
            self.blanks()
            if word is None or self.peek() not in ("|", ")"):
                raise Unreadable("a pattern of 'case' is not closed")
            words.append(word)
            self.at += 1
            if self.text[self.at - 1] == ")":
                return words

    def _test(self) -> Node:
        self.at += 2
        words, pattern = list[Word](), False
        while True:
            self.gap()
            if self._reserved() == "]]":
                self.at += 2
                return Test(tuple(words), self.redirects())
            operator = _REGEX_PLAIN.match(self.text, self.at)
            if operator and not pattern and self.peek(2) not in ("<(", ">("):
                self.at = operator.end()
                words.append(Word((Literal(operator[0], True),), operator[0]))
                continue
            word = self._pattern_word() if pattern else self.word()
            if word is None:
                raise Unreadable("']]' is missing")
            pattern = word.text == "=~"
            words.append(word)

    def _pattern_word(self) -> Word | None:
        """Read a regular expression: parentheses and bars belong to it."""
        parts, start = list(NOTHING.parts), self.at
        while True:
            word = self.word()
            if word is not None:
                parts += word.parts
            operator = _REGEX_PLAIN.match(self.text, self.at)
            if not operator:
                break
            if self.peek(2) == "&&":
                raise Unreadable("an operator inside of a regular expression")
            self.at = operator.end()
        return Word(tuple(parts), self.text[start : self.at]) if self.at > start else None

    def _plain_name(self) -> str:
        word = self.word()
        if word is None or len(word.parts) != 1 or not isinstance(word.parts[0], Literal) or word.parts[0].quoted:
            raise Unreadable("a name is missing")
        return word.parts[0].text

    def function(self, name: str) -> Node:
        """Read the body of a function whose name was read."""
        found = FUNCTION.match(self.text, self.at)
        self.at = found.end() if found else self.at
        self.gap()
        if self._reserved() not in ("{", "[[", "if", "for", "while", "until", "case", "select") and self.peek() != "(":
            raise Unreadable("a function has no body")
        return Function(name, self._command())

    def _coproc(self) -> Node:
        self.at += 6
        self.blanks()
        start = self.at
        name = _NAME.match(self.text, self.at)
        if name and not self._reserved():
            self.at = name.end()
            self.blanks()
            if self.peek() != "(" and self._reserved() not in (
                "{",
                "if",
                "for",
                "while",
                "until",
                "case",
                "select",
                "[[",
            ):
                self.at = start
        return Coprocess(self._command())
