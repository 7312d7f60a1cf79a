"""Answers of hooks, each and together."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from backstay.hooks.events import EVENTS
from backstay.hooks.spec import HookSpec
from backstay.vocab.event import Decision
from backstay.vocab.events.tools import HookFinished, HookStarted

_STRICTNESS: Final[tuple[Decision, ...]] = ("deny", "ask", "allow")


class HookAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What one hook said."""

    hook: str
    """Its id."""
    event: str
    label: str = ""
    decision: Decision | None = None
    blocked: bool = False
    reason: str = ""
    args: str = ""
    """JSON text."""
    context: str = ""
    output: str | None = None
    notes: tuple[str, ...] = ()
    stops: bool = False
    failed: str = ""
    """Why it could not answer; empty when it could."""


class HookVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What all hooks said, together: what `HookFinished` records."""

    decision: Decision | None = None
    """About a call: the strictest answer."""
    blocked: bool = False
    """Somebody refused. At `Stop` and `SubagentStop`: the turn is to go on, with `reason` and `context` as what it goes on about. After a
    call: what is wrong with it stands in `context`, for the model."""
    reason: str = ""
    args: str = ""
    context: str = ""
    output: str | None = None
    notes: tuple[str, ...] = ()
    stops: bool = False
    """The turn ends here. `reason` says why."""


def merge_answers(answers: Sequence[HookAnswer]) -> HookVerdict:
    """Put answers together, in the order of the hooks: deny beats ask beats allow, and who comes first changes the call."""
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
        context=_joined(answer.context for answer in answers),
        output=_first(answers, lambda answer: answer.output, "another output", notes),
        notes=tuple(dict.fromkeys(notes)),
        stops=stops,
    )


def finish_unanswered(started: HookStarted, why: str, specs: Iterable[HookSpec] = ()) -> HookFinished:
    """Return the verdict of a round of handlers that could not be run, or did not answer: the one of `EVENTS`.

    The step is refused when the event's row says so, or when `specs` (the hooks of the session) has a handler of this round whose
    settings say so. Settings that let a step pass do not count here: what was not run did not fail in the way they speak of.
    """
    facts = EVENTS.get(started.event)
    named = any(spec.id in started.handlers and spec.on_failure == "block" for spec in specs)
    refuses = facts is not None and bool(facts.decides) and (named or facts.on_failure == "block")
    decides = facts.decides if facts is not None else ""
    return HookFinished(
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
    """The reasons of those whose answer counts."""
    if stops:
        return _joined(answer.reason for answer in answers if answer.stops)
    if decision is not None:
        return _joined(answer.reason for answer in answers if answer.decision == decision)
    return _joined(answer.reason for answer in answers if answer.blocked) if blocked else ""


def _first(
    answers: Sequence[HookAnswer], of: Callable[[HookAnswer], str | None], what: str, notes: list[str]
) -> str | None:
    """What the first hook wants that wants something; note whose wish is left out."""
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


def _joined(texts: Iterable[str]) -> str:
    return "\n".join(dict.fromkeys(text for text in texts if text))
