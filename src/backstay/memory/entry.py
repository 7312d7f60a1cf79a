"""One memory, and the line that it is in a file: `- [2026-11-16] (project/build) Use pnpm. <!-- mem_... by=user -->`.

The line is for people; the comment at its end says where the memory comes from and can be read back. A text never has a line end or a
comment of its own, so nobody can write a second line or another origin with it.
"""

import hashlib
import re
import unicodedata
from typing import Final, Literal, get_args
from urllib.parse import quote, unquote

import msgspec

from backstay.logic.text import strip_invisible

Kind = Literal["user", "feedback", "project", "reference"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
GENERAL: Final = "general"
"""The topic of a memory that names none."""
LONGEST: Final = 1_000
"""Characters that a memory may have: what is longer belongs into a file of the project."""
LONGEST_TOPIC: Final = 80
_LONGEST_TOPIC_BYTES: Final = 200
_LONGEST_LINE: Final = 16_000
_ID: Final = re.compile(r"mem_[0-9a-f]{12}")
_HEAD: Final = re.compile(r"- \[(\d{4}-\d\d-\d\d)\] \(([a-z]{1,20})/([^\s()/]{1,200})\) ")
_ORIGIN: Final = ("by", "approved", "session", "turn")


class MemoryEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory and where it comes from."""

    kind: str
    """One of `KINDS`, unless somebody else wrote the file."""
    topic: str
    text: str
    date: str
    """The day on which it was kept, in UTC."""
    id: str = ""
    by: str = ""
    """Who said it: `user`, `model` ...; empty when nobody wrote that down."""
    approved: str = ""
    """Who approved it, when somebody else had proposed it."""
    session: str = ""
    turn: str = ""


def clean(text: str) -> str:
    """`text` as one line without anything that is not seen, and without the marks of a comment."""
    plain = _one_line(strip_invisible(_one_line(text)))
    return plain.replace("<!--", "&lt;!--").replace("-->", "--&gt;")


def sameness(text: str) -> str:
    """What two texts have in common when they are the same memory: the whole text, however it is spaced and encoded."""
    return unicodedata.normalize("NFC", clean(text))


def slug(topic: str) -> str:
    """A topic's name as part of a file's name: small letters, digits, `_` and `-`, and nothing that leads anywhere."""
    lowered = unicodedata.normalize("NFC", topic).lower()
    plain = "".join(each if each.isalnum() or each in "_-" else "-" for each in lowered[: 10 * LONGEST_TOPIC])
    short = re.sub("-{2,}", "-", plain).strip("-_")[:LONGEST_TOPIC]
    return short.encode()[:_LONGEST_TOPIC_BYTES].decode(errors="ignore").strip("-_") or GENERAL


def memory_id(*, session: str, turn: str, kind: str, topic: str, text: str) -> str:
    """The id of a memory: made of what it says and where it comes from, so that another text has another id."""
    return f"mem_{hashlib.sha256(msgspec.json.encode((session, turn, kind, topic, text))).hexdigest()[:12]}"


def is_memory_id(text: str) -> bool:
    """Whether `text` has the shape of an id."""
    return _ID.fullmatch(text) is not None


def line_of(entry: MemoryEntry) -> str:
    """The line of a memory in the index and in its topic."""
    origin = [f"{name}={quote(value, safe='')}" for name in _ORIGIN if (value := getattr(entry, name))]
    comment = f" <!-- {' '.join((entry.id, *origin))} -->" if entry.id else ""
    return f"- [{entry.date}] ({entry.kind}/{entry.topic}) {entry.text}{comment}"


def entry_of(line: str) -> MemoryEntry | None:
    """The memory in a line; None when the line is something else."""
    head = _HEAD.match(line[:300])
    if head is None or len(line) > _LONGEST_LINE:
        return None
    date, kind, topic = head.groups()
    text, words = _parted(line[head.end() :].strip())
    return MemoryEntry(kind=kind, topic=topic, text=clean(text), date=date, id="".join(words[:1]), **_origin(words[1:]))


def day_of(line: str) -> str:
    """The day of the memory in a line; empty when the line is something else. Much quicker than reading the memory."""
    head = _HEAD.match(line[:300])
    return head[1] if head and len(line) <= _LONGEST_LINE else ""


def without_origin(line: str) -> str:
    """`line` without the comment that says where a memory comes from."""
    return _parted(line.rstrip())[0] if "<!-- mem_" in line else line


def _parted(text: str) -> tuple[str, list[str]]:
    """A text without the comment at its end, and the words of that: an id and an origin; none when there is no such comment."""
    before, mark, comment = text.rpartition("<!-- ")
    words = comment.removesuffix(" -->").split(" ")
    if not mark or not comment.endswith(" -->") or not is_memory_id(words[0]):
        return text, []
    return before.rstrip(), words


def _origin(words: list[str]) -> dict[str, str]:
    pairs = (word.partition("=") for word in words)
    return {name: clean(unquote(value))[:200] for name, _, value in pairs if name in _ORIGIN}


def _one_line(text: str) -> str:
    return " ".join(text.split())
