"""Markdown put together block by block: paragraphs, lists, quotes, tables, with the prefixes of whatever they stand in."""

import re
from typing import Final

from msgspec import Struct, field

BREAK: Final = "\x1e"
"""A line break that was asked for, among blanks that mean nothing."""
TOTAL: Final = 2_000_000
"""Characters that are written at most."""
COLUMNS: Final = 50
"""Columns that a table may have."""


class Frame(Struct):
    """Something that its blocks are indented in: an item of a list, a quotation."""

    first: str
    rest: str
    used: bool = False


class Table(Struct):
    """A table that is being read. One with a table inside only lays out the page, and is read as text."""

    rows: list[list[str]] = field(default_factory=list)
    layout: bool = False


class Blocks:
    """A growing Markdown text."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self._pieces: list[str] = []
        self._size = 0
        self._after_item = False

    @property
    def full(self) -> bool:
        """Whether nothing more is taken."""
        return self._size > TOTAL

    @property
    def size(self) -> int:
        """Characters so far."""
        return self._size

    def mark(self) -> int:
        """A place to cut at."""
        return len(self._pieces)

    def text(self, start: int = 0, end: int | None = None) -> str:
        """What was written, or a part of it."""
        return "".join(self._pieces[start:end]).strip("\n")

    def write(self, text: str) -> None:
        """Add a block of one or more lines."""
        if not text.strip() or self.full:
            return
        item = bool(self.frames) and not self.frames[-1].used and self.frames[-1].first != self.frames[-1].rest
        gap = "\n" if item and self._after_item else "\n\n"
        first = "".join(frame.rest if frame.used else frame.first for frame in self.frames)
        rest = "".join(frame.rest for frame in self.frames)
        for frame in self.frames:
            frame.used = True
        lines = text.split("\n")
        whole = gap + "\n".join([first + lines[0], *((rest + line).rstrip() for line in lines[1:])])
        self._pieces.append(whole)
        self._size += len(whole)
        self._after_item = bool(self.frames) and (item or self._after_item)

    def end_list(self) -> None:
        """What follows a whole list stands apart from it."""
        self._after_item = self._after_item and bool(self.frames)

    def write_table(self, table: Table) -> None:
        """Add a table; one with a single column is no table."""
        rows = [row for row in table.rows if any(row)]
        width = min(COLUMNS, max(map(len, rows), default=0))
        if width < 2:
            for row in rows:
                self.write(row[0])
            return
        padded = [[*row[:width], *[""] * (width - len(row))] for row in rows]
        lines = ["| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in padded]
        self.write("\n".join([lines[0], "|" + " --- |" * width, *lines[1:]]))

    def write_code(self, code: str, language: str) -> None:
        """Add code, fenced so that it cannot end the fence itself."""
        code = code.strip("\n")
        if code.strip():
            fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", code)), default=0))
            self.write(f"{fence}{language}\n{code}\n{fence}")


def in_lines(pieces: list[str]) -> str:
    """Text as it flows: blanks are one blank, breaks that were asked for are breaks."""
    text = re.sub(r"[^\S\x1e\xa0]+", " ", "".join(pieces)).replace("\xa0", " ")
    return re.sub(rf" *{BREAK}[ {BREAK}]*", "\n", text).strip()


def in_one_line(pieces: list[str]) -> str:
    """Text as it flows, in one line."""
    return " ".join(in_lines(pieces).split())
