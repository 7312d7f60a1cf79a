"""Replace exact text in a file. A model sees and writes LF; the file keeps its line ends."""

import difflib
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from msgspec import Struct

from backstay.tools.files.target import Refused

NEAREST: Final = 3
"""Lines that are shown."""
SHOWN_CHARS: Final = 200
"""Characters of each."""
LOOKED_AT: Final = 2000
"""Lines that are compared letter by letter."""
LIKE: Final = 0.5
"""The least likeness of a line that is shown."""
LONGEST: Final = 2_000_000
"""Characters of a text that is searched for something similar."""
HINT: Final = "Read the file again; whitespace and indentation must be the same."

_NUMBERED: Final = re.compile(r"^\s*\d+(?:\t|→)", re.MULTILINE)
_SIGNS: Final = str.maketrans(
    dict.fromkeys("\u2018\u2019\u201a\u2032\u00b4`", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u2033\u00ab\u00bb", '"')
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-")
    | dict.fromkeys("\u00a0\u2007\u202f\u2009\u200a\u3000", " ")
    | dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad")
    | {"\u2026": "..."}
)


def explain(text: str, old: str) -> str:
    """Say how `old` differs from something in `text`, or show the lines that are most like it."""
    if len(text) > LONGEST:
        return HINT
    for same, words in _LIKELY:
        if line := _find_line(same(text), same(old)):
            return f"{words} (line {line}). Read the file again and copy the text exactly."
    if "\ufffd" in old:
        return "It has \ufffd, which Read shows for bytes that are not UTF-8. Leave that part out of old_string."
    if _NUMBERED.search(old) and (line := _find_line(text, _NUMBERED.sub("", old))):
        return f"It has the line numbers of Read in it, which are not part of the file (line {line}). Leave them out."
    if len(old) > 1 and (line := _find_line(text, old.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"'))):
        return f"It has escapes such as \\n where the file has the characters themselves (line {line})."
    shown = _nearest(text.split("\n"), old)
    return f"{HINT} The most similar lines:\n{shown}" if shown else HINT


def _line_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _trailing(text: str) -> str:
    return re.sub(r"[ \t]+$", "", _line_ends(text), flags=re.MULTILINE)


def _indentation(text: str) -> str:
    return re.sub(r"^[ \t]+", "", _trailing(text), flags=re.MULTILINE)


def _blanks(text: str) -> str:
    return re.sub(r"[^\S\n]+", " ", _indentation(text))


def _signs(text: str) -> str:
    return unicodedata.normalize("NFC", text).translate(_SIGNS)


def _case(text: str) -> str:
    return text.lower() if text.isascii() else text


_LIKELY: Final[Sequence[tuple[Callable[[str], str], str]]] = (
    (_line_ends, "It differs only in its line ends"),
    (_trailing, "It differs only in blanks at the ends of lines"),
    (_indentation, "It differs only in its indentation"),
    (_blanks, "It differs only in blanks within lines"),
    (
        _signs,
        "It differs only in signs that look alike: quotes, dashes, no-break spaces, invisible or composed characters",
    ),
    (lambda text: _signs(_blanks(_signs(text))), "It differs only in blanks and in signs that look alike"),
    (_case, "It differs only in upper and lower case"),
)
"""Ways of overlooking a difference that keep the number of lines."""


def _find_line(text: str, old: str) -> int:
    """Find the line where `old` stands; 0 when it does not, or is nothing but blanks."""
    at = text.find(old) if old.strip() else -1
    return text.count("\n", 0, at) + 1 if at >= 0 else 0


def _nearest(lines: Sequence[str], old: str) -> str:
    wanted = max((line.strip() for line in old.split("\n")), key=len, default="")[:SHOWN_CHARS]
    words = set(re.findall(r"\w{3,}", wanted)) or set(wanted.split())
    candidates = [n for n, line in enumerate(lines) if any(word in line for word in words)][:LOOKED_AT]
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted)
    rated: list[tuple[float, int]] = []
    for number in candidates:
        matcher.set_seq1(lines[number].strip()[:SHOWN_CHARS])
        if matcher.real_quick_ratio() >= LIKE and matcher.quick_ratio() >= LIKE and (rate := matcher.ratio()) >= LIKE:
            rated.append((-rate, number))
    best = sorted(number for _, number in sorted(rated)[:NEAREST])
    return "\n".join(f"{number + 1:>6}\t{lines[number].rstrip()[:SHOWN_CHARS]}" for number in best)


LINES: Final = 80
"""Lines that are shown."""
LINE_CHARS: Final = 240
"""Characters of each."""
CONTEXT: Final = 3
"""Unchanged lines shown around a change."""


def show_difference(before: str, after: str, most: int = LINES) -> tuple[int, str]:
    """Return the number of the first line that changed, and the changed lines with those around them."""
    old, new = before.split("\n"), after.split("\n")
    head = count_common(old, new)
    tail = min(count_common(old[::-1], new[::-1]), len(old) - head, len(new) - head)
    start = max(0, head - CONTEXT)
    removed = _visible(old[start : len(old) - max(0, tail - CONTEXT)])
    added = _visible(new[start : len(new) - max(0, tail - CONTEXT)])
    if len(removed) + len(added) > most * 20:
        return head + 1, "(The change is too large to show.)"
    lines = list(difflib.unified_diff(removed, added, lineterm="", n=CONTEXT))[2:]
    shown = [_shift_header(line, start) if line.startswith("@@") else line[:LINE_CHARS] for line in lines[:most]]
    if len(lines) > most:
        shown.append(f"({len(lines) - most} more lines of the difference)")
    return head + 1, "\n".join(shown).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def count_common(one: Sequence[str], other: Sequence[str]) -> int:
    """Count the lines, or characters, that are the same at the beginning of both."""
    for at, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs:
            return at
    return min(len(one), len(other))


def _visible(lines: list[str]) -> list[str]:
    """Strip the ends of lines; what follows the last end is no line when it is empty."""
    return [line.removesuffix("\r") for line in (lines[:-1] if lines and not lines[-1] else lines)]


def _shift_header(header: str, base: int) -> str:
    return re.sub(r"([-+])(\d+)", lambda found: f"{found[1]}{int(found[2]) + base}", header)


SHOWN_LINES: Final = 5
"""Places that are named when there are too many."""
COUNTED: Final = 1000
"""Places that are counted."""

Span = tuple[int, int]


class Change(Struct, frozen=True):
    """One replacement."""

    old: str
    new: str
    everywhere: bool = False


class Changed(Struct, frozen=True):
    """A text after a replacement."""

    text: str
    count: int


def replace(shown: str, text: str, change: Change) -> Changed:
    """Replace what `change` says. Raise `Refused` when that is unclear; everything outside the replaced places stays."""
    refuse_pointless(change)
    spans = _spans(text, change.old, overlapping=not change.everywhere)
    if change.everywhere and (changed := _put(text, spans, change)).count:
        return changed
    some = list(islice(spans, COUNTED + 1))
    if not some:
        raise Refused("no_match", f"old_string does not occur in {shown!r}. {explain(text, change.old)}")
    if len(some) > 1:
        lines = ", ".join(str(text.count("\n", 0, start) + 1) for start, _ in some[:SHOWN_LINES])
        more = ", ..." if len(some) > SHOWN_LINES else ""
        count = f"more than {COUNTED}" if len(some) > COUNTED else len(some)
        raise Refused(
            "not_unique",
            f"old_string occurs {count} times in {shown!r} (lines {lines}{more}). "
            "Give more of the text around it, or set replace_all.",
        )
    return _put(text, some, change)


def refuse_pointless(change: Change) -> None:
    """Refuse a change that would change nothing or everything."""
    if not change.old:
        raise Refused(
            "empty_old_string", "old_string is empty. Give the text to replace, or use Write for a new or whole file."
        )
    if change.old == change.new:
        raise Refused("no_change", "old_string and new_string are the same. Nothing would change.")


def _put(text: str, spans: Iterable[Span], change: Change) -> Changed:
    literal = "\r\n" not in text or "\r\n" in change.old
    pieces: list[str] = []
    done = 0
    for start, end in spans:
        pieces += text[done:start], change.new if literal else _adapt_ends(text, (start, end), change)
        done = end
    return Changed("".join(pieces) + text[done:], len(pieces) // 2)


def _spans(text: str, old: str, *, overlapping: bool) -> Iterator[Span]:
    """Yield every place where `old` stands; where it overlaps itself as well, or the first of those only."""
    if "\r\n" not in text or "\r\n" in old or "\n" not in old:
        return _literal(text, old, overlapping)
    if text.count("\n") == text.count("\r\n"):
        return _literal(text, old.replace("\n", "\r\n"), overlapping)
    return _either_end(text, old, overlapping)


def _literal(text: str, old: str, overlapping: bool) -> Iterator[Span]:
    at = text.find(old)
    while at >= 0:
        yield at, at + len(old)
        at = text.find(old, at + (1 if overlapping else len(old)))


def _either_end(text: str, old: str, overlapping: bool) -> Iterator[Span]:
    """Yield places where lines may end in LF or CR LF; never one between the CR and the LF."""
    wanted = re.compile(r"(?:\r\n|(?<!\r)\n)".join(re.escape(line) for line in old.split("\n")))
    found = wanted.search(text)
    while found:
        yield found.span()
        found = wanted.search(text, found.start() + 1 if overlapping else found.end())


def _adapt_ends(text: str, span: Span, change: Change) -> str:
    """Return the new text of `span`: what old and new share keeps its line ends, the rest takes those around it."""
    there = text[span[0] : span[1]]
    new = change.new.replace("\r\n", "\n")
    head = count_common(change.old, new)
    tail = count_common(change.old[head:][::-1], new[head:][::-1])
    kept = _offset(there, head)
    until = _offset(there, len(change.old) - tail)
    middle = new[head : len(new) - tail]
    if "\n" in middle and _ends_in_crlf(text, span, there[kept:until] or there):
        middle = re.sub(r"(?<!\r)\n", "\r\n", middle)
    return there[:kept] + middle + there[until:]


def _offset(text: str, characters: int) -> int:
    """Return the position after so many characters, CR LF counted as one."""
    at = 0
    for line in text.split("\r\n"):
        if characters <= len(line):
            return at + characters
        characters -= len(line) + 1
        at += len(line) + 2
    return at


def _ends_in_crlf(text: str, span: Span, there: str) -> bool:
    """Return whether lines made here end in CR LF: as the replaced ones do, else the line around, else the one before."""
    if (end := there.find("\n")) >= 0:
        return there[:end].endswith("\r")
    after = text.find("\n", span[1])
    at = after if after >= 0 else text.rfind("\n", 0, span[0])
    return at > 0 and text[at - 1] == "\r"
