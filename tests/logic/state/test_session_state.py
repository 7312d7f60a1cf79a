"""The state of a session: what it forgets, and when."""

import pytest

from backstay.logic.state.session_state import State
from backstay.testing.builders import recorded, started
from backstay.vocab.event import Event
from backstay.vocab.events import HistoryCleared, Rewound, TurnCompleted, TurnStarted
from backstay.vocab.events.instructions import NotesShown
from backstay.vocab.events.limits import Compacted, CompactionUndone

SHOWN = NotesShown(path="api/AGENTS.md", sha256="ab", call="c")


def after(*events: Event) -> State:
    state = State()
    for seq, event in enumerate((started(), *events), 1):
        state.apply(recorded(event, seq))
    return state


@pytest.mark.parametrize(
    "event",
    [
        Compacted(trigger="manual", first_kept=""),
        CompactionUndone(compaction="t0.2"),
        HistoryCleared(),
        Rewound(to=""),
        TurnCompleted(turn="t0.2", outcome="abandoned"),
    ],
    ids=lambda event: type(event).__name__,
)
def test_notes_of_folders_are_forgotten_with_the_results_that_brought_them(event: Event) -> None:
    assert after(TurnStarted(number=1), SHOWN, event).notes == {}


@pytest.mark.parametrize("outcome", ["completed", "failed", "interrupted"])
def test_and_kept_with_them(outcome: str) -> None:
    ended = TurnCompleted(turn="t0.2", outcome=outcome)  # type: ignore[arg-type]  # one of the outcomes

    assert after(TurnStarted(number=1), SHOWN, ended).notes == {"api/AGENTS.md": "ab"}
