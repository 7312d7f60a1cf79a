"""What opening a session again found, in words: what is known, unknown, and what will be done again."""

import msgspec

from backstay.logic.state.calls import OpenCall
from backstay.logic.state.progress import OpenTurn, Progress
from backstay.logic.text import pluralise
from backstay.vocab.specs import OnCrash


class ResumeReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a resume restored and what it did not."""

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
        """The report as a person reads it."""
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
    known = (_kept(p.turn),) if p.turn else ()
    return ResumeReport(
        session=p.session,
        events=p.seq,
        messages=messages,
        absent=absent,
        drifted=drifted,
        open_turn=p.turn.id if p.turn else "",
        known=("the turn is given up, the log keeps it",) if abandons else known,
        unknown=tuple(
            _named(call) for call in p.calls if _lost_for_good(call) or (abandons and _may_have_happened(call))
        ),
        redone=() if abandons else _redone(p),
    )


def _kept(turn: OpenTurn) -> str:
    kept = {0: "", 1: ", which is kept"}.get(turn.rounds, ", all kept")
    return f"turn {turn.number} had {pluralise(turn.rounds, 'reply', 'replies')}{kept}"


def _redone(p: Progress) -> tuple[str, ...]:
    asked: tuple[str, ...] = ("the model call that was open",) if p.asking else ()
    if p.restore is not None:
        asked += ("putting files back",)
    return asked + tuple(_named(call) for call in p.calls if call.phase == "running" and not _lost_for_good(call))


def _lost_for_good(call: OpenCall) -> bool:
    return call.phase == "running" and call.effect == "once"


def _may_have_happened(call: OpenCall) -> bool:
    """Whether nobody finds out any more: a turn that is given up looks for nothing."""
    return call.phase == "running" and call.effect != "pure"


def _named(call: OpenCall) -> str:
    args = call.args if len(call.args) <= 80 else call.args[:79] + "…"
    return f"{call.name} {args}"
