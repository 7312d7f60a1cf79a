"""Logs that become another session's: forks and imports. Pure.

*A fork* begins with the path of another session, copied up to a point where no call is open, into a log that starts at seq 1 and keeps the
ids, so that everything cited stays cited. Open calls and queued input stay behind, and so do the paths that a rewind left. What became of
memories until then comes along, on all paths: a rewind takes none of it back. The original is not touched.

*An imported log* is closed, so that nothing in it counts for more than words: it may have been written by anybody, and at any time. What it
says was said stays; what it lets happen does not: what people allowed in it is taken back, a mode looser than `default` and a wider scope
end, a model that is asked at an address of its own is no longer asked, and what was open (a turn, a restore of files, queued input) is
closed as after an interrupt. Processes are left to the session that started them: opening the imported one runs nothing and stops nothing.
A log that has nothing of that gets nothing.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Final

from msgspec.structs import replace

from backstay.logic.budget import BudgetState, fold_budget
from backstay.logic.decide.policy import Policy, looser
from backstay.logic.decide.step import settle
from backstay.logic.state.progress import Progress, stamp
from backstay.logic.state.transcript import Transcript
from backstay.version import VERSION
from backstay.vocab import events
from backstay.vocab.errors import UserError
from backstay.vocab.event import Draft, Event, Recorded
from backstay.vocab.ids import event_id

_OF_A_TURN = (
    events.ModelAsked,
    events.ModelFailed,
    events.CallProposed,
    events.CallInspected,
    events.CallJudged,
    events.PermissionAsked,
    events.PermissionAnswered,
    events.ToolStarted,
    events.ChildStarted,
    events.HookStarted,
)
"""Events that belong to a turn without being nodes of the path."""
_OF_FILES = (events.FileKept, events.ContentsKept, events.TreeKept, events.CheckpointsPurged)
"""What files held. The fork works on the same files, and what changed them since has changed them for it too."""
_INSIDE = (events.InputTaken, events.ModelReplied, events.ToolFinished, events.ChildFinished, events.TurnCompleted)
"""Nodes of the path that always belong to the turn before them, but for the end of a skill that a person ran."""


def fork_records(
    log: Sequence[Recorded], transcript: Transcript, started: events.Started, *, at: str, nonce: str
) -> list[Recorded]:
    """Return the log of a fork of `log` after the node `at` (empty: the tip), or after the last node before it with no open call."""
    path = _safe(transcript.path(at or None))
    end = log[-1].seq if not at else transcript.path(at)[-1].seq
    kept = {record.id for record in path}
    inputs = {one for record in path if isinstance(record.event, events.InputTaken) for one in record.event.inputs}
    spans = _turn_spans(path)
    in_a_turn = _within(spans)
    skills = {
        record.event.call for record in path if isinstance(record.event, events.ChildFinished) and record.event.skill
    }
    copied = [
        _for_this_call_only(record)
        for record in log
        if record.id in kept
        or (isinstance(record.event, events.InputReceived) and record.event.input in inputs)
        or (isinstance(record.event, _OF_A_TURN) and in_a_turn(record.seq))
        or (isinstance(record.event, events.ChildStarted) and record.event.call in skills)
        or isinstance(record.event, _OF_FILES)
        or (isinstance(record.event, events.MemoryNoted) and record.seq <= end)
    ]
    fork = [Recorded(seq=1, id=event_id(nonce, 1), at=log[0].at, by="user", event=started)]
    budget_before = reduce(fold_budget, log, BudgetState())
    if budget_before.limit is not None:  # what was spent on the path counts in the fork too
        budget = events.BudgetSet(limit=budget_before.limit, on_exceed=budget_before.on_exceed)
        fork.append(Recorded(seq=2, id=event_id(nonce, 2), at=log[0].at, by="user", event=budget))
    cut = _cut_turns(path)
    for record in copied:
        fork.append(replace(record, seq=len(fork) + 1))
        if record.id in cut:
            fork.append(_ending(cut[record.id], fork[-1], nonce))
    return fork


def node_of(transcript: Transcript, at: str) -> str:
    """Return the path node that `at` means: a turn means its end. A number is that of a turn of the current path."""
    if not at:
        return ""
    if at.isascii() and at.isdigit() and 1 <= int(at) <= len(transcript.turn_ids):
        at = transcript.turn_ids[int(at) - 1]
    if transcript.was_abandoned(at):
        raise UserError(f"Turn {at!r} was abandoned: nothing of it is in the conversation. Choose the turn before it.")
    node = transcript.turn_end(at) or at
    if node not in transcript.branches.parents or transcript.is_turn(node):
        raise UserError(
            f"There is no turn and no message {at!r} in this session. It has {len(transcript.turn_ids)} turns: give the number of one."
        )
    return node


def _for_this_call_only(record: Recorded) -> Recorded:
    """Reduce a grant to its call: it holds for the session it was given in, and the fork asks for itself."""
    if isinstance(record.event, events.PermissionAnswered) and record.event.grant != "once":
        return replace(record, event=replace(record.event, grant="once"))
    return record


def _within(spans: list[tuple[int, int]]) -> Callable[[int], bool]:
    """Return a function that says whether a seq lies in one of `spans`, which are in order."""
    starts = [first for first, _ in spans]

    def inside(seq: int) -> bool:
        found = bisect_right(starts, seq) - 1
        return found >= 0 and seq <= spans[found][1]

    return inside


def _safe(path: list[Recorded]) -> list[Recorded]:
    """Return `path` up to its last node at which no call is open and some input was taken."""
    waiting: set[str] = set()
    length = 0
    for position, record in enumerate(path, start=1):
        match record.event:
            case events.ModelReplied():
                waiting = {call.id for call in events.calls_of(record.event)}
            case events.ToolFinished() | events.ChildFinished():
                waiting.discard(record.event.call)
            case _:
                pass
        if not waiting and not isinstance(record.event, events.TurnStarted | events.HookFinished | events.TodosWritten):
            length = position
    return path[:length]


def _turn_spans(path: Sequence[Recorded]) -> list[tuple[int, int]]:
    """Return For each turn of the path, the first and last seq that it has there."""
    spans: list[tuple[int, int]] = []
    for record in path:
        if isinstance(record.event, events.TurnStarted):
            spans.append((record.seq, record.seq))
        elif spans and _is_inside(record):
            spans[-1] = (spans[-1][0], record.seq)
    return spans


def _is_inside(record: Recorded) -> bool:
    return isinstance(record.event, _INSIDE) and not (
        isinstance(record.event, events.ChildFinished) and record.event.skill
    )


def _cut_turns(path: Sequence[Recorded]) -> dict[str, str]:
    """Return the turns that have no end on the path, by their last node there: the fork cuts them, or a rewind did."""
    last: dict[str, str] = {}
    turn = ""
    for record in path:
        if isinstance(record.event, events.TurnStarted):
            turn = record.id
            last[turn] = record.id
        elif isinstance(record.event, events.TurnCompleted):
            last.pop(record.event.turn, None)
        elif turn in last and _is_inside(record):
            last[turn] = record.id
    return {node: turn for turn, node in last.items()}


def _ending(turn: str, last: Recorded, nonce: str) -> Recorded:
    """Return the event that ends a turn which was cut short after `last`."""
    seq = last.seq + 1
    ended = events.TurnCompleted(
        turn=turn, outcome="interrupted", stop_reason="forked", message="The fork was made here."
    )
    return Recorded(seq=seq, id=event_id(nonce, seq), at=last.at, by="system", cause=turn, event=ended)


# --- imports ---------------------------------------------------------------------------------------------------------------------


REASON: Final = "The session was imported."
_UNFINISHED: Final = events.FileProblem(path="", problem="The session was imported before the restore was finished.")


def disarm(p: Progress, *, running: bool, nonce: str, now: int) -> tuple[Recorded, ...]:
    """Return the events that follow an imported log which means `p`; `running` says that processes of it are."""
    drafts = [*_closing(p, running=running), *(Draft(event=event, by="user") for event in _revoke(p))]
    step = settle(p, drafts, Policy(starts_turns=False), nonce=nonce, now=now)
    if not any(isinstance(draft.event, events.Opened) for draft in drafts):
        return step.records
    return (*step.records, stamp(step.progress, Draft(event=events.Closed(reason=REASON)), nonce=nonce, now=now))


def is_quiet(p: Progress) -> bool:
    """Return whether a log that means `p` has nothing to go on with, and allows nothing without asking here."""
    has_open = p.turn or p.calls or p.queue or p.restore or p.asking or p.compacting
    allows = p.grants.grants or p.grants.rules or p.scope != "sandboxed" or looser(p.mode, "default")
    return not (has_open or allows or "@http" in p.model)


def _closing(p: Progress, *, running: bool) -> tuple[Draft, ...]:
    """Return the events that end everything a next opening would go on with. `Opened` ends what only a process can have in hand."""
    if not (p.turn or p.queue or p.compacting or p.restore or p.hooks.open or running):
        return ()
    restored = (
        (Draft(event=events.RestoreFinished(problems=(_UNFINISHED,)), cause=p.restoring),)
        if p.restore is not None
        else ()
    )
    stopped = (Draft(event=events.Interrupted(reason=REASON), by="user"),) if p.turn is not None else ()
    dropped = (Draft(event=events.InputDropped(inputs=("*",)), by="user"),) if p.queue else ()
    return (*restored, Draft(event=events.Opened(version=VERSION)), *stopped, *dropped)


def _revoke(p: Progress) -> tuple[Event, ...]:
    found: list[Event] = []
    if p.grants.grants or p.grants.rules:
        found.append(events.GrantsCleared())
    if looser(p.mode, "default"):
        found.append(events.ModeChanged(mode="default"))
    if p.scope != "sandboxed":
        found.append(events.ScopeChanged(scope="sandboxed", implied=True))
    if "@http" in p.model:
        found.append(events.ModelChanged(model=""))
    return tuple(found)
