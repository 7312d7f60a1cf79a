"""Decide what precedes a model call and what follows a failed one: limits, compaction, budget, waits, fallbacks. Pure."""

from collections.abc import Sequence
from typing import Final, Literal

from backstay.logic.budget import BudgetState, cost, dollars
from backstay.logic.decide.policy import Policy
from backstay.logic.state.progress import OpenTurn, Progress
from backstay.logic.state.retries import fallback, wait
from backstay.logic.text import pluralise
from backstay.vocab import events
from backstay.vocab.event import CompactionTrigger, Draft
from backstay.vocab.specs import Usage

HARD_LIMIT: Final = 0.98
"""The share of the window past which nothing is sent: the provider would refuse it."""
BREAKER: Final = 3
"""Compactions in a row that brought nothing; after them the session starts none by itself."""
LIKELY_OUTPUT: Final = 256
"""Tokens of an answer that money is set aside for."""


def end_turn(
    turn: OpenTurn,
    outcome: Literal["completed", "interrupted", "failed", "abandoned"],
    *,
    code: str = "",
    message: str = "",
) -> Draft:
    """Return the end of a turn."""
    stop = {"completed": turn.stop, "failed": "error"}.get(outcome, outcome)
    event = events.TurnCompleted(turn=turn.id, outcome=outcome, stop_reason=stop, code=code, message=message)
    return Draft(event=event, cause=turn.id)


def ask(p: Progress, turn: OpenTurn, policy: Policy) -> Sequence[Draft]:
    """Return the next model call, or what must come before it; nothing while the session waits for money."""
    model = p.retries.choose(policy.chain(p.model), p.at)
    if ceiling := _ceiling(p, turn, policy):
        return (end_turn(turn, "failed", code="turn_limit", message=ceiling),)
    if p.retries.not_before > p.at:  # the process died while it waited
        return (Draft(event=_rest_of_wait(p, model, policy), cause=turn.id),)
    if (money := _money(p, turn, model, policy)) is not None:  # before a summary too, which costs money
        return money
    if started := _compaction(p, model, policy):
        return (Draft(event=started, cause=turn.id),)
    if overflow := _overflow(p, model, policy):
        return (end_turn(turn, "failed", code="context_overflow", message=overflow),)
    return (_ask_model(p, turn, model, policy),)


def after_failure(p: Progress, turn: OpenTurn, policy: Policy) -> Draft:
    """Decide what follows a model call that failed: a wait, the next model, a compaction, or the end of the turn."""
    failure = p.retries.failure
    assert failure is not None
    if waiting := wait(p.retries, policy.retries, p.at):
        return Draft(event=waiting, cause=failure.ask)
    if taken := fallback(p.retries, policy.chain(p.model), policy.retries, p.at):
        return Draft(event=taken, cause=failure.ask)
    if failure.kind == "context_overflow" and policy.auto_compact is not None and _may_compact(p) and not failure.shown:
        return Draft(event=_start_compaction(p, p.retries.model or p.model, policy, "overflow"), cause=turn.id)
    long = f" The provider asks to wait {failure.retry_after_s:g} seconds." if failure.retry_after_s else ""
    return end_turn(turn, "failed", code=failure.kind, message=f"{failure.message}{long}")


# --- ceilings --------------------------------------------------------------------------------------------------------------------


def _ceiling(p: Progress, turn: OpenTurn, policy: Policy) -> str:
    if turn.rounds == 0 and p.begun > policy.max_session_turns:
        limit = pluralise(policy.max_session_turns, "turn")
        return (
            f"The session reached its limit of {limit}. Raise it with --max-session-turns (max_session_turns) to go on."
        )
    if policy.max_rounds and turn.run >= policy.max_rounds:
        return f"The turn reached its limit of {pluralise(policy.max_rounds, 'model call')}."
    return ""


def _rest_of_wait(p: Progress, model: str, policy: Policy) -> events.WaitStarted:
    return events.WaitStarted(
        until=p.retries.not_before,
        model=model,
        attempt=p.retries.failures + 1,
        attempts=policy.retries.attempts,
        kind=p.retries.kind,
    )


# --- the context -----------------------------------------------------------------------------------------------------------------


def _compaction(p: Progress, model: str, policy: Policy) -> events.CompactionStarted | None:
    if policy.max_messages is not None and p.context.messages > policy.max_messages and not p.context.trimmed:
        return _start_compaction(p, model, policy, "trim")
    if policy.auto_compact is None or not _may_compact(p):
        return None
    window = policy.facts_of(model).window
    full = p.context.request_tokens(policy.overhead) >= policy.auto_compact * window
    return _start_compaction(p, model, policy, "auto") if full else None


def _may_compact(p: Progress) -> bool:
    return not p.context.tried and p.context.fruitless < BREAKER


def _start_compaction(p: Progress, model: str, policy: Policy, trigger: CompactionTrigger) -> events.CompactionStarted:
    return events.CompactionStarted(
        trigger=trigger,
        model=model,
        used=p.context.request_tokens(policy.overhead),
        window=policy.facts_of(model).window,
        overhead=policy.overhead,
        reserved=estimate_cost(p, model, policy) if p.budget.limit is not None and trigger != "trim" else 0,
        instructions=policy.compact_instructions,
        keep=policy.max_messages or 0 if trigger == "trim" else 0,
    )


def _overflow(p: Progress, model: str, policy: Policy) -> str:
    window, used = policy.facts_of(model).window, p.context.request_tokens(policy.overhead)
    if used <= HARD_LIMIT * window:
        return ""
    alone = int((policy.overhead + p.context.prompt) * p.context.ratio)
    if alone > HARD_LIMIT * window:
        return (
            f"The newest prompt alone, with the instructions and tools, has about {alone:,} tokens and {model} takes {window:,}, so it "
            "was not sent. Compacting cannot help: make the prompt shorter, put it into a file for the model to read in parts, or go on "
            "with a model that has a larger window."
        )
    tried = " Compacting it did not help." if p.context.fruitless >= BREAKER or p.context.tried else ""
    return (
        f"The conversation has about {used:,} tokens and {model} takes {window:,}, so it was not sent.{tried} "
        "Compact it, rewind it, clear it, or go on with a model that has a larger window."
    )


# --- money -----------------------------------------------------------------------------------------------------------------------


def _money(p: Progress, turn: OpenTurn, model: str, policy: Policy) -> Sequence[Draft] | None:
    """Decide what an empty budget leads to; None when the call may be made."""
    budget, needed = p.budget, estimate_cost(p, model, policy, output=0)
    if budget.limit is None or not budget.empty(needed):
        return None
    match budget.on_exceed:
        case "warn" if budget.warned:
            return None
        case "warn":
            return (Draft(event=events.BudgetWarned(spent=budget.spent, limit=budget.limit), cause=turn.id),)
        case "pause_for_approval" if budget.paused:
            return ()
        case "pause_for_approval" if not budget.refused:
            return (Draft(event=events.BudgetAsked(spent=budget.spent, limit=budget.limit), cause=turn.id),)
        case _:
            return (end_turn(turn, "failed", code="budget", message=_no_money(budget, budget.limit, needed)),)


def _no_money(budget: BudgetState, limit: int, needed: int) -> str:
    why = f" ({budget.refused})" if budget.refused else ""
    if budget.spent >= limit:
        return f"The budget of {dollars(limit)} is used up: {dollars(budget.spent)} are spent{why}. Raise it to go on."
    return (
        f"Of the budget of {dollars(limit)}, {dollars(budget.spent)} are spent, and the next call needs about "
        f"{dollars(needed)}{why}. Raise it to go on."
    )


def estimate_cost(p: Progress, model: str, policy: Policy, *, output: int = LIKELY_OUTPUT) -> int:
    """Estimate the least cost of the next call, with an answer of `output` tokens."""
    usage = Usage(input=p.context.request_tokens(policy.overhead), output=output)
    return cost(usage, policy.facts_of(model).prices) or 0


def _ask_model(p: Progress, turn: OpenTurn, model: str, policy: Policy) -> Draft:
    asked = events.ModelAsked(
        turn=turn.id,
        round=turn.rounds + 1,
        model=model,
        instructions=policy.instructions,
        tools=policy.tools_digest,
        parameters=policy.parameters,
        tokens=policy.overhead + p.context.guess,
        reserved=estimate_cost(p, model, policy, output=LIKELY_OUTPUT),
    )
    return Draft(event=asked, cause=turn.id)
