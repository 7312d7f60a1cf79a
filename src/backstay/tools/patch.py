"""Read patches as models write them, and apply their hunks to the text of a file. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct, field
from msgspec.structs import replace

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
    """The change of one file."""

    kind: Literal["add", "update", "delete"]
    path: str
    number: int
    """Its line in the patch."""
    move: str = ""
    """The new name of the file, when it changes."""
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
        """Return whether all are read."""
        return self.at >= len(self.lines)

    @property
    def number(self) -> int:
        """The number of the next line."""
        return self.at + self.first

    def peek(self, ahead: int = 0) -> str:
        """Return the next line, or one after it; empty after the last."""
        at = self.at + ahead
        return self.lines[at] if at < len(self.lines) else ""

    def take(self) -> str:
        """Return the next line and go on."""
        self.at += 1
        return self.lines[self.at - 1]


def bad(number: int, line: str, what: str) -> UserError:
    """Make the error of a patch that cannot be read, with the line that is wrong."""
    return UserError(f"The patch cannot be read: {what} Line {number} is {line[:200]!r}.")


PatchAccess = Literal["read", "write", "remove"]

_BEGIN: Final = "*** Begin Patch"
_END: Final = "*** End Patch"
_END_OF_FILE: Final = "*** End of File"
_FILE: Final = re.compile(r"\*\*\* (Add|Update|Delete) File: *(.*)")
_MOVE: Final = re.compile(r"\*\*\* Move to: *(.*)")
_UNIFIED: Final = (
    f"this is a unified difference. Write `{_BEGIN}`, for each file `*** Update File: FILE` and its hunks as they are, "
    f"`*** Add File: FILE` or `*** Delete File: FILE`, and `{_END}`."
)
_WRAPPING: Final = re.compile(r"\s*|```\w*|(?:apply_patch|applypatch)?\s*<<-?\s*(['\"]?)\w+\1")
"""Wrappings that models put around a patch: a fence, or the beginning of a here-document."""
_NUMBERS: Final = re.compile(r"-(\d{1,9})(?:,\d{1,9})? \+\d{1,9}(?:,\d{1,9})? @@ ?(.*)")


def patch_of(args: Mapping[str, object]) -> str:
    """Find the patch in the arguments of a call: `patch`, or `input`. Raise `UserError` when there are both or none."""
    given = [value for name in ("patch", "input") if isinstance(value := args.get(name), str) and value]
    if len(given) != 1:
        raise UserError("Give the patch as `patch`." if not given else "Give one of `patch` and `input`, not both.")
    return given[0]


def patch_paths(patch: str) -> tuple[tuple[PatchAccess, str], ...]:
    """List the files that a patch changes, as written, and how. Raise `UserError` when it cannot be read: then it changes none."""
    found: list[tuple[PatchAccess, str]] = []
    for section in read_patch(patch):
        if section.kind == "delete":
            found.append(("remove", section.path))
        elif section.move:
            found += [("read", section.path), ("remove", section.path), ("write", section.move)]
        else:
            found.append(("write", section.path))
    return tuple(dict.fromkeys(found))


def read_patch(patch: str) -> tuple[PatchSection, ...]:
    """Read the sections of a patch, in order. Raise `UserError` with the line that cannot be read."""
    source = _source(patch)
    if source.done:
        raise UserError(f"The patch is empty. It begins with `{_BEGIN}`.")
    if source.peek().strip() != _BEGIN:
        raise bad(source.number, source.peek(), _UNIFIED if _is_unified(source) else f"it begins with `{_BEGIN}`.")
    sections = _read_sections(source)
    if not sections:
        raise UserError("The patch changes no file.")
    return tuple(sections)


def _is_unified(source: PatchSource) -> bool:
    line = source.peek()
    return line.startswith(("diff --git ", "Index: ")) or (
        line.startswith("--- ") and source.peek(1).startswith("+++ ")
    )


def _source(patch: str) -> PatchSource:
    """Split a patch into lines, without what is wrapped around it."""
    lines = patch.replace("\r\n", "\n").split("\n")
    first = 0
    while first < len(lines) and _WRAPPING.fullmatch(lines[first]):
        first += 1
    wrapped = any(lines[:first][n].strip() for n in range(first))
    last = len(lines)
    if lines and not lines[-1]:
        last -= 1  # what follows the last line end is no line
    while wrapped and last > first and re.fullmatch(r"\s*|```|\w+", lines[last - 1]):
        last -= 1
    return PatchSource(lines[first:last], first=first + 1)


def _read_sections(source: PatchSource) -> list[PatchSection]:
    source.take()
    sections: list[PatchSection] = []
    while not source.done:
        line = source.peek().rstrip()
        if line.strip() == _END:
            _refuse_more(source)
            return sections
        found = _FILE.fullmatch(line)
        if found:
            sections.append(_section(source, found[1], found[2].strip()))
        elif not line:
            source.take()
        else:
            raise bad(source.number, line, "`*** Add File: `, `*** Update File: ` or `*** Delete File: ` was expected.")
    raise bad(source.number - 1, source.lines[-1], f"it does not end with `{_END}`.")


def _refuse_more(source: PatchSource) -> None:
    source.take()
    while not source.done:
        if source.peek().strip():
            raise bad(source.number, source.peek(), f"nothing may follow `{_END}`.")
        source.take()


def _section(source: PatchSource, verb: str, path: str) -> PatchSection:
    number, title = source.number, source.take()
    if not path or "\0" in path:
        raise bad(number, title, "it names no file.")
    if verb == "Delete":
        return PatchSection("delete", path, number)
    if verb == "Add":
        return PatchSection("add", path, number, content=_read_added(source))
    moved = _MOVE.fullmatch(source.peek().rstrip())
    if moved:
        source.take()
        if not moved[1].strip() or "\0" in moved[1]:
            raise bad(source.number - 1, source.lines[source.at - 1], "it names no file.")
    hunks: list[Hunk] = []
    while not source.done and not _ends_section(source):
        hunks.append(_hunk(source, first=not hunks))
    if not hunks and not moved:
        raise bad(number, title, "it says nothing about what to change in the file.")
    return PatchSection("update", path, number, move=moved[1].strip() if moved else "", hunks=tuple(hunks))


def _ends_section(source: PatchSource) -> bool:
    line = source.peek().rstrip()
    return line.strip() == _END or _FILE.fullmatch(line) is not None


def _read_added(source: PatchSource) -> str:
    lines: list[str] = []
    while not source.done and not _ends_section(source):
        line = source.take()
        if line.startswith("+"):
            lines.append(line[1:])
        elif line.strip():
            raise bad(source.number - 1, line, "every line of a new file begins with `+`.")
    return "".join(f"{line}\n" for line in lines)


def _hunk(source: PatchSource, *, first: bool) -> Hunk:
    number = source.number
    anchors, start = _anchors(source)
    if not first and number == source.number:
        raise bad(number, source.peek(), "a line of a hunk begins with a blank, `+` or `-`, and a hunk with `@@`.")
    lines: list[HunkLine] = []
    blank = 0
    at_end = False
    while not source.done and not _ends_section(source) and not source.peek().startswith("@@"):
        line = source.take()
        if line.rstrip() == _END_OF_FILE:
            at_end = True
            break
        lines.append(HunkLine(_sign(line, source.number - 1), line[1:]))
        blank = 0 if line else blank + 1
    if blank and (source.done or _ends_section(source)):
        del lines[-blank:]  # an empty line before the next file is not one of the hunk
    if not any(line.sign != " " for line in lines):
        raise bad(number, source.lines[number - source.first], "the hunk changes nothing.")
    return Hunk(number, tuple(lines), anchors, start, at_end)


def _anchors(source: PatchSource) -> tuple[tuple[str, ...], int | None]:
    """Read what stands behind `@@`: lines to look for, or, as `diff` writes it, the number of a line."""
    anchors: list[str] = []
    start: int | None = None
    while source.peek().startswith("@@"):
        text = source.take()[2:].removeprefix(" ")
        numbers = _NUMBERS.fullmatch(text.rstrip())
        if numbers:
            start = int(numbers[1])
        elif text.strip():
            anchors.append(text)
    return tuple(anchors), start


def _sign(line: str, number: int) -> Sign:
    match line[:1]:
        case "" | " ":
            return " "
        case "-":
            return "-"
        case "+":
            return "+"
        case _:
            raise bad(number, line, "a line of a hunk begins with a blank, `+` or `-`, and a hunk with `@@`.")


def apply_hunks(path: str, text: str, hunks: Sequence[Hunk]) -> str:
    """Return the text after all hunks. Raise `UserError` for one that fits nowhere, or in several places."""
    file = _PatchedFile(path, tuple(_rows(text)))
    result: list[_Row] = []
    done = 0
    for hunk in hunks:
        at = file.locate(hunk, done)
        result += file.rows[done:at]
        result += file.apply(hunk, at)
        done = at + len(hunk.before)
    result += file.rows[done:]
    return _join_rows(file, result)


class _Row(Struct, frozen=True):
    """A line of the file and how it ends."""

    text: str
    end: str


def _squeeze(text: str) -> str:
    return "".join(text.split())


_WAYS: Final[Sequence[Callable[[str], str]]] = (str, str.rstrip, _squeeze)
"""Ways of comparing lines: exactly, without blanks at their ends, without any blanks."""


class _PatchedFile(Struct, frozen=True):
    path: str
    rows: tuple[_Row, ...]
    _compared: dict[Callable[[str], str], list[str]] = field(default_factory=dict)
    """The lines in the ways that they were compared so far."""

    def locate(self, hunk: Hunk, cursor: int) -> int:
        """Find the row where a hunk begins; not before `cursor`, where the hunk before it ended."""
        after = self._after_anchors(hunk, cursor)
        wanted = hunk.before
        if not wanted:
            return self._insertion(hunk, after, cursor)
        for way in _WAYS:
            like = [way(line) for line in wanted]
            found = list(_find_rows(self._lines(way), like, after))
            if not found and hunk.anchors:  # some repeat the line behind `@@` as the first of the hunk
                found = list(_find_rows(self._lines(way), like, max(cursor, after - 1)))
            if found:
                return self._choose(hunk, found)
        raise UserError(self._unfit(hunk, wanted, after))

    def apply(self, hunk: Hunk, at: int) -> Iterator[_Row]:
        """Yield the rows that replace those of the hunk."""
        for line in hunk.lines:
            if line.sign == " ":
                yield self.rows[at]
            if line.sign == "+":
                yield _Row(line.text, self.end_near(at))
            else:
                at += 1

    def end_near(self, at: int) -> str:
        """Return how lines end around a row."""
        near = (self.rows[each] for each in (at, at - 1, at - 2) if 0 <= each < len(self.rows))
        return next((row.end for row in near if row.end), "\n")

    def _after_anchors(self, hunk: Hunk, cursor: int) -> int:
        for anchor in hunk.anchors:
            at = next(self._like(anchor, cursor), None)
            if at is None:
                raise UserError(
                    f"The hunk at line {hunk.number} of the patch does not fit {self.path!r}: "
                    f"there is no line {anchor[:200]!r}{f' after line {cursor}' if cursor else ''}. Read the file again."
                )
            cursor = at + 1
        return cursor

    def _like(self, anchor: str, cursor: int) -> Iterator[int]:
        """Yield rows that are like a line behind `@@`, or begin so: the best likeness first."""
        for way in _WAYS:
            yield from _find_rows(self._lines(way), [way(anchor)], cursor)
        start = _squeeze(anchor)
        lines = self._lines(_squeeze)
        yield from (at for at in range(cursor, len(lines)) if lines[at].startswith(start))

    def _lines(self, way: Callable[[str], str]) -> list[str]:
        if way not in self._compared:
            self._compared[way] = [way(row.text) for row in self.rows]
        return self._compared[way]

    def _insertion(self, hunk: Hunk, after: int, cursor: int) -> int:
        if hunk.anchors and not hunk.at_end:
            return after
        if hunk.start is None or hunk.at_end:
            return len(self.rows)
        return max(cursor, min(hunk.start, len(self.rows)))

    def _choose(self, hunk: Hunk, found: Sequence[int]) -> int:
        end = len(self.rows) - len(hunk.before)
        if hunk.at_end and end in found:
            return end
        if len(found) == 1 or hunk.anchors:
            return found[0]
        if hunk.start is not None:
            nearest = sorted((abs(at + 1 - hunk.start), at) for at in found)
            if nearest[0][0] < nearest[1][0]:
                return nearest[0][1]
        lines = ", ".join(str(at + 1) for at in found[:5]) + ", ..." * (len(found) > 5)
        raise UserError(
            f"The hunk at line {hunk.number} of the patch fits {self.path!r} in {len(found)} places (lines {lines}). "
            "Give more lines around it, or a line before it behind `@@`."
        )

    def _unfit(self, hunk: Hunk, wanted: Sequence[str], after: int) -> str:
        known = {_squeeze(row.text) for row in self.rows[after:]}
        missing = next((line for line in wanted if _squeeze(line) not in known), None)
        where = f" after line {after}" if after else ""
        why = (
            f"there is no line {missing[:200]!r}{where}"
            if missing is not None
            else f"its lines do not stand together{where}; the first is {wanted[0][:200]!r}"
        )
        return f"The hunk at line {hunk.number} of the patch does not fit {self.path!r}: {why}. Read the file again."


def _rows(text: str) -> Iterator[_Row]:
    for line in text.split("\n")[:-1]:
        bare = line.removesuffix("\r")
        yield _Row(bare, line[len(bare) :] + "\n")
    if rest := text.rpartition("\n")[2]:
        yield _Row(rest, "")


def _find_rows(lines: list[str], wanted: list[str], start: int) -> Iterator[int]:
    last = len(lines) - len(wanted)
    at = start - 1
    while at < last:
        try:
            at = lines.index(wanted[0], at + 1, last + 1)
        except ValueError:
            return
        if lines[at : at + len(wanted)] == wanted:
            yield at


def _join_rows(file: _PatchedFile, result: list[_Row]) -> str:
    """Join the rows to a text. Whether it ends with a line end is as before."""
    if not result:
        return ""
    rows = [row if row.end else replace(row, end=file.end_near(len(file.rows))) for row in result]
    if file.rows and not file.rows[-1].end:
        rows[-1] = replace(rows[-1], end="")
    return "".join(row.text + row.end for row in rows)
