"""The tool `Edit`: replace exact text in a file, and nothing else of it."""

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import anyio.to_thread

from holdfast.ports import ToolContext, ToolOutput
from holdfast.tools.define import tool
from holdfast.tools.files import PROBE, Refused, in_words, locate, replace_content, require_regular

LARGEST: Final = 32 * 1024 * 1024
"""Bytes of a file that can be edited; it is held in memory."""
DIFF_LINES: Final = 80
"""Lines of the difference that are shown."""
DIFF_CHARS: Final = 240
"""Characters of each of them."""
CONTEXT: Final = 3
"""Unchanged lines shown around a change."""


@tool(name="Edit", touches="edits")
async def edit_file(
    context: ToolContext,
    file_path: Annotated[str, "The file. A relative path starts at the working folder; `~` is the home folder."],
    old_string: Annotated[str, "The exact text to replace, indentation included. Must occur once, unless replace_all."],
    new_string: Annotated[str, "What stands there instead."],
    replace_all: Annotated[bool, "Replace every occurrence."] = False,
) -> ToolOutput:
    """Replace exact text in a file. Line ends and every other byte stay as they are."""
    try:
        path = locate(context.cwd, file_path)
        change = _Change(old_string, new_string, replace_all)
        return ToolOutput(text=await anyio.to_thread.run_sync(_edit, path, change))
    except Refused as refused:
        return refused.output


@dataclass(frozen=True)
class _Change:
    old: str
    new: str
    everywhere: bool

    def with_crlf(self) -> "_Change":
        """The same change for a file whose lines end in CR LF."""
        return _Change(_crlf(self.old), _crlf(self.new), self.everywhere)


def _edit(path: Path, change: _Change) -> str:
    if not change.old:
        raise Refused("empty_old_string", "old_string is empty. Give the text to replace, or use Write for a new file.")
    if change.old == change.new:
        raise Refused("no_change", "old_string and new_string are the same. Nothing would change.")
    try:
        facts = require_regular(path)
        if facts.st_size > LARGEST:
            raise Refused("too_large", f"{str(path)!r} has {facts.st_size} bytes, more than Edit takes. Use a program.")
        before = _decode(path, path.read_bytes())
        change = _fit(before, change)
        places = list(_places(before, change.old))
        _refuse_unclear(path, before, change, places)
        after = before.replace(change.old, change.new)
        replace_content(path, _encode(after), expected=facts)
    except OSError as exc:
        raise in_words(path, exc) from exc
    count = before.count(change.old)
    times = "" if count == 1 else f" ({count} times)"
    return f"Edited {str(path)!r}{times}.\n{_difference(before, after, places, change.old)}"


def _fit(before: str, change: _Change) -> _Change:
    """Bring the line ends of the change to those of the file: a model sees and writes LF only."""
    ends = before.count("\n")
    crlf = before.count("\r\n")
    if crlf and (crlf == ends or change.old not in before):
        return change.with_crlf()
    return change


def _crlf(text: str) -> str:
    return re.sub(r"(?<!\r)\n", "\r\n", text)


def _places(text: str, wanted: str) -> Iterator[int]:
    """Every place where `wanted` begins, also where it overlaps itself."""
    at = text.find(wanted)
    while at >= 0:
        yield at
        at = text.find(wanted, at + 1)


def _refuse_unclear(path: Path, before: str, change: _Change, places: Sequence[int]) -> None:
    if not places:
        hint = "Read the file again; whitespace and indentation must be the same, without the line numbers of Read."
        raise Refused("no_match", f"old_string does not occur in {str(path)!r}. {hint}")
    if len(places) > 1 and not change.everywhere:
        lines = ", ".join(str(before.count("\n", 0, at) + 1) for at in places[:5]) + ", ..." * (len(places) > 5)
        raise Refused(
            "not_unique",
            f"old_string occurs {len(places)} times in {str(path)!r} (lines {lines}). "
            "Give more of the text around it, or set replace_all.",
        )


def _difference(before: str, after: str, places: Sequence[int], old: str) -> str:
    """A unified difference of the changed region, with the line numbers of the whole file."""
    start = _line_start(before, places[0])
    same_end = len(before) - _line_end(before, places[-1] + len(old))
    base = before.count("\n", 0, start)
    removed = before[start : len(before) - same_end].splitlines()
    added = after[start : len(after) - same_end].splitlines()
    if len(removed) + len(added) > DIFF_LINES * 20:
        return "(The change is too large to show.)"
    lines = list(difflib.unified_diff(removed, added, lineterm="", n=CONTEXT))[2:]
    shown = [_shifted(line, base) if line.startswith("@@") else line[:DIFF_CHARS] for line in lines[:DIFF_LINES]]
    if len(lines) > DIFF_LINES:
        shown.append(f"({len(lines) - DIFF_LINES} more lines of the difference)")
    return _encode("\n".join(shown)).decode("utf-8", "replace")


def _line_start(text: str, at: int) -> int:
    """Where the line starts that stands `CONTEXT` lines before `at`."""
    for _ in range(CONTEXT + 1):
        at = text.rfind("\n", 0, at)
        if at < 0:
            return 0
    return at + 1


def _line_end(text: str, at: int) -> int:
    """Where the line ends that stands `CONTEXT` lines after `at`."""
    for _ in range(CONTEXT + 1):
        at = text.find("\n", at) + 1
        if at == 0:
            return len(text)
    return at


def _shifted(header: str, base: int) -> str:
    return re.sub(r"([-+])(\d+)", lambda found: f"{found[1]}{int(found[2]) + base}", header)


def _decode(path: Path, content: bytes) -> str:
    if b"\0" in content[:PROBE]:
        raise Refused("binary", f"{str(path)!r} is binary. Edit changes text only.")
    return content.decode("utf-8", "surrogateescape")


def _encode(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as exc:
        raise Refused(
            "bad_text", f"The text cannot be written as UTF-8: {exc.reason} at character {exc.start}."
        ) from exc
