"""A fold is only called for the events that it says it hears, so what it says must be true."""

import msgspec
import pytest

from backstay.hooks import gates
from backstay.logic import budget
from backstay.logic.state import lifecycle, progress, results, transcript
from backstay.permissions import grants
from backstay.testing.builders import conversation, example, recorded
from backstay.vocab.event import Event
from backstay.vocab.events import EVENTS


def not_in(heard: frozenset[type[Event]]) -> list[type[Event]]:
    return [kind for kind in EVENTS if kind not in heard]


@pytest.mark.parametrize("kind", not_in(lifecycle.FOLDS_ON))
def test_the_lifecycle_does_not_change_by_an_event_that_it_does_not_hear(kind: type[Event]) -> None:
    life = lifecycle.Lifecycle(state="Active", turn_open=True)
    assert lifecycle.advance(life, recorded(example(kind))) == (life, ())


@pytest.mark.parametrize("kind", not_in(budget.USAGE_EVENTS))
def test_usage_does_not_change_by_an_event_that_it_does_not_hear(kind: type[Event]) -> None:
    used = budget.UsageTotals(turn_over=True)
    used.apply(recorded(example(kind)))
    assert used == budget.UsageTotals(turn_over=True)


@pytest.mark.parametrize("kind", not_in(transcript.FOLDS_ON))
def test_the_transcript_does_not_change_by_an_event_that_it_does_not_hear(kind: type[Event]) -> None:
    said = transcript.Transcript()
    for record in conversation(("Hello", "Hi."), tool="Read"):
        said.apply(record)
    before = (msgspec.to_builtins(said.snapshot(("in-1",))), said.path(), said.entries(), said.epoch)
    said.apply(recorded(example(kind), 99))
    assert (msgspec.to_builtins(said.snapshot(("in-1",))), said.path(), said.entries(), said.epoch) == before


@pytest.mark.parametrize("kind", not_in(results.FOLDS_ON))
def test_results_do_not_change_by_an_event_that_they_do_not_hear(kind: type[Event]) -> None:
    open_turn = conversation(("Hello", "Hi."), tool="Read")[:-1]
    one, other = results.Results(), results.Results()
    for record in open_turn:
        one.apply(record)
        other.apply(record)
    one.apply(recorded(example(kind), 99))
    assert (one.turns, one.inputs, one.open) == (other.turns, other.inputs, other.open)


def _in_a_turn() -> progress.Progress:
    return progress.fold_all(conversation(("Hello", "Hi."), tool="Read")[:-1])


@pytest.mark.parametrize("kind", not_in(grants.FOLDS_ON))
def test_consent_does_not_change_by_an_event_that_it_does_not_hear(kind: type[Event]) -> None:
    before = grants.Grants(grants=frozenset(("a",)), rules=("Read",), taint=frozenset(("untrusted",)))
    assert grants.fold_grants(before, recorded(example(kind), 99), _in_a_turn().calls) == before


@pytest.mark.parametrize("kind", not_in(gates.FOLDS_ON))
def test_hooking_does_not_change_by_an_event_that_it_does_not_hear(kind: type[Event]) -> None:
    heard = gates.OpenHook(intent="e1", event="Stop", subject="turn")
    before = gates.HookState(open=(heard,), in_turn=True)
    here = _in_a_turn()
    assert gates.fold_hook_state(before, recorded(example(kind), 99), here.calls, here.ended) == before
