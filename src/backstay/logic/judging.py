"""From an open call to the policy's verdict on it. Pure."""

import msgspec
from msgspec.structs import replace

from backstay.logic.hooks.verdict import HookVerdict
from backstay.logic.open_calls import OpenCall, seen_as
from backstay.logic.permissions import Call, fingerprint, rules_digest, weigh
from backstay.logic.permissions.calls import usual_name
from backstay.logic.permissions.offers import is_exact_text
from backstay.logic.permissions.verdict import Verdict
from backstay.logic.policy import Policy
from backstay.logic.progress import Progress
from backstay.vocab.event import Draft
from backstay.vocab.events import CallJudged
from backstay.vocab.rules import Rule
from backstay.vocab.specs import ToolSpec


def judged(p: Progress, call: OpenCall, spec: ToolSpec, policy: Policy) -> Draft:
    """The verdict on a call that was looked at."""
    verdict = _weighed(p, call, spec, policy)
    event = CallJudged(
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
    """The rule that would allow exactly this call in any session; empty when no rule does."""
    command = msgspec.json.decode(call.args, type=dict[str, object]).get("command")
    if usual_name(call.name) != "Bash" or not isinstance(command, str) or not is_exact_text(command):
        return ""
    text = f"Bash({command})"
    ruled = replace(policy, rules=(*policy.rules, replace(Rule.parse("allow", text), source="grant")))
    return text if _weighed(p, replace(call, approved=""), spec, ruled).decision == "allow" else ""


def _weighed(p: Progress, call: OpenCall, spec: ToolSpec, policy: Policy) -> Verdict:
    facts = call.facts
    ground = policy.ground if facts is None else replace(policy.ground, links=facts.links, globs=facts.globs)
    hook = HookVerdict(decision=call.hook, reason=call.hook_reason) if call.hook is not None else None
    own, seen = fingerprint(call.name, call.args), seen_as(call.name, call.args, facts)
    return weigh(
        Call(tool=spec, args=msgspec.json.decode(call.args, type=dict[str, object])),
        ground,
        policy.rules,
        mode=p.mode,
        scope=p.scope,
        grants=frozenset((own,)) if seen in p.consent.grants else frozenset(),
        granted=[replace(Rule.parse("allow", text), source="session") for text in p.consent.rules],
        taint=p.consent.taint.union(*(other.taints for other in p.calls if other.id != call.id)),
        hook=hook,
        approved=own if call.approved in (seen, own) else "",
    )
