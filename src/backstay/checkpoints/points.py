"""The points of a session to which its files can be restored. Pure: computed from the log.

Every turn is one, whether it changed files or not: its start, and its end. So is the moment before each restore.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from backstay.vocab import events
from backstay.vocab.errors import UserError
from backstay.vocab.event import Event, Recorded
from backstay.vocab.messages import Text, TextRef

PROMPT: Final = 200
"""Characters of a prompt that a listing shows."""
PURGED: Final = "what was kept of it was purged"
LATEST: Final = "latest"
RESTORED: Final = "files-restored"
"""The kind of the entry that a restore adds when it is over."""


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A turn, as a point to which files can be put back."""

    turn: str
    """Its id: `restore_files(before=...)` goes to its start, `restore_files(to=...)` to its end."""
    number: int
    prompt: str = ""
    at: int = 0
    """Microseconds since 1970."""
    files: tuple[str, ...] = ()
    """The paths that tools were about to change in it, each once."""
    programs: bool = False
    """Whether programs ran in it that could change anything."""
    over: bool = False
    """Whether the turn has an end."""
    restorable: bool = True
    why_not: str = ""
    """The reason why its start cannot be restored, or not wholly."""


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """A moment between two events."""

    after: int
    """The seq of the last event before it."""
    event: str
    """The id of that event; empty for the beginning."""
    label: str
    """Its name for a person."""
    number: int | None = None
    """The turn after which it lies, 0 for the beginning: `/rewind` takes it. None for the moment before a restore."""
    ends_turn: bool = False
    """Whether the end of a turn is meant: nothing is kept at that moment, but when the files are looked at next."""
    undoes: str = ""
    """The id of the restore that going there takes back, as the newest that was not."""

    @property
    def alone(self) -> str:
        """A sentence about what can be done when files cannot go there; empty when the conversation cannot either."""
        if self.number is None:
            return ""
        return f" Nothing was moved; `/rewind {self.number} conversation` moves the conversation alone."


class Restore(msgspec.Struct, frozen=True, kw_only=True):
    """A restore of the log, finished or not."""

    ids: tuple[str, ...]
    """More than one when a process went on with it after a crash."""
    after: int
    """The seq of the last event before what it kept."""
    event: str
    """The id of that event; empty for the beginning."""
    undoes: str = ""
    over: bool = False
    point: str = ""
    """The name of the point for a person; empty when it did not come to an end."""
    written: int = 0
    removed: int = 0

    @property
    def id(self) -> str:
        """The id that a report names."""
        return self.ids[-1]


class RestoreReport(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a restore."""

    restore: str = ""
    """The id of the restore: `restore_files(undo=...)` takes it back. Empty when everything was so already."""
    point: str
    """The name of the point for a person."""
    written: int = 0
    removed: int = 0
    paths: tuple[str, ...] = ()
    """The paths that were written or removed; the first thousand."""
    problems: tuple[events.FileProblem, ...] = ()
    """The paths that were left as they are, and why."""
    changed_by_others: tuple[str, ...] = ()
    """Paths that other programs or people had changed since the session saw them; they are restored all the same, and `undo` has them."""
    warnings: tuple[str, ...] = ()
    """Changes of programs that could not be undone."""


def checkpoints_of(records: Iterable[Recorded]) -> tuple[Checkpoint, ...]:
    """List every turn of a log, in order, with what is known of its files."""
    turns: dict[str, Checkpoint] = {}
    prompts: dict[str, str] = {}
    open_turn = ""
    for record in records:
        match record.event:
            case events.InputReceived() as said:
                prompts[said.input] = _prompt(said)
            case events.TurnStarted(number=number):
                open_turn = record.id
                turns[record.id] = Checkpoint(turn=record.id, number=number, at=record.at)
            case events.InputTaken(inputs=inputs) if open_turn and not turns[open_turn].prompt:
                turns[open_turn] = replace(turns[open_turn], prompt=prompts.get(inputs[0], "") if inputs else "")
            case events.FileKept(path=path, call=call) if call and open_turn and not _is_listed(turns[open_turn], path):
                turns[open_turn] = replace(turns[open_turn], files=(*turns[open_turn].files, path))
            case events.TreeKept(problem=problem) if open_turn and before_programs(record):
                turns[open_turn] = replace(turns[open_turn], programs=True)
                turns = _mark_doubtful(turns, turns[open_turn].number, problem)
            case events.TurnCompleted(turn=turn) if turn in turns:
                turns[turn] = replace(turns[turn], over=True)
                open_turn = ""
            case events.CheckpointsPurged():
                turns = {id: replace(each, restorable=False, why_not=PURGED) for id, each in turns.items()}
            case _:
                pass
    return tuple(turns.values())


def point_of(records: Sequence[Recorded], *, to: str = "", before: str = "", undo: str = "") -> Point:
    """Find the point that is meant: the end of the turn `to`, the start of the turn `before`, or before the restore `undo`.

    `latest` is the newest restore that `latest` did not take back yet: again and again, it goes further back.
    Raise `UserError` when there is none, or when what was kept since then was purged.
    """
    point = (
        _end_of_turn(records, to)
        if to
        else _start_of_turn(records, before)
        if before
        else _before_restore(records, undo)
    )
    purged = max((record.seq for record in records if isinstance(record.event, events.CheckpointsPurged)), default=0)
    if purged > point.after:
        raise UserError(f"The files cannot go back to {point.label}: {PURGED}.{point.alone}")
    return point


def restores_of(records: Sequence[Recorded]) -> tuple[Restore, ...]:
    """List every restore of a log, in order."""
    found: list[Restore] = []
    for place, record in enumerate(records):
        newest = found[-1] if found else None
        match record.event:
            case events.RestoreStarted() if newest is not None and not newest.over:
                found[-1] = replace(newest, ids=(*newest.ids, record.id))
            case events.RestoreStarted(undoes=undoes):
                began = _way_back(records, place)
                before = records[began - 1].id if began else ""
                found.append(Restore(ids=(record.id,), after=records[began].seq - 1, event=before, undoes=undoes))
            case events.RestoreFinished(written=written, removed=removed) if newest is not None:
                found[-1] = replace(newest, over=True, written=written, removed=removed)
            case events.EntryAdded(kind=kind, content=content) if newest is not None and kind == RESTORED:
                found[-1] = replace(newest, point=_label_in(content))
            case _:
                pass
    return tuple(found)


def find_undone(restores: Iterable[Restore]) -> frozenset[str]:
    """Find the ids of the restores that `undo="latest"` passes over: those that it took back, and those that did so."""
    undoing = [each for each in restores if each.undoes]
    return frozenset((*(each.undoes for each in undoing), *(id for each in undoing for id in each.ids)))


def before_programs(record: Recorded) -> bool:
    """Return whether an event says what a folder held before programs of the session ran, and not before a restore."""
    return isinstance(record.event, events.TreeKept) and bool(record.event.call or record.cause)


def explain_unwatched(records: Iterable[Recorded], *, after: int) -> tuple[str, ...]:
    """Explain why what programs did after a point cannot be undone, once for each reason."""
    later = [record for record in records if record.seq > after]
    problems = (
        record.event.problem
        for record in later
        if isinstance(record.event, events.TreeKept) and record.event.problem and before_programs(record)
    )
    return tuple(dict.fromkeys((*problems, *_by_hooks(record.event for record in later))))


def _by_hooks(later: Iterable[Event]) -> Iterator[str]:
    """Report hooks that ran before anything was kept whole: what they did to files is unknown."""
    for event in later:
        if isinstance(event, events.TreeKept) and event.tree:
            return
        if isinstance(event, events.HookStarted) and event.handlers:
            yield f"{event.event} hooks ran while nothing watched the files: what they changed, and no tool did, stays"
            return


def _is_listed(point: Checkpoint, path: str) -> bool:
    """Return whether a path is in the list, or is a folder that was to be made for one that is."""
    return any(each == path or each.startswith(f"{path}/") for each in point.files)


def _mark_doubtful(turns: dict[str, Checkpoint], number: int, problem: str) -> dict[str, Checkpoint]:
    """Mark the turns so far: programs ran unwatched, so their starts cannot be restored wholly."""
    if not problem:
        return turns
    why = f"programs ran unwatched in turn {number}: {problem}"
    return {id: each if each.why_not else replace(each, why_not=why) for id, each in turns.items()}


def _prompt(received: events.InputReceived) -> str:
    if received.display:
        return received.display[:PROMPT]
    words = (
        part.text if isinstance(part, Text) else part.head
        for part in received.parts
        if isinstance(part, Text | TextRef)
    )
    return " ".join(" ".join(words).split())[:PROMPT]


def _end_of_turn(records: Sequence[Recorded], turn: str) -> Point:
    number = _number(records, turn)
    for record in records:
        if isinstance(record.event, events.TurnCompleted) and record.event.turn == turn:
            label = f"the end of turn {number}"
            return Point(after=record.seq, event=record.id, label=label, number=number, ends_turn=True)
    raise UserError(f"Turn {turn!r} has no end yet. Say `before={turn!r}` for its start.")


def _start_of_turn(records: Sequence[Recorded], turn: str) -> Point:
    number = _number(records, turn)
    place = next(index for index, record in enumerate(records) if record.id == turn)
    event = records[place - 1].id if place else ""
    words = f"the start of turn {number}"
    return Point(after=records[place].seq - 1, event=event, label=words, number=number - 1)


def _before_restore(records: Sequence[Recorded], restore: str) -> Point:
    restores = restores_of(records)
    if not restores and restore == LATEST:
        raise UserError("No files were put back in this session yet: there is nothing to undo.")
    undone = find_undone(restores)
    meant = [each for each in restores if (each.id not in undone if restore == LATEST else restore in each.ids)]
    if meant:
        undoes = meant[-1].id if restore == LATEST else ""
        return Point(after=meant[-1].after, event=meant[-1].event, label="before files were put back", undoes=undoes)
    if restore == LATEST:
        raise UserError(
            "Every restore of files in this session is undone already. `/rewind list` shows them, and `/rewind back ID` "
            f"goes to before any of them: the newest is {restores[-1].id!r}."
        )
    raise UserError(f"There is no restore {restore!r} in this session. Say `undo='latest'` for the newest.")


def _label_in(content: str) -> str:
    """Return the name of the point in what a restore noted; empty when it cannot be read."""
    try:
        return msgspec.json.decode(content, type=_RestoreNote).point
    except msgspec.MsgspecError:
        return ""


class _RestoreNote(msgspec.Struct):
    point: str = ""


def _way_back(records: Sequence[Recorded], place: int) -> int:
    """Return where the events begin that say what files held before the restore at `place`."""
    while place and isinstance(kept := records[place - 1].event, events.FileKept | events.TreeKept) and not kept.call:
        place -= 1
    return place


def _number(records: Iterable[Recorded], turn: str) -> int:
    for record in records:
        if record.id == turn and isinstance(record.event, events.TurnStarted):
            return record.event.number
    raise UserError(f"There is no turn {turn!r} in this session; `checkpoints` lists them.")
