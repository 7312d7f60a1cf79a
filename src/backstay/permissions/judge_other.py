"""Calls that the policy cannot look into: children, skills, questions, MCP servers, tools that a program brought."""

import re
from typing import Final

from backstay.permissions.arguments import matches_text
from backstay.permissions.case import JudgeContext
from backstay.permissions.rule_index import is_about
from backstay.permissions.verdict import Finding
from backstay.vocab.rules import Rule

USUAL_AGENT: Final = "general-purpose"
"""The child that a call without a name means."""
_SEPARATORS: Final = re.compile(r"[/\\]")


def weigh_other(case: JudgeContext, text: str | None) -> list[Finding]:
    """What the policy says about a call by its tool, and by the one argument that a pattern may be about."""
    name = case.call.tool.name
    ruled = [finding for finding in (_ruled(case, text),) if finding is not None]
    if case.form.kind == "person":
        return [*ruled, Finding(name, "ask", "tool", "it asks the person something", "hard")]
    if planned := _planned(case):
        return [*ruled, planned]
    if rule := _allowed(case, text):
        return [*ruled, Finding(name, "allow", "rule", f"allowed by the rule {str(rule)!r}")]
    return [*ruled, _by_kind(case)]


def _ruled(case: JudgeContext, text: str | None) -> Finding | None:
    """Rules that deny or ask about a child or a skill by its name."""
    name = case.call.tool.name
    if not case.form.is_read:
        return None  # its arguments were compared already
    for side in (case.book.deny, case.book.ask):
        for rule in side.every:
            if rule.pattern is not None and is_about(rule, name) and _may_be_about(rule.pattern, case, text):
                if rule.decision == "deny":
                    return Finding(name, "deny", "rule", f"denied by the rule {str(rule)!r}")
                return Finding(name, "ask", "rule", f"the rule {str(rule)!r} asks", "hard")
    return None


def _may_be_about(pattern: str, case: JudgeContext, text: str | None) -> bool:
    text = None if text is None else text.strip()
    if not text and case.form.kind == "agent" and case.call.args.get(case.form.main) in (None, text):
        text = USUAL_AGENT
    return (
        text is None
        or matches_text(pattern, _skilled(case, text), folds=True)
        or matches_text(pattern, text, folds=True)
    )


def _allowed(case: JudgeContext, text: str | None) -> Rule | None:
    for rule in case.book.allow.every:
        if not is_about(rule, case.call.tool.name):
            continue
        if rule.pattern is None:
            return rule
        if text is not None and case.form.kind != "mcp" and _covers(rule.pattern, case, text):
            return rule
    return None


def _covers(pattern: str, case: JudgeContext, text: str) -> bool:
    if not case.form.is_read and pattern != text and _climbs(text):
        return False
    return matches_text(pattern, _skilled(case, text))


def _climbs(text: str) -> bool:
    """Whether a text may be a path with a way out of what a pattern seems to name."""
    return ".." in _SEPARATORS.split(text)


def _skilled(case: JudgeContext, text: str) -> str:
    """A skill's name with what it is given, as rules write it: `Skill(deploy staging)`."""
    given = case.call.args.get("args")
    return f"{text} {given}" if case.form.kind == "skill" and isinstance(given, str) and given else text


def _planned(case: JudgeContext) -> Finding | None:
    tool = case.call.tool
    if case.mode != "plan" or tool.effect == "pure" or case.form.kind in ("agent", "notes", "skill"):
        return None
    if case.form.kind == "mcp":
        return Finding(tool.name, "ask", "mode", "it may change things, and the mode is plan", "hard")
    return Finding(tool.name, "deny", "mode", f"{tool.name} may change things, and the mode is plan")


def _by_kind(case: JudgeContext) -> Finding:
    tool = case.call.tool
    name = tool.name
    match case.form.kind:
        case "notes":
            return Finding(name, "allow", "tool", "it keeps notes of the session, nothing else")
        case "agent" if not tool.asks:
            return Finding(name, "allow", "tool", "what the child does is judged call by call")
        case "mcp":
            return Finding(name, "ask", "tool", "it belongs to a server that nobody allowed", "soft", (name,))
        case "skill":
            return Finding(name, "ask", "tool", "a skill tells the model what to do", "soft")
    if tool.asks:
        return Finding(name, "ask", "tool", f"{name} always asks", "firm")
    if tool.effect == "pure" or tool.touches == "reads":
        return Finding(name, "allow", "mode", f"{name} only reads")
    if tool.touches == "host":
        return Finding(name, "allow", "tool", "the program that opened the session brought this tool")
    doing = {"edits": "writes files", "web": "goes to the web"}.get(tool.touches, "runs programs")
    return Finding(name, "ask", "tool", f"{name} {doing}, and nobody can say which", "soft")
