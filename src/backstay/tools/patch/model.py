"""What a patch is made of: sections, one for each file, with hunks of lines."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct, field

from backstay.vocab.errors import UserError

Sign = Literal[" ", "-", "+"]


class HunkLine(Struct, frozen=True):
    """One line of a hunk: kept, taken away or put in."""

    sign: Sign
    text: str


class Hunk(Struct, frozen=True):
    """Lines that stand together in the file, and what becomes of them."""

    number: int
    """Its line in the patch."""
    lines: tuple[HunkLine, ...]
    anchors: tuple[str, ...] = ()
    """Lines that stand somewhere before it in the file, one after the other."""
    start: int | None = None
    """The line of the file where it should be, or, when it only adds, the line before; None when the patch does not say."""
    at_end: bool = False
    """Whether it stands at the end of the file."""

    @property
    def before(self) -> tuple[str, ...]:
        """The lines that must stand in the file."""
        return tuple(line.text for line in self.lines if line.sign != "+")


class PatchSection(Struct, frozen=True):
    """What a patch does with one file."""

    kind: Literal["add", "update", "delete"]
    path: str
    number: int
    """Its line in the patch."""
    move: str = ""
    """What the file is called afterwards, when that changes."""
    content: str = ""
    """Of an added file."""
    hunks: tuple[Hunk, ...] = ()


class PatchSource(Struct):
    """The lines of a patch, read one after the other."""

    lines: Sequence[str]
    at: int = 0
    first: int = field(default=1)
    """The number of the first line in what the model sent."""

    @property
    def done(self) -> bool:
        """Whether all are read."""
        return self.at >= len(self.lines)

    @property
    def number(self) -> int:
        """The number of the next line."""
        return self.at + self.first

    def peek(self, ahead: int = 0) -> str:
        """The next line, or one after it; empty after the last."""
        at = self.at + ahead
        return self.lines[at] if at < len(self.lines) else ""

    def take(self) -> str:
        """The next line."""
        self.at += 1
        return self.lines[self.at - 1]


def bad(number: int, line: str, what: str) -> UserError:
    """A patch that cannot be read, with the line that is wrong."""
    return UserError(f"The patch cannot be read: {what} Line {number} is {line[:200]!r}.")
