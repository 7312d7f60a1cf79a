"""Find what the text of a skill includes: the output of commands, and files. Nothing is run here."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct, field

LONGEST_QUOTED: Final = 32 * 1024
"""Characters of arguments in which quotes are looked for; longer ones are cut at blanks."""
_PLACEHOLDER: Final = re.compile(
    r"(?P<escape>\\?)\$(?:"
    r"\{(?P<variable>[A-Z][A-Z_]*)\}"
    r"|ARGUMENTS\[(?P<index>[0-9]{1,4})\]"
    r"|(?P<all>ARGUMENTS)(?!\w)"
    r"|(?P<number>[0-9]{1,3})(?!\w)"
    r"|(?P<name>[^\W\d]\w*)(?!\[)"
    r")"
)
_PLAIN: Final = re.compile(r"(?:[\w@%+=:,./][\w@%+=:,./-]*)?")
"""A word in which a shell reads no sign, and no program an option."""


class Arguments(Struct, frozen=True, kw_only=True):
    """The arguments that a skill was invoked with."""

    text: str
    names: Sequence[str] = ()
    """What the skill calls its arguments, in order."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """What `${NAME}` stands for."""

    @property
    def words(self) -> tuple[str, ...]:
        """The arguments one by one, as a shell would cut them; at blanks when the quotes do not match."""
        return split_words(self.text)


class Substitution:
    """Replaces placeholders with arguments, and remembers whether one of them was there."""

    def __init__(self, arguments: Arguments) -> None:
        self.used = False
        """Whether any of the arguments was asked for."""
        self._arguments = arguments
        self._words = arguments.words
        self._places = {name: place for place, name in reversed(tuple(enumerate(arguments.names)))}

    def apply(self, text: str) -> str:
        """Return `text` with its placeholders replaced."""
        return _PLACEHOLDER.sub(self._replace, text)

    def is_twisted(self, text: str) -> bool:
        """Return whether an argument puts more into `text` than plain words: it could make another command of it."""
        found = (each for each in _PLACEHOLDER.finditer(text) if not each["variable"] and not each["escape"])
        given = (self._value(each) or "" for each in found)
        return not all(_PLAIN.fullmatch(word) for value in given for word in value.split(" "))

    def _replace(self, found: re.Match[str]) -> str:
        value = self._value(found)
        if value is None:
            return found[0]
        if found["escape"]:
            return found[0][1:]
        self.used |= found["variable"] is None
        return value

    def _value(self, found: re.Match[str]) -> str | None:
        """Return what stands for a placeholder; None when it is none."""
        if found["variable"]:
            return self._arguments.variables.get(found["variable"])
        if found["all"]:
            return self._arguments.text
        place = self._places.get(found["name"]) if found["name"] else int(found["index"] or found["number"])
        if place is None:
            return None
        return self._words[place] if place < len(self._words) else ""


def split_words(text: str) -> tuple[str, ...]:
    """Split arguments as a shell does; at blanks when their quotes do not match."""
    if len(text) > LONGEST_QUOTED:
        return tuple(text.split())
    try:
        return tuple(shlex.split(text))
    except ValueError:
        return tuple(text.split())


_SHELL: Final = re.compile(r"(?:^|(?<=[ \t]))!`([^`\n]+)`")
_FILE: Final = re.compile(r"(?:^|(?<=[\s(\[{<]))@([^\s)\]}>\"'`]+)")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_ENDINGS: Final = ".,:;!?"


class ShellInclusion(msgspec.Struct, frozen=True, kw_only=True, tag="shell"):
    """A command whose output the text wants."""

    command: str
    line: int
    """In the text of the skill, below its frontmatter."""
    shell: str = ""
    own: bool = True
    """Whether it is the text's own command: no argument puts more into it than plain words."""

    @property
    def call(self) -> tuple[str, dict[str, object]]:
        """The tool and the arguments that the policy judges."""
        return "Bash", {"command": self.command}

    def __str__(self) -> str:
        return f"!`{self.command}`"


class FileInclusion(msgspec.Struct, frozen=True, kw_only=True, tag="file"):
    """A file that the text wants."""

    path: str
    """As it is written: relative to the working folder, or with `~/`."""
    line: int

    @property
    def call(self) -> tuple[str, dict[str, object]]:
        """The tool and the arguments that the policy judges."""
        return "Read", {"file_path": self.path}

    def __str__(self) -> str:
        return f"@{self.path}"


Inclusion: TypeAlias = ShellInclusion | FileInclusion
Piece: TypeAlias = str | ShellInclusion | FileInclusion


def pieces(body: str, fill: Substitution, *, shell: str = "") -> Iterator[Piece]:
    """Yield the text of a skill in pieces: what is said, and what is to be put in. `fill` replaces the placeholders of each.

    They are found before anything is filled in: what an argument contains is never a command or a file.
    """
    fence, begun = "", 0
    block: list[str] | None = None
    for number, line in enumerate(body.split("\n"), 1):
        end = "\n"
        if block is not None:
            if line.strip() == "```":
                yield _command("\n".join(block), begun, fill, shell)
                block = None
                yield end
            else:
                block.append(line)
        elif not fence and line.strip() == "```!":
            block, begun = [], number
        else:
            yield from _in_line(line, number, fill, shell, files=not fence)
            yield end
            fence = _after(fence, line)
    if block is not None:  # it has no end: then it is only text
        yield fill.apply("\n".join(("```!", *block)))


def _after(fence: str, line: str) -> str:
    """Return the fence that is open after a line; empty when none is."""
    found = _FENCE.match(line)
    if found is None:
        return fence
    if not fence:
        return found[1]
    closes = found[1][0] == fence[0] and len(found[1]) >= len(fence) and not line[found.end() :].strip()
    return "" if closes else fence


def _in_line(line: str, number: int, fill: Substitution, shell: str, *, files: bool) -> Iterator[Piece]:
    at = 0
    for found in _SHELL.finditer(line):
        yield from _with_files(line[at : found.start()], number, fill, files=files)
        yield _command(found[1], number, fill, shell)
        at = found.end()
    yield from _with_files(line[at:], number, fill, files=files)


def _command(text: str, number: int, fill: Substitution, shell: str) -> ShellInclusion:
    return ShellInclusion(command=fill.apply(text), line=number, shell=shell, own=not fill.is_twisted(text))


def _with_files(text: str, number: int, fill: Substitution, *, files: bool) -> Iterator[Piece]:
    at = 0
    for found in _FILE.finditer(text) if files else ():
        written = found[1].rstrip(_ENDINGS)
        path = fill.apply(written)
        if not _is_path(path):
            continue
        yield fill.apply(text[at : found.start()])
        yield FileInclusion(path=path, line=number)
        at = found.start() + 1 + len(written)
    yield fill.apply(text[at:])


def _is_path(text: str) -> bool:
    """Return whether what follows an `@` is meant as a file, not as a person, a decorator or an address."""
    if not text or "://" in text or "\n" in text or "\0" in text:
        return False
    return text.startswith(("./", "../", "/", "~/", ".")) or "." in text
