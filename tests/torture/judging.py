"""What must hold of a log after any number of crashes, whatever made them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from backstay.logic.state.session_state import state_of
from backstay.vocab.event import Recorded
from backstay.vocab.events import InputDropped, InputReceived, InputTaken, ToolFinished, ToolStarted
from tests.torture.orders import Word

Wrongs = dict[str, list[str]]
"""What is wrong, by kind; a kind with an empty list was looked for and not found."""


def judge_log(records: Sequence[Recorded], acknowledged: Iterable[Word], ledger: Sequence[str]) -> Wrongs:
    """Look for everything that a finished session must not show."""
    return {
        "acknowledged events lost": lost(records, acknowledged),
        "gaps": gaps(records),
        "duplicate ids": _twice(record.id for record in records),
        "once effects doubled": doubled(ledger),
        "results dropped or doubled": _badly_answered(records),
        "results that are not true": _untrue(records, Counter(ledger)),
        "inputs lost or doubled": _inputs(records),
        "turns left open": _left_open(records),
    }


def lost(records: Sequence[Recorded], acknowledged: Iterable[Word]) -> list[str]:
    """The acknowledged events that are not where they were acknowledged."""
    there = {(record.seq, record.id) for record in records}
    return [f"{word.seq} {word.id} {word.text}" for word in acknowledged if (word.seq, word.id) not in there]


def gaps(records: Sequence[Recorded]) -> list[str]:
    """The places where the numbers of a log do not go up by one."""
    return [f"{record.seq} at {place}" for place, record in enumerate(records, 1) if record.seq != place]


def doubled(ledger: Iterable[str]) -> list[str]:
    """The effects that must not happen twice and did. A reconcilable call is looked for before it is run again."""
    return [line for line in _twice(ledger) if line.startswith(("once ", "reconcilable "))]


def _twice(names: Iterable[str]) -> list[str]:
    return [
        f"{name} ({count} times)" if " " not in name else name for name, count in Counter(names).items() if count > 1
    ]


def _badly_answered(records: Sequence[Recorded]) -> list[str]:
    """Calls that were started and have not exactly one result, or that ran again after a result."""
    started = {record.event.call for record in records if isinstance(record.event, ToolStarted)}
    results = Counter(record.event.call for record in records if isinstance(record.event, ToolFinished))
    wrong = [f"{call} has {results[call]} results" for call in sorted(started) if results[call] != 1]
    over: set[str] = set()
    for record in records:
        if isinstance(record.event, ToolFinished):
            over.add(record.event.call)
        elif isinstance(record.event, ToolStarted) and record.event.call in over:
            wrong.append(f"{record.event.call} was started after its result")
    return wrong


def _untrue(records: Sequence[Recorded], ledger: Mapping[str, int]) -> list[str]:
    """Results that say ok where nothing happened, and `once` calls that were started more than once."""
    line_of = {
        record.event.call: f"{record.event.effect} {record.event.key}"
        for record in records
        if isinstance(record.event, ToolStarted) and record.event.effect != "pure"
    }
    finished = [record.event for record in records if isinstance(record.event, ToolFinished)]
    wrong = [
        f"{event.call} says ok and did not happen"
        for event in finished
        if event.outcome == "ok" and not ledger.get(line_of.get(event.call, ""), event.call not in line_of)
    ]
    runs = Counter(
        record.event.call
        for record in records
        if isinstance(record.event, ToolStarted) and record.event.effect == "once"
    )
    return wrong + [f"{call} was started {count} times" for call, count in runs.items() if count > 1]


def _inputs(records: Sequence[Recorded]) -> list[str]:
    received = Counter(record.event.input for record in records if isinstance(record.event, InputReceived))
    gone = Counter(
        name
        for record in records
        if isinstance(record.event, InputTaken | InputDropped)
        for name in record.event.inputs
    )
    wrong = [f"{name} was received {count} times" for name, count in received.items() if count > 1]
    return wrong + [f"{name} was taken {gone[name]} times" for name in received if gone[name] != 1]


def _left_open(records: Sequence[Recorded]) -> list[str]:
    turn = state_of("", records).progress.turn
    return [f"turn {turn.id}"] if turn is not None else []
