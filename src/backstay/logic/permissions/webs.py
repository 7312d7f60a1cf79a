"""Calls that go to the web: which host, and may it?"""

from backstay.logic.permissions.book import Side, is_about
from backstay.logic.permissions.case import Case
from backstay.logic.permissions.hosts import allows_host, forbids_host, read_url
from backstay.logic.permissions.texts import matches_text
from backstay.logic.permissions.verdict import Finding, Hold
from backstay.vocab.rules import Rule


def weigh_fetch(case: Case, url: str) -> Finding:
    """What the policy says about a URL."""
    what, target = f"fetches {url[:200]}", read_url(url)
    for rule in _about(case, case.book.deny):
        if forbids_host(rule, url, target):
            return Finding(what, "deny", "rule", f"{target.host!r} is denied by the rule {str(rule)!r}")
    if target.scheme not in ("http", "https", ""):
        return Finding(what, "deny", "network", f"only http and https are fetched, not {target.scheme!r}")
    if not target.host:
        return Finding(what, "deny", "network", "the address names no host")
    for rule in _about(case, case.book.ask):
        if forbids_host(rule, url, target):
            return Finding(what, "ask", "rule", f"the rule {str(rule)!r} asks about {target.host!r}", "hard")
    if target.standing == "metadata":
        return Finding(what, "ask", "network", f"{target.host!r} hands out the machine's own credentials", "hard")
    kinds = [(allows_host(rule, target), rule) for rule in _about(case, case.book.allow)]
    if target.standing == "private" and not any(kind == "name" for kind, _ in kinds):
        return Finding(what, "ask", "network", f"{target.host!r} is on this machine or its network", "hard")
    if target.odd and not (target.encoded and any(kind == "name" for kind, _ in kinds)):
        held: Hold = "hard" if _about(case, case.book.deny) else "firm"
        return Finding(what, "ask", "network", f"the address is not what it seems: {target.odd}", held)
    rule_found = next((rule for kind, rule in kinds if kind != "no"), None)
    if rule_found is not None:
        return Finding(what, "allow", "rule", f"{target.host!r} is allowed by the rule {str(rule_found)!r}")
    return Finding(what, "ask", "network", f"it goes to {target.host!r}", "soft", (f"WebFetch(domain:{target.host})",))


def weigh_lookup(case: Case, query: str | None) -> Finding:
    """What the policy says about a search on the web: what is looked for leaves the machine."""
    what = f"searches the web for {(query or '')[:200]!r}"
    name = case.call.tool.name
    for side in (case.book.deny, case.book.ask):
        for rule in side.every:
            if (
                is_about(rule, name)
                and rule.pattern is not None
                and matches_text(rule.pattern, query or "", folds=True)
            ):
                if rule.decision == "deny":
                    return Finding(what, "deny", "rule", f"denied by the rule {str(rule)!r}")
                return Finding(what, "ask", "rule", f"the rule {str(rule)!r} asks", "hard")
    for rule in case.book.allow.every:
        if is_about(rule, name) and (rule.pattern is None or matches_text(rule.pattern, query or "")):
            return Finding(what, "allow", "rule", f"allowed by the rule {str(rule)!r}")
    return Finding(what, "ask", "network", "what is searched for is told to others", "soft", (name,))


def _about(case: Case, side: Side) -> list[Rule]:
    names = (case.call.tool.name, "WebFetch")
    return [rule for rule in side.every if any(is_about(rule, name) for name in names)]
