"""From an open call to the policy's verdict on it. Pure."""

from holdfast.logic.open_calls import OpenCall
from holdfast.logic.permissions import fingerprint, judge, rules_digest
from holdfast.logic.policy import Policy
from holdfast.logic.progress import Progress
from holdfast.vocab.event import Draft
from holdfast.vocab.events import CallJudged
from holdfast.vocab.specs import ToolSpec


def judged(p: Progress, call: OpenCall, spec: ToolSpec, policy: Policy) -> Draft:
    """The verdict on a call that was looked at."""
    verdict = judge(spec, fingerprint(call.name, call.args), policy.rules, p.mode, p.consent.grants)
    event = CallJudged(
        call=call.id,
        decision=verdict.decision,
        reason=verdict.reason,
        detail=verdict.detail,
        rules=rules_digest(policy.rules),
    )
    return Draft(event=event, by="rule", cause=call.id)
