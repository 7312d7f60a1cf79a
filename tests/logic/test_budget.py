"""What is spent and what may be: whole numbers, over the whole log."""

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.logic.budget import BudgetState, fold_budget
from backstay.testing.builders import recorded
from backstay.vocab.event import Event
from backstay.vocab.events import ChildFinished, ModelAsked, ModelFailed, ModelReplied, Opened, Rewound, TurnStarted
from backstay.vocab.events.limits import BudgetAnswered, BudgetAsked, BudgetSet, BudgetWarned, ChildPaused, Compacted


def after(*events: Event, start: BudgetState | None = None) -> BudgetState:
    """The purse after events."""
    return reduce(
        fold_budget, (recorded(event, seq=seq) for seq, event in enumerate(events, 1)), start or BudgetState()
    )


def asked(reserved: int) -> ModelAsked:
    """Money is set aside."""
    return ModelAsked(turn="t", round=1, model="m", reserved=reserved)


def test_money_is_set_aside_before_a_call_and_settled_after_it() -> None:
    budget = after(BudgetSet(limit=1_000), asked(300))
    assert (budget.spent, budget.reserved, budget.remaining()) == (0, 300, 700)
    assert after(ModelReplied(parts=(), cost=120), start=budget).remaining() == 880
    assert after(ModelFailed(kind="timeout", message="", cost=40), start=budget).remaining() == 960
    assert after(ModelFailed(kind="timeout", message=""), start=budget).remaining() == 1_000
    lost = after(Opened(), start=budget)
    assert (lost.spent, lost.reserved, lost.remaining()) == (300, 0, 700)
    assert after(Opened(), Opened(), start=lost).spent == 300


@given(st.lists(st.tuples(st.sampled_from(("reply", "fail", "summary", "crash")), st.integers(0, 10**9)), max_size=30))
def test_what_is_spent_is_the_sum_of_what_was_paid(story: list[tuple[str, int]]) -> None:
    budget, expected = BudgetState(), 0
    for kind, amount in story:
        budget = after(asked(amount // 2), start=budget)
        ends: dict[str, Event] = {
            "reply": ModelReplied(parts=(), cost=amount),
            "fail": ModelFailed(kind="unknown", message="", cost=amount),
            "summary": Compacted(trigger="auto", first_kept="", cost=amount),
            "crash": Opened(),
        }
        if kind == "summary":
            budget = after(ModelReplied(parts=()), start=budget)
        budget = after(ends[kind], Rewound(to=""), start=budget)
        expected += amount // 2 if kind == "crash" else amount
        assert budget.spent == expected


def test_a_child_says_what_it_spent_in_all_and_is_counted_once() -> None:
    def child(cost: int, who: str = "c") -> ChildFinished:
        return ChildFinished(call="x", child=who, outcome="completed", cost=cost)

    budget = after(
        BudgetSet(limit=1_000, on_exceed="pause_for_approval"), ChildPaused(call="x", child="c", share=1, cost=300)
    )
    assert (budget.spent, budget.share("c"), budget.share("other")) == (300, 1_000, 700)
    budget = after(child(450), child(450), child(100, "d"), start=budget)
    assert (budget.spent, budget.remaining()) == (550, 450)


def test_a_child_has_no_share_where_nothing_binds() -> None:
    assert after(BudgetSet(limit=None)).share("c") is None
    assert after(BudgetSet(limit=5, on_exceed="warn")).share("c") is None
    assert after(BudgetSet(limit=5)).share("c") == 5


@pytest.mark.parametrize(
    ("limit", "spent", "needed", "empty"), [(10, 9, 1, False), (10, 9, 2, True), (10, 10, 0, True), (0, 0, 0, True)]
)
def test_it_is_empty_when_nothing_is_left_or_less_than_is_needed(
    limit: int, spent: int, needed: int, *, empty: bool
) -> None:
    assert BudgetState(limit=limit, spent=spent).empty(needed) is empty
    assert not BudgetState(spent=spent).empty(needed)


def test_a_pause_ends_when_somebody_says_something_about_the_budget_or_opens_the_session() -> None:
    paused = after(
        BudgetSet(limit=100, on_exceed="pause_for_approval"),
        BudgetAsked(spent=100, limit=100),
        BudgetAnswered(allowed=False, nobody=True),
    )
    assert (paused.paused, paused.asking) == (True, "")
    for limit in (90, 101, None):  # whoever says something about it is listened to
        assert not after(BudgetSet(limit=limit), start=paused).paused
    assert not after(Opened(), start=paused).paused  # whoever opens it may be asked
    assert not after(TurnStarted(number=2), start=paused).paused


def test_a_refusal_holds_for_its_turn() -> None:
    refused = after(BudgetSet(limit=1), BudgetAsked(spent=1, limit=1), BudgetAnswered(allowed=False, message="no"))
    assert (refused.refused, refused.asking) == ("no", "")
    assert after(TurnStarted(number=2), start=refused).refused == ""
    assert after(BudgetSet(limit=2), start=refused).refused == ""
    allowed = after(BudgetAsked(spent=1, limit=1), BudgetAnswered(allowed=True, limit=7), start=refused)
    assert allowed.limit == 7


def test_a_warning_is_due_again_when_the_budget_was_raised() -> None:
    warned = after(BudgetSet(limit=1, on_exceed="warn"), BudgetWarned(spent=1, limit=1))
    assert warned.warned
    assert not after(BudgetSet(limit=2, on_exceed="warn"), start=warned).warned
