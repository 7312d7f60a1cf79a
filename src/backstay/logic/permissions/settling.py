"""From what was found about the parts of a call to one verdict on it."""

from typing import Final

import msgspec
from msgspec.structs import replace

from backstay.logic.hooks.verdict import HookVerdict
from backstay.logic.permissions.case import Case
from backstay.logic.permissions.offers import MOST
from backstay.logic.permissions.verdict import Finding, Part, Verdict, strictest
from backstay.vocab.specs import Mode, Taint

_NOTHING: Final = Finding("nothing", "allow", "mode", "it does nothing")


class Consents(msgspec.Struct, frozen=True):
    """Who may answer the questions about a call without asking."""

    mode: Mode
    hook: HookVerdict | None = None
    granted: bool = False
    """This very call was granted before."""
    approved: bool = False
    """A person said yes to this very call just now."""


def settle(findings: list[Finding], consents: Consents) -> list[Finding]:
    """Answer each question that somebody may answer. What is denied stays denied."""
    return [finding if finding.decision != "ask" else _answered(finding, consents) for finding in findings]


def conclude(case: Case, settled: list[Finding], taints: frozenset[Taint]) -> Verdict:
    """The verdict: the strictest of what is left."""
    last = strictest(settled or [_NOTHING])
    decision, detail, reason = last.decision, last.detail, last.reason
    asks = decision == "ask"
    unasked = asks and case.mode == "dontAsk"
    if unasked:
        decision, detail = "deny", f"{detail}; and the mode never asks"
    return Verdict(
        decision=decision,
        reason=reason,
        detail=detail,
        parts=_parts(settled),
        offers=_offers(settled) if asks else (),
        unasked=unasked,
        taints=tuple(sorted(taints)),
        needs_person=case.form.kind == "person",
    )


def _answered(finding: Finding, consents: Consents) -> Finding:
    if consents.approved:
        return replace(finding, decision="allow", reason="grant", detail="a person allowed this call")
    if consents.granted and finding.hold != "hard":
        return replace(finding, decision="allow", reason="grant", detail="allowed for this session")
    if consents.mode == "bypassPermissions" and finding.hold != "hard":
        return replace(finding, decision="allow", reason="mode", detail="the mode bypasses permissions")
    hook = consents.hook
    if hook is not None and hook.decision == "allow" and not hook.blocked and finding.hold == "soft":
        said = f": {hook.reason}" if hook.reason else ""
        return replace(finding, decision="allow", reason="hook", detail=f"a hook allowed it{said}")
    return finding


def _parts(settled: list[Finding]) -> tuple[Part, ...]:
    return tuple(dict.fromkeys(finding.part for finding in settled))


def _offers(settled: list[Finding]) -> tuple[str, ...]:
    """One rule for each question; none when a question cannot be answered by a rule, or when they are too many to look at."""
    offers: dict[str, None] = {}
    for finding in settled:
        if finding.decision == "ask":
            if not finding.offers:
                return ()
            offers[finding.offers[0]] = None
    return tuple(offers) if len(offers) <= MOST else ()
