"""Write the warnings of a headless run: waits, fallbacks, compactions, the budget, hook notes, rules without effect."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Final

from backstay.logic.budget import DOLLAR, dollars
from backstay.logic.secrets.redact import Redactor
from backstay.logic.text import shorten_to_line, show_invisible
from backstay.permissions.lint import Complaint, lint_rules
from backstay.permissions.rule_index import family, is_about
from backstay.runtime.ask_approval import THIS_SESSION
from backstay.vocab import events
from backstay.vocab.errors import ErrorKind
from backstay.vocab.event import Recorded
from backstay.vocab.messages import MediaRef, Text, TextRef, ToolCall
from backstay.vocab.rules import Rule
from backstay.vocab.specs import ModelFacts

_WHY: Final[dict[ErrorKind, str]] = {
    "rate_limit": "rate limited",
    "overloaded": "overloaded",
    "timeout": "no answer in time",
    "transport": "the provider or the connection failed",
    "auth": "the key was refused",
}
MOST_NOTES: Final = 10
"""Notes that are printed at the beginning of a run."""
LONGEST_NOTE: Final = 240
"""Characters of one note."""
_NEEDS_TRUST: Final = re.compile(r"the workspace is not trusted|waits for trust\.$")


def one_line_note(text: str) -> str:
    """Return `text` as one short line without secrets."""
    return shorten_to_line(show_invisible(Redactor().text(text)), LONGEST_NOTE)


def first_notes(notes: Sequence[str], *, trusted: bool = True) -> Iterator[str]:
    """Yield the first of `notes`, and where the rest can be seen.

    Where the workspace is not trusted, leave out what only waits for trust: one line says that for everything at once.
    """
    different = [each for each in dict.fromkeys(notes) if trusted or not _NEEDS_TRUST.search(each)]
    yield from map(one_line_note, different[:MOST_NOTES])
    if len(different) > MOST_NOTES:
        yield f"and {len(different) - MOST_NOTES} more: backstay doctor"


def event_note(record: Recorded, *, text: bool, answerable: bool) -> str:
    """Return a short line about an event for standard error; empty for most.

    `text`: the output is plain text, which says nothing of limits. `answerable`: the input may answer a question about the budget.
    """
    event = record.event
    match event:
        case events.PermissionAnswered(allowed=True, message=message) if message.startswith(THIS_SESSION):
            return f"The answer about {event.call!r} is not kept: {message}"
        case _ if not text:
            return ""
        case events.WaitStarted():
            seconds = max(0, event.until - record.at) / 1_000_000
            return f"{_reason(event.kind)}; trying again in {seconds:.3g} s ({event.attempt} of {event.attempts})"
        case events.FallbackTaken():
            return f"{event.came_from}: {_reason(event.kind)}; {event.to} answers"
        case events.Compacted():
            return f"compacted: {event.before:,} to {event.after:,} tokens"
        case events.CompactionFailed():
            return f"not compacted: {event.message}"
        case events.BudgetWarned():
            return f"budget: {dollars(event.spent)} of {dollars(event.limit)} spent, going on"
        case events.BudgetAsked() if answerable:
            return f"budget: {dollars(event.spent)} of {dollars(event.limit)} spent, waiting for an answer"
        case events.BudgetAsked():
            return f"budget: {dollars(event.spent)} spent, paused"
        case events.ModelNoted():
            return f"note: {event.note}"
        case events.ModelReplied():
            return _odd_end(event)
        case events.HookFinished(notes=notes) if notes:
            return f"{event.event} hook: {'; '.join(notes)}"
        case _:
            return ""


def _reason(kind: ErrorKind) -> str:
    return _WHY.get(kind, "failed")


def _odd_end(reply: events.ModelReplied) -> str:
    """Return a note about a reply that was refused, cut off or empty."""
    match reply.stop:
        case "filter":
            return "the model refused to answer"
        case "length":
            return "the answer was cut off: it reached the model's limit for one answer"
        case "end" | "other" if not any(isinstance(part, Text | TextRef | ToolCall | MediaRef) for part in reply.parts):
            return "the model said nothing; ask again, or ask differently"
        case _:
            return ""


def how_to_go_on(session: str, budget: int) -> str:
    """Return what to type to go on with a paused turn under a `budget` in micro-cents."""
    amount = Decimal(budget) / DOLLAR
    return f"`backstay -r {session} --finish --max-budget-usd {amount:f}` goes on."


def unknown_models(facts: Mapping[str, ModelFacts]) -> Iterator[str]:
    """Yield a line for each model of which nothing is known."""
    for name, known in facts.items():
        if not known.known and not name.startswith("recorded:"):
            yield (
                f"Nothing is known of the model {name!r}: a window of {known.window:,} tokens and "
                f"{'no price' if known.prices is None else 'the price of the settings'} are assumed. "
                "Give its figures in the settings under `models`."
            )


def rule_notes(rules: Iterable[Rule], tools: Sequence[str]) -> Iterator[str]:
    """Yield a line for each rule of a flag that does not do what it says in a session with these `tools`.

    Rules of settings files are left to `backstay permissions lint`: they would be repeated at every run.
    """
    given = tuple(rules)
    flags = dict.fromkeys(each for each in given if each.source == "flag")
    complaints = _complaints(given) if flags else ()
    for rule in flags:
        if any(_may_decide(rule, tool) for tool in tools):
            same = (each for each in complaints if (each.decision, each.rule) == (rule.decision, str(rule)))
            yield from (f"{_flag(rule)}: {each.words}." for each in same)
        elif similar := [tool for tool in tools if fnmatchcase(tool.casefold(), rule.tool.casefold())]:
            yield f"{_flag(rule)} allows nothing: what allows must name its tool exactly, such as {similar[0]}."
        else:
            yield f"{_flag(rule)} is about no tool that is here. The tools are {', '.join(tools)}."


def _complaints(rules: Sequence[Rule]) -> tuple[Complaint, ...]:
    """Lint the rules. Leave out how wide a rule is, which its writer sees, and unknown tools, which are checked against this session."""
    texts = {
        decision: tuple(dict.fromkeys(str(rule) for rule in rules if rule.decision == decision))
        for decision in ("deny", "ask", "allow")
    }
    found = lint_rules(deny=texts["deny"], ask=texts["ask"], allow=texts["allow"])
    return tuple(each for each in found if each.is_wrong and each.kind not in ("wide", "unknown-tool"))


def _may_decide(rule: Rule, tool: str) -> bool:
    """Return whether a rule may decide calls of a tool: by name, by family, or by what a shell command does."""
    if is_about(rule, tool) or rule.tool == family(tool):
        return True
    return tool == "Bash" and rule.tool in ("Cd", "Read", "Edit")


def _flag(rule: Rule) -> str:
    return f"The rule --{rule.decision} {str(rule)!r}"
