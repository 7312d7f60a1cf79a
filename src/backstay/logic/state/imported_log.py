"""What is written behind an imported log, so that nothing in it counts for more than words. Pure.

A log in a file may have been written by anybody, and at any time. What it says was said stays; what it lets happen does not:
what people allowed in it is taken back, a mode looser than `default` and a wider scope end, a model that is asked at an
address of its own is no longer asked, and what was open (a turn, a restore of files, queued input) is closed as after an
interrupt. Processes are left to the session that started them: opening the imported one runs nothing and stops nothing.
A log that has nothing of that gets nothing.
"""

from typing import Final

from backstay.logic.decide.policy import LOOSENESS, Policy
from backstay.logic.decide.step import settle, stamp
from backstay.logic.state.progress import Progress
from backstay.version import VERSION
from backstay.vocab.event import Draft, Event, Recorded
from backstay.vocab.events import Closed, GrantsCleared, InputDropped, Interrupted, ModeChanged, ModelChanged, Opened
from backstay.vocab.events.files import FileProblem, RestoreFinished
from backstay.vocab.events.tools import ScopeChanged

REASON: Final = "The session was imported."
_UNFINISHED: Final = FileProblem(path="", problem="The session was imported before the restore was finished.")


def disarm(p: Progress, *, running: bool, nonce: str, now: int) -> tuple[Recorded, ...]:
    """The events that follow an imported log which means `p`; `running` says that processes of it are."""
    drafts = [*_closing(p, running=running), *(Draft(event=event, by="user") for event in _taken_back(p))]
    step = settle(p, drafts, Policy(begins=False), nonce=nonce, now=now)
    if not any(isinstance(draft.event, Opened) for draft in drafts):
        return step.records
    return (*step.records, stamp(step.progress, Draft(event=Closed(reason=REASON)), nonce=nonce, now=now))


def is_quiet(p: Progress) -> bool:
    """Whether a log that means `p` has nothing to go on with, and lets nothing happen that nobody was asked about here."""
    has_open = p.turn or p.calls or p.queue or p.restore or p.asking or p.compacting
    allows = p.consent.grants or p.consent.rules or p.scope != "sandboxed" or LOOSENESS[p.mode] > LOOSENESS["default"]
    return not (has_open or allows or "@http" in p.model)


def _closing(p: Progress, *, running: bool) -> tuple[Draft, ...]:
    """What ends everything that a next opening would go on with. `Opened` ends what only a process can have in hand."""
    if not (p.turn or p.queue or p.compacting or p.restore or p.hooks.open or running):
        return ()
    restored = (
        (Draft(event=RestoreFinished(problems=(_UNFINISHED,)), cause=p.restoring),) if p.restore is not None else ()
    )
    stopped = (Draft(event=Interrupted(reason=REASON), by="user"),) if p.turn is not None else ()
    dropped = (Draft(event=InputDropped(inputs=("*",)), by="user"),) if p.queue else ()
    return (*restored, Draft(event=Opened(version=VERSION)), *stopped, *dropped)


def _taken_back(p: Progress) -> tuple[Event, ...]:
    found: list[Event] = []
    if p.consent.grants or p.consent.rules:
        found.append(GrantsCleared())
    if LOOSENESS[p.mode] > LOOSENESS["default"]:
        found.append(ModeChanged(mode="default"))
    if p.scope != "sandboxed":
        found.append(ScopeChanged(scope="sandboxed", implied=True))
    if "@http" in p.model:
        found.append(ModelChanged(model=""))
    return tuple(found)
