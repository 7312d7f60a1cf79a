"""Read a shell script whose meaning is certain, whatever programs it runs; refuse every other.

What a word is and where a quote ends is read as `logic/unasked` does. Beside its pipes and lists there are the compound commands that
people type (`for`, `while`, `until`, `if`, `case`, `{ }`, `( )`, functions), substitutions over several lines, here-documents, and
variables whose value nobody knows, as arguments of programs. Nothing that is accepted makes the shell evaluate a text: arithmetic has only
names that hold numbers, variables of the shell itself are not set, and a builtin has only words that it does not evaluate (`builtins.py`).
A rule without a pattern allows what is accepted here; its commands are what denials and places are judged by.
"""

import posixpath
import re
from collections.abc import Callable
from typing import Final

from holdfast.logic.acts import Ground
from holdfast.logic.shell.builtins import NAME, Names, check_builtin, is_special
from holdfast.logic.shell.fields import Field
from holdfast.logic.shell.table import words
from holdfast.logic.shell.tree import Seen
from holdfast.logic.shell.words import PROCESS, Held, Words, spread
from holdfast.logic.unasked.grammar import Outside, check_characters
from holdfast.logic.unasked.table import word_list

LONGEST: Final = 10_000
"""Characters of a text that is read."""
DEEPEST: Final = 8
MOST_COMMANDS: Final = 300
_SHELLS: Final = ("bash", "sh", "dash")
_KEYWORD: Final = re.compile(r"(?:[a-z]+|[{}]|\[\[|!)(?=[\s;|&)]|$)")
_FUNCTION: Final = re.compile(r"(?:function[ \t]+)?([A-Za-z_][\w-]*)[ \t]*\(\)")
_FOR: Final = re.compile(r"([A-Za-z_]\w*)(?:[ \t]+(in)(?=[ \t;\n]))?")
_ASSIGNED: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_PARTED: Final = re.compile(r"[A-Za-z_]\w*\[")
_REDIRECT: Final = re.compile(r"[0-9]?(>>|>\||<>|>|<)(?![<>|(&])|(&>>?)(?![>&(|])|[0-9]?[<>]&(?:[0-9]|-)(?=[\s|&;<>)]|$)")
_HEREDOC: Final = re.compile(r"""0?<<(-?)[ \t]*(['"]?)([A-Za-z_]\w*)\2(?![^ \t\n|&;<>)])""")
_HERESTRING: Final = re.compile(r"0?<<<[ \t]*(?!<)")
_TEST_SPACE: Final = re.compile(r"[ \t\n]*")
_TEST_END: Final = re.compile(r"\]\](?=[\s;|&)]|$)")
_TEST_SIGN: Final = re.compile(r"&&|\|\||[!()<>](?=[\s(])|\)")
_ARITHMETIC: Final = re.compile(r"\(\(((?:[0-9;\s+*/%<>=!&|^~?:,()-]|\$?[A-Za-z_]\w*+|\$\{[A-Za-z_]\w*\}|\$[#?])*?)\)\)")
_COUNTED: Final = re.compile(r"(?:^|;)\s*([A-Za-z_]\w*)\s*=\s*[0-9]+\s*(?=;|$)")
"""In an expression, the names that are set to a number before anything else."""
_REGEX: Final = re.compile(r"[\w^.*+?:/@%,={}\[\]-]*\$?(?=[ \t\n])")


def read_plain(text: str, ground: Ground) -> list[Seen]:
    """Give the commands of a script, in the order of writing; raise `Outside` when its meaning is not certain."""
    if len(text) > LONGEST:
        raise Outside(f"it is longer than {LONGEST:,} characters")
    check_characters(text)
    shell = posixpath.basename(ground.shell)
    if shell not in _SHELLS:
        raise Outside(f"{shell} reads such a text by rules of its own")
    script = Script(text, ground, bash=shell == "bash", names=Names())
    try:
        script.all()
    except RecursionError:  # the caller's own stack may be nearly used up
        raise Outside("there is no room left to read it") from None
    script.names.settle()
    return script.commands


class Script(Words):
    """Reads one script, with the words, quotes and comments of the grammar for what is proved."""

    def __init__(self, text: str, ground: Ground, *, bash: bool, names: Names) -> None:
        super().__init__(text, ground, bash=bash, names=names)
        self.commands: list[Seen] = []
        self.nested = 0
        self.repeats = 0
        """How many loops and functions are around: their commands may run again, where later ones have gone."""

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
            self._newlines()
            end = self._end()
            if end is not None:
                if end not in ends or not some or joined in ("&&", "||", "|"):
                    raise Outside(f"{end or 'its end'!r} stands where a command should be")
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
                    self._newlines()
                else:
                    self.at += len(sign)
                return ";" if sign in ("\n", "&") else sign
        if self._end() not in ("", ")", ";;"):
            raise Outside(f"{self.text[self.at : self.at + 2]!r} is not an operator that is read")
        return ""

    def _newlines(self) -> None:
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
            self._newlines()

    def _command(self, *, fed: bool) -> None:
        first, repeats = len(self.commands), self.repeats
        if found := _FUNCTION.match(self.text, self.at):
            self.names.define(found[1])
            self.at = found.end()
            self.repeats += 1
            self._newlines()
            if not self.text.startswith(("{", "("), self.at):
                raise Outside("the body of a function is not in { }")
        found = _KEYWORD.match(self.text, self.at)
        read = _COMPOUND.get(found[0]) if found else None
        if read is None and self.text.startswith("(", self.at):
            read = Script._arithmetic_command if self.text.startswith("((", self.at) else Script._subshell
        if read is None:
            self._simple_command(fed=fed)
            return
        if read is not Script._arithmetic_command and read is not Script._subshell and found:
            self.at = found.end()
            self.repeats += found[0] in ("for", "while", "until")
        read(self)
        self.repeats = repeats
        seen = Seen([], [], [], fed=fed)
        while self._redirected(seen):
            pass
        for inner in self.commands[first:]:  # its commands read what it reads
            inner.given += seen.given
            inner.fed = inner.fed or fed or any(operator.startswith("<") for operator, _ in seen.redirects)
        if seen.redirects:
            self._add(seen)

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
        self._newlines()
        if self._take() != "do":
            raise Outside("a loop has no do")
        self._expect(self._commands("done"))

    def _loop_words(self, name: str) -> None:
        fields, numbers = list[Field](), True
        for word in self._word_list(";\n"):
            fields += word.fields
            numbers = numbers and word.number
        self.names.assign(name, number=numbers)
        self.hold(name, fields)

    def _word_list(self, ends: str) -> "list[Held]":
        """Read words up to a sign."""
        found = list[Held]()
        while True:
            self._blanks()
            if self.at >= len(self.text) or self.text[self.at] in ends:
                return found
            found.append(self.word())

    def _case(self) -> None:
        self._blanks()
        self.word()
        self._newlines()
        if self._take() != "in":
            raise Outside("a case has no in")
        self._newlines()
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
            self._newlines()
            end = self._commands(";;", "esac") if not self.text.startswith(";;", self.at) else ";;"
            if end == ";;":
                self.at += 2
                self._newlines()
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

    def _simple_command(self, *, fed: bool) -> None:
        seen, given = Seen([], [], [], fed), list[Held]()
        sets = list[tuple[str, Held, bool]]()
        while self.at < len(self.text) and self.text[self.at] not in ";|&\n)" or self.text.startswith("&>", self.at):
            if self._redirected(seen):
                self._blanks()
                continue
            found = _ASSIGNED.match(self.text, self.at) if not given else None
            if found:
                self.at = found.end()
                sets.append((found[1], self._assigned(found[1]), bool(found[2])))
            else:
                given.append(self.word())
            self._blanks()
        if not (given or sets or seen.redirects):
            raise Outside("something else stands where a command should be")
        if given and not given[0].text.startswith(("'", '"')) and _PARTED.match(given[0].text):
            raise Outside(f"{given[0].text!r} sets a part of a variable")
        if given:
            check_builtin(given, [name for name, _, _ in sets], self)
        for name, word, appended in sets if not given else ():
            self.names.assign(name, number=word.number)
            self.hold(name, [] if appended else word.fields)
        steers = [name for name, word, _ in sets if given and not _is_harmless(name, word)]
        read = given and given[0].value in words("readers", "plain")
        for fields in spread(given):
            fields = [_unnamed(field) for field in fields] if read else fields
            self._add(Seen(fields, seen.redirects, seen.given, fed or seen.fed, tuple(steers)))
        if not given and seen.redirects:
            self._add(seen)

    def _assigned(self, name: str) -> Held:
        if not self.text.startswith("(", self.at):
            return self.word(empty=True)
        if not self.bash:
            raise Outside("only bash has arrays")
        self.at += 1
        self.names.arrays.add(name)
        fields = list[Field]()
        while True:
            self._newlines()
            if self.text.startswith(")", self.at):
                self.at += 1
                return Held("", tuple(fields), number=False, loose=False)
            word = self.word()
            if word.text.startswith("[") or "]=" in word.text:
                raise Outside("an array is not plain")
            fields += word.fields

    def _add(self, seen: Seen) -> None:
        seen.repeated = self.repeats > 0
        self.commands.append(seen)
        if len(self.commands) > MOST_COMMANDS:
            raise Outside(f"it has more than {MOST_COMMANDS} commands")

    def _redirected(self, seen: Seen) -> bool:
        """Take a redirect, if one comes next."""
        self._blanks()
        if found := _HEREDOC.match(self.text, self.at):
            self._here_document(found, seen)
        elif (found := _HERESTRING.match(self.text, self.at)) and self.bash:
            self.at = found.end()
            word = self.word()
            seen.given += [Field(each.value, word.text) for each in word.fields]
            seen.fed = True
        elif found := _REDIRECT.match(self.text, self.at):
            self.at = found.end()
            if operator := found[1] or found[2]:
                if found[2] and not self.bash:
                    raise Outside("only bash reads &> as a redirect")
                self._blanks()
                word = self.word()
                if word.loose or len(word.fields) > 1 and any(field.glob for field in word.fields):
                    raise Outside("which file a redirect opens is not plain")
                seen.redirects += [(operator, _unnamed(field)) for field in word.fields]
                seen.fed = seen.fed or operator.startswith("<")
        elif self.text[self.at : self.at + 1] in ("<", ">") and not self.text.startswith("<(", self.at):
            raise Outside("it redirects in a way that is not read")
        else:
            return False
        return True

    def _here_document(self, found: re.Match[str], seen: Seen) -> None:
        line = self.text.find("\n", found.end())
        if self.lines or line < 0:
            raise Outside("a here-document has no lines, or stands beside another")
        tabs, quoted, delimiter = found[1], found[2], found[3]
        indent = r"\t*" if tabs else ""
        end = re.compile(rf"\n{indent}{delimiter}(?:\n|$(?![\s\S]))").search(self.text, line)
        if end is None:
            raise Outside(f"no line of the here-document is exactly {delimiter}")
        body = self.text[line + 1 : max(line + 1, end.start() + 1)]
        if self.depth and (f"\n{delimiter}" in re.sub(r"\n\s+", "\n", f"\n{body}") or self.old_bash):
            raise Outside("the lines of a here-document inside of $(...) may end elsewhere than it seems")
        self.lines = (line, end.end())
        self.at = found.end()
        value: str | None = body
        if not quoted:
            value = self._expanded(line + 1, line + 1 + len(body))
        seen.given.append(Field(value, body))
        seen.fed = True

    def _expanded(self, start: int, end: int) -> str | None:
        """Read the lines of a here-document in which the shell expands what begins with a dollar."""
        at, lines, self.lines = self.at, self.lines, None
        self.at, value = start, ""
        while self.at < end:
            char, following = self.text[self.at], self.text[self.at + 1 : self.at + 2]
            if char == "`" or (char == "\\" and following == "\n"):
                raise Outside("the lines of a here-document are not plain")
            if char == "\\" and following in ("$", "`", "\\"):
                value += following
                self.at += 2
            elif char == "$" and re.match(r"[\w{(*@#?!$-]", following):
                value += self._expansion() or ""
            else:
                value += char
                self.at += 1
        if self.at != end or self.lines:
            raise Outside("a substitution goes on behind the lines of its here-document")
        self.at, self.lines = at, lines
        return self.single(value)

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
        script = Script(text, self.ground, bash=self.bash, names=self.names)
        script.depth = self.depth
        script.repeats = 1
        script.all()
        self.commands += script.commands
        self.mentioned += script.mentioned
        self.doubt(set(self.held) & set(script.mentioned))


def _unnamed(field: Field) -> Field:
    """Give the word for the output of `<(list)`, whose commands are judged by themselves, a name that says nothing."""
    return Field("/dev/null", field.text) if field.value == PROCESS else field


def _is_harmless(name: str, word: Held) -> bool:
    return name in word_list("harmless") and len(word.fields) == 1 and word.fields[0].value is not None


_COMPOUND: Final[dict[str, Callable[[Script], None]]] = {
    "{": Script._group,
    "if": Script._if,
    "while": Script._while,
    "until": Script._while,
    "for": Script._for,
    "case": Script._case,
    "[[": Script._test,
}
