"""What to write next. Pure: looks at `Progress` and a `Policy`, never waits, never fails.

`decide` answers with the next events or with nothing; `settle` (in `logic/step.py`) asks it until it has nothing more to say. It must
have an answer for every prefix of every log, because a crash may leave any of them.
"""

from collections.abc import Sequence

import msgspec

from holdfast.logic.asking import after_failure, ask, end_turn
from holdfast.logic.permissions import fingerprint, judge, rules_digest
from holdfast.logic.policy import Policy
from holdfast.logic.pricing import cost
from holdfast.logic.progress import OpenCall, OpenTurn, Progress
from holdfast.logic.words import counted
from holdfast.vocab.event import Draft, ToolOutcome
from holdfast.vocab.event_limits import BudgetAnswered, BudgetAsked, CompactionFailed, WaitEnded
from holdfast.vocab.events import (
    CallJudged,
    CallProposed,
    ChildStarted,
    InputTaken,
    MessageInjected,
    ModelReplied,
    PermissionAsked,
    ToolFinished,
    ToolStarted,
    TurnStarted,
)
from holdfast.vocab.ids import child_session_id
from holdfast.vocab.messages import Text
from holdfast.vocab.specs import ToolSpec, Usage


def decide(p: Progress, policy: Policy) -> Sequence[Draft]:
    """The next events to write, or none."""
    if p.closed or not p.session:
        return ()
    if p.turn is None:
        return _begin(p, policy)
    if p.abandoning:
        return (end_turn(p.turn, "abandoned", message="The process died in this turn, and the turn was given up."),)
    if p.stopping:
        return _stop(p, p.turn, policy)
    if p.asking or p.trying.waiting or p.compacting or p.purse.asking:
        return ()
    if p.calls:
        return _advance_calls(p, policy)
    return _go_on(p, p.turn, policy)


# --- the turn --------------------------------------------------------------------------------------------------------------------


def _begin(p: Progress, policy: Policy) -> Sequence[Draft]:
    begins = p.queue and policy.begins and not p.compacting
    return (Draft(event=TurnStarted(number=p.turns + 1)),) if begins else ()


def _go_on(p: Progress, turn: OpenTurn, policy: Policy) -> Sequence[Draft]:
    if p.trying.failure is not None:
        return (after_failure(p, turn, policy),)
    if taken := _takeable(p, turn):
        return (Draft(event=InputTaken(inputs=taken), by="user", cause=turn.id),)
    match turn.owes:
        case "end" if turn.problem:
            return (_refuse_answer(turn, policy),)
        case "end":
            return (end_turn(turn, "interrupted" if turn.stop == "interrupted" else "completed"),)
        case "input":  # its input was dropped between the two events
            return (end_turn(turn, "interrupted", message="There was no input left to answer."),)
        case "reply":
            return ask(p, turn, policy)


def _refuse_answer(turn: OpenTurn, policy: Policy) -> Draft:
    if turn.refusals >= policy.schema_tries:
        tries = counted(turn.refusals + 1, "answer")
        return end_turn(turn, "failed", code="schema", message=f"{tries} did not fit the schema: {turn.problem}")
    text = f"Your answer does not fit the schema: {turn.problem} Answer again, with the JSON alone."
    return Draft(event=MessageInjected(role="user", parts=(Text(text=text),)), cause=turn.id)


def _takeable(p: Progress, turn: OpenTurn) -> tuple[str, ...]:
    if turn.owes == "input":
        return tuple(waiting.input for waiting in p.queue[:1])
    return tuple(waiting.input for waiting in p.queue if waiting.delivery == "steer")


# --- stopping --------------------------------------------------------------------------------------------------------------------


def _stop(p: Progress, turn: OpenTurn, policy: Policy) -> Sequence[Draft]:
    """Close what nobody performs; wait for the rest, unless the deadline has passed."""
    if p.trying.waiting:
        return (Draft(event=WaitEnded(), cause=p.trying.waiting),)
    if p.purse.asking:
        return (Draft(event=BudgetAnswered(allowed=False, message="interrupted"), cause=p.purse.asking),)
    if p.compacting:
        stopped = CompactionFailed(message="It was interrupted.")
        return (Draft(event=stopped, cause=p.compacting),) if p.gave_up else ()
    if p.asking:
        return (Draft(event=_silence(p, policy), cause=p.asking),) if p.gave_up else ()
    closed = [_stopped(call) for call in p.calls if call.phase != "running" or p.gave_up]
    if closed or p.calls:
        return closed
    return (end_turn(turn, "interrupted", message="The turn was interrupted."),)


def _silence(p: Progress, policy: Policy) -> ModelReplied:
    """The reply of a model that did not stop in time. What it was sent has to be paid for."""
    model = p.trying.model or p.model
    usage = Usage(input=int(p.fill.asked * p.fill.ratio), estimated=True)
    paid = cost(usage, policy.facts_of(model).prices)
    return ModelReplied(parts=(), stop="interrupted", model=model, usage=usage, cost=paid)


def _stopped(call: OpenCall) -> Draft:
    if call.lost:
        return _lost(call)
    if call.phase == "paused":
        return _result(call, "interrupted", "interrupted", "The child session waited for money and was stopped.")
    if call.phase == "running":
        text = "Stopped by the person; it did not answer in time and may have partly happened."
        return _result(call, "interrupted", "interrupted", text)
    return _result(call, "interrupted", "interrupted", "Not run: the turn was interrupted before it began.")


# --- calls -----------------------------------------------------------------------------------------------------------------------


def _advance_calls(p: Progress, policy: Policy) -> Sequence[Draft]:
    """Every event that any open call is due, in call order."""
    drafts: list[Draft] = []
    may_ask, may_start, running = True, True, sum(call.phase == "running" for call in p.calls)
    for call in p.calls:
        spec = policy.tools.get(call.name)
        parallel = spec is not None and spec.effect == "pure" and spec.concurrent
        if due := _due(p, call, spec, policy, may_ask=may_ask, may_start=may_start and (parallel or not running)):
            drafts.append(due)
            running += isinstance(due.event, ToolStarted | ChildStarted)
        may_ask = may_ask and call.phase in ("allowed", "running")
        may_start = may_start and parallel and running < policy.parallel
    return drafts


def _due(
    p: Progress, call: OpenCall, spec: ToolSpec | None, policy: Policy, *, may_ask: bool, may_start: bool
) -> Draft | None:
    if call.lost and call.effect == "once":
        return _lost(call)
    match call.phase:
        case "new":
            return Draft(event=CallProposed(call=call.id), cause=call.id)
        case "inspected" if spec is not None and not call.problem:
            return _judge(p, call, spec, policy)
        case "inspected":
            return _lost(call) if call.lost and call.effect != "pure" else _invalid(call)
        case "judged" if may_ask:
            return Draft(event=PermissionAsked(call=call.id, detail=call.detail), cause=call.id)
        case "refused":
            return _refuse(call)
        case "allowed" if may_start and spec is not None:
            return _start(p, call, spec)
        case "paused" if may_start and spec is not None:
            return _wake(p, call, spec)
        case _:
            return None


def _judge(p: Progress, call: OpenCall, spec: ToolSpec, policy: Policy) -> Draft:
    verdict = judge(spec, fingerprint(call.name, call.args), policy.rules, p.mode, p.grants)
    event = CallJudged(
        call=call.id,
        decision=verdict.decision,
        reason=verdict.reason,
        detail=verdict.detail,
        rules=rules_digest(policy.rules),
    )
    return Draft(event=event, by="rule", cause=call.id)


def _start(p: Progress, call: OpenCall, spec: ToolSpec) -> Draft:
    if spec.child:
        args = msgspec.json.decode(call.args, type=dict[str, object])
        child = child_session_id(p.session, call.id)
        share = p.purse.share(child)
        started = ChildStarted(
            call=call.id,
            child=child,
            prompt=str(args.get("prompt", "")),
            budget={} if share is None else {"limit": share, "on_exceed": p.purse.on_exceed},
        )
        return Draft(event=started, by="model", cause=call.id)
    event = ToolStarted(call=call.id, name=call.name, effect=spec.effect, key=f"{p.session}:{call.id}", again=call.lost)
    return Draft(event=event, by="model", cause=call.id)


def _wake(p: Progress, call: OpenCall, spec: ToolSpec) -> Draft | None:
    """Run a child again that waits for money, once there is more."""
    purse = p.purse
    share = purse.share(child_session_id(p.session, call.id))
    if share is None or (purse.left() and share > call.share):
        return _start(p, call, spec)
    if purse.paused:
        return None
    if purse.refused or purse.limit is None:
        return _result(call, "failed", "budget", f"The child session has spent what it might: {purse.refused}.")
    return Draft(event=BudgetAsked(spent=purse.spent, limit=purse.limit), cause=call.id)


def _refuse(call: OpenCall) -> Draft:
    if call.lost and call.effect != "pure":
        return _lost(call)
    return _result(call, "denied", "denied", f"Not run: {call.detail}.")


def _invalid(call: OpenCall) -> Draft:
    code, _, message = call.problem.partition(": ")
    return _result(call, "invalid", code or "unknown_tool", message or f"There is no tool called {call.name!r} here.")


def _lost(call: OpenCall) -> Draft:
    text = (
        f"Outcome unknown: {call.name} was started, then the process died before it reported back. "
        "It may have happened wholly, partly or not at all, and it was not run again. Find out before relying on either."
    )
    return _result(call, "unknown", "restart", text)


def _result(call: OpenCall, outcome: ToolOutcome, code: str, text: str) -> Draft:
    finished = ToolFinished(call=call.id, outcome=outcome, code=code, content=(Text(text=text),))
    return Draft(event=finished, cause=call.intent or call.id)
