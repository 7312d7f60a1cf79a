"""The policy point of before `weigh`: by tool and mode alone.

Rules with a pattern are not weighed against a call's arguments here, so they fail closed: such a deny or ask holds for every call of its
tool, such an allow for none.
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from holdfast.logic.permissions.verdict import Reason, Verdict
from holdfast.vocab.rules import Rule
from holdfast.vocab.specs import Mode, ToolSpec


def judge(tool: ToolSpec, fingerprint: str, rules: Sequence[Rule], mode: Mode, grants: frozenset[str]) -> Verdict:
    """Allow, ask or deny one call. Deny beats ask beats allow."""
    matching = [rule for rule in rules if _names(rule, tool.name)]
    for rule in matching:
        if rule.decision == "deny":
            return Verdict(decision="deny", reason="rule", detail=f"denied by the rule {str(rule)!r}")
    for rule in matching:
        if rule.decision == "ask":
            return _ask(mode, "rule", f"the rule {str(rule)!r} asks")
    if mode == "plan" and tool.effect != "pure":
        return Verdict(decision="deny", reason="mode", detail=f"{tool.name} changes things, and the mode is plan")
    if fingerprint in grants:
        return Verdict(decision="allow", reason="grant", detail="allowed for this session")
    for rule in matching:
        if rule.decision == "allow" and rule.pattern is None:
            return Verdict(decision="allow", reason="rule", detail=f"allowed by the rule {str(rule)!r}")
    return _by_mode(tool, mode)


def _names(rule: Rule, name: str) -> bool:
    """Whether a rule is about a tool. What forbids or asks is read widely, what allows is read to the letter."""
    if rule.decision == "allow":
        return rule.tool in (name, "*")
    return fnmatchcase(name.lower(), rule.tool.lower())


def _by_mode(tool: ToolSpec, mode: Mode) -> Verdict:
    if mode == "bypassPermissions":
        return Verdict(decision="allow", reason="mode", detail="the mode bypasses permissions")
    if tool.asks:
        return _ask(mode, "tool", f"{tool.name} always asks")
    if tool.effect == "pure" or tool.touches == "reads":
        return Verdict(decision="allow", reason="mode", detail=f"{tool.name} only reads")
    if tool.touches == "host":
        return Verdict(decision="allow", reason="tool", detail="the program that opened the session brought this tool")
    if tool.touches == "edits" and mode == "acceptEdits":
        return Verdict(decision="allow", reason="mode", detail="the mode accepts edits")
    doing = "writes files" if tool.touches == "edits" else "runs programs"
    return _ask(mode, "mode", f"{tool.name} {doing}")


def _ask(mode: Mode, reason: Reason, detail: str) -> Verdict:
    if mode == "dontAsk":
        return Verdict(decision="deny", reason="mode", detail=f"{detail}, and the mode never asks")
    return Verdict(decision="ask", reason=reason, detail=detail)
