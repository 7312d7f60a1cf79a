"""Merge the answers of all hooks of an event into one verdict."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from backstay.hooks.events import EVENTS
from backstay.hooks.spec import HookSpec
from backstay.vocab import events
from backstay.vocab.event import Decision

_STRICTNESS: Final[tuple[Decision, ...]] = ("deny", "ask", "allow")


class HookVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of all hooks of one event: what `HookFinished` records."""

    decision: Decision | None = None
    """About a call: the strictest answer."""
    blocked: bool = False
    """Whether a hook refused. At `Stop` and `SubagentStop` the turn goes on then, with `reason` and `context` as its input. After a call,
    `context` tells the model what is wrong with it."""
    reason: str = ""
    args: str = ""
    """New arguments of the call: JSON text."""
    context: str = ""
    """Added for the model."""
    output: str | None = None
    """In place of the output of the call."""
    notes: tuple[str, ...] = ()
    """For the person."""
    stops: bool = False
    """Whether the turn ends here. `reason` says why."""


class HookAnswer(HookVerdict, frozen=True, kw_only=True):
    """The answer of one hook."""

    hook: str
    """Its id."""
    event: str
    label: str = ""
    failed: str = ""
    """Why it could not answer; empty when it could."""


def merge_answers(answers: Sequence[HookAnswer]) -> HookVerdict:
    """Merge answers in the order of the hooks: deny beats ask beats allow, and the first hook that changes the call counts."""
    notes = [note for answer in answers for note in answer.notes]
    decision = next((each for each in _STRICTNESS if any(answer.decision == each for answer in answers)), None)
    args = _first(answers, lambda answer: answer.args or None, "other arguments", notes) or ""
    if decision == "allow" and args and not any(each.decision == "allow" and each.args == args for each in answers):
        notes.append("The call was allowed as it was, and another hook changed it: the permission does not count.")
        decision = None
    stops = any(answer.stops for answer in answers)
    blocked = decision == "deny" or any(answer.blocked for answer in answers)
    if stops and all(answer.event in ("Stop", "SubagentStop") for answer in answers):
        blocked = False
    return HookVerdict(
        decision=decision,
        blocked=blocked,
        reason=_reason(answers, decision, blocked=blocked, stops=stops),
        args="" if decision == "deny" else args,
        context=_join(answer.context for answer in answers),
        output=_first(answers, lambda answer: answer.output, "another output", notes),
        notes=tuple(dict.fromkeys(notes)),
        stops=stops,
    )


def finish_unanswered(started: events.HookStarted, why: str, specs: Iterable[HookSpec] = ()) -> events.HookFinished:
    """Return the verdict of a round of handlers that did not run or did not answer, by the table `EVENTS`.

    The step is refused when the event's row says so, or when `specs` (the hooks of the session) has a handler of this round whose
    settings say so. Settings that let a step pass do not count here: they are about hooks that ran and failed.
    """
    facts = EVENTS.get(started.event)
    named = any(spec.id in started.handlers and spec.on_failure == "block" for spec in specs)
    refuses = facts is not None and bool(facts.decides) and (named or facts.on_failure == "block")
    decides = facts.decides if facts is not None else ""
    return events.HookFinished(
        event=started.event,
        subject=started.subject,
        decision="deny" if refuses and decides == "call" else None,
        blocked=refuses,
        reason=why if refuses else "",
        context=why if refuses and decides == "result" else "",
        notes=(why,),
        agent=started.agent,
    )


def _reason(answers: Sequence[HookAnswer], decision: Decision | None, *, blocked: bool, stops: bool) -> str:
    """Join the reasons of the answers that count."""
    if stops:
        return _join(answer.reason for answer in answers if answer.stops)
    if decision is not None:
        return _join(answer.reason for answer in answers if answer.decision == decision)
    return _join(answer.reason for answer in answers if answer.blocked) if blocked else ""


def _first(
    answers: Sequence[HookAnswer], of: Callable[[HookAnswer], str | None], what: str, notes: list[str]
) -> str | None:
    """Return the first value that an answer has, and note the answers whose value is left out."""
    wanted = [(answer, value) for answer in answers if (value := of(answer)) is not None]
    if not wanted:
        return None
    first, chosen = wanted[0]
    notes.extend(
        f"{answer.label or answer.hook!r} wants {what} than {first.label or first.hook!r}, which comes first."
        for answer, value in wanted[1:]
        if value != chosen
    )
    return chosen


def _join(texts: Iterable[str]) -> str:
    return "\n".join(dict.fromkeys(text for text in texts if text))
