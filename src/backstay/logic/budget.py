"""Tokens and money that the session and its children have used, and what they may spend: folds over every event of the log, never rewound.

Money is reserved before a call and settled after it. A call whose process died is settled with what was reserved.
"""

from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from backstay.vocab import events
from backstay.vocab.errors import UserError
from backstay.vocab.event import Event, OnExceed, Recorded
from backstay.vocab.specs import ModelFacts, Prices, Usage


class BudgetState(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Money, in micro-cents."""

    limit: int | None = None
    on_exceed: OnExceed = "fail"
    spent: int = 0
    reserved: int = 0
    """For the open model call."""
    warned: bool = False
    asking: str = ""
    """The open `BudgetAsked`."""
    paused: bool = False
    """No asker could answer: the session waits until the budget is raised."""
    refused: str = ""
    """The person said no, in these words."""
    guessed: tuple[str, int] = ("", 0)
    """The newest model call that was stopped, and what was counted for it: its reply may still come."""
    children: tuple[tuple[str, int], ...] = ()
    """Child sessions and what each has spent so far, as its own log says."""

    def remaining(self) -> int | None:
        """Return the money that may still be spent; None when there is no limit."""
        return None if self.limit is None else max(0, self.limit - self.spent - self.reserved)

    def share(self, child: str) -> int | None:
        """Return the money that a child session may spend in all, its earlier runs included; None when there is no limit that binds."""
        remaining = self.remaining()
        return None if remaining is None or self.on_exceed == "warn" else remaining + dict(self.children).get(child, 0)

    def of_child(self, child: str) -> dict[str, object]:
        """Return the budget of a child session as the event that starts it has it: its share, and what happens when that is spent."""
        share = self.share(child)
        return {} if share is None else {"limit": share, "on_exceed": self.on_exceed}

    def empty(self, needed: int) -> bool:
        """Return whether a call that needs at least `needed` would go past the limit."""
        remaining = self.remaining()
        return remaining is not None and (remaining <= 0 or needed > remaining)


def fold_budget(state: BudgetState, record: Recorded) -> BudgetState:
    """Fold `record` into the budget."""
    change = _FOLDS.get(type(record.event))
    return state if change is None else change(state, record, record.event)


def _settle(
    state: BudgetState,
    _: Recorded,
    event: events.ModelReplied | events.ModelFailed | events.Compacted | events.CompactionFailed,
) -> BudgetState:
    return replace(state, spent=state.spent + (event.cost or 0), reserved=0)


def _fold_reply(state: BudgetState, record: Recorded, event: events.ModelReplied) -> BudgetState:
    settled = _settle(state, record, event)
    unfinished = event.stop == "interrupted" and event.cost
    return replace(settled, guessed=(record.cause, event.cost)) if unfinished else settled


def _fold_child(
    state: BudgetState, _: Recorded, event: events.ChildFinished | events.ChildPaused | events.ChildSpent
) -> BudgetState:
    """Add what a child says that it has spent in all; what it had said before is counted already."""
    if not event.cost:
        return state
    known = dict(state.children)
    spent = state.spent + event.cost - known.get(event.child, 0)
    return replace(state, spent=spent, children=tuple((known | {event.child: event.cost}).items()))


def _fold_set(state: BudgetState, _: Recorded, event: events.BudgetSet) -> BudgetState:
    raised = event.limit is None or state.limit is None or event.limit > state.limit
    return replace(
        state,
        limit=event.limit,
        on_exceed=event.on_exceed,
        warned=state.warned and not raised,
        paused=False,  # the raised budget is tried
        asking="",  # the open question is void
        refused="" if raised else state.refused,
    )


def _fold_answer(state: BudgetState, _: Recorded, event: events.BudgetAnswered) -> BudgetState:
    if event.nobody:
        return replace(state, asking="", paused=True)
    if not event.allowed:
        return replace(state, asking="", refused=event.message or "the person did not want to spend more")
    limit = state.limit if event.limit is None or state.limit is None else max(state.limit, event.limit)
    return replace(state, asking="", limit=limit, warned=False)


def _fold_opened(state: BudgetState, _: Recorded, __: events.Opened) -> BudgetState:
    """Count what was reserved for a call that is lost: it may have been spent."""
    return replace(state, spent=state.spent + state.reserved, reserved=0, asking="", paused=False)


_FOLDS: Final[
    dict[type[Event], Callable[[BudgetState, Recorded, Any], BudgetState]]
] = {  # Any: each function takes its own event
    events.TurnStarted: lambda p, r, e: replace(p, paused=False, refused=""),  # another turn is another question
    events.ModelAsked: lambda p, r, e: (
        replace(p, reserved=e.reserved, refused="", paused=False) if e.reserved or p.refused or p.paused else p
    ),
    events.ModelReplied: _fold_reply,
    events.ModelFailed: _settle,
    events.CompactionStarted: lambda p, r, e: replace(p, reserved=e.reserved) if e.reserved else p,
    events.Compacted: _settle,
    events.CompactionFailed: _settle,
    events.ResultIgnored: lambda p, r, e: replace(p, spent=p.spent + e.cost) if e.cost else p,
    events.ChildSpent: _fold_child,
    events.ChildFinished: _fold_child,
    events.ChildPaused: _fold_child,
    events.Opened: _fold_opened,
    # these three end a compaction early; its cost is counted when its result arrives
    events.Rewound: lambda p, r, e: replace(p, reserved=0) if p.reserved else p,
    events.HistoryCleared: lambda p, r, e: replace(p, reserved=0) if p.reserved else p,
    events.CompactionUndone: lambda p, r, e: replace(p, reserved=0) if p.reserved else p,
    events.BudgetSet: _fold_set,
    events.BudgetWarned: lambda p, r, e: replace(p, warned=True),
    events.BudgetAsked: lambda p, r, e: replace(p, asking=r.id),
    events.BudgetAnswered: _fold_answer,
}
FOLDS_ON: Final = frozenset(_FOLDS)
"""The events that change it."""


# --- amounts ---------------------------------------------------------------------------------------------------------------------


DOLLAR: Final = 100_000_000
"""Micro-cents of a dollar."""
_MILLION: Final = 1_000_000
_MOST: Final = Decimal(10) ** 9
"""Dollars above which an amount is refused as a slip of the finger."""


def cost(usage: Usage, prices: Prices | None) -> int | None:
    """Return the cost of a model call in micro-cents, each class of token rounded half up; None when the model has no price.

    Tokens read from a cache or written to one are part of the input and are paid at their own price. Reasoning is part of the output.
    """
    if prices is None:
        return None
    cached, written = max(0, usage.cache_read), max(0, usage.cache_write)
    plain = max(0, usage.input - cached - written)
    return (
        _round_half_up(plain, prices.input)
        + _round_half_up(cached, _or(prices.cache_read, prices.input))
        + _round_half_up(written, _or(prices.cache_write, prices.input))
        + _round_half_up(max(0, usage.output), prices.output)
    )


def check_priced(facts: Mapping[str, ModelFacts]) -> None:
    """Raise `UserError` when a budget cannot be kept, because one of these models has no price."""
    for name, known in facts.items():
        if known.prices is None:
            raise UserError(
                f"The model {name!r} has no known price, so a budget cannot be kept. Give its prices in the settings under "
                "`models`, or allow it with allow_unpriced (--allow-unpriced): then its calls count as free."
            )


def dollars(microcents: int) -> str:
    """Format an amount for a person: two digits after the point when it is a dollar or more, four below, as many as it takes below that."""
    amount = Decimal(abs(microcents)) / DOLLAR
    places = 2 if amount >= 1 else 4 if amount >= Decimal("0.0001") or not amount else 8
    rounded = amount.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
    return f"{'-' if microcents < 0 else ''}${rounded:,.{places}f}"


def parse_dollars(text: str) -> int:
    """Return the micro-cents of an amount in dollars, exactly. Raise `UserError` for what is no amount, or is finer than a micro-cent."""
    try:
        amount = Decimal(text.strip().removeprefix("$"))
    except InvalidOperation:
        raise UserError(f"{text!r} is not an amount of dollars. Write it like 0.25.") from None
    return microcents(amount, what=repr(text))


def microcents(amount: Decimal, *, what: str) -> int:
    """Return the micro-cents of `amount` dollars, exactly; `what` names it in an error."""
    if not amount.is_finite() or not 0 <= amount <= _MOST:
        raise UserError(f"{what} is not an amount of dollars. Write a number that is not negative, like 0.25.")
    whole = amount * DOLLAR
    if whole != int(whole):
        raise UserError(
            f"{what} is finer than the smallest amount, a hundred-millionth of a dollar. Use up to 8 digits."
        )
    return int(whole)


def _round_half_up(tokens: int, price: int) -> int:
    return (tokens * price + _MILLION // 2) // _MILLION


def _or(price: int | None, other: int) -> int:
    return other if price is None else price


# --- tokens ----------------------------------------------------------------------------------------------------------------------


USAGE_EVENTS: Final[frozenset[type[Event]]] = frozenset(
    (
        events.ModelReplied,
        events.ModelFailed,
        events.Compacted,
        events.CompactionFailed,
        events.ChildFinished,
        events.ChildPaused,
        events.ChildSpent,
        events.TurnCompleted,
    )
)
"""The events that count."""


class UsageTotals(msgspec.Struct, kw_only=True):
    """Tokens used, in all and by model. What they cost is in the budget of `Progress`."""

    total: Usage = Usage()
    by_model: dict[str, Usage] = {}
    turn: Usage = Usage()
    """Of the newest turn."""
    turn_over: bool = False
    children: dict[str, Usage] = {}
    """What each child session used so far, as its own log says."""

    def apply(self, record: Recorded) -> None:
        """Take an event in."""
        event = record.event
        if (
            isinstance(event, events.ModelReplied | events.ModelFailed | events.Compacted | events.CompactionFailed)
            and event.usage is not None
        ):
            if self.turn_over:
                self.turn, self.turn_over = Usage(), False
            model = getattr(event, "model", "")
            self.total = add(self.total, event.usage)
            self.turn = add(self.turn, event.usage)
            if model:
                self.by_model[model] = add(self.by_model.get(model, Usage()), event.usage)
        elif (
            isinstance(event, events.ChildFinished | events.ChildPaused | events.ChildSpent) and event.spent is not None
        ):
            self.total = add(self.total, less(event.spent, self.children.get(event.child, Usage())))
            self.children[event.child] = event.spent
        elif isinstance(event, events.TurnCompleted):
            self.turn_over = True


def add(one: Usage, other: Usage) -> Usage:
    """Return the sum of both; estimated when either is."""
    return Usage(
        input=one.input + other.input,
        output=one.output + other.output,
        cache_read=one.cache_read + other.cache_read,
        cache_write=one.cache_write + other.cache_write,
        reasoning=one.reasoning + other.reasoning,
        estimated=one.estimated or other.estimated,
    )


def less(one: Usage, other: Usage) -> Usage:
    """Return `one` without `other`, which is part of it."""
    return Usage(
        input=one.input - other.input,
        output=one.output - other.output,
        cache_read=one.cache_read - other.cache_read,
        cache_write=one.cache_write - other.cache_write,
        reasoning=one.reasoning - other.reasoning,
        estimated=one.estimated,
    )
