"""One step: fold what arrived, decide to a fixpoint, and say what to write and what to perform. Pure.

Every record of a step is written in one commit. A result whose intent is no longer open changes nothing: it is noted, not folded.

`decide` takes `Progress` and a `Policy` and returns the next events or with nothing; it never waits and never fails. `settle` asks
it until it has nothing more to write. It must have an answer for every prefix of every log, because a crash may leave any of them.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from backstay.hooks.gates import SESSION, STOP_BLOCKS, gate, hook_intent
from backstay.logic.budget import cost
from backstay.logic.decide.call_gates import advance_calls, after_calls, close_call, hooks_running
from backstay.logic.decide.model_call import after_failure, ask, end_turn
from backstay.logic.decide.policy import Policy
from backstay.logic.state.calls import OpenCall
from backstay.logic.state.progress import OpenSkill, OpenTurn, Progress, fold, stamp
from backstay.logic.text import pluralise
from backstay.vocab import events
from backstay.vocab.errors import Bug
from backstay.vocab.event import Draft, Recorded
from backstay.vocab.messages import Text
from backstay.vocab.specs import Usage

MOST_EVENTS: Final = 10_000
"""More events than `decide` can have to say in one step: past it, it is going round in circles."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """The records that one step writes, and the state after them."""

    progress: Progress
    records: tuple[Recorded, ...]

    @property
    def intents(self) -> tuple[Recorded, ...]:
        """The records that need a performer."""
        return tuple(record for record in self.records if isinstance(record.event, events.INTENTS))


def settle(progress: Progress, arrived: Iterable[Draft], policy: Policy | None, *, nonce: str, now: int) -> Step:
    """Fold what arrived, then decide until there is nothing more to decide; without a policy, decide nothing."""
    records: list[Recorded] = []

    def write(draft: Draft) -> None:
        nonlocal progress
        record = stamp(progress, draft, nonce=nonce, now=now)
        records.append(record)
        progress = fold(progress, record)

    for draft in arrived:
        if accepted := accept(progress, draft):
            write(accepted)
    most = len(records) + MOST_EVENTS + 20 * len(progress.calls)
    while drafts := decide(progress, policy) if policy is not None else ():
        for draft in drafts:
            write(draft)
        if len(records) > most:
            raise Bug(f"Session {progress.session!r} decides without end; the newest event is {records[-1].event!r}.")
    return Step(progress=progress, records=tuple(records))


def accept(p: Progress, draft: Draft) -> Draft | None:
    """Return `draft` as it is to be written: a late result becomes a note, a stop or a drop of nothing becomes nothing."""
    match draft.event:
        case events.Interrupted():
            return draft if (not p.stopping if p.turn is not None else p.compacting or p.skill is not None) else None
        case events.InputDropped(inputs=("*",)):
            waiting = tuple(queued.input for queued in p.queue)
            return replace(draft, event=events.InputDropped(inputs=waiting)) if waiting else None
        case events.Closed() if p.closed:
            return None
        case events.StopDeadlinePassed():
            return draft if p.stopping and p.stopping == draft.cause else None
        case events.InputDropped():
            return _still_queued(p, draft, draft.event)
        case events.ModelReplied() | events.ModelFailed() if draft.cause != p.asking:
            return _ignore(p, draft)
        case events.WaitEnded() if draft.cause != p.retries.waiting:
            return None
        case events.Compacted() | events.CompactionFailed() if draft.cause != p.compacting:
            return _ignore(p, draft)
        case events.BudgetAnswered() if draft.cause != p.budget.asking:
            return _ignore(p, draft)
        case events.CallInspected() if not _is_awaited(p, draft, draft.event.call, ("new", "inspecting")):
            return _ignore(p, draft)
        case events.HookFinished() if not p.hooks.awaits(draft.cause):
            return _ignore(p, draft)
        case events.PermissionAnswered() if not _is_awaited(p, draft, draft.event.call, ("asking",)):
            return _ignore(p, draft)
        case events.ChildFinished(call=call) if p.skill is not None and p.skill.performs(call, draft.cause):
            return draft
        case events.ToolFinished() | events.ChildFinished() | events.ChildPaused() | events.ProcessStarted() if (
            not _is_awaited(p, draft, draft.event.call, ("running",))
        ):
            return _ignore(p, draft)
        case _:
            return draft


def _still_queued(p: Progress, draft: Draft, event: events.InputDropped) -> Draft | None:
    """Keep of a drop the input that is still queued: input that was taken while the drop was on its way stays taken."""
    waiting = {queued.input for queued in p.queue}
    inputs = tuple(each for each in event.inputs if each in waiting)
    return msgspec.structs.replace(draft, event=events.InputDropped(inputs=inputs)) if inputs else None


def _is_awaited(p: Progress, draft: Draft, call_id: str, phases: tuple[str, ...]) -> bool:
    call: OpenCall | None = next((call for call in p.calls if call.id == call_id), None)
    return call is not None and call.phase in phases and call.intent == draft.cause


def _ignore(p: Progress, draft: Draft) -> Draft:
    kind = re.sub(r"(?<!^)(?=[A-Z])", "_", type(draft.event).__name__).lower()
    ignored = events.ResultIgnored(kind=kind, summary=repr(draft.event)[:200], cost=_unpaid(p, draft))
    return Draft(event=ignored, cause=draft.cause)


def _unpaid(p: Progress, draft: Draft) -> int | None:
    """Return the cost of a late result beyond what is counted already."""
    match draft.event:
        case events.ModelReplied(cost=int() as cost) | events.ModelFailed(cost=int() as cost):
            return max(0, cost - (p.budget.guessed[1] if p.budget.guessed[0] == draft.cause else 0))
        case (
            events.ChildFinished(cost=int() as cost, child=child) | events.ChildPaused(cost=int() as cost, child=child)
        ):
            return max(0, cost - dict(p.budget.children).get(child, 0))
        case events.Compacted(cost=cost) | events.CompactionFailed(cost=cost):
            return cost
        case _:
            return None


# --- what to write next ----------------------------------------------------------------------------------------------------------


def decide(p: Progress, policy: Policy) -> Sequence[Draft]:
    """Return the next events to write, or none."""
    drafts = _decide(p, policy)
    if (
        policy.hooks
        and drafts
        and isinstance(over := drafts[-1].event, events.TurnCompleted)
        and over.outcome == "failed"
    ):
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
    if p.asking or p.retries.waiting or p.compacting or p.budget.asking:
        return ()
    if p.calls and p.hooks.stop:
        return [close_call(call) for call in p.calls if call.phase != "running"]
    if p.calls:
        return advance_calls(p, policy)
    return _go_on(p, p.turn, policy)


# --- the turn --------------------------------------------------------------------------------------------------------------------


def _begin(p: Progress, policy: Policy) -> Sequence[Draft]:
    if (mode := policy.stricter_mode_between_turns(p.mode)) is not None:
        return (Draft(event=events.ModeChanged(mode=mode)),)
    if p.restore is not None:  # no turn begins on files that are being put back
        return () if p.restoring else (Draft(event=p.restore, by="user"),)
    if p.skill is not None:  # its report stands before what is said next
        return _run_skill_again(p, p.skill, policy)
    if policy.starts_turns and (pending := _session_start(p, policy)) is not None:
        return pending
    begins = p.queue and policy.starts_turns and not p.compacting
    return (Draft(event=events.TurnStarted(number=p.turns + 1)),) if begins else ()


def _run_skill_again(p: Progress, skill: OpenSkill, policy: Policy) -> Sequence[Draft]:
    """Run the child of a skill again from where its own log stands, when the process that ran it died; or give it up."""
    started = skill.started
    if skill.abandoned:
        text = "The process died while it ran, and it was given up."
        name = started.skill.name if started.skill is not None else ""
        over = events.ChildFinished(call=started.call, child=started.child, outcome="abandoned", text=text, skill=name)
        return (Draft(event=over),)
    if skill.intent or not policy.starts_turns:
        return ()
    return (Draft(event=replace(started, budget=p.budget.of_child(started.child)), by="user"),)


def _after_compaction(p: Progress, policy: Policy) -> Draft | None:
    compaction, trigger = p.hooks.compacted
    return hook_intent(policy, "PostCompact", compaction, matcher_value=trigger) if compaction else None


def _session_start(p: Progress, policy: Policy) -> Sequence[Draft] | None:
    return gate(p.hooks, policy, "SessionStart", SESSION, matcher_value=p.hooks.source)


def _go_on(p: Progress, turn: OpenTurn, policy: Policy) -> Sequence[Draft]:
    if p.hooks.stop:
        return _end_by_hook(p, turn)
    if p.retries.failure is not None:
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
            pending = _before_asking(p, turn, policy)
            return ask(p, turn, policy) if pending is None else pending


def _take(p: Progress, turn: OpenTurn, inputs: tuple[str, ...], policy: Policy) -> Sequence[Draft]:
    """Take queued input, unless a hook keeps it out of the conversation."""
    pending = [gate(p.hooks, policy, "UserPromptSubmit", each) for each in inputs]
    if any(wait is not None for wait in pending):
        return [draft for wait in pending for draft in wait or ()]
    verdicts = {each: p.hooks.find_verdict("UserPromptSubmit", each) for each in inputs}
    blocked = {each: verdict for each, verdict in verdicts.items() if verdict is not None and verdict.blocked}
    if not blocked:
        return (Draft(event=events.InputTaken(inputs=inputs), by="user", cause=turn.id),)
    dropped = Draft(event=events.InputDropped(inputs=tuple(blocked)), by="hook", cause=turn.id)
    if turn.owes != "input":
        return (dropped,)
    why = next(iter(blocked.values())).reason or "no reason was given"
    return (dropped, end_turn(turn, "failed", code="hook", message=f"A hook refused the prompt: {why}"))


def _end_by_hook(p: Progress, turn: OpenTurn) -> Sequence[Draft]:
    """End a turn that a hook stopped. Input that it was to begin with, or that the hook spoke of, is not tried again."""
    verdicts = {each: p.hooks.find_verdict("UserPromptSubmit", each) for each in _takeable(p, turn)}
    refused = tuple(each for each, verdict in verdicts.items() if turn.owes == "input" or (verdict and verdict.stops))
    dropped = [Draft(event=events.InputDropped(inputs=refused), by="hook", cause=turn.id)] if refused else []
    return (*dropped, end_turn(turn, "interrupted", message=f"A hook stopped the turn: {p.hooks.stop}"))


def _end(p: Progress, turn: OpenTurn, policy: Policy) -> Sequence[Draft]:
    if turn.stop == "interrupted":
        return (end_turn(turn, "interrupted"),)
    if turn.held < STOP_BLOCKS:
        pending = gate(p.hooks, policy, "Stop", f"{turn.id}.{turn.rounds}")
        if pending is not None:
            return pending
    return (end_turn(turn, "completed"),)


def _before_asking(p: Progress, turn: OpenTurn, policy: Policy) -> Sequence[Draft] | None:
    """Return the hooks that must answer before the model is asked; None when there are none."""
    if not policy.hooks:
        return None
    if drafts := after_calls(p, policy):
        return drafts
    if hooks_running(p):
        return ()
    if p.ended:
        pending = gate(p.hooks, policy, "PostToolBatch", f"{turn.id}.{turn.rounds}")
        if pending is not None:
            return pending
    if (pending := _session_start(p, policy)) is not None:
        return pending
    if p.hooks.pending_texts:
        context = Text(text="\n\n".join(p.hooks.pending_texts))
        return (Draft(event=events.MessageInjected(role="user", parts=(context,)), by="hook", cause=turn.id),)
    return None


def _refuse_answer(turn: OpenTurn, policy: Policy) -> Draft:
    if turn.refusals >= policy.schema_tries:
        tries = pluralise(turn.refusals + 1, "answer")
        return end_turn(turn, "failed", code="schema", message=f"{tries} did not fit the schema: {turn.problem}")
    text = f"Your answer does not fit the schema: {turn.problem} Answer again, with the JSON alone."
    return Draft(event=events.MessageInjected(role="user", parts=(Text(text=text),)), cause=turn.id)


def _takeable(p: Progress, turn: OpenTurn) -> tuple[str, ...]:
    if turn.owes == "input":
        return tuple(waiting.input for waiting in p.queue[:1])
    return tuple(waiting.input for waiting in p.queue if waiting.delivery == "steer")


# --- stopping --------------------------------------------------------------------------------------------------------------------


def _stop(p: Progress, turn: OpenTurn, policy: Policy) -> Sequence[Draft]:
    """Close what no performer runs; wait for the rest, unless the deadline has passed."""
    if p.retries.waiting:
        return (Draft(event=events.WaitEnded(), cause=p.retries.waiting),)
    if p.budget.asking:
        return (Draft(event=events.BudgetAnswered(allowed=False, message="interrupted"), cause=p.budget.asking),)
    if p.compacting:
        stopped = events.CompactionFailed(message="It was interrupted.")
        return (Draft(event=stopped, cause=p.compacting),) if p.stop_timed_out else ()
    if p.asking:
        return (Draft(event=_silence(p, policy), cause=p.asking),) if p.stop_timed_out else ()
    closed = [close_call(call) for call in p.calls if call.phase != "running" or p.stop_timed_out]
    if closed or p.calls:
        return closed
    return (end_turn(turn, "interrupted", message="The turn was interrupted."),)


def _silence(p: Progress, policy: Policy) -> events.ModelReplied:
    """Return the reply of a model that did not stop in time. What it was sent has to be paid for."""
    model = p.retries.model or p.model
    usage = Usage(input=int(p.context.asked * p.context.ratio), estimated=True)
    paid = cost(usage, policy.facts_of(model).prices)
    return events.ModelReplied(parts=(), stop="interrupted", model=model, usage=usage, cost=paid)
