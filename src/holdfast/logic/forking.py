"""A fork: the path of one session as the beginning of another.

The path is copied up to a point where no call is open, into a log that starts at seq 1 and keeps the ids, so that everything cited stays
cited. Open calls and queued input stay behind, and so do the paths that a rewind left. The original is not touched.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.logic.transcript import Transcript
from holdfast.vocab.errors import UserError
from holdfast.vocab.events import (
    CallInspected,
    CallJudged,
    CallProposed,
    ChildFinished,
    ChildStarted,
    InputReceived,
    InputTaken,
    ModelAsked,
    ModelFailed,
    ModelReplied,
    PermissionAnswered,
    PermissionAsked,
    Recorded,
    Started,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
    TurnStarted,
    calls_of,
)
from holdfast.vocab.ids import event_id

_OF_A_TURN = (
    ModelAsked,
    ModelFailed,
    CallProposed,
    CallInspected,
    CallJudged,
    PermissionAsked,
    PermissionAnswered,
    ToolStarted,
    ChildStarted,
)
"""Events that belong to a turn without being nodes of the path."""


def fork_records(
    log: Sequence[Recorded], transcript: Transcript, started: Started, *, at: str, nonce: str
) -> list[Recorded]:
    """The log of a fork of `log` after the node `at` (empty: the tip), or after the last node before it with no open call."""
    path = _safe(transcript.path(at or None))
    kept = {record.id for record in path}
    inputs = {one for record in path if isinstance(record.event, InputTaken) for one in record.event.inputs}
    spans = _turn_spans(path)
    copied = [
        record
        for record in log
        if record.id in kept
        or (isinstance(record.event, InputReceived) and record.event.input in inputs)
        or (isinstance(record.event, _OF_A_TURN) and any(first <= record.seq <= last for first, last in spans))
    ]
    first = Recorded(seq=1, id=event_id(nonce, 1), at=log[0].at, by="user", event=started)
    fork = [first, *(replace(record, seq=seq) for seq, record in enumerate(copied, start=2))]
    return fork + _ending(path, fork, nonce)


def node_of(transcript: Transcript, at: str) -> str:
    """The path node that `at` means: a turn means its end."""
    if not at:
        return ""
    node = transcript.turn_end(at) or at
    if node not in transcript.branches.parents:
        raise UserError(
            f"There is no turn and no message {at!r} in this session. `holdfast sessions show` lists the turns."
        )
    return node


def _safe(path: list[Recorded]) -> list[Recorded]:
    """`path` up to its last node at which no call is open and some input was taken."""
    waiting: set[str] = set()
    length = 0
    for position, record in enumerate(path, start=1):
        match record.event:
            case ModelReplied():
                waiting = {call.id for call in calls_of(record.event)}
            case ToolFinished() | ChildFinished():
                waiting.discard(record.event.call)
            case _:
                pass
        if not waiting and not isinstance(record.event, TurnStarted):
            length = position
    return path[:length]


def _turn_spans(path: Sequence[Recorded]) -> list[tuple[int, int]]:
    """For each turn of the path, the first and last seq that it has there."""
    spans: list[tuple[int, int]] = []
    open_turn = False
    for record in path:
        if isinstance(record.event, TurnStarted):
            spans.append((record.seq, record.seq))
            open_turn = True
        elif open_turn:
            spans[-1] = (spans[-1][0], record.seq)
            open_turn = not isinstance(record.event, TurnCompleted)
    return spans


def _ending(path: Sequence[Recorded], fork: Sequence[Recorded], nonce: str) -> list[Recorded]:
    """The event that ends a turn which the fork cuts short."""
    turns = [record for record in path if isinstance(record.event, TurnStarted | TurnCompleted)]
    if not turns or isinstance(turns[-1].event, TurnCompleted):
        return []
    seq = fork[-1].seq + 1
    ended = TurnCompleted(
        turn=turns[-1].id, outcome="interrupted", stop_reason="forked", message="The fork was made here."
    )
    return [Recorded(seq=seq, id=event_id(nonce, seq), at=fork[-1].at, by="system", cause=turns[-1].id, event=ended)]
