"""Applying the hunks of a patch to a text. Lines that stay are those of the file, also where the patch has them a little different."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from backstay.tools.patch.model import Hunk
from backstay.vocab.errors import UserError


def apply_hunks(path: str, text: str, hunks: Sequence[Hunk]) -> str:
    """The text after all hunks. Raise `UserError` for one that fits nowhere, or in several places."""
    file = _PatchedFile(path, tuple(_rows(text)))
    result: list[_Row] = []
    done = 0
    for hunk in hunks:
        at = file.place(hunk, done)
        result += file.rows[done:at]
        result += file.changed(hunk, at)
        done = at + len(hunk.before)
    result += file.rows[done:]
    return _joined(file, result)


class _Row(Struct, frozen=True):
    """A line of the file and how it ends."""

    text: str
    end: str


def _exactly(text: str) -> str:
    return text


def _squeezed(text: str) -> str:
    return "".join(text.split())


_WAYS: Final[Sequence[Callable[[str], str]]] = (_exactly, str.rstrip, _squeezed)
"""How lines are compared: exactly, without blanks at their ends, without any blanks."""


class _PatchedFile(Struct, frozen=True):
    path: str
    rows: tuple[_Row, ...]
    _compared: dict[Callable[[str], str], list[str]] = field(default_factory=dict)
    """The lines in the ways that they were compared so far."""

    def place(self, hunk: Hunk, cursor: int) -> int:
        """The row where a hunk begins; not before `cursor`, where the hunk before it ended."""
        after = self._after_anchors(hunk, cursor)
        wanted = hunk.before
        if not wanted:
            return self._insertion(hunk, after, cursor)
        for way in _WAYS:
            like = [way(line) for line in wanted]
            found = list(_found(self._lines(way), like, after))
            if not found and hunk.anchors:  # some repeat the line behind `@@` as the first of the hunk
                found = list(_found(self._lines(way), like, max(cursor, after - 1)))
            if found:
                return self._choose(hunk, found)
        raise UserError(self._unfit(hunk, wanted, after))

    def changed(self, hunk: Hunk, at: int) -> Iterator[_Row]:
        """The rows that stand there afterwards."""
        for line in hunk.lines:
            if line.sign == " ":
                yield self.rows[at]
            if line.sign == "+":
                yield _Row(line.text, self.end_near(at))
            else:
                at += 1

    def end_near(self, at: int) -> str:
        """How lines end around a row."""
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
        """Rows that are like a line behind `@@`, or begin so: the best likeness first."""
        for way in _WAYS:
            yield from _found(self._lines(way), [way(anchor)], cursor)
        start = _squeezed(anchor)
        lines = self._lines(_squeezed)
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
        known = {_squeezed(row.text) for row in self.rows[after:]}
        missing = next((line for line in wanted if _squeezed(line) not in known), None)
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


def _found(lines: list[str], wanted: list[str], start: int) -> Iterator[int]:
    last = len(lines) - len(wanted)
    at = start - 1
    while at < last:
        try:
            at = lines.index(wanted[0], at + 1, last + 1)
        except ValueError:
            return
        if lines[at : at + len(wanted)] == wanted:
            yield at


def _joined(file: _PatchedFile, result: list[_Row]) -> str:
    """The rows as a text. Whether it ends with a line end is as before."""
    if not result:
        return ""
    rows = [row if row.end else replace(row, end=file.end_near(len(file.rows))) for row in result]
    if file.rows and not file.rows[-1].end:
        rows[-1] = replace(rows[-1], end="")
    return "".join(row.text + row.end for row in rows)
