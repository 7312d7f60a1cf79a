"""What to write next. Pure: looks at `Progress` and a `Policy`, never waits, never fails.

`decide` answers with the next events or with nothing; `settle` (in `logic/decide/step.py`) asks it until it has nothing more to write. It
must have an answer for every prefix of every log, because a crash may leave any of them.
"""

from collections.abc import Sequence

from backstay.hooks.gates import SESSION, STOP_BLOCKS, gate, hook_intent
from backstay.logic.budget import cost
from backstay.logic.decide.call_gates import advance_calls, after_calls, close_call, hooks_running
from backstay.logic.decide.model_call import after_failure, ask, end_turn
from backstay.logic.decide.policy import Policy
from backstay.logic.state.progress import OpenTurn, Progress
from backstay.logic.text import pluralise
from backstay.vocab.event import Draft
from backstay.vocab.events import (
    InputDropped,
    InputTaken,
    MessageInjected,
    ModeChanged,
    ModelReplied,
    TurnCompleted,
    TurnStarted,
)
from backstay.vocab.events.limits import BudgetAnswered, CompactionFailed, WaitEnded
from backstay.vocab.messages import Text
from backstay.vocab.specs import Usage


def decide(p: Progress, policy: Policy) -> Sequence[Draft]:
    """The next events to write, or none."""
    drafts = _decide(p, policy)
    if policy.hooks and drafts and isinstance(over := drafts[-1].event, TurnCompleted) and over.outcome == "failed":
        seen = hook_intent(policy, "StopFailure", over.turn, matcher_value=over.code)
        return drafts if seen is None else (seen, *drafts)
    return drafts


def _decide(p: Progress, policy: Policy) -> Sequence[Draft]:
    if p.closed or not p.session:
        return ()
    if policy.hooks and (seen := _after_compaction(p, policy)):
        return (seen,)
    if p.turn is None:
        return _begin(p, policy)
    if p.abandoning:
        return (end_turn(p.turn, "abandoned", message="The process died in this turn, and the turn was given up."),)
    if p.stopping:
        return _stop(p, p.turn, policy)
    if p.asking or p.trying.waiting or p.compacting or p.purse.asking:
        return ()
    if p.calls and p.hooks.stop:
        return [close_call(call) for call in p.calls if call.phase != "running"]
    if p.calls:
        return advance_calls(p, policy)
    return _go_on(p, p.turn, policy)


# --- the turn --------------------------------------------------------------------------------------------------------------------


def _begin(p: Progress, policy: Policy) -> Sequence[Draft]:
    if (mode := policy.lapsed(p.mode)) is not None:
        return (Draft(event=ModeChanged(mode=mode)),)
    if p.restore is not None:  # no turn begins on files that are being put back
        return () if p.restoring else (Draft(event=p.restore, by="user"),)
    if policy.begins and (waits := _session_start(p, policy)) is not None:
        return waits
    begins = p.queue and policy.begins and not p.compacting
    return (Draft(event=TurnStarted(number=p.turns + 1)),) if begins else ()


def _after_compaction(p: Progress, policy: Policy) -> Draft | None:
    compaction, trigger = p.hooks.compacted
    return hook_intent(policy, "PostCompact", compaction, matcher_value=trigger) if compaction else None


def _session_start(p: Progress, policy: Policy) -> Sequence[Draft] | None:
    return gate(p.hooks, policy, "SessionStart", SESSION, matcher_value=p.hooks.source)


def _go_on(p: Progress, turn: OpenTurn, policy: Policy) -> Sequence[Draft]:
    if p.hooks.stop:
        return _stopped_by_hook(p, turn)
    if p.trying.failure is not None:
        return (after_failure(p, turn, policy),)
    if taken := _takeable(p, turn):
        return _take(p, turn, taken, policy)
    match turn.owes:
        case "end" if turn.problem:
            return (_refuse_answer(turn, policy),)
        case "end":
            return _end(p, turn, policy)
        case "input":  # its input was dropped between the two events
            return (end_turn(turn, "interrupted", message="There was no input left to answer."),)
        case "reply":
            waits = _before_asking(p, turn, policy)
            return ask(p, turn, policy) if waits is None else waits


def _take(p: Progress, turn: OpenTurn, inputs: tuple[str, ...], policy: Policy) -> Sequence[Draft]:
    """Take queued input, unless a hook keeps it out of the conversation."""
    waits = [gate(p.hooks, policy, "UserPromptSubmit", each) for each in inputs]
    if any(wait is not None for wait in waits):
        return [draft for wait in waits for draft in wait or ()]
    heard = {each: p.hooks.find_verdict("UserPromptSubmit", each) for each in inputs}
    blocked = {each: verdict for each, verdict in heard.items() if verdict is not None and verdict.blocked}
    if not blocked:
        return (Draft(event=InputTaken(inputs=inputs), by="user", cause=turn.id),)
    dropped = Draft(event=InputDropped(inputs=tuple(blocked)), by="hook", cause=turn.id)
    if turn.owes != "input":
        return (dropped,)
    why = next(iter(blocked.values())).reason or "no reason was given"
    return (dropped, end_turn(turn, "failed", code="hook", message=f"A hook refused the prompt: {why}"))


def _stopped_by_hook(p: Progress, turn: OpenTurn) -> Sequence[Draft]:
    """The end of a turn that a hook ended. Input that it was to begin with, or that the hook spoke of, is not tried again."""
    heard = {each: p.hooks.find_verdict("UserPromptSubmit", each) for each in _takeable(p, turn)}
    refused = tuple(each for each, said in heard.items() if turn.owes == "input" or (said and said.stops))
    dropped = [Draft(event=InputDropped(inputs=refused), by="hook", cause=turn.id)] if refused else []
    return (*dropped, end_turn(turn, "interrupted", message=f"A hook stopped the turn: {p.hooks.stop}"))


def _end(p: Progress, turn: OpenTurn, policy: Policy) -> Sequence[Draft]:
    if turn.stop == "interrupted":
        return (end_turn(turn, "interrupted"),)
    if turn.held < STOP_BLOCKS:
        waits = gate(p.hooks, policy, "Stop", f"{turn.id}.{turn.rounds}")
        if waits is not None:
            return waits
    return (end_turn(turn, "completed"),)


def _before_asking(p: Progress, turn: OpenTurn, policy: Policy) -> Sequence[Draft] | None:
    """What hooks still have to say before the model is asked; None when nothing."""
    if not policy.hooks:
        return None
    if drafts := after_calls(p, policy):
        return drafts
    if hooks_running(p):
        return ()
    if p.ended:
        waits = gate(p.hooks, policy, "PostToolBatch", f"{turn.id}.{turn.rounds}")
        if waits is not None:
            return waits
    if (waits := _session_start(p, policy)) is not None:
        return waits
    if p.hooks.owed:
        told = Text(text="\n\n".join(p.hooks.owed))
        return (Draft(event=MessageInjected(role="user", parts=(told,)), by="hook", cause=turn.id),)
    return None


def _refuse_answer(turn: OpenTurn, policy: Policy) -> Draft:
    if turn.refusals >= policy.schema_tries:
        tries = pluralise(turn.refusals + 1, "answer")
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
    closed = [close_call(call) for call in p.calls if call.phase != "running" or p.gave_up]
    if closed or p.calls:
        return closed
    return (end_turn(turn, "interrupted", message="The turn was interrupted."),)


def _silence(p: Progress, policy: Policy) -> ModelReplied:
    """The reply of a model that did not stop in time. What it was sent has to be paid for."""
    model = p.trying.model or p.model
    usage = Usage(input=int(p.fill.asked * p.fill.ratio), estimated=True)
    paid = cost(usage, policy.facts_of(model).prices)
    return ModelReplied(parts=(), stop="interrupted", model=model, usage=usage, cost=paid)
