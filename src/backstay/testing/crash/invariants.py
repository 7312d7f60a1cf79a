"""What must hold of every log, whatever happened to the processes that wrote it.

Each check looks at plain records and yields a sentence for each place where a promise is broken. None of them uses the
folds of the runtime where it can count by itself: a fold that is wrong must not hide that it is.
"""

import hashlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from backstay.logic.state.request_messages import Outgoing
from backstay.logic.state.transcript import Transcript
from backstay.ports import ModelRequest
from backstay.vocab import events
from backstay.vocab.event import Recorded
from backstay.vocab.messages import MediaRef, Message, Text, TextRef, ToolResult, text_of

Check = Callable[[Sequence[Recorded]], Iterator[str]]
Result = tuple[str, tuple[Text | TextRef | MediaRef, ...] | None]
"""A call and what it gave back; None when the model is told only the beginning and the end of it."""
Told = tuple[int, tuple[Message, ...]]
"""A request: replies and failed attempts before it, and its messages."""


def log_is_whole(log: Sequence[Recorded]) -> Iterator[str]:
    """Events are numbered from 1 without a gap, no id occurs twice, and time never goes back."""
    if [record.seq for record in log] != list(range(1, len(log) + 1)):
        yield "the log has a gap or a double number"
    ids = Counter(record.id for record in log)
    yield from (f"the id {one} occurs {times} times" for one, times in ids.items() if times > 1)
    if any(later.at < earlier.at for earlier, later in itertools.pairwise(log)):
        yield "time goes back"


def calls_have_one_result(log: Sequence[Recorded]) -> Iterator[str]:
    """Every call that was started, and every call of a reply, has exactly one result, unless its turn was abandoned."""
    results = Counter(r.event.call for r in log if isinstance(r.event, events.ToolFinished | events.ChildFinished))
    yield from (f"the call {call} has {times} results" for call, times in results.items() if times > 1)
    for record, turn in _with_turns(log):
        calls = (
            [call.id for call in events.calls_of(record.event)] if isinstance(record.event, events.ModelReplied) else []
        )
        calls += [record.event.call] if isinstance(record.event, events.ToolStarted | events.ChildStarted) else []
        for call in calls:
            if not results[call] and turn not in _turns_given_up(log):
                yield f"the call {call} has no result"


def inputs_are_taken_once(log: Sequence[Recorded]) -> Iterator[str]:
    """Every input was received once, and taken once or dropped."""
    received = Counter(r.event.input for r in log if isinstance(r.event, events.InputReceived))
    taken = Counter(one for r in log if isinstance(r.event, events.InputTaken) for one in r.event.inputs)
    dropped = Counter(one for r in log if isinstance(r.event, events.InputDropped) for one in r.event.inputs)
    for one, times in received.items():
        if times != 1:
            yield f"the input {one} was received {times} times"
        if taken[one] + dropped[one] != 1:
            yield f"the input {one} was taken {taken[one]} times and dropped {dropped[one]} times"
    yield from (f"the input {one} was taken and never received" for one in taken if one not in received)


def turns_end(log: Sequence[Recorded]) -> Iterator[str]:
    """Every turn that began has ended, once."""
    ended = Counter(r.event.turn for r in log if isinstance(r.event, events.TurnCompleted))
    for record in log:
        if isinstance(record.event, events.TurnStarted) and ended[record.id] != 1:
            yield f"turn {record.event.number} ({record.id}) ended {ended[record.id]} times"


def notes_are_before_the_model(log: Sequence[Recorded]) -> Iterator[str]:
    """Check that the notes of folders that the log says were shown are in a result of the conversation, and were shown once."""
    shown: dict[str, str] = {}
    for record in log:
        match record.event:
            case events.NotesShown(path=path, sha256=sha256):
                if shown.get(path) == sha256:
                    yield f"the notes {path} were shown twice"
                shown[path] = sha256
            case (
                events.Compacted()
                | events.CompactionUndone()
                | events.HistoryCleared()
                | events.Rewound()
                | events.TurnCompleted(outcome="abandoned")
            ):
                shown = {}
    told = "".join(part.text for _, content in results_on_path(log) for part in content or () if isinstance(part, Text))
    yield from (f"nobody was shown the notes {path}" for path in shown if f'path="{path}"' not in told)


def what_is_refused_never_starts(log: Sequence[Recorded]) -> Iterator[str]:
    """No call is started on which the last word was a no; a hook's no holds for ever, or until it is about other arguments."""
    said: dict[str, str] = {}
    by_hook: set[str] = set()
    for record in log:
        match record.event:
            case events.HookFinished(event="PreToolUse", subject=subject, decision=decision):
                call = subject.partition("~")[0]
                by_hook = by_hook | {call} if decision == "deny" else by_hook - {call}
            case events.CallJudged(call=call, decision=decision):
                said[call] = decision
            case events.PermissionAnswered(call=call, allowed=allowed):
                said[call] = "allow" if allowed else "deny"
            case events.HookFinished(
                event="PermissionRequest", subject=subject, decision=("allow" | "deny") as decision
            ):
                said[subject.partition("~")[0]] = decision
            case events.ToolStarted(call=call) | events.ChildStarted(call=call):
                if call in by_hook:
                    yield f"the call {call} was started although a hook refused it"
                elif said.get(call, "allow") == "deny":
                    yield f"the call {call} was started although it was refused"


AT_REST: Final[tuple[Check, ...]] = (
    log_is_whole,
    calls_have_one_result,
    inputs_are_taken_once,
    turns_end,
    notes_are_before_the_model,
    what_is_refused_never_starts,
)
"""What holds of a log when nothing is left to do."""


def wrong_with(log: Sequence[Recorded], checks: Sequence[Check] = AT_REST) -> tuple[str, ...]:
    """Every promise that `log` breaks."""
    return tuple(wrong for check in checks for wrong in check(log))


def find_lost(acknowledged: Sequence[Recorded], log: Sequence[Recorded]) -> Iterator[str]:
    """Yield what was acknowledged and is not in the log, where it was."""
    for known in acknowledged:
        found = log[known.seq - 1] if known.seq <= len(log) else None
        if known != found:
            yield f"event {known.seq} ({type(known.event).__name__}) was acknowledged, and the log has {found!r:.200}"
            return


# --- results and requests --------------------------------------------------------------------------------------------


def results_on_path(log: Sequence[Recorded], *, whole_batches: bool = False, open_turn: bool = True) -> list[Result]:
    """Return the results that the conversation holds at the end of `log`, by the plainest reading of it.

    `whole_batches` leaves out those of a reply that has a call without a result, as a fork does; without `open_turn`
    those of a turn that has not ended are left out, as when it is abandoned.
    """
    path: _Path = ()
    after: dict[str, _Path] = {"": ()}
    before_turn: _Path = ()
    open_calls: set[str] = set()
    before_batch: _Path = ()
    in_turn = False
    places = {record.id: record.seq for record in log}
    shortened: dict[str, tuple[_Path, int]] = {}
    for record in log:
        match record.event:
            case events.TurnStarted():
                before_turn, in_turn = path, True
            case events.TurnCompleted(outcome=outcome):
                path = before_turn if outcome == "abandoned" else path
                open_calls, in_turn = set(), False
            case events.ModelReplied():
                open_calls, before_batch = {call.id for call in events.calls_of(record.event)}, path
            case events.ToolFinished(call=call, content=content):
                path = (*path, (record, (call, content)))
                open_calls.discard(call)
            case events.ChildFinished(call=call, text=text, outcome=outcome, skill=""):
                path = (*path, (record, (call, (Text(text=text or f"(the child session ended: {outcome})"),))))
                open_calls.discard(call)
            case events.Rewound(to=to):
                path = after[to]
            case events.HistoryCleared():
                path = ()
            case events.Compacted():
                kept = _trim(path, record.event, places)
                shortened[record.id] = (path, len(kept))
                path = kept
            case events.CompactionUndone(compaction=undone):
                before, length = shortened[undone]
                path = (*before, *path[length:])
            case _:
                pass
        after[record.id] = path
    if in_turn and not open_turn:
        path = before_turn
    elif open_calls and whole_batches:
        path = before_batch
    return [result for _, result in path]


_Path = tuple[tuple[Recorded, Result], ...]


def _trim(path: _Path, event: events.Compacted, places: dict[str, int]) -> _Path:
    """Return the results that a compaction leaves in the conversation."""
    first = places.get(event.first_kept) if event.first_kept else None
    left = [each for each in path if first is not None and each[0].seq >= first]
    return tuple((record, (call, None if record.id in event.trimmed else given)) for record, (call, given) in left)


def missing_results(request: ModelRequest, results: Sequence[Result]) -> Iterator[str]:
    """Yield the results that `request` should tell the model and does not."""
    told = {p.call: p for message in request.messages for p in message.parts if isinstance(p, ToolResult)}
    for call, content in results:
        if call not in told:
            yield f"the result of {call} does not reach the model"
        elif content is not None and not _same(content, told[call].content):
            yield f"the result of {call} reaches the model as {told[call].content!r:.200}, not as {content!r:.200}"


def requests_of(log: Iterable[Recorded], resolve: Callable[[str], bytes]) -> Iterator[Told]:
    """Yield what each model call of a log has to be asked with, made from nothing each time."""
    transcript = Transcript()
    position = 0
    for record in log:
        transcript.apply(record)
        position += isinstance(record.event, events.ModelReplied | events.ModelFailed)
        if isinstance(record.event, events.ModelAsked):
            outgoing = Outgoing()
            outgoing.extend(outgoing.fresh(transcript), resolve, transcript.opaques)
            yield position, tuple(outgoing.messages)


def is_childs(request: ModelRequest, prompts: frozenset[str]) -> bool:
    """Return whether a child session asks: its first words are a prompt of `prompts`, or the beginning of a long one."""
    first = next((message for message in request.messages if message.role == "user"), None)
    return first is not None and text_of(first.parts).startswith(tuple(prompts))


def child_prompts(log: Iterable[Recorded]) -> frozenset[str]:
    """Return what the child sessions of a log were asked, of long texts the beginning."""
    return frozenset(r.event.prompt for r in log if isinstance(r.event, events.ChildStarted) and r.event.prompt)


def _same(durable: Sequence[Text | TextRef | MediaRef], sent: Sequence[object]) -> bool:
    kept = [part for part in durable if not (isinstance(part, Text) and not part.text.strip())]
    return len(kept) == len(sent) and all(map(_same_part, kept, sent))


def _same_part(durable: Text | TextRef | MediaRef, sent: object) -> bool:
    if isinstance(durable, TextRef) and isinstance(sent, Text):
        return hashlib.sha256(sent.text.encode()).hexdigest() == durable.sha256
    return durable == sent


def _with_turns(log: Sequence[Recorded]) -> Iterator[tuple[Recorded, str]]:
    turn = ""
    for record in log:
        turn = record.id if isinstance(record.event, events.TurnStarted) else turn
        yield record, turn


def _turns_given_up(log: Sequence[Recorded]) -> frozenset[str]:
    return frozenset(
        r.event.turn for r in log if isinstance(r.event, events.TurnCompleted) and r.event.outcome == "abandoned"
    )
