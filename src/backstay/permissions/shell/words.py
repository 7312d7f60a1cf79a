"""Words of a script whose meaning is certain: quotes, expansions, and what each word may become.

A variable that the text sets once has its value; any other has no known value, and its place is also tried as empty, so that `.env$x`
counts as `.env`. While a word is read, a mark stands for each expansion; `Words.marks` has what it may become.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from backstay.permissions.call_site import CallSite
from backstay.permissions.shell.expand import Field
from backstay.permissions.shell.table import text_of, words
from backstay.permissions.unasked.shell_grammar import Outside, Reader
from backstay.permissions.unasked.table import word_list

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MOST_VALUES: Final = 50
MOST_MARKS: Final = 2_000
_FIRST_MARK: Final = 0xE000
_MARK: Final = re.compile(r"([\ue000-\uf8ff])")
_BARE: Final = re.compile(r"(?:[A-Za-z0-9_@%+=:,./^*?\[\]{}!#~-]|[^\W\x00-\x7f])+")
_WILD: Final = re.compile(r"[*?\[]")
_BRACES: Final = re.compile(r"([^{}]*)\{([^{}]*(?:,[^{}]*)+|[0-9]{1,9}\.\.[0-9]{1,9}|[a-z]\.\.[a-z])\}([^{}]*)")
_RANGE: Final = re.compile(r"(?=[0-9]+\.\.[0-9]|[a-z]\.\.[a-z])([0-9a-z]+)\.\.([0-9a-z]+)")
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_DOLLAR: Final = re.compile(r"\$(?=[\"' \t\n|&;<>)/.,:%\]}^+=\\~]|$)")
_SIMPLE: Final = re.compile(r"\$(?:([A-Za-z_]\w*|[0-9@*#?$!-])|\{([A-Za-z_]\w*|[0-9]+|[@*#?$!-])\})", re.ASCII)
_LENGTH: Final = re.compile(r"\$\{#(?:[A-Za-z_]\w*|[@*])(?:\[[@*]\])?\}", re.ASCII)
_ELEMENT: Final = re.compile(r"\$\{[A-Za-z_]\w*\[(?:[@*]|-?[0-9]+)\]\}", re.ASCII)
_CHANGED: Final = re.compile(
    r"\$\{([A-Za-z_]\w*|[0-9]+|[@*])(?:##?|%%?|//?[#%]?|\^\^?|,,?)((?:[^{}$`'\"\\()]|\\[./*]|\$[A-Za-z_]\w*+)*)\}",
    re.ASCII,
)
_SLICED: Final = re.compile(r"\$\{([A-Za-z_]\w*|[@*0-9]):[ ]?-?[0-9]+(?::-?[0-9]+)?\}", re.ASCII)
_DEFAULT: Final = re.compile(
    r"\$\{([A-Za-z_]\w*|[0-9]+|[@*]):?([-+?])((?:[^{}$`'\"\\()]|\$[A-Za-z_]\w*+)*)\}", re.ASCII
)
_SEVERAL: Final = re.compile(r"\$(?:@|\{@|\{[A-Za-z_]\w*\[@\])", re.ASCII)
"""What becomes any number of words, in quotes too."""
_COUNTS: Final = re.compile(r"\$\((?!\()(.*)\)", re.DOTALL)
PROCESS: Final = "/dev/fd/63"
UNKNOWN: Final = Field(None, many=True)


class Held(msgspec.Struct, frozen=True):
    """A word, and what it may become."""

    text: str
    """As written."""
    fields: tuple[Field, ...] = ()
    """One for each value that is known to be possible; one without a value where any other is."""
    number: bool = False
    """Whether it can be nothing but a number."""
    loose: bool = False
    """Whether it may become several words, or none."""
    bare: bool = False
    """Whether nothing in it is quoted or expanded."""

    @property
    def value(self) -> str | None:
        """What it becomes for certain."""
        return self.fields[0].value if len(self.fields) == 1 and not self.fields[0].glob else None


class Names:
    """The names that a script sets, and those that must hold numbers."""

    def __init__(self) -> None:
        self.numbers, self.others = set(words("numbers", "plain")), set[str]()
        self.calculated, self.arrays, self.functions = set[str](), set[str](), set[str]()
        self.declared = set[str]()

    def assign(self, name: str, *, number: bool) -> None:
        """Note that a variable is set; refuse one of the shell's own."""
        if is_special(name):
            raise Outside(f"it sets {name}, which means something to the shell")
        (self.numbers if number else self.others).add(name)

    def calculate(self, name: str) -> None:
        """Note that a variable stands where the shell evaluates what it holds."""
        if not self.is_number(name):
            raise Outside(f"{name} stands in arithmetic, and may hold more than a number")
        self.calculated.add(name)

    def is_number(self, name: str) -> bool:
        """Return whether a variable can hold nothing but a number, as far as the text was read."""
        return name in self.numbers and name not in self.others

    def define(self, name: str) -> None:
        """Note a function; refuse one that would change what a later word means."""
        if name in word_list("words") or name in words("readers", "plain") or name in ("date", "nproc", "seq", "tr"):
            raise Outside(f"it makes {name} mean something else")
        self.functions.add(name)

    def settle(self) -> None:
        """Refuse the script when a name that stands in arithmetic is set to something else later."""
        if wrong := (self.calculated & self.others) | (self.declared & self.arrays) | (self.calculated & self.arrays):
            raise Outside(f"{min(wrong)} may hold what the shell evaluates")


def is_special(name: str) -> bool:
    """Return whether a variable means something to a shell, or to the loader of programs."""
    return name in words("special", "plain") or name.startswith(tuple(words("special_families", "plain")))


class Words(Reader):
    """Reads the words of one script."""

    def __init__(self, text: str, call_site: CallSite, *, bash: bool, names: Names) -> None:
        super().__init__(text, {}, bash=bash, old_bash=call_site.os == "darwin")
        self.call_site, self.names = call_site, names
        self.mentioned = Counter(re.findall(r"(?<![\w${])[A-Za-z_]\w*", text, re.ASCII))
        self.held: dict[str, tuple[Field, ...]] = {"HOME": (Field(call_site.home),)}
        """What variables hold that are set once, and before they are used."""
        self.marks: list[tuple[tuple[Field, ...], bool]] = []
        """For each mark what may stand there, and whether it is a number."""

    def hold(self, name: str, fields: Sequence[Field]) -> None:
        """Note what a variable is set to."""
        if self.mentioned[name] == 1 and fields and len(fields) <= MOST_VALUES:
            self.held[name] = tuple(fields)

    def doubt(self, names: Iterable[str]) -> None:
        """Note that variables may not have been set."""
        for name in names:
            self.held[name] = (*self.held[name], UNKNOWN)

    def word(self, *, empty: bool = False) -> Held:
        """Read one word, to the blank or operator that ends it."""
        start, value, shape, glob = self.at, "", "", False
        first = len(self.marks)
        while self.at < len(self.text) and self.text[self.at] not in " \t\n;|&<>)":
            if found := _BARE.match(self.text, self.at):
                glob = glob or _WILD.search(found[0]) is not None
                self.at = found.end()
                value += found[0]
                shape += found[0]
                continue
            loose = self.text[self.at] == "$"
            piece = self._double() or "" if self.text[self.at] == '"' else self._piece(self.text[self.at])
            value += piece or ""
            shape += "\1" if loose and piece != "$" else "\0"
        if start == self.at and self.bash and self.text.startswith("<(", self.at):
            text = self.substitution()
            if self.text[self.at : self.at + 1] not in ("", " ", "\t", "\n", ";", "|", "&", ")"):
                raise Outside(f"something stands behind {text!r}")
            return Held(text, (Field(PROCESS, text),))
        text = self.text[start : self.at]
        self._check_shape(text, shape, empty=empty)
        if text in ("[", "[[", "]", "{}"):
            glob = False
        if glob and not (_same_wildcards(value, shape) and "\\" not in _MARK.sub("", value)):
            raise Outside("wildcards are mixed with quotes")
        marks = self.marks[first:]
        fields = self._brace(shape, text) if "{" in shape and text != "{}" else None
        fields = fields or self._resolve_marks(value, text, shape, glob=glob)
        number = all(each.value is not None and _NUMBER.fullmatch(each.value) for each in fields)
        number = number or (len(marks) == 1 and marks[0][1] and _MARK.sub("", value) == "")
        loose = _SEVERAL.search(text) is not None
        loose = loose or ("\1" in shape and not number and any(field.value is None or field.glob for field in fields))
        return Held(
            text, tuple(fields), number=number, loose=loose or (len(fields) > 1 and "{" in shape), bare=shape == text
        )

    def _check_shape(self, text: str, shape: str, *, empty: bool) -> None:
        following = self.text[self.at : self.at + 1]
        if (not text and not empty) or shape[:1] == "#":
            raise Outside(f"{(text or following)!r} is not a plain word")
        if following in ("<", ">") and following and (text.isdigit() or text.endswith("}")):
            raise Outside(f"{text!r} names a descriptor")
        if following == "(" or self.text.startswith("<(", self.at):
            raise Outside(f"{text!r} stands before a (")
        if re.search(r"[=:]~", shape) or (shape[:1] == "~" and shape[1:2] not in ("", "/")):
            raise Outside("a ~ stands for something that is not known")

    def _brace(self, shape: str, text: str) -> list[Field] | None:
        """Give the words that braces become; None when they are no more than characters."""
        inner = shape[shape.find("{") : shape.rfind("}")]
        if "," not in inner and ".." not in inner:
            return None
        found = _BRACES.fullmatch(text)
        if not found or not self.bash or shape != text:
            raise Outside("braces are not plain")
        items = found[2].split(",")
        if span := _RANGE.fullmatch(found[2]):
            first, last = (int(each) if each.isdigit() else ord(each) for each in span.groups())
            if abs(last - first) > MOST_VALUES or found[2].startswith("0"):
                return [Field(None, text, many=True)]
            step = 1 if last >= first else -1
            items = [str(at) if span[1].isdigit() else chr(at) for at in range(first, last + step, step)]
        glob = _WILD.search(text) is not None
        return [Field(self._at_home(found[1] + item + found[3]), text, glob) for item in items[:MOST_VALUES]]

    def _resolve_marks(self, value: str, text: str, shape: str, *, glob: bool) -> list[Field]:
        """Put in the place of each mark what it may become."""
        options: list[tuple[str | None, bool]] = [("", glob)]
        value = self._at_home(value) if shape[:1] == "~" else value
        for piece in _MARK.split(value):
            if not _MARK.fullmatch(piece):
                options = [(_join(before, piece), wild) for before, wild in options]
                continue
            fields = self.marks[ord(piece) - _FIRST_MARK][0]
            options = [(_join(before, field.value), wild or field.glob) for before, wild in options for field in fields]
            options = list(dict.fromkeys(options))
            if len(options) > MOST_VALUES:
                return [Field(None, text, many="\1" in shape)]
        if any(option is None for option, _ in options) and (rest := self._without_unknown_parts(value)):
            options.append((rest, glob))
        found = list[Field]()
        for option, wild in options:
            if option is not None and "\1" in shape and not wild and re.search(r"[\s*?\[]", option):
                found += [Field(each, text, _WILD.search(each) is not None) for each in option.split()]
                found += [Field(option, text), Field(None, text, many=True)]
            else:
                found.append(Field(option, text, wild, many=option is None and "\1" in shape))
        return list(dict.fromkeys(found))

    def _without_unknown_parts(self, value: str) -> str:
        """Give what is left of a word whose unknown parts are empty, seen from here; nothing where that says nothing."""
        rest = _MARK.sub(self._only, value)
        rest = rest.lstrip("/") if _MARK.match(value) else rest
        return "" if set(rest) <= set("*?./") else rest

    def _only(self, found: re.Match[str]) -> str:
        fields = self.marks[ord(found[0]) - _FIRST_MARK][0]
        return (fields[0].value or "") if len(fields) == 1 and not fields[0].glob else ""

    def _at_home(self, value: str) -> str:
        return f"{self.call_site.home}{value[1:]}" if value[:1] == "~" else value

    def _piece(self, char: str, *, sets: bool = False) -> str:
        """Read one quoted or expanded piece; `sets` is the other grammar's matter: here wildcards of an output are always unknown."""
        following = self.text[self.at + 1 : self.at + 2]
        if char == "'":
            end = self.text.find("'", self.at + 1)
            if end < 0:
                raise Outside("a quote has no end")
            start, self.at = self.at + 1, end + 1
            return self.text[start:end]
        if char == "\\" and following not in ("", "\n"):
            self.at += 2
            return following
        if char == "$" and following not in ("'", '"') and _DOLLAR.match(self.text, self.at):
            self.at += 1
            return "$"
        return self._expansion()

    def _expansion(self) -> str:
        """Read what begins with `$`, and give a mark for what it may become."""
        text = self.text
        if text.startswith("$((", self.at):
            self.arithmetic()
            return self._mark((Field(None),), number=True)
        if text.startswith("$(", self.at):
            whole = self.substitution()
            counts = _COUNTS.fullmatch(whole)
            number = counts is not None and re.fullmatch(text_of("counts", "plain"), counts[1].strip()) is not None
            return self._mark((UNKNOWN,), number=number)
        if found := _SIMPLE.match(text, self.at):
            self.at = found.end()
            name = found[1] or found[2]
            return self._mark(self.held.get(name, (UNKNOWN,)), number=self.names.is_number(name))
        if found := _LENGTH.match(text, self.at):
            self.at = found.end()
            return self._mark((Field(None),), number=True)
        if found := _DEFAULT.match(text, self.at):
            self.at = found.end()
            other = "" if found[2] == "?" else re.sub(r"\$([A-Za-z_]\w*)", self._plainly, self._at_home(found[3]))
            values = (*self.held.get(found[1], (UNKNOWN,)), Field(other))
            return self._mark(tuple(dict.fromkeys(values)), number=False)
        found = _ELEMENT.match(text, self.at)
        if not found and self.bash:
            found = _CHANGED.match(text, self.at) or _SLICED.match(text, self.at)
        elif not found and (found := _CHANGED.match(text, self.at)) and not re.search("[#%]", found[0]):
            found = None
        if not found:
            raise Outside(f"{text[self.at : self.at + 3].strip()!r} is not in the grammar, or a quote has no end")
        self.at = found.end()
        return self._mark((UNKNOWN,), number=False)

    def _plainly(self, found: re.Match[str]) -> str:
        """Give the one value of a variable, else nothing."""
        fields = self.held.get(found[1], ())
        return (fields[0].value or "") if len(fields) == 1 else ""

    def _mark(self, fields: tuple[Field, ...], *, number: bool) -> str:
        if len(self.marks) >= MOST_MARKS:
            raise Outside("it has too many expansions")
        self.marks.append((fields, number))
        return chr(_FIRST_MARK + len(self.marks) - 1)

    def single(self, value: str) -> str | None:
        """Give the one text that marks in a text become; None when it is not known."""
        pieces = _MARK.split(value)
        found = ""
        for piece in pieces:
            fields = self.marks[ord(piece) - _FIRST_MARK][0] if _MARK.fullmatch(piece) else (Field(piece),)
            if len(fields) != 1 or fields[0].value is None or fields[0].glob:
                return None
            found += fields[0].value
        return found

    def arithmetic(self) -> None:
        """Read `$((expression))`."""
        raise NotImplementedError

    def substitution(self) -> str:
        """Read `$(list)` or `<(list)`, and give its text."""
        raise NotImplementedError

    def keep(self, text: str) -> None:
        """Read a text that a builtin keeps to run it later."""
        raise NotImplementedError


def spread(given: Sequence[Held]) -> Iterator[list[Field]]:
    """Give the words of a command with each value that they may have, one word at a time.

    Where several words have more than one value, they are also given as not known.
    """
    options = [word.fields for word in given]
    first = [fields if _is_braced(word) else fields[:1] for word, fields in zip(given, options, strict=True)]
    yield [field for fields in first for field in fields]
    several = [at for at, fields in enumerate(options) if len(fields) > 1 and not _is_braced(given[at])]
    for at in several:
        for other in options[at][1:]:
            yield [field for place, fields in enumerate(first) for field in ((other,) if place == at else fields)]
    if len(several) > 1:
        yield [
            field
            for at, fields in enumerate(first)
            for field in ((Field(None, given[at].text, many=True),) if at in several else fields)
        ]


def _is_braced(word: Held) -> bool:
    return word.bare and len(word.fields) > 1


def _join(before: str | None, after: str | None) -> str | None:
    return None if before is None or after is None else before + after


def _same_wildcards(value: str, shape: str) -> bool:
    """Return whether no wildcard of a word is quoted, so that each means what it looks like."""
    return all(value.count(char) == shape.count(char) for char in "*?[]{}\\")
