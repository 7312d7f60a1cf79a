"""What whoever writes permission rules should know: a rule that does less, or more, than it seems to."""

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from holdfast.vocab.rules import Rule


def rule_notes(rules: Iterable[Rule], tools: Sequence[str]) -> Iterator[str]:
    """A line for each rule that does not do what it says in a session with these `tools`."""
    for rule in dict.fromkeys(rules):
        meant = [tool for tool in tools if fnmatchcase(tool.lower(), rule.tool.lower())]
        if not meant:
            yield f"{_named(rule)} is about no tool that is here. The tools are {', '.join(tools)}."
        elif rule.pattern is not None:
            yield f"{_named(rule)} has a pattern, and patterns are not weighed yet: {_instead(rule)}"
        elif rule.decision == "allow" and rule.tool not in (*tools, "*"):
            yield f"{_named(rule)} allows nothing: what allows must name its tool exactly, such as {meant[0]}."


def _named(rule: Rule) -> str:
    return f"The rule --{rule.decision} {str(rule)!r}"


def _instead(rule: Rule) -> str:
    match rule.decision:
        case "allow":
            return f"it allows no call. --allow {rule.tool} allows them all."
        case "ask":
            return f"it asks for every call of {rule.tool}."
        case "deny":
            return f"it denies every call of {rule.tool}."
