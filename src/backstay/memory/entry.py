"""Memories and proposals. A memory is a line of a file: `- [2026-11-16] (project/build) Use pnpm. <!-- mem_... by=user -->`.

The line is for people; the comment at its end says where the memory comes from and can be read back. A text never has a line end or a
comment of its own, so it cannot forge a second line or another origin. Proposals wait in `pending.json` until the person decides.
"""

import hashlib
import json
import re
import unicodedata
from pathlib import Path
from typing import Final, Literal, get_args
from urllib.parse import quote, unquote

import msgspec

from backstay.logic.text import strip_invisible
from backstay.vocab.errors import UserError
from backstay.vocab.event import By

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
    """A memory and its origin."""

    kind: str
    """One of `KINDS`, unless the file was written by other means."""
    topic: str
    text: str
    date: str
    """The day on which it was kept, in UTC."""
    id: str = ""
    by: str = ""
    """Its author: `user`, `model` ...; empty when unknown."""
    approved: str = ""
    """Who approved it, if it was a proposal."""
    session: str = ""
    turn: str = ""


def clean(text: str) -> str:
    """Return `text` as one line without invisible characters and without the marks of a comment."""
    plain = _one_line(strip_invisible(_one_line(text)))
    return plain.replace("<!--", "&lt;!--").replace("-->", "--&gt;")


def sameness(text: str) -> str:
    """Return the normal form of a text: two texts are the same memory when theirs are equal, however spaced and encoded."""
    return unicodedata.normalize("NFC", clean(text))


def slug(topic: str) -> str:
    """Return a topic's name as part of a file name: small letters, digits, `_` and `-`, and nothing that leads anywhere."""
    lowered = unicodedata.normalize("NFC", topic).lower()
    plain = "".join(each if each.isalnum() or each in "_-" else "-" for each in lowered[: 10 * LONGEST_TOPIC])
    short = re.sub("-{2,}", "-", plain).strip("-_")[:LONGEST_TOPIC]
    return short.encode()[:_LONGEST_TOPIC_BYTES].decode(errors="ignore").strip("-_") or GENERAL


def memory_id(memory: "MemoryEntry | Candidate") -> str:
    """Return the id of a memory, a digest of its text and origin: another text has another id."""
    identity = (memory.session, memory.turn, memory.kind, memory.topic, memory.text)
    return f"mem_{hashlib.sha256(msgspec.json.encode(identity)).hexdigest()[:12]}"


def is_memory_id(text: str) -> bool:
    """Return whether `text` has the shape of an id."""
    return _ID.fullmatch(text) is not None


def line_of(entry: MemoryEntry) -> str:
    """Return the line of a memory in the index and in its topic."""
    origin = [f"{name}={quote(value, safe='')}" for name in _ORIGIN if (value := getattr(entry, name))]
    comment = f" <!-- {' '.join((entry.id, *origin))} -->" if entry.id else ""
    return f"- [{entry.date}] ({entry.kind}/{entry.topic}) {entry.text}{comment}"


def entry_of(line: str) -> MemoryEntry | None:
    """Return the memory in a line; None for any other line."""
    head = _HEAD.match(line[:300])
    if head is None or len(line) > _LONGEST_LINE:
        return None
    date, kind, topic = head.groups()
    text, words = _split_origin(line[head.end() :].strip())
    return MemoryEntry(kind=kind, topic=topic, text=clean(text), date=date, id="".join(words[:1]), **_origin(words[1:]))


def day_of(line: str) -> str:
    """Return the day of the memory in a line; empty for any other line. Much quicker than reading the memory."""
    head = _HEAD.match(line[:300])
    return head[1] if head and len(line) <= _LONGEST_LINE else ""


def without_origin(line: str) -> str:
    """Return `line` without the comment that names its origin."""
    return _split_origin(line.rstrip())[0] if "<!-- mem_" in line else line


def _split_origin(text: str) -> tuple[str, list[str]]:
    """Split a text from the comment at its end: an id and an origin; none when there is no such comment."""
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


Status = Literal["pending", "approved", "rejected", "saved", "skipped"]
MOST_WAITING: Final = 200
"""Proposals that may wait for the person."""
MOST_DECIDED: Final = 300
"""Decided proposals that are kept, the newest."""
_LONGEST_NAMES: Final = 400
"""Characters that the names of a session and a turn may have together."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A proposed memory and its status."""

    id: str
    kind: str = msgspec.field(name="type")
    topic: str
    text: str
    by: str = ""
    session: str = ""
    turn: str = ""
    created_at: str = ""
    status: Status = "pending"
    updated_at: str = ""
    decided_by: str = ""
    decision_reason: str = ""


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the file of proposals."""

    candidates: tuple[Candidate, ...] = ()
    unread: tuple[msgspec.Raw, ...] = ()
    """Invalid records; they stay in the file."""
    problems: tuple[str, ...] = ()
    """Why they are invalid, with file and line."""

    @property
    def waiting(self) -> tuple[Candidate, ...]:
        """The proposals without a decision."""
        return tuple(each for each in self.candidates if each.status == "pending")


def read_pending(content: bytes | None, path: Path) -> Pending:
    """Read the file of proposals. An invalid record hides no other; raise `UserError` when the whole file is invalid."""
    if content is None:
        return Pending()
    try:
        outer = msgspec.json.decode(content, type=_ProposalsFile)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise UserError(f"{path}:{_line(content, exc)}: {exc}. Mend the file or move it away.") from exc
    good: dict[str, Candidate] = {}
    unread: list[msgspec.Raw] = []
    problems: list[str] = []
    start = 0
    for raw in outer.records:
        found = _candidate(raw)
        at = max(start, content.find(bytes(raw), start))
        start = at + len(bytes(raw))
        if isinstance(found, Candidate) and found.id not in good:
            good[found.id] = found
        else:
            unread.append(raw)
            why = found if isinstance(found, str) else f"the id {found.id!r} stands twice"
            line = content.count(b"\n", 0, at) + 1
            problems.append(f"{path}:{line}: {why}. It is left out.")
    return Pending(candidates=tuple(good.values()), unread=tuple(unread), problems=tuple(problems[:20]))


def encode_proposals(pending: Pending) -> bytes:
    """Encode the file of proposals, readable for people."""
    decided = [each for each in pending.candidates if each.status != "pending"]
    forgotten = {each.id for each in decided[:-MOST_DECIDED]}
    kept = [each for each in pending.candidates if each.id not in forgotten]
    whole = {"version": 1, "records": [*kept, *pending.unread]}
    return msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"


def replace_candidate(pending: Pending, candidate: Candidate) -> Pending:
    """Return `pending` with `candidate` as its newest."""
    others = tuple(each for each in pending.candidates if each.id != candidate.id)
    return msgspec.structs.replace(pending, candidates=(*others, candidate))


class _ProposalsFile(msgspec.Struct, frozen=True):
    version: Literal[1]
    records: list[msgspec.Raw] = []


def _candidate(raw: msgspec.Raw) -> Candidate | str:
    """Return the record, or why it is invalid."""
    try:
        found = msgspec.json.decode(raw, type=Candidate)
    except (msgspec.DecodeError, RecursionError) as exc:
        return str(exc)
    if found.kind not in KINDS or found.topic != slug(found.topic):
        return f"{found.kind[:40]!r}/{found.topic[:80]!r} is no type and topic"
    if not found.text or found.text != clean(found.text) or len(found.text) > LONGEST:
        return f"its text is not one line of at most {LONGEST:,} characters"
    named = found.session + found.turn
    if found.by not in get_args(By) or len(named) > _LONGEST_NAMES or not named.isprintable():
        return "it does not say properly who proposed it"
    if not is_memory_id(found.id) or found.id != memory_id(found):
        return f"its text is not the one that the id {found.id[:40]!r} was made of"
    return found


def _line(content: bytes, error: Exception) -> int:
    """Return the line of a mistake, as far as it can be told."""
    try:
        json.loads(content)
    except json.JSONDecodeError as exc:
        return exc.lineno
    except (ValueError, RecursionError):
        return 1
    return 1 if isinstance(error, msgspec.ValidationError) else content.count(b"\n") + 1
