"""What a person is told in passing: a wait, another model, a shorter conversation, money, what a hook noted."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Final

from backstay.logic.budget import DOLLAR, dollars
from backstay.logic.secrets.redact import Redactor
from backstay.logic.text import shorten, show_invisible
from backstay.permissions.lint import Complaint, lint_rules
from backstay.permissions.rule_index import family, is_about
from backstay.runtime.ask_approval import THIS_SESSION
from backstay.vocab.errors import ErrorKind
from backstay.vocab.event import Recorded
from backstay.vocab.events import ModelNoted, ModelReplied, PermissionAnswered
from backstay.vocab.events.limits import (
    BudgetAsked,
    BudgetWarned,
    Compacted,
    CompactionFailed,
    FallbackTaken,
    WaitStarted,
)
from backstay.vocab.events.tools import HookFinished
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
"""Notes that a person reads at the beginning of a run."""
LONGEST_NOTE: Final = 240
"""Characters of a note."""
_WAITS: Final = re.compile(r"the workspace is not trusted|waits for trust\.$")


def one_line_note(text: str) -> str:
    """Return `text` as one short line without secrets."""
    return shorten(show_invisible(Redactor().text(text)), LONGEST_NOTE)


def first_notes(notes: Sequence[str], *, trusted: bool = True) -> Iterator[str]:
    """Yield the first of `notes`, and where the rest can be seen.

    Where the workspace is not trusted, leave out what only waits for trust: one line says that of everything at once.
    """
    different = [each for each in dict.fromkeys(notes) if trusted or not _WAITS.search(each)]
    yield from map(one_line_note, different[:MOST_NOTES])
    if len(different) > MOST_NOTES:
        yield f"and {len(different) - MOST_NOTES} more: backstay doctor"


def aside(record: Recorded, *, text: bool, answerable: bool) -> str:
    """What standard error says about an event; empty for most. `text`: a person reads, who sees nothing of what programs are told."""
    match record.event:
        case PermissionAnswered(allowed=True, message=message) if message.startswith(THIS_SESSION):
            return f"The answer about {record.event.call!r} is not kept: {message}"
        case _:
            return limit_in_words(record, answerable=answerable) if text else ""


def limit_in_words(record: Recorded, *, answerable: bool) -> str:
    """A short line about an event; empty for one that is not about limits. `answerable`: somebody may be asked for money."""
    event = record.event
    match event:
        case WaitStarted():
            seconds = max(0, event.until - record.at) / 1_000_000
            return f"{why(event.kind)}; trying again in {seconds:.3g} s ({event.attempt} of {event.attempts})"
        case FallbackTaken():
            return f"{event.came_from}: {why(event.kind)}; {event.to} answers"
        case Compacted():
            return f"compacted: {event.before:,} to {event.after:,} tokens"
        case CompactionFailed():
            return f"not compacted: {event.message}"
        case BudgetWarned():
            return f"budget: {dollars(event.spent)} of {dollars(event.limit)} spent, going on"
        case BudgetAsked() if answerable:
            return f"budget: {dollars(event.spent)} of {dollars(event.limit)} spent, waiting for an answer"
        case BudgetAsked():
            return f"budget: {dollars(event.spent)} spent, paused"
        case ModelNoted():
            return f"note: {event.note}"
        case ModelReplied():
            return _oddly_ended(event)
        case HookFinished(notes=notes) if notes:
            return f"{event.event} hook: {'; '.join(notes)}"
        case _:
            return ""


def _oddly_ended(reply: ModelReplied) -> str:
    """What is to be said about an answer that is less than one."""
    match reply.stop:
        case "filter":
            return "the model refused to answer"
        case "length":
            return "the answer was cut off: it reached the model's limit for one answer"
        case "end" | "other" if not any(isinstance(part, Text | TextRef | ToolCall | MediaRef) for part in reply.parts):
            return "the model said nothing; ask again, or ask differently"
        case _:
            return ""


def why(kind: ErrorKind) -> str:
    """Why a model could not answer, in two or three words."""
    return _WHY.get(kind, "failed")


def how_to_go_on(session: str, budget: int) -> str:
    """What to type to go on with a paused turn under a `budget` in micro-cents."""
    amount = Decimal(budget) / DOLLAR
    return f"`backstay -r {session} --finish --max-budget-usd {amount:f}` goes on."


def unknown_models(facts: Mapping[str, ModelFacts]) -> Iterator[str]:
    """A line for each model of which nothing is known."""
    for name, known in facts.items():
        if not known.known and not name.startswith("recorded:"):
            yield (
                f"Nothing is known of the model {name!r}: a window of {known.window:,} tokens and "
                f"{'no price' if known.prices is None else 'the price of the settings'} are assumed. "
                "Give its figures in the settings under `models`."
            )


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
