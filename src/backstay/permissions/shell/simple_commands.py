"""Read the simple commands of a script whose meaning is certain."""

import re
from collections.abc import Sequence
from typing import Final

from backstay.permissions.call_site import CallSite
from backstay.permissions.shell.expand import Field
from backstay.permissions.shell.shell_builtins import check_builtin
from backstay.permissions.shell.table import words
from backstay.permissions.shell.tree import Seen
from backstay.permissions.shell.words import PROCESS, Held, Names, Words, spread
from backstay.permissions.unasked.shell_grammar import Outside
from backstay.permissions.unasked.table import word_list

MOST_COMMANDS: Final = 300
_ASSIGNED: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_PARTED: Final = re.compile(r"[A-Za-z_]\w*\[")
_REDIRECT: Final = re.compile(
    r"[0-9]?(>>|>\||<>|>|<)(?![<>|(&])|(&>>?)(?![>&(|])|[0-9]?[<>]&(?:[0-9]|-)(?=[\s|&;<>)]|$)"
)
_HEREDOC: Final = re.compile(r"""0?<<(-?)[ \t]*(['"]?)([A-Za-z_]\w*)\2(?![^ \t\n|&;<>)])""", re.ASCII)
_HERESTRING: Final = re.compile(r"0?<<<[ \t]*(?!<)")


class Commands(Words):
    """Reads simple commands, and keeps those that were found."""

    def __init__(self, text: str, call_site: CallSite, *, bash: bool, names: Names) -> None:
        super().__init__(text, call_site, bash=bash, names=names)
        self.commands: list[Seen] = []
        self.repeats = 0
        """How many loops and functions are around: their commands may run again, where later ones have gone."""

    def newlines(self) -> None:
        """Go past ends of lines, and the here-documents behind them."""
        raise NotImplementedError

    def simple_command(self, *, fed: bool) -> None:
        seen, given = Seen([], [], [], fed), list[Held]()
        sets = list[tuple[str, Held, bool]]()
        while (self.at < len(self.text) and self.text[self.at] not in ";|&\n)") or self.text.startswith("&>", self.at):
            if self.read_redirect(seen):
                self._blanks()
                continue
            found = _ASSIGNED.match(self.text, self.at) if not given else None
            if found:
                self.at = found.end()
                sets.append((found[1], self._value_of(found[1]), bool(found[2])))
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
            self.set(name, word.fields, _values(name, word))
        steers = [name for name, word, _ in sets if given and not _is_harmless(name, word)]
        values = tuple(value for name, word, _ in sets for value in _values(name, word))
        read = given and given[0].value in words("readers", "plain")
        if given and given[0].value in ("read", "mapfile", "readarray"):
            steers += [word.text for word in given if word.text.isupper()]
        for fields in spread(given):
            own = [_hide_name(field) for field in fields] if read else fields
            self.add(Seen(own, seen.redirects, [*seen.given], fed or seen.fed, tuple(steers), values=values))
        if not given and seen.redirects:
            self.add(seen)

    def set(self, name: str, fields: Sequence[Field], values: tuple[Field, ...] = ()) -> None:
        """Note what a variable is set to for programs that follow."""
        known = tuple(Field(f"{name}={field.value}", field.text) for field in fields if field.value is not None)
        if known or values:
            self.add(Seen([], [], [], fed=False, sets=known, values=values))

    def _value_of(self, name: str) -> Held:
        if not self.text.startswith("(", self.at):
            return self.word(empty=True)
        if not self.bash:
            raise Outside("only bash has arrays")
        self.at += 1
        self.names.arrays.add(name)
        fields = list[Field]()
        while True:
            self.newlines()
            if self.text.startswith(")", self.at):
                self.at += 1
                return Held("", tuple(fields), number=False, loose=False)
            word = self.word()
            if word.text.startswith("[") or "]=" in word.text:
                raise Outside("an array is not plain")
            fields += word.fields

    def add(self, seen: Seen) -> None:
        seen.repeated = self.repeats > 0
        self.commands.append(seen)
        if len(self.commands) > MOST_COMMANDS:
            raise Outside(f"it has more than {MOST_COMMANDS} commands")

    def read_redirect(self, seen: Seen) -> bool:
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
                if word.loose or (len(word.fields) > 1 and any(field.glob for field in word.fields)):
                    raise Outside("which file a redirect opens is not plain")
                seen.redirects += [(operator, _hide_name(field)) for field in word.fields]
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
            value = self._expand_lines(line + 1, line + 1 + len(body))
        seen.given.append(Field(value, body))
        seen.fed = True

    def _expand_lines(self, start: int, end: int) -> str | None:
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


def _values(name: str, word: Held) -> tuple[Field, ...]:
    """Give what a variable may be set to, known or as written; the words of an array as one text."""
    texts = [field.text if field.value is None else field.value for field in word.fields]
    return tuple(Field(f"{name}={text}") for text in (texts if word.text else [" ".join(texts)]))


def _hide_name(field: Field) -> Field:
    """Give the word for the output of `<(list)`, whose commands are judged by themselves, a name that says nothing."""
    return Field("/dev/null", field.text) if field.value == PROCESS else field


def _is_harmless(name: str, word: Held) -> bool:
    return name in word_list("harmless") and len(word.fields) == 1 and word.fields[0].value is not None
