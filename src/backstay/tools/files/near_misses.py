"""Why a text was not found: what is nearly the same, and where."""

import difflib
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Final

NEAREST: Final = 3
"""Lines that are shown."""
LINE_CHARS: Final = 200
"""Characters of each."""
LOOKED_AT: Final = 2000
"""Lines that are compared letter by letter."""
LIKE: Final = 0.5
"""How alike a line must be to be shown."""
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
        if line := _found(same(text), same(old)):
            return f"{words} (line {line}). Read the file again and copy the text exactly."
    if "\ufffd" in old:
        return "It has \ufffd, which Read shows for bytes that are not UTF-8. Leave that part out of old_string."
    if _NUMBERED.search(old) and (line := _found(text, _NUMBERED.sub("", old))):
        return f"It has the line numbers of Read in it, which are not part of the file (line {line}). Leave them out."
    if len(old) > 1 and (line := _found(text, old.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"'))):
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


def _found(text: str, old: str) -> int:
    """The line where `old` stands; 0 when it does not, or is nothing but blanks."""
    at = text.find(old) if old.strip() else -1
    return text.count("\n", 0, at) + 1 if at >= 0 else 0


def _nearest(lines: Sequence[str], old: str) -> str:
    wanted = max((line.strip() for line in old.split("\n")), key=len, default="")[:LINE_CHARS]
    words = set(re.findall(r"\w{3,}", wanted)) or set(wanted.split())
    candidates = [n for n, line in enumerate(lines) if any(word in line for word in words)][:LOOKED_AT]
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted)
    rated: list[tuple[float, int]] = []
    for number in candidates:
        matcher.set_seq1(lines[number].strip()[:LINE_CHARS])
        if matcher.real_quick_ratio() >= LIKE and matcher.quick_ratio() >= LIKE and (rate := matcher.ratio()) >= LIKE:
            rated.append((-rate, number))
    best = sorted(number for _, number in sorted(rated)[:NEAREST])
    return "\n".join(f"{number + 1:>6}\t{lines[number].rstrip()[:LINE_CHARS]}" for number in best)
