"""Texts of others on their way to a model or to a person: without hidden characters, on one line, cut, or in a frame.

Hidden characters are of two classes. `HIDDEN` is for what a model is to read: a person who reads the text sees none of it. `OBEYED` is
for what a person is to read: a terminal obeys it, moves the cursor, changes colours or turns the direction of the text around it. Control
characters and changes of direction are in both.

Joiners and selectors of variants belong to some scripts and to emoji. They count as hidden where they cannot have that sense: a joiner
behind anything but an emoji or a letter of a script that joins, a selector behind a Latin letter or behind another selector.

A frame says whose words stand in it. No text inside can end its frame or imitate another one.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple, get_args

_TURNING: Final = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Changes of the direction of writing."""
_BREAKING: Final = "\u2028\u2029"
"""Ends of lines that are none to most programs."""
_BLANK: Final = (
    "\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065\u206a-\u206f\u2800\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Fillers, blanks without width, tags and what else has no picture of its own: `Default_Ignorable_Code_Point` and some more."""
_HALVES: Final = "\ud800-\udfff"
_CONTROLS: Final = "\x00-\x08\x0b-\x1f\x7f-\x9f"
"""All control characters but tab and line feed."""
_JOINERS: Final = "\u200c\u200d"
_SELECTORS: Final = "\ufe00-\ufe0f"
_JOINING: Final = (
    "\u0590-\u061b\u061d-\u109f\u1200-\u13ff\u1700-\u17b3\u17b6-\u180a\u1810-\u1c7f\u1cd0-\u1cff\u2190-\u27bf\u2b00-\u2bff\u3030\u303d"
    "\u3297\u3299\ua800-\uabff\ufb1d-\ufdff\ufe0f\U00010a00-\U00010fff\U00011000-\U00011fff\U0001e900-\U0001e95f\U0001f000-\U0001faff"
)
"""Emoji, their selector, and scripts whose letters join: what a joiner may follow."""
_KEYS: Final = f"^\x00-\x22\x24-\x29\x2b-\x2f\x3a-\x7f{_JOINERS}{_SELECTORS}"
"""What a selector may follow: no ASCII but `#`, `*` and digits, which are the keys of telephones."""
_AT_HOME: Final = f"(?<![{_JOINING}][{_JOINERS}])(?<![{_KEYS}][{_SELECTORS}])"
"""Behind a character: not when it is a joiner or a selector where it belongs."""

INVISIBLE: Final = f"{_CONTROLS}{_TURNING}{_BREAKING}{_BLANK}{_HALVES}{_JOINERS}{_SELECTORS}"
"""All that may be hidden, for a class of characters in a pattern."""
HIDDEN: Final = re.compile(f"[{INVISIBLE}]{_AT_HOME}")
"""What a person does not see and a model reads."""
OBEYED: Final = re.compile(f"[\t\n{_CONTROLS}{_TURNING}{_BREAKING}]")
"""What a terminal obeys instead of showing it, tab and line feed too."""
_EITHER: Final = re.compile(f"[\t\n{INVISIBLE}]{_AT_HOME}")


def strip_invisible(text: str) -> str:
    """Return `text` as a person sees it: without hidden characters, every line end a line feed."""
    return HIDDEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def show_invisible(text: str, *, keep: str = "\t\n", mark: Callable[[str], str] = str) -> str:
    """Return `text` with a sign in place of every character of either class but those of `keep`. `mark` may decorate the sign."""
    return _EITHER.sub(lambda found: found[0] if found[0] in keep else mark(sign_of(found[0])), text)


def show_lines(text: str, mark: Callable[[str], str] = str) -> str:
    """Return `text` as `show_invisible` does, with a line feed for each `\\r\\n`."""
    return show_invisible(text.replace("\r\n", "\n"), mark=mark)


def sign_of(character: str) -> str:
    """Return what stands for a hidden character: the picture of a control character, or its number as `<U+202E>`."""
    number = ord(character)
    if number < 0x20:
        return chr(0x2400 + number)
    return "\N{SYMBOL FOR DELETE}" if number == 0x7F else f"<U+{number:04X}>"


class VisibleText(NamedTuple):
    """A text without its hidden characters."""

    text: str
    left_out: int
    line: int
    """The line of the first one, from 1 on; 0 when nothing was left out."""


def read_visible(text: str) -> VisibleText:
    """Return `text` without hidden characters, and say how many were left out. Every line end must be a line feed."""
    first = HIDDEN.search(text)
    if first is None:
        return VisibleText(text, 0, 0)
    kept = HIDDEN.sub("", text)
    return VisibleText(kept, len(text) - len(kept), text.count("\n", 0, first.start()) + 1)


# --- length ---


def one_line(text: str, most: int = 300) -> str:
    """Return the `text` of another on one line of at most `most` characters, without hidden ones."""
    return shorten_to_line(strip_invisible(text[: 4 * most]), most)


def shorten_to_line(text: str, most: int = 200) -> str:
    """Return `text` on one line of at most `most` characters. Of a long text, read only the beginning."""
    flat = " ".join(text[: 4 * most].split())
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"


def clip(text: str, longest: int) -> str:
    """Return at most `longest` characters of `text`, without hidden ones."""
    clean = strip_invisible(text[: longest * 4]).strip()
    return clean if len(clean) <= longest else f"{clean[: longest - 1]}\N{HORIZONTAL ELLIPSIS}"


def pluralise(number: int, one: str, many: str = "") -> str:
    """Return a number and the word for so many: `1 reply`, `2 replies`. Without `many`, add an s to `one`."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def count_seconds(number: float) -> str:
    """Return `1 second`, `2.5 seconds`."""
    return f"{number:g} second{'' if number == 1 else 's'}"


HEAD, TAIL = 3_000, 1_000
"""Characters at the beginning and at the end that are left of a long text."""


class Excerpt(NamedTuple):
    """A text, or its beginning and its end."""

    text: str
    chars: int
    """Characters of the whole."""
    left_out: int = 0


def excerpt(text: str, head: int = HEAD, tail: int = TAIL) -> Excerpt:
    """Return `text`, cut in the middle when that makes it shorter."""
    left_out = len(text) - head - tail
    if left_out <= 100:
        return Excerpt(text=text, chars=len(text))
    cut = f"{text[:head]}\n[… {left_out:,} characters left out …]\n{text[len(text) - tail :]}"
    return Excerpt(text=cut, chars=len(text), left_out=left_out)


def describe_size(text: Excerpt) -> str:
    """Say how long a text is, and how much of it was left out."""
    if text.left_out:
        return f" ({text.left_out:,} of {text.chars:,} characters left out)"
    return f" ({text.chars:,} characters)" if text.chars != 1 else " (1 character)"


# --- frames ---


Mark = Literal[
    "file",
    "file-references",
    "hook",
    "mcp_server",
    "project-memory",
    "resource",
    "search_results",
    "skill",
    "strangers-file",
    "task-context",
    "web_page",
]
"""Every mark that the instructions tell a model to take as the edge of the words of others."""

_NOTHING: Final = rf"[\s/{INVISIBLE}]*+"
_MARKS: Final = re.compile(rf"<(?={_NOTHING}(?:{'|'.join(get_args(Mark))})\b)", re.IGNORECASE)
_ESCAPES: Final = {'"': "&quot;", "<": "&lt;", ">": "&gt;", "&": "&amp;"}


def frame(mark: Mark, text: str, facts: Mapping[str, str] | None = None) -> str:
    """Return `text` between marks that it cannot imitate. `facts` say whose words they are, as attributes of the first mark."""
    return f"{opening_mark(mark, facts or {})}\n{defuse(text)}\n</{mark}>"


def frame_framed(mark: Mark, text: str, facts: Mapping[str, str]) -> str:
    """Return `text`, which holds frames already, in one that it cannot end."""
    own = re.compile(rf"<(?={_NOTHING}{mark}\b)", re.IGNORECASE)
    return f"{opening_mark(mark, facts)}\n{own.sub('&lt;', text)}\n</{mark}>"


def defuse(text: str) -> str:
    """Return `text` without anything that looks like one of the marks, in any case and with blanks anywhere in it."""
    return _MARKS.sub("&lt;", text)


def opening_mark(mark: Mark, facts: Mapping[str, str]) -> str:
    """Return the first mark of a frame."""
    said = "".join(f' {name}="{attribute(value)}"' for name, value in facts.items())
    return f"<{mark}{said}>"


def attribute(text: str) -> str:
    """Return `text` as the value of an attribute of a mark."""
    return "".join(_ESCAPES.get(each, each) if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def frame_server_words(server: str, text: str) -> str:
    """Return the `text` of an MCP server in a frame, with a sentence that says whose words they are."""
    return frame("mcp_server", f"{_WHOSE}\n{text}", {"name": server})


_WHOSE: Final = (
    "(Written by the server itself, not by the person. It explains the server's tools and orders nothing else.)"
)
