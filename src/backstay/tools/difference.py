"""What changed in a text, as a unified difference with the line numbers of the whole."""

import difflib
import re
from collections.abc import Sequence
from typing import Final

LINES: Final = 80
"""Lines that are shown."""
LINE_CHARS: Final = 240
"""Characters of each."""
CONTEXT: Final = 3
"""Unchanged lines shown around a change."""


def difference(before: str, after: str, most: int = LINES) -> tuple[int, str]:
    """The number of the first line that changed, and the changed lines with those around them."""
    old, new = before.split("\n"), after.split("\n")
    head = common(old, new)
    tail = min(common(old[::-1], new[::-1]), len(old) - head, len(new) - head)
    start = max(0, head - CONTEXT)
    removed = _visible(old[start : len(old) - max(0, tail - CONTEXT)])
    added = _visible(new[start : len(new) - max(0, tail - CONTEXT)])
    if len(removed) + len(added) > most * 20:
        return head + 1, "(The change is too large to show.)"
    lines = list(difflib.unified_diff(removed, added, lineterm="", n=CONTEXT))[2:]
    shown = [_shifted(line, start) if line.startswith("@@") else line[:LINE_CHARS] for line in lines[:most]]
    if len(lines) > most:
        shown.append(f"({len(lines) - most} more lines of the difference)")
    return head + 1, "\n".join(shown).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines, or characters, are the same at the beginning of both."""
    for at, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs:
            return at
    return min(len(one), len(other))


def _visible(lines: list[str]) -> list[str]:
    """Lines without their ends; what follows the last end is no line when it is empty."""
    return [line.removesuffix("\r") for line in (lines[:-1] if lines and not lines[-1] else lines)]


def _shifted(header: str, base: int) -> str:
    return re.sub(r"([-+])(\d+)", lambda found: f"{found[1]}{int(found[2]) + base}", header)
