"""Resume a session: the pending opening until it is written, and the report on what was found."""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from backstay.logic.state.calls import OpenCall
from backstay.logic.state.lifecycle import Lifecycle, move
from backstay.logic.state.progress import OpenTurn, Progress
from backstay.logic.text import pluralise
from backstay.vocab import events
from backstay.vocab.event import Draft, Event
from backstay.vocab.specs import OnCrash

SETTINGS: Final = (events.Renamed, events.ModeChanged, events.ModelChanged, events.ScopeChanged, events.BudgetSet)
"""What an opening may set, and a person later."""


class PendingOpen(Struct, frozen=True):
    """The events of an opening that are not in the log yet: `Opened`, what children spent meanwhile, and settings of this opening.

    Opening a session again takes its lease and reads its log, and writes nothing: a session that is only read does not move to the
    top of every list, and a full disk or a read-only store does not prevent reading. `prepare` in `session/open.py` decides on the
    events; the runner writes them.

    1. *When.* They go in front of the first step that goes on with the session: a prompt, an answer, `finish()`. A step that changes
       something and goes on with nothing (a new name, a note) is written without them, and they stay pending.
    2. *Until then* the state is the one that the last process left: its turn, its calls and its compaction look open and no performer runs
       them, or it looks closed. So the session does not count as running or compacting, `decide` is not asked, and admission takes posts
       behind `Closed` and lets another compaction begin. What changes the history of an open turn is refused as ever.
    3. *Settings* of the opening count at once. A caller that reads model, mode, scope, name or lifecycle gets the state with them on top:
       `progress_with`, `name_after`, `life_with`.
    4. *A setting that is changed meanwhile* is newer than the same setting of the opening, which is dropped: see `after`.
    5. `Opened` in the log ends it: everything pending was written in the same step.

    A new session has nothing pending: its `Started` is written when it is opened.
    """

    drafts: tuple[Draft, ...] = ()

    def __bool__(self) -> bool:
        """Return whether the opening is still to be written."""
        return bool(self.drafts)

    def mask_with(self, mask: Callable[[tuple[Draft, ...]], tuple[Draft, ...]]) -> "PendingOpen":
        """Return the opening with its events as `mask` gives them."""
        return PendingOpen(mask(self.drafts))

    def after(self, event: Event) -> "PendingOpen":
        """Return what is pending once `event` is in the log."""
        if isinstance(event, events.Opened):
            return PendingOpen()
        if isinstance(event, SETTINGS):
            return PendingOpen(tuple(draft for draft in self.drafts if type(draft.event) is not type(event)))
        return self

    def progress_with(self, progress: Progress) -> Progress:
        """Return `progress` with the model, mode and scope of the opening."""
        for draft in self.drafts:
            match draft.event:
                case events.ModelChanged(model=model):
                    progress = replace(progress, model=model)
                case events.ModeChanged(mode=mode):
                    progress = replace(progress, mode=mode)
                case events.ScopeChanged(scope=scope, implied=implied):
                    progress = replace(progress, scope=scope, scope_implied=implied)
                case _:
                    pass
        return progress

    def name_after(self, name: str) -> str:
        """Return the name of the session that is called `name` in the log."""
        names = [draft.event.name for draft in self.drafts if isinstance(draft.event, events.Renamed)]
        return names[-1] if names else name

    def life_with(self, life: Lifecycle) -> Lifecycle:
        """Return the lifecycle with the resume in it."""
        return move(life, "resume")[0] if self.drafts else life


# --- the report ------------------------------------------------------------------------------------------------------------------


class ResumeReport(msgspec.Struct, frozen=True, kw_only=True):
    """Report of a resume: what was restored, and what was not."""

    session: str
    events: int
    messages: int
    restored: tuple[str, ...] = ("messages", "mode", "project root")
    absent: tuple[str, ...] = ()
    """Extensions that are missing or could not be used; the conversation goes on without them."""
    drifted: tuple[str, ...] = ()
    open_turn: str = ""
    """The turn that was going on when the process died."""
    known: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    redone: tuple[str, ...] = ()

    def words(self) -> str:
        """Return the report as a person reads it."""
        size = f"{pluralise(self.events, 'event')}, {pluralise(self.messages, 'message')}"
        lines = [f"Session {self.session}: {size}."]
        if self.open_turn:
            lines.append("A turn was open when the process died.")
        for title, items in (("known", self.known), ("outcome unknown", self.unknown), ("done again", self.redone)):
            lines += [f"  {title}: {item}" for item in items]
        lines += [f"  absent: {item}" for item in self.absent]
        lines += [f"  drifted: {item}" for item in self.drifted]
        return "\n".join(lines)


def report(
    p: Progress,
    messages: int,
    on_crash: OnCrash,
    *,
    absent: tuple[str, ...] = (),
    drifted: tuple[str, ...] = (),
) -> ResumeReport:
    """Say how a session was found."""
    crashed = p.turn is not None
    abandons = crashed and on_crash == "abandon"
    known = (_describe_kept(p.turn),) if p.turn else ()
    skill = () if p.skill is None or p.skill.started.skill is None else (f"the skill {p.skill.started.skill.name!r}",)
    return ResumeReport(
        session=p.session,
        events=p.seq,
        messages=messages,
        absent=absent,
        drifted=drifted,
        open_turn=p.turn.id if p.turn else "",
        known=("the turn is given up, the log keeps it",) if abandons else known,
        unknown=(
            *(_describe_call(call) for call in p.calls if _is_lost(call) or (abandons and _may_have_happened(call))),
            *(skill if on_crash == "abandon" else ()),
        ),
        redone=() if abandons else (*_redone(p), *(skill if on_crash == "continue" else ())),
    )


def _describe_kept(turn: OpenTurn) -> str:
    kept = {0: "", 1: ", which is kept"}.get(turn.rounds, ", all kept")
    return f"turn {turn.number} had {pluralise(turn.rounds, 'reply', 'replies')}{kept}"


def _redone(p: Progress) -> tuple[str, ...]:
    asked: tuple[str, ...] = ("the model call that was open",) if p.asking else ()
    if p.restore is not None:
        asked += ("putting files back",)
    return asked + tuple(_describe_call(call) for call in p.calls if call.phase == "running" and not _is_lost(call))


def _is_lost(call: OpenCall) -> bool:
    return call.phase == "running" and call.effect == "once"


def _may_have_happened(call: OpenCall) -> bool:
    """Return whether a lost call may have had effects: a turn that is given up looks for nothing."""
    return call.phase == "running" and call.effect != "pure"


def _describe_call(call: OpenCall) -> str:
    args = call.args if len(call.args) <= 80 else call.args[:79] + "…"
    return f"{call.name} {args}"
