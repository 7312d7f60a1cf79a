"""What somebody other than the person has proposed: kept in `pending.json` until the person decides.

An id is made of what the proposal says, so a text that was changed after it was shown is not what its id means, and is not approved.
"""

import json
from pathlib import Path
from typing import Final, Literal, get_args

import msgspec

from backstay.memory.entry import KINDS, LONGEST, clean, is_memory_id, memory_id, slug
from backstay.vocab.errors import UserError
from backstay.vocab.event import By

Status = Literal["pending", "approved", "rejected", "saved", "skipped"]
MOST_WAITING: Final = 200
"""Proposals that may wait for the person."""
MOST_DECIDED: Final = 300
"""Decided ones that are remembered, the newest."""
_LONGEST_NAMES: Final = 400
"""Characters that the names of a session and a turn may have together."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A proposed memory and what became of it."""

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
    """What the file holds."""

    candidates: tuple[Candidate, ...] = ()
    unread: tuple[msgspec.Raw, ...] = ()
    """Records that make no sense; they stay in the file."""
    problems: tuple[str, ...] = ()
    """What is wrong with them, with file and line."""

    @property
    def waiting(self) -> tuple[Candidate, ...]:
        """Those that nobody has decided about."""
        return tuple(each for each in self.candidates if each.status == "pending")


def read_pending(content: bytes | None, path: Path) -> Pending:
    """Read the file. One bad record hides no other; raise `UserError` when the file as a whole cannot be understood."""
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


def written(pending: Pending) -> bytes:
    """The bytes of the file, for people too."""
    decided = [each for each in pending.candidates if each.status != "pending"]
    forgotten = {each.id for each in decided[:-MOST_DECIDED]}
    kept = [each for each in pending.candidates if each.id not in forgotten]
    whole = {"version": 1, "records": [*kept, *pending.unread]}
    return msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"


def replaced(pending: Pending, candidate: Candidate) -> Pending:
    """`pending` with `candidate` as its newest."""
    others = tuple(each for each in pending.candidates if each.id != candidate.id)
    return msgspec.structs.replace(pending, candidates=(*others, candidate))


class _ProposalsFile(msgspec.Struct, frozen=True):
    version: Literal[1]
    records: list[msgspec.Raw] = []


def _candidate(raw: msgspec.Raw) -> Candidate | str:
    """The record, or why it is none."""
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
    if not is_memory_id(found.id) or found.id != _id_of(found):
        return f"its text is not the one that the id {found.id[:40]!r} was made of"
    return found


def _id_of(found: Candidate) -> str:
    return memory_id(session=found.session, turn=found.turn, kind=found.kind, topic=found.topic, text=found.text)


def _line(content: bytes, error: Exception) -> int:
    """The line of a mistake, as far as it can be told."""
    try:
        json.loads(content)
    except json.JSONDecodeError as exc:
        return exc.lineno
    except (ValueError, RecursionError):
        return 1
    return 1 if isinstance(error, msgspec.ValidationError) else content.count(b"\n") + 1
