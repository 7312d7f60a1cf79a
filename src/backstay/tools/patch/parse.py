"""Patches as models write them: which files they change, and how.

*** Begin Patch
*** Update File: src/one.py
@@ def f():
-    return 1
+    return 2
*** End Patch
"""

import re
from collections.abc import Mapping
from typing import Final, Literal

from backstay.tools.patch.model import Hunk, HunkLine, PatchSection, PatchSource, Sign, bad
from backstay.vocab.errors import UserError

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
"""What models put around a patch: a fence, or the beginning of a here-document."""
_NUMBERS: Final = re.compile(r"-(\d{1,9})(?:,\d{1,9})? \+\d{1,9}(?:,\d{1,9})? @@ ?(.*)")


def patch_of(args: Mapping[str, object]) -> str:
    """The patch in the arguments of a call: `patch`, or `input`. Raise `UserError` when there are both or none."""
    given = [value for name in ("patch", "input") if isinstance(value := args.get(name), str) and value]
    if len(given) != 1:
        raise UserError("Give the patch as `patch`." if not given else "Give one of `patch` and `input`, not both.")
    return given[0]


def patch_paths(patch: str) -> tuple[tuple[PatchAccess, str], ...]:
    """The files that a patch touches, as written, and how. Raise `UserError` when it cannot be read: then it touches none."""
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
    """The sections of a patch, in order. Raise `UserError` with the line that cannot be read."""
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
    """The lines of a patch, without what is wrapped around it."""
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
        return PatchSection("add", path, number, content=_added(source))
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


def _added(source: PatchSource) -> str:
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
    """What stands behind `@@`: lines to look for, or, as `diff` writes it, the number of a line."""
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
