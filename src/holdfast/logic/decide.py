"""What to write next. Pure: looks at `Progress` and a `Policy`, never waits, never fails.

`decide` answers with the next events or with nothing; `settle` (in `logic/step.py`) asks it until it has nothing more to say. It must
have an answer for every prefix of every log, because a crash may leave any of them.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from holdfast.logic.permissions import fingerprint, judge, rules_digest
from holdfast.logic.progress import OpenCall, OpenTurn, Progress
from holdfast.logic.words import counted
from holdfast.vocab.events import (
    CallJudged,
    CallProposed,
    ChildStarted,
    Draft,
    InputTaken,
    ModelAsked,
    ModelReplied,
    PermissionAsked,
    ToolFinished,
    ToolOutcome,
    ToolStarted,
    TurnCompleted,
    TurnStarted,
)
from holdfast.vocab.ids import child_session_id
from holdfast.vocab.messages import Text
from holdfast.vocab.rules import Rule
from holdfast.vocab.specs import ToolSpec


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What shapes the decisions of a session besides its log."""

    tools: Mapping[str, ToolSpec] = {}
    rules: tuple[Rule, ...] = ()
    instructions: str = ""
    """Hash of the system prompt's blob."""
    tools_digest: str = ""
    """Hash of the blob with the tool schemas."""
    parameters: dict[str, object] = {}
    max_rounds: int | None = None
    """Model calls that one turn may take."""
    parallel: int = 8
    """Pure calls that may run at the same time."""
    begins: bool = True
    """Whether queued input may begin a turn; a session that is closing lets it wait for the next opening."""


def decide(p: Progress, policy: Policy) -> Sequence[Draft]:
    """The next events to write, or none."""
    if p.closed or not p.session:
        return ()
    if p.turn is None:
        return _begin(p, policy)
    if p.abandoning:
        return (_end(p.turn, "abandoned", message="The process died in this turn, and the turn was given up."),)
    if p.stopping:
        return _stop(p, p.turn)
    if p.asking:
        return ()
    if p.calls:
        return _advance_calls(p, policy)
    return _go_on(p, p.turn, policy)


# --- the turn --------------------------------------------------------------------------------------------------------------------


def _begin(p: Progress, policy: Policy) -> Sequence[Draft]:
    return (Draft(event=TurnStarted(number=p.turns + 1)),) if p.queue and policy.begins else ()


def _go_on(p: Progress, turn: OpenTurn, policy: Policy) -> Sequence[Draft]:
    if turn.failure is not None:
        return (_end(turn, "failed", code=turn.failure[0], message=turn.failure[1]),)
    if taken := _takeable(p, turn):
        return (Draft(event=InputTaken(inputs=taken), by="user", cause=turn.id),)
    match turn.owes:
        case "end":
            return (_end(turn, "interrupted" if turn.stop == "interrupted" else "completed"),)
        case "input":  # its input was dropped between the two events
            return (_end(turn, "interrupted", message="There was no input left to answer."),)
        case "reply":
            return (_ask(p, turn, policy),)


def _takeable(p: Progress, turn: OpenTurn) -> tuple[str, ...]:
    if turn.owes == "input":
        return tuple(waiting.input for waiting in p.queue[:1])
    return tuple(waiting.input for waiting in p.queue if waiting.delivery == "steer")


def _ask(p: Progress, turn: OpenTurn, policy: Policy) -> Draft:
    if policy.max_rounds is not None and turn.rounds >= policy.max_rounds:
        limit = counted(policy.max_rounds, "model call")
        return _end(turn, "failed", code="turn_limit", message=f"The turn reached its limit of {limit}.")
    asked = ModelAsked(
        turn=turn.id,
        round=turn.rounds + 1,
        model=p.model,
        instructions=policy.instructions,
        tools=policy.tools_digest,
        parameters=policy.parameters,
    )
    return Draft(event=asked, cause=turn.id)


def _end(
    turn: OpenTurn,
    outcome: Literal["completed", "interrupted", "failed", "abandoned"],
    *,
    code: str = "",
    message: str = "",
) -> Draft:
    stop = {"completed": turn.stop, "failed": "error"}.get(outcome, outcome)
    event = TurnCompleted(turn=turn.id, outcome=outcome, stop_reason=stop, code=code, message=message)
    return Draft(event=event, cause=turn.id)


# --- stopping --------------------------------------------------------------------------------------------------------------------


def _stop(p: Progress, turn: OpenTurn) -> Sequence[Draft]:
    """Close what nobody performs; wait for the rest, unless the deadline has passed."""
    if p.asking:
        silence = ModelReplied(parts=(), stop="interrupted", model=p.model)
        return (Draft(event=silence, cause=p.asking),) if p.gave_up else ()
    closed = [_stopped(call) for call in p.calls if call.phase != "running" or p.gave_up]
    if closed or p.calls:
        return closed
    return (_end(turn, "interrupted", message="The turn was interrupted."),)


def _stopped(call: OpenCall) -> Draft:
    if call.lost:
        return _lost(call)
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
        started = ChildStarted(
            call=call.id, child=child_session_id(p.session, call.id), prompt=str(args.get("prompt", ""))
        )
        return Draft(event=started, by="model", cause=call.id)
    event = ToolStarted(call=call.id, name=call.name, effect=spec.effect, key=f"{p.session}:{call.id}", again=call.lost)
    return Draft(event=event, by="model", cause=call.id)


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
