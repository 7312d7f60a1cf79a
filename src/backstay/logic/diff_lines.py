"""What changed in a file, as typed lines: made from two texts, from a replacement, or read from a unified difference."""

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

import msgspec

DiffKind = Literal["hunk", "context", "remove", "add"]

MOST_LINES: Final = 400
"""Lines of one difference that are kept."""
LINE_CHARS: Final = 400
"""Characters of each."""
CONTEXT: Final = 3
"""Unchanged lines around a change."""
COMPARED: Final = 2_000
"""Lines that are compared with each other; of more, what went and what came is listed without looking for what stayed."""

_HUNK: Final = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")


class DiffLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One line of a difference."""

    type: DiffKind
    text: str
    """Without the sign; of a hunk, its header."""
    line: int = 0
    """Its number: in the new file, or in the old one for a line that was removed; 0 when nobody knows."""


Diff = tuple[DiffLine, ...]


def between(before: str, after: str) -> Diff:
    """What makes `after` of `before`."""
    old, new = _lines(before), _lines(after)
    head = _common(old, new)
    tail = min(_common(old[::-1], new[::-1]), len(old) - head, len(new) - head)
    start = max(0, head - CONTEXT)
    removed = old[start : len(old) - max(0, tail - CONTEXT)]
    added = new[start : len(new) - max(0, tail - CONTEXT)]
    if len(removed) + len(added) > COMPARED:
        return _bounded(_numbered(_whole(removed, added, start + 1, start + 1)))
    made = difflib.unified_diff(removed, added, lineterm="", n=CONTEXT)
    return _bounded(_numbered(_shifted(line, start) for line in list(made)[2:]))


def replaced(old: str, new: str, start: int = 0) -> Diff:
    """A piece of text that stands where another stood; `start` is its first line, 0 when nobody knows."""
    if start:
        return _bounded(_numbered(_whole(_lines(old), _lines(new), start, start)))
    gone = (DiffLine(type="remove", text=line) for line in _lines(old))
    return _bounded((*gone, *(DiffLine(type="add", text=line) for line in _lines(new))))


def read_unified(text: str) -> Diff:
    """The lines of the unified difference in `text`; whatever stands around its hunks is passed over."""
    return _bounded(_numbered(text.split("\n")))


def _numbered(lines: Iterable[str]) -> Iterator[DiffLine]:
    old = new = old_left = new_left = 0
    for line in lines:
        sign, content = line[:1] or " ", line[1:]
        if not old_left and not new_left:
            if found := _HUNK.match(line):
                old, new = int(found[1]), int(found[3])
                old_left, new_left = int(found[2] or 1), int(found[4] or 1)
                yield DiffLine(type="hunk", text=line)
        elif sign == "-" and old_left:
            yield DiffLine(type="remove", text=content, line=old)
            old, old_left = old + 1, old_left - 1
        elif sign == "+" and new_left:
            yield DiffLine(type="add", text=content, line=new)
            new, new_left = new + 1, new_left - 1
        elif sign == " " and old_left and new_left:
            yield DiffLine(type="context", text=content, line=new)
            old, new, old_left, new_left = old + 1, new + 1, old_left - 1, new_left - 1
        else:  # the difference was cut off here
            old_left = new_left = 0


def _whole(removed: Sequence[str], added: Sequence[str], old: int, new: int) -> Iterator[str]:
    yield f"@@ -{old if removed else old - 1},{len(removed)} +{new if added else new - 1},{len(added)} @@"
    yield from (f"-{line}" for line in removed)
    yield from (f"+{line}" for line in added)


def _shifted(line: str, base: int) -> str:
    if not line.startswith("@@"):
        return line
    return re.sub(r"([-+])(\d+)", lambda found: f"{found[1]}{int(found[2]) + base}", line)


def _bounded(lines: Iterable[DiffLine]) -> Diff:
    kept: list[DiffLine] = []
    for line in lines:
        if len(kept) == MOST_LINES:
            kept.append(DiffLine(type="hunk", text="(there is more)"))
            break
        cut = line.text if len(line.text) <= LINE_CHARS else f"{line.text[:LINE_CHARS]}…"
        kept.append(line if cut is line.text else msgspec.structs.replace(line, text=cut))
    return tuple(kept)


def _lines(text: str) -> list[str]:
    """Lines without their ends; what follows the last end is no line when it is empty."""
    lines = text.split("\n")
    return [line.removesuffix("\r") for line in (lines[:-1] if not lines[-1] else lines)]


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    for at, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs:
            return at
    return min(len(one), len(other))
