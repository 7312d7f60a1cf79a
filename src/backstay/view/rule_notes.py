"""What whoever writes permission rules on the command line should know: a rule that does less, or more, than it seems to."""

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from backstay.logic.permissions.book import family, is_about
from backstay.logic.permissions.lint import Complaint, lint_rules
from backstay.vocab.rules import Rule


def rule_notes(rules: Iterable[Rule], tools: Sequence[str]) -> Iterator[str]:
    """A line for each rule of a flag that does not do what it says in a session with these `tools`.

    Rules of settings files would be told at every run; `backstay permissions lint` is for those.
    """
    given = tuple(rules)
    complaints = _complaints(given)
    for rule in dict.fromkeys(each for each in given if each.source == "flag"):
        if any(_is_about(rule, tool) for tool in tools):
            yield from (f"{_named(rule)}: {each.words}." for each in complaints if _is_of(each, rule))
        elif meant := [tool for tool in tools if fnmatchcase(tool.casefold(), rule.tool.casefold())]:
            yield f"{_named(rule)} allows nothing: what allows must name its tool exactly, such as {meant[0]}."
        else:
            yield f"{_named(rule)} is about no tool that is here. The tools are {', '.join(tools)}."


def _complaints(rules: Sequence[Rule]) -> tuple[Complaint, ...]:
    """What is wrong with the rules by themselves."""
    texts = {
        decision: tuple(dict.fromkeys(str(rule) for rule in rules if rule.decision == decision))
        for decision in ("deny", "ask", "allow")
    }
    found = lint_rules(deny=texts["deny"], ask=texts["ask"], allow=texts["allow"])
    return tuple(filter(_matters, found))


def _matters(complaint: Complaint) -> bool:
    """Whether a rule does not do what it says. How wide it is, its writer sees; which tools are here, is known better."""
    return complaint.is_wrong and complaint.kind not in ("wide", "unknown-tool")


def _is_of(complaint: Complaint, rule: Rule) -> bool:
    return (complaint.decision, complaint.rule) == (rule.decision, str(rule))


def _is_about(rule: Rule, tool: str) -> bool:
    """Whether a rule has a say on calls of a tool: by its name, as a rule for all that read or write, or on what a command does."""
    if is_about(rule, tool) or rule.tool == family(tool):
        return True
    return tool == "Bash" and rule.tool in ("Cd", "Read", "Edit")


def _named(rule: Rule) -> str:
    return f"The rule --{rule.decision} {str(rule)!r}"
