"""Advance each open call through its gates: inspect, run hooks, judge, ask, start, or finish without running it. Pure."""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from backstay.hooks.gates import gate, hook_intent
from backstay.hooks.merge import HookVerdict
from backstay.logic.decide.policy import Policy
from backstay.logic.state.calls import OpenCall, fingerprint_seen, subject_of
from backstay.logic.state.progress import Progress
from backstay.permissions import Call, fingerprint, judge_call, rules_digest
from backstay.permissions.judgement import Verdict
from backstay.permissions.suggested_rules import is_exact_text
from backstay.permissions.tool_kinds import usual_name
from backstay.vocab import events
from backstay.vocab.event import Draft, ToolOutcome
from backstay.vocab.ids import child_session_id
from backstay.vocab.messages import Text
from backstay.vocab.rules import Rule
from backstay.vocab.specs import ToolSpec


def judge_open_call(p: Progress, call: OpenCall, spec: ToolSpec, policy: Policy) -> Draft:
    """Judge a call that was inspected, and return the verdict as an event."""
    verdict = _judge(p, call, spec, policy)
    event = events.CallJudged(
        call=call.id,
        decision=verdict.decision,
        reason=verdict.reason,
        detail=verdict.detail,
        rules=rules_digest(policy.rules),
        offers=verdict.offers,
        remedies=verdict.remedies,
        taints=verdict.taints,
        unasked=verdict.unasked,
    )
    return Draft(event=event, by="rule", cause=call.id)


def exact_rule(p: Progress, call: OpenCall, spec: ToolSpec, policy: Policy) -> str:
    """Return the rule that would allow exactly this call in any session; empty when no rule does."""
    command = msgspec.json.decode(call.args, type=dict[str, object]).get("command")
    if usual_name(call.name) != "Bash" or not isinstance(command, str) or not is_exact_text(command):
        return ""
    text = f"Bash({command})"
    ruled = replace(policy, rules=(*policy.rules, replace(Rule.parse("allow", text), source="grant")))
    return text if _judge(p, replace(call, approved=""), spec, ruled).decision == "allow" else ""


def _judge(p: Progress, call: OpenCall, spec: ToolSpec, policy: Policy) -> Verdict:
    facts = call.facts
    call_site = policy.call_site if facts is None else replace(policy.call_site, links=facts.links, globs=facts.globs)
    hook = HookVerdict(decision=call.hook, reason=call.hook_reason) if call.hook is not None else None
    own, seen = fingerprint(call.name, call.args), fingerprint_seen(call.name, call.args, facts)
    return judge_call(
        Call(tool=spec, args=msgspec.json.decode(call.args, type=dict[str, object])),
        call_site,
        policy.rules,
        mode=p.mode,
        scope=p.scope,
        grants=frozenset((own,)) if seen in p.grants.grants else frozenset(),
        granted=[replace(Rule.parse("allow", text), source="session") for text in p.grants.rules],
        taint=p.grants.taint.union(*(other.taints for other in p.calls if other.id != call.id)),
        hook=hook,
        approved=own if call.approved in (seen, own) else "",
    )


def advance_calls(p: Progress, policy: Policy) -> Sequence[Draft]:
    """Return every event that any open call is due, in call order."""
    drafts: list[Draft] = [*after_calls(p, policy)]
    may_ask, running = True, sum(call.phase == "running" for call in p.calls)
    may_start = not drafts and not hooks_running(p)  # what a hook says about the call before may end the turn
    judging = False
    for call in p.calls:
        if judging and call.phase == "inspected" and not call.problem:
            may_ask = may_start = False
            continue  # what the one before brings along counts for this one: it is judged in the next round of this step
        spec = policy.tools.get(call.name)
        parallel = spec is not None and spec.effect == "pure" and spec.concurrent
        if found := _due(p, call, spec, policy, may_ask=may_ask, may_start=may_start and (parallel or not running)):
            drafts += found
            judging = judging or isinstance(found[-1].event, events.CallJudged)
            running += isinstance(found[-1].event, events.ToolStarted | events.ChildStarted)
        may_ask = may_ask and not judging and call.phase in ("allowed", "running")
        may_start = may_start and parallel and running < policy.parallel
    return drafts


def after_calls(p: Progress, policy: Policy) -> Sequence[Draft]:
    """Return the hooks that are due for calls with results."""
    drafts: list[Draft] = []
    for call in p.ended if policy.hooks else ():
        event = "PostToolUse" if call.outcome in ("ok", "completed") else "PostToolUseFailure"
        if call.outcome not in ("denied", "invalid"):
            drafts += gate(p.hooks, policy, event, call.id, matcher_value=call.name, args=call.args) or ()
    return drafts


def hooks_running(p: Progress) -> bool:
    """Return whether hooks run for calls with results."""
    return any(
        p.hooks.is_running(event, call.id) for call in p.ended for event in ("PostToolUse", "PostToolUseFailure")
    )


def close_call(call: OpenCall) -> Draft:
    """Return the result of a call whose turn is being stopped."""
    if call.lost:
        return _finish_lost(call)
    if call.phase == "paused":
        return _finish(call, "interrupted", "interrupted", "The child session waited for money and was stopped.")
    if call.phase == "running":
        text = "Stopped by the person; it did not answer in time and may have partly happened."
        return _finish(call, "interrupted", "interrupted", text)
    return _finish(call, "interrupted", "interrupted", "Not run: the turn was interrupted before it began.")


def _due(
    p: Progress, call: OpenCall, spec: ToolSpec | None, policy: Policy, *, may_ask: bool, may_start: bool
) -> Sequence[Draft]:
    if call.lost and call.effect == "once":
        return (_finish_lost(call),)
    match call.phase:
        case "new" if _hooks_running(p, call):
            return ()  # hooks may change the arguments, which are inspected next
        case "new":
            return (Draft(event=events.CallProposed(call=call.id), cause=call.id),)
        case "inspected" if (
            spec is not None and not call.problem and spec.touches == "person" and _answers_itself(call)
        ):
            return (_finish(call, "invalid", "bad_arguments", "Leave `answers` out: they are the person's to give."),)
        case "inspected" if spec is not None and not call.problem:
            pending = _gate(p, policy, "PreToolUse", call)
            return (judge_open_call(p, call, spec, policy),) if pending is None else pending
        case "inspected":
            return (_finish_lost(call) if call.lost and call.effect != "pure" else _finish_invalid(call),)
        case "judged" if may_ask:
            pending = _gate(p, policy, "PermissionRequest", call)
            if pending is None and (refusal := _repeat_refusal(p, call, policy)):
                return (refusal,)
            shown = call.args if call.changed else ""
            asked = Draft(event=events.PermissionAsked(call=call.id, detail=call.detail, args=shown), cause=call.id)
            return (asked,) if pending is None else pending
        case "refused":
            return _refuse(call, policy)
        case "allowed" if may_start and spec is not None:
            fresh = call.rules == rules_digest(policy.rules)  # settings may have been read again since
            return (_start(p, call, spec, policy) if fresh else judge_open_call(p, call, spec, policy),)
        case "paused" if may_start and spec is not None:
            return _wake(p, call, spec, policy)
        case _:
            return ()


def _answers_itself(call: OpenCall) -> bool:
    """Return whether the model wrote the answers that only a person can give."""
    return not call.changed and bool(msgspec.json.decode(call.args, type=dict[str, object]).get("answers"))


def _gate(p: Progress, policy: Policy, event: str, call: OpenCall) -> Sequence[Draft] | None:
    return gate(p.hooks, policy, event, subject_of(call), matcher_value=call.name, args=call.args)


def _hooks_running(p: Progress, call: OpenCall) -> bool:
    return any(p.hooks.is_running(event, subject_of(call)) for event in ("PreToolUse", "PermissionRequest"))


def _repeat_refusal(p: Progress, call: OpenCall, policy: Policy) -> Draft | None:
    """Return the no that hooks gave to this very call before it was inspected again. A yes was judged with it."""
    verdict = p.hooks.find_verdict("PermissionRequest", subject_of(call))
    if verdict is None or verdict.decision != "deny":
        return None
    event = events.CallJudged(
        call=call.id,
        decision="deny",
        reason="hook",
        detail=verdict.reason or "a hook said so",
        rules=rules_digest(policy.rules),
        taints=call.taints,
    )
    return Draft(event=event, by="hook", cause=call.id)


def _start(p: Progress, call: OpenCall, spec: ToolSpec, policy: Policy) -> Draft:
    args = msgspec.json.decode(call.args, type=dict[str, object])
    if spec.child or (call.name == "Skill" and args.get("skill") in policy.forks):
        child = child_session_id(p.session, call.id)
        prompt = str(args.get("prompt", ""))
        started = events.ChildStarted(call=call.id, child=child, prompt=prompt, budget=p.budget.of_child(child))
        return Draft(event=started, by="model", cause=call.id)
    event = events.ToolStarted(
        call=call.id, name=call.name, effect=spec.effect, key=f"{p.session}:{call.id}", again=call.lost
    )
    return Draft(event=event, by="model", cause=call.id)


def _wake(p: Progress, call: OpenCall, spec: ToolSpec, policy: Policy) -> Sequence[Draft]:
    """Run a child again that waits for money, once there is more."""
    budget = p.budget
    share = budget.share(child_session_id(p.session, call.id))
    if share is None or (budget.remaining() and share > call.share):
        return (_start(p, call, spec, policy),)
    if budget.paused:
        return ()
    if budget.refused or budget.limit is None:
        return (_finish(call, "failed", "budget", f"The child session has spent what it might: {budget.refused}."),)
    return (Draft(event=events.BudgetAsked(spent=budget.spent, limit=budget.limit), cause=call.id),)


def _refuse(call: OpenCall, policy: Policy) -> Sequence[Draft]:
    if call.lost and call.effect != "pure":
        return (_finish_lost(call),)
    seen = hook_intent(policy, "PermissionDenied", call.id, matcher_value=call.name, args=call.args)
    refused = _finish(call, "denied", "denied", f"{_preface_change(call)}Not run: {call.detail.rstrip('.')}.")
    return (refused,) if seen is None else (seen, refused)


def _finish_invalid(call: OpenCall) -> Draft:
    code, _, message = call.problem.partition(": ")
    words = message or f"There is no tool called {call.name!r} here."
    return _finish(call, "invalid", code or "unknown_tool", f"{_preface_change(call)}{words}")


def _preface_change(call: OpenCall) -> str:
    """Return what the model must read first when it was not its own arguments that were judged."""
    if not call.changed:
        return ""
    return f"({'The person' if call.changed == 'user' else 'A hook'} changed the arguments to {call.args}) "


def _finish_lost(call: OpenCall) -> Draft:
    text = (
        f"Outcome unknown: {call.name} was started, then the process died before it reported back. "
        "It may have happened wholly, partly or not at all, and it was not run again. Find out before relying on either."
    )
    return _finish(call, "unknown", "restart", text)


def _finish(call: OpenCall, outcome: ToolOutcome, code: str, text: str) -> Draft:
    finished = events.ToolFinished(call=call.id, outcome=outcome, code=code, content=(Text(text=text),))
    return Draft(event=finished, cause=call.intent or call.id)
