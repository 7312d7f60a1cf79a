"""An opening that is not written yet counts, until something newer is in the log."""

import pytest

from backstay.logic.state.lifecycle import Lifecycle
from backstay.logic.state.progress import Progress
from backstay.logic.state.resume import PendingOpen
from backstay.vocab.event import Draft, Event
from backstay.vocab.events import ModeChanged, ModelChanged, Opened, Renamed
from backstay.vocab.events.limits import BudgetSet
from backstay.vocab.events.tools import ScopeChanged

SETTINGS: tuple[Event, ...] = (
    Renamed(name="mine"),
    ModelChanged(model="scripted:b"),
    ModeChanged(mode="plan"),
    ScopeChanged(scope="full", implied=True),
    BudgetSet(limit=5),
)
OPENING = PendingOpen(tuple(Draft(event=event) for event in (Opened(on_crash="continue"), *SETTINGS)))


def test_what_an_opening_sets_counts_before_it_is_written() -> None:
    progress = OPENING.progress_with(Progress(model="scripted:a"))

    assert (progress.model, progress.mode) == ("scripted:b", "plan")
    assert (progress.scope, progress.scope_implied) == ("full", True)
    assert OPENING.name_after("theirs") == "mine"


def test_a_session_with_nothing_pending_is_as_its_log_says() -> None:
    nothing, progress, life = PendingOpen(), Progress(model="scripted:a"), Lifecycle()

    assert not nothing
    assert (nothing.progress_with(progress), nothing.name_after("theirs"), nothing.life_with(life)) == (
        progress,
        "theirs",
        life,
    )


@pytest.mark.parametrize("event", SETTINGS, ids=lambda event: type(event).__name__)
def test_a_setting_that_is_changed_meanwhile_replaces_that_of_the_opening_and_no_other(event: Event) -> None:
    left = [draft.event for draft in OPENING.after(event).drafts]

    assert left == [draft.event for draft in OPENING.drafts if type(draft.event) is not type(event)]


def test_an_opening_that_is_written_is_not_pending() -> None:
    assert OPENING
    assert not OPENING.after(Opened(on_crash="continue"))
