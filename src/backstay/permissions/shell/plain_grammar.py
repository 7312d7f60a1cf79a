"""Read a shell script whose meaning is certain, with any programs; refuse every other.

What a word is and where a quote ends is read as `permissions/unasked/` does. Beside its pipes and lists there are the compound commands
that people type (`for`, `while`, `until`, `if`, `case`, `{ }`, `( )`, functions), substitutions over several lines, here-documents, and
variables with unknown values, as arguments of programs. Nothing that is accepted makes the shell evaluate a text: arithmetic has only
names that hold numbers, variables of the shell itself are not set, and a builtin has only words that it does not evaluate (`builtins.py`).
A rule without a pattern allows what is accepted here; its commands are what denials and places are judged by.
"""

import posixpath
import re
from collections.abc import Callable
from typing import Final

from backstay.permissions.call_site import CallSite
from backstay.permissions.shell.expand import Field
from backstay.permissions.shell.simple_commands import Commands
from backstay.permissions.shell.table import words
from backstay.permissions.shell.tree import Seen
from backstay.permissions.shell.words import NAME, Names
from backstay.permissions.unasked.shell_grammar import Outside, check_characters

LONGEST: Final = 10_000
"""Characters of a text that is read."""
DEEPEST: Final = 8
_SHELLS: Final = ("bash", "sh", "dash")
_KEYWORD: Final = re.compile(r"(?:[a-z]+|[{}]|\[\[|!)(?=[\s;|&)]|$)")
_FUNCTION: Final = re.compile(r"(?:function[ \t]+)?([A-Za-z_][\w-]*)[ \t]*\(\)", re.ASCII)
_FOR: Final = re.compile(r"([A-Za-z_]\w*)(?:[ \t]+(in)(?=[ \t;\n]))?", re.ASCII)
_TEST_SPACE: Final = re.compile(r"[ \t\n]*")
_TEST_END: Final = re.compile(r"\]\](?=[\s;|&)]|$)")
_TEST_SIGN: Final = re.compile(r"&&|\|\||[!()<>](?=[\s(])|\)")
_ARITHMETIC: Final = re.compile(
    r"\(\(((?:[0-9;\s+*/%<>=!&|^~?:,()-]|\$?[A-Za-z_]\w*+|\$\{[A-Za-z_]\w*\}|\$[#?])*?)\)\)", re.ASCII
)
_COUNTED: Final = re.compile(r"(?:^|;)\s*([A-Za-z_]\w*)\s*=\s*[0-9]+\s*(?=;|$)", re.ASCII)
"""In an expression, the names that are set to a number before anything else."""
_QUOTES: Final = re.compile(r"[\"'\\]")
_ENCODING: Final = re.compile(
    r"(?<!\$)L(?:ANG|C_ALL|C_CTYPE)(?![A-Z_])(?!=(?:C|POSIX)?(?:[ \t\n;&|]|$)|=[A-Za-z_]+\.(?:UTF-8|utf8)(?:[ \t\n;&|]|$))"
)
_REGEX: Final = re.compile(r"[\w^.*+?:/@%,={}\[\]-]*\$?(?=[ \t\n])")


def check_encoding(text: str) -> None:
    """Refuse a text that may set an encoding in which its letters end elsewhere, on a backslash or a quote."""
    if not text.isascii() and _ENCODING.search(_QUOTES.sub("", text)):
        raise Outside("it sets an encoding in which its characters may be other ones")


def read_plain(text: str, call_site: CallSite) -> list[Seen]:
    """Give the commands of a script, in the order of writing; raise `Outside` when its meaning is not certain."""
    if len(text) > LONGEST:
        raise Outside(f"it is longer than {LONGEST:,} characters")
    check_characters(text)
    check_encoding(text)
    shell = posixpath.basename(call_site.shell)
    if shell not in _SHELLS:
        raise Outside(f"{shell} reads such a text by rules of its own")
    script = Script(text, call_site, bash=shell == "bash", names=Names())
    try:
        script.all()
    except RecursionError:  # the caller's own stack may be nearly used up
        raise Outside("there is no room left to read it") from None
    script.names.settle()
    return script.commands


class Script(Commands):
    """Reads one script, with the words, quotes and comments of the grammar for what is proved."""

    def __init__(self, text: str, call_site: CallSite, *, bash: bool, names: Names) -> None:
        super().__init__(text, call_site, bash=bash, names=names)
        self.nested = 0

    def all(self) -> None:
        """Read all of it."""
        self._commands("")
        if self.at < len(self.text) or self.lines:
            raise Outside("something is left over behind it")

    def _commands(self, *ends: str) -> str:
        """Read commands up to one of these words or signs, and say which it was."""
        self.nested += 1
        joined, some = ";", False
        if self.nested > DEEPEST * 2:
            raise Outside("its commands are inside of each other too deep")
        while True:
            self.newlines()
            end = self._end()
            if end is not None:
                if end not in ends or not some or joined in ("&&", "||", "|"):
                    what = (
                        f"{end!r} stands where a command should be"
                        if end
                        else "a command is missing where one should stand"
                    )
                    raise Outside(what)
                self.nested -= 1
                return end
            self._chain(certain=self.nested == 1 and joined == ";")
            some = True
            joined = self._joint()

    def _end(self) -> str | None:
        """Give the word or sign that ends a list, when it comes next."""
        if self.at >= len(self.text):
            return ""
        if self.text[self.at] == ")":
            return ")"
        if self.text.startswith(";;", self.at):
            return ";;"
        found = _KEYWORD.match(self.text, self.at)
        return found[0] if found and found[0] in words("ending", "plain") else None

    def _joint(self) -> str:
        """Take what stands behind a pipeline: an operator, or nothing before an end."""
        self._blanks()
        for sign in ("&&", "||", ";", "\n", "&"):
            if self.text.startswith(sign, self.at) and not self.text.startswith(";;", self.at):
                if sign == "\n":
                    self.newlines()
                else:
                    self.at += len(sign)
                return ";" if sign in ("\n", "&") else sign
        if self._end() not in ("", ")", ";;"):
            raise Outside(f"{self.text[self.at : self.at + 2]!r} is not an operator that is read")
        return ""

    def newlines(self) -> None:
        """Go past ends of lines, and the here-documents behind them."""
        self._blanks()
        while self.text.startswith("\n", self.at):
            if self.lines and self.lines[0] != self.at:
                raise Outside("a here-document begins on another line than it seems to")
            self.at, self.lines = (self.lines[1] if self.lines else self.at + 1), None
            self._blanks()

    def _chain(self, *, certain: bool) -> None:
        """Read commands with pipes between them. What is set in one that does not stand alone may not be set."""
        before, fed = set(self.held), False
        while True:
            if self.text.startswith("!", self.at) and self.text[self.at + 1 : self.at + 2] in (" ", "\t"):
                self.at += 2
                self._blanks()
            self._command(fed=fed)
            self._blanks()
            piped = self.text.startswith("|", self.at) and not self.text.startswith("||", self.at)
            backed = self.text.startswith("&", self.at) and not self.text.startswith(("&&", "&>"), self.at)
            if not certain or piped or fed or backed:
                self.doubt(set(self.held) - before)
            if not piped:
                return
            fed = True
            self.at += 2 if self.bash and self.text.startswith("|&", self.at) else 1
            self.newlines()

    def _command(self, *, fed: bool) -> None:
        first, repeats = len(self.commands), self.repeats
        if found := _FUNCTION.match(self.text, self.at):
            self.names.define(found[1])
            self.at = found.end()
            self.repeats += 1
            self.newlines()
            if not self.text.startswith(("{", "("), self.at):
                raise Outside("the body of a function is not in { }")
        found = _KEYWORD.match(self.text, self.at)
        read = _COMPOUND.get(found[0]) if found else None
        if read is None and self.text.startswith("(", self.at):
            read = Script._arithmetic_command if self.text.startswith("((", self.at) else Script._subshell
        if read is None:
            self.simple_command(fed=fed)
            return
        if read is not Script._arithmetic_command and read is not Script._subshell and found:
            self.at = found.end()
            self.repeats += found[0] in ("for", "while", "until")
        read(self)
        self.repeats = repeats
        seen = Seen([], [], [], fed=fed)
        while self.read_redirect(seen):
            pass
        for inner in self.commands[first:]:  # its commands read what it reads
            inner.given += seen.given
            inner.fed = inner.fed or fed or any(operator.startswith("<") for operator, _ in seen.redirects)
        if seen.redirects:
            self.add(seen)

    def _subshell(self) -> None:
        self.at += 1
        self._commands(")")
        self.at += 1

    def _group(self) -> None:
        self._expect(self._commands("}"))

    def _if(self) -> None:
        end = "elif"
        while end == "elif":
            self._expect(self._commands("then"))
            end = self._commands("elif", "else", "fi")
            self._expect(end)
        if end == "else":
            self._expect(self._commands("fi"))

    def _while(self) -> None:
        self._expect(self._commands("do"))
        self._expect(self._commands("done"))

    def _for(self) -> None:
        self._blanks()
        if self.text.startswith("((", self.at):
            self._arithmetic_command()
        else:
            found = _FOR.match(self.text, self.at)
            if not found:
                raise Outside("what a loop goes through is not plain")
            self.at = found.end()
            self._loop_words(found[1]) if found[2] else self.names.assign(found[1], number=False)
        self._blanks()
        if self.text.startswith(";", self.at) and not self.text.startswith(";;", self.at):
            self.at += 1
        self.newlines()
        if self._take() != "do":
            raise Outside("a loop has no do")
        self._expect(self._commands("done"))

    def _loop_words(self, name: str) -> None:
        fields, numbers = list[Field](), True
        self._blanks()
        while self.at < len(self.text) and self.text[self.at] not in ";\n":
            word = self.word()
            fields += word.fields
            numbers = numbers and word.number
            self._blanks()
        self.names.assign(name, number=numbers)
        self.hold(name, fields)
        self.set(name, fields)

    def _case(self) -> None:
        if self.old_bash and self.depth:
            raise Outside("an old bash takes a ) of a case for the end of the substitution that it is in")
        self._blanks()
        self.word()
        self.newlines()
        if self._take() != "in":
            raise Outside("a case has no in")
        self.newlines()
        while not self._peeks("esac"):
            self.at += self.text.startswith("(", self.at)
            self.word()
            self._blanks()
            while self.text.startswith("|", self.at):
                self.at += 1
                self._blanks()
                self.word()
                self._blanks()
            if not self.text.startswith(")", self.at):
                raise Outside("a pattern of a case is not plain")
            self.at += 1
            self.newlines()
            end = self._commands(";;", "esac") if not self.text.startswith(";;", self.at) else ";;"
            if end == ";;":
                self.at += 2
                self.newlines()
        self.at += len("esac")

    def _peeks(self, keyword: str) -> bool:
        found = _KEYWORD.match(self.text, self.at)
        return found is not None and found[0] == keyword

    def _take(self) -> str:
        found = _KEYWORD.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found[0] if found else ""

    def _expect(self, keyword: str) -> None:
        self.at += len(keyword)

    def _test(self) -> None:
        """Read `[[ ]]`: bash evaluates the words of arithmetic comparisons and of -v and -R."""
        if not self.bash:
            raise Outside("only bash has [[")
        before = ""
        self._space()
        while not _TEST_END.match(self.text, self.at):
            if self.at >= len(self.text):
                raise Outside("[[ has no end")
            if found := _TEST_SIGN.match(self.text, self.at):
                self.at, before = found.end(), ""
            elif self.text.startswith("=~", self.at):
                self.at, before = self.at + 2, "=~"
            elif before == "=~":
                regex = _REGEX.match(self.text, self.at)
                if not regex:
                    raise Outside("a regular expression is not plain")
                self.at, before = regex.end(), ""
            else:
                word = self.word()
                if word.text in ("-v", "-R") or re.fullmatch("-(?:eq|ne|lt|le|gt|ge)", word.text):
                    raise Outside(f"[[ evaluates the words beside {word.text}")
                before = word.text
            self._space()
        self.at += 2

    def _space(self) -> None:
        found = _TEST_SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at

    def _arithmetic_command(self) -> None:
        if not self.bash:
            raise Outside("only bash has ((")
        self.at = self._arithmetic(_ARITHMETIC.match(self.text, self.at))

    def _arithmetic(self, found: re.Match[str] | None) -> int:
        """Check an expression: a name in it must hold a number, or bash would evaluate what it holds."""
        if not found or found[1].count("(") != found[1].count(")"):
            raise Outside("an arithmetic expression is not plain")
        for name in _COUNTED.findall(found[1]):
            self.names.assign(name, number=True)
        for name in NAME.findall(re.sub(r"\b0[xX][0-9a-fA-F]+|\b[0-9]\w*", "", found[1])):
            self.names.calculate(name)
        return found.end()

    def substitution(self) -> str:
        """Read `$(list)` or `<(list)`, and give its text."""
        if self.depth >= DEEPEST or self.lines:
            raise Outside("a substitution is too deep, or begins beside a here-document")
        start = self.at
        self.at += 2
        self.depth += 1
        self._commands(")")
        if self.lines:
            raise Outside("a here-document does not end inside of its substitution")
        self.at += 1
        self.depth -= 1
        return self.text[start : self.at]

    def arithmetic(self) -> None:
        """Read `$((expression))`."""
        self.at = self._arithmetic(_ARITHMETIC.match(self.text, self.at + 1))

    def keep(self, text: str) -> None:
        """Read a text that a builtin keeps to run it later."""
        script = Script(text, self.call_site, bash=self.bash, names=self.names)
        script.depth = self.depth
        script.repeats = 1
        script.all()
        self.commands += script.commands
        self.mentioned += script.mentioned
        self.doubt(set(self.held) & set(script.mentioned))


_COMPOUND: Final[dict[str, Callable[[Script], None]]] = {
    "{": Script._group,
    "if": Script._if,
    "while": Script._while,
    "until": Script._while,
    "for": Script._for,
    "case": Script._case,
    "[[": Script._test,
}
